package redisstore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// A connection can break after Redis has written and before it says so. The step must be kept once.

// throughProxy returns a store that goes through a proxy, another that does not, and the proxy.
func throughProxy(t *testing.T) (store, other *redisstore.Store, p *proxy) {
	t.Helper()
	server := startServer(t)
	p = startProxy(t, server)
	store, other = newStore(t, p.client(t)), newStore(t, server.client())
	update(t, store, "r", aCall)
	update(t, store, "warm", aCall)
	return store, other, p
}

func TestWriteWithoutAReplyIsDoneOnce(t *testing.T) {
	for lost := range 3 {
		store, other, p := throughProxy(t)
		p.lose(lost, nil)
		steps := 0
		update(t, store, "r", func(s *policy.State) error { steps++; return aCall(s) })
		assert.Equal(t, lost+1, p.sent(), "it was sent again, and not by the client")
		assert.Equal(t, 1, steps, "and is known for what it is")
		assert.Len(t, history(t, other, "r"), 2)
	}
}

// TestWriteWithoutAReplyIsDoneOnceAlsoIfOthersGoOn: what is there now is not what was written.
func TestWriteWithoutAReplyIsDoneOnceAlsoIfOthersGoOn(t *testing.T) {
	for _, others := range []int{1, 5, 16} {
		store, other, p := throughProxy(t)
		p.lose(1, func() {
			for range others {
				_ = other.Update(context.Background(), "r", aCall)
			}
		})
		steps := 0
		update(t, store, "r", func(s *policy.State) error { steps++; return aCall(s) })
		assert.Equal(t, 1, steps)
		assert.Len(t, history(t, other, "r"), 2+others)
	}
}

// TestWriteWhoseFateIsUnknown is an error: to do it again could be to do it twice.
func TestWriteWhoseFateIsUnknown(t *testing.T) {
	store, other, p := throughProxy(t)
	p.lose(1, func() {
		for range 17 {
			_ = other.Update(context.Background(), "r", aCall)
		}
	})
	steps := 0
	err := store.Update(context.Background(), "r", func(s *policy.State) error { steps++; return aCall(s) })
	require.ErrorContains(t, err, "redisstore: writing: a write had no answer, and so many others came since")
	assert.Equal(t, 1, steps)
	assert.Len(t, history(t, other, "r"), 2+17, "here it was done")
	update(t, store, "r", aCall)
}

// TestWriteWithoutAReplyAndARunThatWasForgotten: the step is the first of the run that begins with it.
func TestWriteWithoutAReplyAndARunThatWasForgotten(t *testing.T) {
	store, other, p := throughProxy(t)
	p.lose(1, func() { _ = other.Forget(context.Background(), "r") })
	update(t, store, "r", aCall)
	assert.Len(t, history(t, other, "r"), 1)

	p.lose(1, func() {
		_ = other.Forget(context.Background(), "r")
		_ = other.Update(context.Background(), "r", aCall)
	})
	update(t, store, "r", aCall)
	assert.Len(t, history(t, other, "r"), 2)
}

// TestWriteThatIsNeverAnswered: the guard goes on by itself, from what it saw.
func TestWriteThatIsNeverAnswered(t *testing.T) {
	store, _, p := throughProxy(t)
	guard := newGuard(t, store)
	repeat(t, guard, 15)
	p.lose(1<<20, nil)
	repeat(t, guard, 5)
	for range 3 {
		result, err := guard.Do(inRun(), same, mustNotRun(t))
		require.NoError(t, err)
		assert.NotNil(t, result.Refusal, "a refusal that was decided stands")
	}
}
