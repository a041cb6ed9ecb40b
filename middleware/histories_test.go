package middleware

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/policy"
)

// How much the local histories hold cannot be seen from outside, and only there would a leak be.

// unsteady is a store that can be down.
type unsteady struct {
	*MemoryStore
	down bool
}

func (u *unsteady) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if u.down {
		return errors.New("down")
	}
	return u.MemoryStore.Update(ctx, run, fn)
}

func TestLocalHistoriesAreGivenUpWhenTheStoreIsBack(t *testing.T) {
	store := &unsteady{MemoryStore: NewMemoryStore()}
	guard, err := New(policy.Default(), WithStore(store))
	require.NoError(t, err)
	do := func(run int) error {
		_, err := guard.Do(WithRun(context.Background(), fmt.Sprint(run)), Call{Tool: "read"},
			func(context.Context, Call) (Result, error) { return Text("x"), nil })
		return err
	}
	for run := range 10 {
		require.NoError(t, do(run))
	}
	assert.Zero(t, guard.histories.local.Runs(), "nothing is kept twice")

	store.down = true
	for run := range 10 {
		require.NoError(t, do(run))
	}
	assert.Equal(t, 10, guard.histories.local.Runs())
	for range 30 {
		err = do(3)
	}
	require.ErrorIs(t, err, ErrLoop)

	store.down = false
	for run := range 10 {
		if err := do(run); run == 3 {
			require.ErrorIs(t, err, ErrLoop)
		} else {
			require.NoError(t, err)
		}
	}
	assert.Zero(t, guard.histories.local.Runs(), "the store was told of the run that was stopped")
	require.ErrorIs(t, do(3), ErrLoop)
}

func TestForgetReachesTheLocalHistories(t *testing.T) {
	guard, err := New(policy.Default(), WithStore(&unsteady{MemoryStore: NewMemoryStore(), down: true}))
	require.NoError(t, err)
	ctx := WithRun(context.Background(), "r")
	_, err = guard.Begin(ctx, Call{Tool: "read"})
	require.NoError(t, err)
	require.Equal(t, 1, guard.histories.local.Runs())
	require.NoError(t, guard.Forget(ctx))
	assert.Zero(t, guard.histories.local.Runs())
}

func TestFailClosedHasNoLocalHistories(t *testing.T) {
	guard, err := New(policy.Default(), WithStore(&unsteady{down: true}), WithFailClosed())
	require.NoError(t, err)
	for range 3 {
		_, err := guard.Begin(WithRun(context.Background(), "r"), Call{Tool: "read"})
		require.ErrorIs(t, err, ErrStore)
	}
	assert.Zero(t, guard.histories.local.Runs())
}
