package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func TestCallWithoutRunIsAnErrorThatSaysHowToOpenOne(t *testing.T) {
	guard := newGuard(t)
	for name, ctx := range map[string]context.Context{
		"no id":    context.Background(),
		"empty id": middleware.WithRun(context.Background(), ""),
		"taken":    middleware.WithRun(inRun(), ""),
	} {
		for through, enter := range entrances {
			result, err := enter(guard, ctx, same, mustNotRun(t))
			assert.Zero(t, result, "%s, %s", name, through)
			assert.ErrorIs(t, err, middleware.ErrNoRun, "%s, %s", name, through)
			assert.NotErrorIs(t, err, middleware.ErrLoop, "%s, %s", name, through)
		}
		assert.ErrorIs(t, guard.Compacted(ctx), middleware.ErrNoRun, name)
		assert.ErrorIs(t, guard.Forget(ctx), middleware.ErrNoRun, name)
	}
	for _, way := range []string{"WithRun", "NewRun", "WithDefaultRun"} {
		assert.ErrorContains(t, middleware.ErrNoRun, way)
	}
}

func TestDefaultRunIsForContextsThatNameNone(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, middleware.WithDefaultRun("main"), middleware.WithStore(store))
	for _, ctx := range []context.Context{
		context.Background(), middleware.WithRun(context.Background(), ""), inRun(),
	} {
		_, err := guard.Do(ctx, same, returns("the same"))
		require.NoError(t, err)
	}
	assert.Len(t, history(t, store, "main"), 2)
	assert.Len(t, history(t, store, "r"), 1)

	require.NoError(t, guard.Compacted(context.Background()))
	require.NoError(t, guard.Forget(context.Background()))
	assert.Empty(t, history(t, store, "main"))
	assert.Len(t, history(t, store, "r"), 1)
}

func TestRunIDs(t *testing.T) {
	id := func(ctx context.Context) string {
		id, ok := middleware.RunID(ctx)
		assert.Equal(t, id != "", ok)
		return id
	}
	ctx := context.Background()
	assert.Empty(t, id(ctx))
	assert.Equal(t, "a", id(middleware.WithRun(ctx, "a")))
	assert.Equal(t, "b", id(middleware.WithRun(middleware.WithRun(ctx, "a"), "b")), "the innermost counts")
	assert.Empty(t, id(middleware.WithRun(middleware.WithRun(ctx, "a"), "")))

	assert.NotEmpty(t, id(middleware.NewRun(ctx)))
	assert.NotEqual(t, id(middleware.NewRun(ctx)), id(middleware.NewRun(ctx)))

	parent := middleware.WithRun(ctx, "parent")
	assert.Equal(t, "parent/child", id(middleware.ChildRun(parent, "child")))
	assert.Equal(t, "parent/child/grandchild", id(middleware.ChildRun(middleware.ChildRun(parent, "child"), "grandchild")))
	assert.Equal(t, "child", id(middleware.ChildRun(ctx, "child")), "there is no parent")
	assert.Regexp(t, `^parent/.{20,}$`, id(middleware.ChildRun(parent, "")))
	assert.NotEqual(t, id(middleware.ChildRun(parent, "")), id(middleware.ChildRun(parent, "")))
	assert.Equal(t, "parent", id(parent))
}

func TestChildRunHasAHistoryOfItsOwn(t *testing.T) {
	guard, parent := newGuard(t), inRun()
	runInto(t, guard, middleware.ChildRun(parent, "child"))
	repeat(t, guard, parent, 20)
	repeat(t, guard, middleware.ChildRun(parent, "sibling"), 20)
	runInto(t, guard, parent)
}

// TestSubAgentThatIsAlwaysStopped is a loop of its parent: that each sub-agent has another run does not hide it.
func TestSubAgentThatIsAlwaysStopped(t *testing.T) {
	guard, parent := newGuard(t), inRun()
	for i := range 20 {
		research := func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
			ctx = middleware.ChildRun(ctx, "")
			defer func() { assert.NoError(t, guard.Forget(ctx)) }()
			var stop error = runInto(t, guard, ctx)
			if i%2 == 0 {
				stop = fmt.Errorf("research %d: %w", i, stop)
			}
			return middleware.Result{}, stop
		}
		_, err := guard.Do(parent, numbered("research", 1), research)
		stop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok)
		require.NotEqual(t, "r", stop.Run, "the error tells which of the two was stopped")
	}
	result, err := guard.Do(parent, numbered("research", 1), mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Equal(t, "r", result.Refusal.Run)
}

func TestForgetGivesAStoppedRunAFreshStart(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	other := middleware.WithRun(ctx, "other")
	runInto(t, guard, ctx)
	runInto(t, guard, other)

	require.NoError(t, guard.Forget(ctx))

	assert.Equal(t, 1, store.Runs())
	repeat(t, guard, ctx, 20)
	_, err := guard.Do(other, same, mustNotRun(t))
	assert.ErrorIs(t, err, middleware.ErrLoop, "the other run stays stopped")
	require.NoError(t, guard.Forget(ctx))
	require.NoError(t, guard.Forget(ctx), "to forget what is forgotten is no error")
}

func TestForgetWorksAlsoWhenTheCallerIsGone(t *testing.T) {
	store := &contextual{Store: middleware.NewMemoryStore()}
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 1)
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, guard.Forget(ctx))
	assert.Empty(t, history(t, store.Store, "r"))
}

// TestGuardAfterCompaction plays runs that go on after their context was compacted.
func TestGuardAfterCompaction(t *testing.T) {
	other := numbered("read", 1)
	after := func(steps ...step) []step { return steps }
	loop, failing := step{same, returns("the same")}, step{same, fails(errors.New("the same"))}
	tests := map[string]struct {
		script []step
		stops  int // the call that stops the run, 0 for none
	}{
		"the same three times":      {after(loop, loop, loop), 3},
		"another call in between":   {after(loop, loop, step{other, returns("the same")}, loop, loop, loop), 0},
		"another result in between": {after(loop, loop, step{same, returns("news")}, loop, loop, loop), 0},
		"a failure in between":      {after(loop, failing, loop, loop), 0},
		"cancelled calls in between": {
			after(loop, step{same, fails(context.Canceled)}, step{other, fails(context.Canceled)}, loop, loop), 3 + 2,
		},
		"exempt calls in between": {after(loop, step{middleware.Call{Tool: "log"}, returns("ok")}, loop, loop), 4},
		"the same failure":        {after(failing, failing, failing), 3},
	}
	for _, detection := range []*bool{nil, new(true)} { // it works also when nothing at all is configured
		for name, test := range tests {
			for through, enter := range entrances {
				t.Run(fmt.Sprint(name, " through ", through, ", configured ", detection != nil), func(t *testing.T) {
					var w witness
					c := policy.Config{Enabled: detection, Tools: map[string]policy.ToolRule{"log": {Exempt: new(true)}}}
					guard, ctx := newGuardOf(t, c, w.option()), inRun()
					_, err := enter(guard, ctx, same, returns("the same"))
					require.NoError(t, err, "calls from before do not count")
					require.NoError(t, guard.Compacted(ctx))
					for i, s := range test.script {
						result, err := enter(guard, ctx, s.call, s.tool)
						if i+1 != test.stops {
							require.NotErrorIs(t, err, middleware.ErrLoop, "call %d", i+1)
							continue
						}
						assert.Zero(t, result)
						stop, ok := errors.AsType[*middleware.LoopError](err)
						require.True(t, ok, "%v", err)
						assert.Equal(t, policy.CompactionLoopPersisted, stop.Detector)
						assert.Equal(t, 3, stop.Count)
						assert.Equal(t, "read", stop.Tool)
						assert.Equal(t, []string{"abort compaction_loop_persisted 3/3"}, w.take())
						_, err = enter(guard, ctx, other, mustNotRun(t))
						require.ErrorIs(t, err, middleware.ErrLoop)
					}
				})
			}
		}
	}
}

func TestCompactionWindowCanBeWider(t *testing.T) {
	guard, ctx := newGuardOf(t, policy.Config{PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 5}}), inRun()
	require.NoError(t, guard.Compacted(ctx))
	stop := runInto(t, guard, ctx)
	assert.Equal(t, 5, stop.Count)
	assert.Len(t, stop.Calls, 5)
}

func TestEachCompactionOpensANewWindow(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	for range 5 {
		require.NoError(t, guard.Compacted(ctx))
		repeat(t, guard, ctx, 2)
	}
	assert.Equal(t, 3, countUntilStopped(t, guard, ctx))
}

// countUntilStopped arms the guard after compaction again and counts the calls until it stops the run.
func countUntilStopped(t *testing.T, g *middleware.Guard, ctx context.Context) int {
	t.Helper()
	require.NoError(t, g.Compacted(ctx))
	for n := 1; ; n++ {
		require.Less(t, n, 50)
		if _, err := g.Do(ctx, same, returns("the same")); err != nil {
			return n
		}
	}
}

// TestCallsFromBeforeACompactionPlayNoPart, even if their outcomes come after it.
func TestCallsFromBeforeACompactionPlayNoPart(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	var early []*middleware.Ticket
	for range 3 {
		ticket, err := guard.Begin(ctx, same)
		require.NoError(t, err)
		early = append(early, ticket)
	}
	require.NoError(t, guard.Compacted(ctx))
	repeat(t, guard, ctx, 2)
	for _, ticket := range early {
		require.NoError(t, ticket.End(ctx, middleware.Text("news"), nil), "neither fills the window nor breaks it")
	}
	_, err := guard.Do(ctx, same, returns("the same"))
	assert.ErrorIs(t, err, middleware.ErrLoop)
}

// TestArmingAStoppedRunDoesNothing: it stays stopped by what stopped it.
func TestArmingAStoppedRunDoesNothing(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	stop := runInto(t, guard, ctx)
	require.NoError(t, guard.Compacted(ctx))
	_, err := guard.Do(ctx, same, mustNotRun(t))
	later, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok)
	assert.Equal(t, stop.Verdict, later.Verdict)
}

// TestRunsDoNotInfluenceEachOther interleaves two runs, which must be judged as if each were alone.
func TestRunsDoNotInfluenceEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type run struct {
			ctx    context.Context
			script []step
			got    []string
		}
		var w witness
		runs := make([]run, 2)
		for i := range runs {
			runs[i].ctx = middleware.WithRun(context.Background(), fmt.Sprint("run", i))
			runs[i].script = scripts(60).Draw(t, "script")
		}
		guard := newGuardOf(t, policy.Tight(), w.option())
		for len(runs[0].got)+len(runs[1].got) < len(runs[0].script)+len(runs[1].script) {
			r := &runs[rapid.IntRange(0, 1).Draw(t, "turn")]
			if done := len(r.got); done < len(r.script) {
				r.got = append(r.got, play(guard, &w, r.ctx, (*middleware.Guard).Do, r.script[done:done+1])...)
			}
		}
		for _, r := range runs {
			alone := newGuardOf(t, policy.Tight(), w.option())
			require.Equal(t, play(alone, &w, r.ctx, (*middleware.Guard).Do, r.script), r.got)
		}
	})
}

// TestThousandsOfRunsAtOnce: each of them must be judged as if it were alone.
func TestThousandsOfRunsAtOnce(t *testing.T) {
	const runs, workers = 3_000, 16
	guard := newGuardOf(t, policy.Tight())
	work := make(chan int)
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for n := range work {
				ctx := middleware.WithRun(context.Background(), fmt.Sprint("run", n))
				for i := range 10 {
					result, err := guard.Do(ctx, same, returns("the same"))
					if warned := result.Text != "the same"; err != nil || result.Refusal != nil || warned != (i == 5) {
						t.Errorf("run %d, call %d: %+v, %v", n, i+1, result, err)
					}
				}
				if result, err := guard.Do(ctx, same, mustNotRun(t)); err != nil || result.Refusal == nil {
					t.Errorf("run %d was not refused: %+v, %v", n, result, err)
				}
			}
		})
	}
	for n := range runs {
		work <- n
	}
	close(work)
	group.Wait()
}
