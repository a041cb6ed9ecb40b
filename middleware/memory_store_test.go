package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// recording adds calls to states without a guard in between.
type recording struct {
	policy *policy.Policy
	mu     sync.Mutex
	next   uint64
}

func newRecording(t testingT, size int) *recording {
	t.Helper()
	c := policy.Default()
	c.HistorySize = size
	rules, _, err := policy.New(c)
	require.NoError(t, err)
	return &recording{policy: rules}
}

// call is a change of a state: one call more, unlike all others.
func (r *recording) call(s *policy.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	id := r.next
	r.policy.Begin(s, policy.Call{
		ID: id, Tool: "read", Name: "read", Signature: canonical.Digest{byte(id), byte(id >> 8), byte(id >> 16)},
	})
	return nil
}

func update(t testingT, s middleware.Store, run string, fn func(*policy.State) error) {
	t.Helper()
	require.NoError(t, s.Update(context.Background(), run, fn))
}

func TestMemoryStoreKeepsStates(t *testing.T) {
	store, r := middleware.NewMemoryStore(), newRecording(t, 30)
	for n := range 3 {
		for run := range 5 {
			update(t, store, fmt.Sprint(run), r.call)
			assert.Len(t, history(t, store, fmt.Sprint(run)), n+1)
		}
	}
	assert.Equal(t, 5, store.Runs())
	assert.Zero(t, store.Evicted())
}

// TestMemoryStoreKeepsNothingOfAChangeThatFailed, also if it had changed much before it did.
func TestMemoryStoreKeepsNothingOfAChangeThatFailed(t *testing.T) {
	store, r := middleware.NewMemoryStore(), newRecording(t, 3)
	for range 3 {
		update(t, store, "r", r.call)
	}
	before := history(t, store, "r")
	failure := errors.New("no")
	spoil := func(s *policy.State) {
		for range 5 { // more than fit, so that what was there is gone
			_ = r.call(s)
		}
		r.policy.Compacted(s, 1)
		r.policy.Stop(s, policy.Verdict{Action: policy.Abort})
	}

	err := store.Update(context.Background(), "r", func(s *policy.State) error { spoil(s); return failure })
	assert.ErrorIs(t, err, failure)
	assert.Panics(t, func() {
		_ = store.Update(context.Background(), "r", func(s *policy.State) error { spoil(s); panic("no") })
	})
	err = store.Update(context.Background(), "new", func(s *policy.State) error { spoil(s); return failure })
	assert.ErrorIs(t, err, failure)

	assert.Equal(t, before, history(t, store, "r"), "and a panic leaves no lock behind")
	update(t, store, "r", func(s *policy.State) error {
		_, stopped := s.Stopped()
		assert.False(t, stopped)
		return nil
	})
	assert.Equal(t, 1, store.Runs(), "a run that could not begin is none")
}

// TestMemoryStoreDoesNotMixRunsUp: what a store uses again for one run must not be seen by another.
func TestMemoryStoreDoesNotMixRunsUp(t *testing.T) {
	store, r := middleware.NewMemoryStore(), newRecording(t, 30)
	want := map[string][]policy.Record{}
	for n := range 500 {
		run := fmt.Sprint(n * n % 7)
		update(t, store, run, func(s *policy.State) error {
			assert.Equal(t, want[run], nilIfEmpty(s.Last(100)))
			if n%3 == 0 {
				*s = policy.State{}
			}
			err := r.call(s)
			want[run] = s.Last(100)
			return err
		})
	}
}

func nilIfEmpty(records []policy.Record) []policy.Record {
	if len(records) == 0 {
		return nil
	}
	return records
}

func TestMemoryStoreForgets(t *testing.T) {
	store, r := middleware.NewMemoryStore(), newRecording(t, 30)
	update(t, store, "a", r.call)
	update(t, store, "b", r.call)

	require.NoError(t, store.Forget(context.Background(), "a"))
	require.NoError(t, store.Forget(context.Background(), "a"))
	require.NoError(t, store.Forget(context.Background(), "never heard of"))

	assert.Equal(t, 1, store.Runs())
	assert.Zero(t, store.Evicted(), "what is forgotten on purpose does not count")
	assert.Empty(t, history(t, store, "a"))
	assert.Len(t, history(t, store, "b"), 1)
}

// TestMemoryStoreIsBounded: a small number of runs is kept exactly, and the one that was used longest ago goes first.
func TestMemoryStoreIsBounded(t *testing.T) {
	for _, most := range []int{1, 2, 7, 1_000, 1_024} {
		store, r := middleware.NewMemoryStore(middleware.WithMaxRuns(most)), newRecording(t, 30)
		for n := range most {
			update(t, store, fmt.Sprint(n), r.call)
		}
		require.Equal(t, most, store.Runs())
		require.Zero(t, store.Evicted())

		update(t, store, "0", r.call)
		update(t, store, "one more", r.call)

		assert.Equal(t, most, store.Runs())
		assert.EqualValues(t, 1, store.Evicted())
		assert.Len(t, history(t, store, "one more"), 1)
		if most > 1 {
			assert.Len(t, history(t, store, "0"), 2, "it was used")
			assert.Empty(t, history(t, store, "1"), "it is the oldest")
		}
	}
}

func TestMemoryStoreOfManyRunsIsBoundedToo(t *testing.T) {
	const most = 10_000
	store, r := middleware.NewMemoryStore(middleware.WithMaxRuns(most)), newRecording(t, 30)
	for n := range most * 95 / 100 {
		update(t, store, fmt.Sprint(n), r.call)
	}
	assert.Greater(t, store.Runs(), most*90/100, "a few shards are full before the others")
	for n := range 2 * most {
		update(t, store, fmt.Sprint(n), r.call)
		require.LessOrEqual(t, store.Runs(), most)
	}
	assert.Equal(t, most, store.Runs(), "in the end all shards are full")
	assert.GreaterOrEqual(t, store.Evicted(), uint64(most))
}

func TestMemoryStoreKeepsAtLeastOneRun(t *testing.T) {
	for _, most := range []int{0, -1} {
		store, r := middleware.NewMemoryStore(middleware.WithMaxRuns(most)), newRecording(t, 30)
		update(t, store, "a", r.call)
		update(t, store, "a", r.call)
		assert.Len(t, history(t, store, "a"), 2)
	}
}

// TestEvictedRunStartsAfresh, also one that was stopped. It is the price of the bound.
func TestEvictedRunStartsAfresh(t *testing.T) {
	store := middleware.NewMemoryStore(middleware.WithMaxRuns(1))
	guard := newGuard(t, middleware.WithStore(store))
	runInto(t, guard, inRun())
	ticket := begin(t, guard, middleware.WithRun(inRun(), "other"), same)
	repeat(t, guard, inRun(), 20)
	require.NoError(t, ticket.End(inRun(), middleware.Text("of a run that is gone"), nil))
	assert.Equal(t, 1, store.Runs())
	assert.EqualValues(t, 2, store.Evicted())
}

func TestMemoryStoreForgetsIdleRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := middleware.NewMemoryStore(middleware.WithIdleTime(time.Minute), middleware.WithMaxRuns(100)) // one shard
		r := newRecording(t, 30)
		update(t, store, "idle", r.call)
		update(t, store, "used", r.call)

		time.Sleep(time.Minute - time.Nanosecond)
		update(t, store, "used", r.call)
		assert.Equal(t, 2, store.Runs())
		time.Sleep(time.Nanosecond)
		update(t, store, "used", r.call)

		assert.Equal(t, 1, store.Runs())
		assert.EqualValues(t, 1, store.Evicted())
		assert.Empty(t, history(t, store, "idle"))
		assert.Len(t, history(t, store, "used"), 3)

		time.Sleep(time.Minute)
		update(t, store, "used", r.call)
		assert.Len(t, history(t, store, "used"), 1, "a run does not keep itself alive by coming back too late")
	})
}

// TestMemoryStoreForgetsIdleRunsThatWereOnlyLookedAt: a change that fails is no call, and hides no older run either.
func TestMemoryStoreForgetsIdleRunsThatWereOnlyLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := middleware.NewMemoryStore(middleware.WithIdleTime(time.Hour), middleware.WithMaxRuns(100)) // one shard
		r := newRecording(t, 30)
		update(t, store, "a", r.call)
		time.Sleep(10 * time.Minute)
		update(t, store, "b", r.call)
		time.Sleep(40 * time.Minute)
		require.Len(t, history(t, store, "a"), 1)

		time.Sleep(10 * time.Minute)
		assert.Empty(t, history(t, store, "a"))
		assert.Len(t, history(t, store, "b"), 1)
		time.Sleep(10 * time.Minute)
		assert.Empty(t, history(t, store, "b"))
		assert.Zero(t, store.Runs())
		assert.EqualValues(t, 2, store.Evicted())
	})
}

func TestMemoryStoreForgetsAfterAnHourByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, r := middleware.NewMemoryStore(), newRecording(t, 30)
		update(t, store, "a", r.call)
		time.Sleep(time.Hour - 1)
		assert.Len(t, history(t, store, "a"), 1)
		time.Sleep(time.Hour)
		assert.Empty(t, history(t, store, "a"))
	})
}

func TestMemoryStoreWithoutIdleTimeForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, never := range []time.Duration{0, -1} {
			store, r := middleware.NewMemoryStore(middleware.WithIdleTime(never)), newRecording(t, 30)
			update(t, store, "a", r.call)
			time.Sleep(100_000 * time.Hour)
			update(t, store, "a", r.call)
			assert.Len(t, history(t, store, "a"), 2)
		}
	})
}

// TestIdleRunOfAGuard: an agent that comes back to a run after hours begins with an empty history.
func TestIdleRunOfAGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t)
		runInto(t, guard, inRun())
		ticket := begin(t, guard, middleware.WithRun(inRun(), "slow"), same)
		time.Sleep(2 * time.Hour)
		repeat(t, guard, inRun(), 20)
		require.NoError(t, ticket.End(inRun(), middleware.Text("a tool that took two hours"), nil))
	})
}

func TestMemoryStoreIsSafeForConcurrentUse(t *testing.T) {
	const workers, each, runs = 8, 500, 20
	store, r := middleware.NewMemoryStore(middleware.WithMaxRuns(4_096)), newRecording(t, workers*each)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range each {
				_ = store.Update(context.Background(), fmt.Sprint(n%runs), r.call)
				_ = store.Update(context.Background(), fmt.Sprint(n%runs), func(*policy.State) error { return errPeek })
				_ = store.Forget(context.Background(), "none")
				_, _ = store.Runs(), store.Evicted()
			}
		})
	}
	group.Wait()
	total := 0
	for run := range runs {
		total += len(history(t, store, fmt.Sprint(run)))
	}
	assert.Equal(t, workers*each, total, "every change was kept")
	assert.Equal(t, runs, store.Runs())
}

// TestMemoryStoreUnderPressure: updates, forgetting and eviction at once keep the count of runs right.
func TestMemoryStoreUnderPressure(t *testing.T) {
	const most = 8
	store, r := middleware.NewMemoryStore(middleware.WithMaxRuns(most)), newRecording(t, 10)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for n := range 500 {
				run := fmt.Sprint((n*7 + worker) % 32)
				_ = store.Update(context.Background(), run, r.call)
				if n%5 == 0 {
					_ = store.Forget(context.Background(), run)
				}
			}
		})
	}
	group.Wait()
	kept := 0
	for run := range 32 {
		if len(history(t, store, fmt.Sprint(run))) > 0 {
			kept++
		}
	}
	assert.Equal(t, kept, store.Runs())
	assert.LessOrEqual(t, kept, most)
}
