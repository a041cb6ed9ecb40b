package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// scripts generates runs that tend to go in circles: few calls, few outcomes, and habits that change now and then.
func scripts(longest int) *rapid.Generator[[]step] {
	return rapid.Custom(func(t *rapid.T) []step {
		habits := rapid.SampledFrom([]string{"repeat", "alternate", "cycle", "wander", "fail", "hunt", "poll", "cancel"})
		var script []step
		for length := rapid.IntRange(1, longest).Draw(t, "length"); len(script) < length; {
			habit := habits.Draw(t, "habit")
			for i := range rapid.IntRange(1, 25).Draw(t, "times") {
				s := step{numbered("read", 0), returns("the same")}
				switch habit {
				case "alternate":
					s.call = numbered("read", i%2)
				case "cycle":
					s.call = numbered("read", i%3)
				case "wander":
					s = step{numbered("read", rapid.IntRange(0, 9).Draw(t, "call")), returns(fmt.Sprint("answer ", i))}
				case "fail":
					s = step{numbered("fetch", i), fails(errors.New("no route to host"))}
				case "hunt":
					s = step{numbered("browse", i), fails(middleware.ErrUnknownTool)}
					s.call.Unknown = true
				case "poll":
					s.call = middleware.Call{Tool: "process", Args: `{"action":"poll"}`}
				case "cancel":
					s.tool = fails(context.Canceled)
				}
				s.call.ID = fmt.Sprint("c", i%3) // models use ids again
				script = append(script, s)
			}
		}
		return script[:min(len(script), longest)]
	})
}

// TestEntrancesGiveTheSameVerdicts plays the same runs through all entrances of a guard.
func TestEntrancesGiveTheSameVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := scripts(100).Draw(t, "script")
		mode := rapid.SampledFrom([]policy.Mode{policy.Enforce, policy.Observe}).Draw(t, "mode")
		c := policy.Tight()
		c.Mode = mode
		type answer struct{ verdict, text, failure string }
		answers := func(enter entrance) []answer {
			var w witness
			guard := newGuardOf(t, c, w.option())
			got := make([]answer, len(script))
			for i, s := range script {
				result, err := enter(guard, inRun(), s.call, s.tool)
				got[i] = answer{verdict: fmt.Sprint(w.take()), text: result.Text, failure: fmt.Sprint(err)}
			}
			return got
		}
		want := answers(entrances["Do"])
		require.Equal(t, want, answers(entrances["Interceptor"]))
		require.Equal(t, want, answers(entrances["Begin and End"]))
	})
}

func TestChainRunsTheFirstOutermost(t *testing.T) {
	var order []string
	says := func(name string) middleware.Interceptor {
		return func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
				order = append(order, "before "+name)
				result, err := next(ctx, call)
				order = append(order, "after "+name)
				return result, err
			}
		}
	}
	handle := middleware.Chain(says("a"), middleware.Chain(says("b"), says("c")))(returns("done"))

	result, err := handle(context.Background(), same)

	require.NoError(t, err)
	assert.Equal(t, middleware.Text("done"), result)
	assert.Equal(t, []string{"before a", "before b", "before c", "after c", "after b", "after a"}, order)
}

func TestChainOfNothingDoesNothing(t *testing.T) {
	result, err := middleware.Chain()(returns("done"))(context.Background(), same)
	require.NoError(t, err)
	assert.Equal(t, middleware.Text("done"), result)
}

// TestInterceptorsAroundTheGuardSeeRefusals: those outside see the block as a result, those inside see no call.
func TestInterceptorsAroundTheGuardSeeRefusals(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	repeat(t, guard, ctx, 20)
	var seen *middleware.LoopError
	outside := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
			result, err := next(ctx, call)
			seen = result.Refusal
			return result, err
		}
	}
	inside := func(middleware.Handler) middleware.Handler { return mustNotRun(t) }

	_, err := middleware.Chain(outside, guard.Interceptor(), inside)(mustNotRun(t))(ctx, same)

	require.NoError(t, err)
	require.NotNil(t, seen)
	assert.Equal(t, policy.GenericRepeat, seen.Detector)
}

// TestOneInterceptorServesManyRuns: the handler that an interceptor makes holds nothing of a run.
func TestOneInterceptorServesManyRuns(t *testing.T) {
	handle := newGuard(t).Interceptor()(returns("the same"))
	for run := range 10 {
		for range 10 {
			result, err := handle(middleware.WithRun(context.Background(), fmt.Sprint(run)), same)
			require.NoError(t, err)
			require.Equal(t, middleware.Text("the same"), result)
		}
	}
}

// TestWhatAnInnerGuardSaysIsNoNews: its counts, which differ from call to call, are not what the call brought. So a guard
// around another one sees the loop of an agent that the inner one warns and refuses.
func TestWhatAnInnerGuardSaysIsNoNews(t *testing.T) {
	store := middleware.NewMemoryStore()
	outer := newGuard(t, middleware.WithStore(store))
	inner := newGuardOf(t, policy.Tight())
	handle := middleware.Chain(outer.Interceptor(), inner.Interceptor())(fails(errors.New("the same")))
	for range 20 {
		_, _ = handle(inRun(), same)
	}

	records := history(t, store, "r")

	require.Len(t, records, 20)
	for i, r := range records {
		first := records[i/5*5] // ten failures, five refusals, and then the run is stopped
		if i < 10 {
			first = records[0]
		}
		assert.Equal(t, first.Outcome, r.Outcome, "call %d", i+1)
	}
}

// A guard inside another one appends notes. They are no news to the outer one.
func TestNoteOfAnInnerGuardIsNoNews(t *testing.T) {
	inner := newGuardOf(t, policy.Config{
		Enabled: new(true), WarningThreshold: 2, CriticalThreshold: 60, GlobalCircuitBreakerThreshold: 70, HistorySize: 80,
	})
	outer, ctx := newGuard(t), inRun()
	handle := inner.Interceptor()(returns("the same"))
	for range 20 {
		_, err := outer.Do(ctx, same, handle)
		require.NoError(t, err)
	}
	result, err := outer.Do(ctx, same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal, "twenty equal results are a streak, whatever notes they came with")
}
