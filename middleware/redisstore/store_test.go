package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

func TestStoreKeepsStates(t *testing.T) {
	server := startServer(t)
	store, other := newStore(t, server.client()), newStore(t, server.client())
	for n := range 3 {
		for run := range 5 {
			update(t, store, fmt.Sprint(run), aCall)
			assert.Len(t, history(t, store, fmt.Sprint(run)), n+1)
			assert.Len(t, history(t, other, fmt.Sprint(run)), n+1, "another process has the same")
		}
	}
	assert.EqualValues(t, 5, server.ask("dbsize"), "there is one key for each run")
}

// TestStoreKeepsNothingOfAStepThatFailed, also if it had changed much before it did, and of one that panicked.
func TestStoreKeepsNothingOfAStepThatFailed(t *testing.T) {
	store := newStore(t, startServer(t).client())
	update(t, store, "r", aCall)
	before := history(t, store, "r")
	failure := errors.New("no")
	spoil := func(s *policy.State) {
		_ = aCall(s)
		beginner.Compacted(s, 1)
		beginner.Stop(s, policy.Verdict{Action: policy.Abort})
	}
	for _, run := range []string{"r", "new"} {
		err := store.Update(context.Background(), run, func(s *policy.State) error { spoil(s); return failure })
		assert.ErrorIs(t, err, failure)
		assert.Panics(t, func() {
			_ = store.Update(context.Background(), run, func(s *policy.State) error { spoil(s); panic("no") })
		})
	}
	assert.Equal(t, before, history(t, store, "r"), "and a panic leaves no lock behind")
	assert.Empty(t, history(t, store, "new"))
}

func TestStoreForgets(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	update(t, store, "a", aCall)
	update(t, store, "b", aCall)
	for _, run := range []string{"a", "a", "never heard of"} {
		require.NoError(t, store.Forget(context.Background(), run))
	}
	assert.Empty(t, history(t, store, "a"))
	assert.Len(t, history(t, store, "b"), 1)
	assert.EqualValues(t, 1, server.ask("dbsize"))
}

// TestChangeThatIsBeingTriedDoesNotSurviveForget: the run starts afresh with it.
func TestChangeThatIsBeingTriedDoesNotSurviveForget(t *testing.T) {
	store := newStore(t, startServer(t).client())
	update(t, store, "r", aCall)
	attempts := 0
	update(t, store, "r", func(s *policy.State) error {
		if attempts++; attempts == 1 {
			require.NoError(t, store.Forget(context.Background(), "r"))
		}
		return aCall(s)
	})
	assert.Equal(t, 2, attempts)
	assert.Len(t, history(t, store, "r"), 1)
}

// TestStepIsTakenAgainWhereAnotherWasFaster: only what was judged by the newest history counts.
func TestStepIsTakenAgainWhereAnotherWasFaster(t *testing.T) {
	server := startServer(t)
	store, other := newStore(t, server.client()), newStore(t, server.client())
	update(t, store, "r", aCall)
	var seen []int
	update(t, store, "r", func(s *policy.State) error {
		if len(seen) < 3 {
			update(t, other, "r", aCall)
		}
		seen = append(seen, len(s.Last(100)))
		return aCall(s)
	})
	assert.Equal(t, []int{1, 2, 3, 4}, seen)
	assert.Len(t, history(t, store, "r"), 5)
}

// TestStepTakesTwoRoundTrips, and a look at what is there one.
func TestStepTakesTwoRoundTrips(t *testing.T) {
	sent := &commands{}
	client := startServer(t).client()
	require.NoError(t, client.Ping(context.Background()).Err()) // the connection is there
	client.AddHook(sent)
	store := newStore(t, client)
	update(t, store, "r", aCall)
	assert.Equal(t, "[get evalsha eval]", sent.take(), "the server has to learn the script")
	update(t, store, "r", aCall)
	assert.Equal(t, "[get evalsha]", sent.take())
	history(t, store, "r")
	assert.Equal(t, "[get]", sent.take())
	require.NoError(t, store.Forget(context.Background(), "r"))
	assert.Equal(t, "[del]", sent.take())
}

func TestServerThatForgotTheScriptLearnsItAgain(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	update(t, store, "r", aCall)
	server.ask("script", "flush")
	update(t, store, "r", aCall)
	assert.Len(t, history(t, store, "r"), 2)
}

func TestIdleRunIsForgotten(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client(), redisstore.WithIdleTime(100*time.Millisecond))
	update(t, store, "r", aCall)
	waitFor(t, "it is gone", func() error {
		if n := server.ask("dbsize"); n != int64(0) {
			return fmt.Errorf("%d keys", n)
		}
		return nil
	})
	update(t, store, "r", aCall)
	assert.Len(t, history(t, newStore(t, server.client()), "r"), 1, "it starts afresh")
}

func TestRunThatIsUsedStays(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client(), redisstore.WithIdleTime(10*time.Minute))
	left := func() time.Duration {
		return time.Duration(server.ask("pttl", "loopguard:{r}").(int64)) * time.Millisecond
	}
	update(t, store, "r", aCall)
	assert.InDelta(t, 10, left().Minutes(), 1)
	server.ask("pexpire", "loopguard:{r}", (5 * time.Minute).Milliseconds())
	history(t, store, "r")
	assert.InDelta(t, 5, left().Minutes(), 1, "to look is no use")
	update(t, store, "r", aCall)
	assert.InDelta(t, 10, left().Minutes(), 1)
}

func TestRunsExpireAfterAnHourByDefault(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	update(t, store, "r", aCall)
	assert.InDelta(t, time.Hour.Milliseconds(), server.ask("pttl", "loopguard:{r}"), 60_000)
}

// TestKeys: there is one key for a run, and its hash tag is the run, whatever that is called.
func TestKeys(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	keys := map[string]bool{}
	for run, want := range map[string]string{
		"r":                        "loopguard:{r}",
		"parent/child":             "loopguard:{parent/child}",
		"with spaces, Ünïcode \n":  "loopguard:{with spaces, Ünïcode \n}",
		strings.Repeat("x", 128):   "loopguard:{" + strings.Repeat("x", 128) + "}",
		strings.Repeat("x", 129):   "loopguard:{sha256:0ec9eb33e74510bcdd1f2ea55206e82f}",
		"":                         "loopguard:{sha256:e3b0c44298fc1c149afbf4c8996fb924}",
		"}":                        "loopguard:{sha256:d10b36aa74a59bcf4a88185837f658af}",
		"{r}":                      "loopguard:{sha256:e9b9cc969439f0c9fddf4a0f37ea5682}",
		"sha256:e3b0c44298fc1c149": "loopguard:{sha256:e777273b21ef08dd6612ea73e027cad2}",
	} {
		server.ask("flushall")
		update(t, store, run, aCall)
		assert.Len(t, history(t, store, run), 1)
		found := server.ask("keys", "*").([]any)
		require.Len(t, found, 1)
		assert.Equal(t, want, found[0], "%q", run)
		keys[found[0].(string)] = true
	}
	assert.Len(t, keys, 9)

	server.ask("flushall")
	update(t, newStore(t, server.client(), redisstore.WithPrefix("app1/")), "r", aCall)
	assert.Equal(t, []any{"app1/{r}"}, server.ask("keys", "*"))
	assert.Empty(t, history(t, store, "r"), "stores with different prefixes are apart")
}

// TestNothingButNamesAndDigestsIsStored: what tools are given and what they return stays here.
func TestNothingButNamesAndDigestsIsStored(t *testing.T) {
	server := startServer(t)
	guard := newGuard(t, newStore(t, server.client()))
	for range 12 {
		_, err := guard.Do(inRun(), middleware.Call{ID: "call-id", Tool: "exec", Args: `{"command":"cat /secret/key"}`},
			returns("-----BEGIN PRIVATE KEY-----"))
		require.NoError(t, err)
	}
	_, err := guard.Do(inRun(), middleware.Call{Tool: "exec", Args: "plain arguments"}, func(
		context.Context, middleware.Call,
	) (middleware.Result, error) {
		return middleware.Result{}, errors.New("secret failure")
	})
	require.Error(t, err)
	value := server.ask("get", "loopguard:{r}").(string)
	assert.Contains(t, value, "exec", "the name of the tool is there")
	for _, secret := range []string{"secret", "command", "cat", "PRIVATE", "plain", "arguments", "failure", "call-id"} {
		assert.NotContains(t, value, secret)
	}
}

// TestRunTakesFewKiB: what is in the documentation about the size of a run.
func TestRunTakesFewKiB(t *testing.T) {
	server := startServer(t)
	guard := newGuard(t, newStore(t, server.client()))
	for i := range 100 {
		_, err := guard.Do(inRun(), middleware.Call{Tool: fmt.Sprint("tool_number_", i%6), Args: fmt.Sprint(i)}, returns(fmt.Sprint(i)))
		require.NoError(t, err)
	}
	length, memory := server.ask("strlen", "loopguard:{r}").(int64), server.ask("memory", "usage", "loopguard:{r}").(int64)
	t.Logf("%d bytes, which take %d of memory", length, memory)
	assert.LessOrEqual(t, memory, int64(2<<10))
}

// TestClientSideCacheIsNotAsked: another process may have gone on since.
func TestClientSideCacheIsNotAsked(t *testing.T) {
	server := startServer(t)
	cached := newStore(t, server.client(func(o *redis.Options) {
		o.Protocol = 3
		o.ClientSideCacheConfig = &redis.ClientSideCacheConfig{}
	}))
	other := newStore(t, server.client())
	for n := range 20 {
		update(t, other, "r", aCall)
		require.Len(t, history(t, cached, "r"), n+1)
	}
}
