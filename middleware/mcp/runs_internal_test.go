package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// TestKnownRuns: nobody outside sees which runs are known, but for the memory that they take.
func TestKnownRuns(t *testing.T) {
	start := func(t *testing.T) (*runs, *[]string) {
		guard, err := middleware.New(policy.Default())
		require.NoError(t, err)
		r, forgotten := newRuns(guard, time.Minute), new([]string)
		r.forget = func(id string) { *forgotten = append(*forgotten, id) }
		return r, forgotten
	}
	enter := func(r *runs, id string) *run {
		return r.enter(name(id), func() (string, func()) { return id, func() {} })
	}
	once := func(r *runs, ids ...string) {
		for _, id := range ids {
			r.leave(enter(r, id))
		}
	}

	t.Run("one that was forgotten is not known", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, forgotten := start(t)
			once(r, "a", "b", "c")
			time.Sleep(time.Minute)
			once(r, "d")
			assert.Equal(t, []string{"a", "b"}, *forgotten)
			once(r, "d")
			assert.Equal(t, []string{"a", "b", "c"}, *forgotten)
			assert.Equal(t, []any{name("d")}, r.known.Keys())
		})
	})
	t.Run("another one in its place is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, forgotten := start(t)
			once(r, "a")
			time.Sleep(time.Minute)
			r.mu.Lock()
			over := r.over(time.Now())
			r.mu.Unlock()
			once(r, "a")
			r.drop(over[0])
			assert.Equal(t, []string{"a"}, *forgotten)
			assert.Equal(t, []any{name("a")}, r.known.Keys())
		})
	})
	t.Run("the end of a call counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, forgotten := start(t)
			a := enter(r, "a")
			time.Sleep(time.Hour)
			assert.Same(t, a, enter(r, "a"), "there is one in flight")
			once(r, "b")
			r.leave(a)
			r.leave(a)
			once(r, "c")
			assert.Empty(t, *forgotten)
		})
	})
	t.Run("the one whose call ended last is the last to go", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, forgotten := start(t)
			a := enter(r, "a")
			once(r, "b", "c")
			time.Sleep(time.Second)
			r.leave(a)
			time.Sleep(time.Minute - time.Second)
			once(r, "d")
			assert.Equal(t, []string{"b", "c"}, *forgotten)
		})
	})
	t.Run("those of sessions that are gone come first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, forgotten := start(t)
			once(r, "a", "b", "c")
			r.end(name("b"))
			r.end(name("b"))
			r.end(name("no such"))
			once(r, "a")
			assert.Equal(t, []string{"b"}, *forgotten)
			assert.Equal(t, []any{name("c"), name("a")}, r.known.Keys())
			assert.Empty(t, r.gone)
		})
	})
}
