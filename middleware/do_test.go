package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// TestTimelines holds the guard against the timelines of spec section 4, through every entrance.
func TestTimelines(t *testing.T) {
	script := func(n int, at func(i int) step) []step {
		steps := make([]step, n)
		for i := range steps {
			steps[i] = at(i)
		}
		return steps
	}
	tests := map[string]struct {
		script []step
		want   []string
	}{
		"the same call with the same answer": {
			script(33, func(int) step { return step{same, returns("the same")} }),
			[]string{
				"11: warn generic_repeat 10/10",
				"21: block generic_repeat 20/20",
				"31: abort global_circuit_breaker 30/30",
			},
		},
		"the same call with an answer that changes": {
			script(45, func(i int) step { return step{same, returns(fmt.Sprint("answer ", i))} }),
			[]string{
				"11: warn generic_repeat 10/10",
				"21: warn generic_repeat 20/10",
				"31: warn generic_repeat 30/10",
			},
		},
		"a strict alternation": {
			script(35, func(i int) step { return step{numbered("read", i%2), returns("the same")} }),
			[]string{
				"10: warn ping_pong 10/10",
				"20: block ping_pong 20/20",
				"33: abort global_circuit_breaker 30/30",
			},
		},
		"a cycle of three": {
			script(36, func(i int) step { return step{numbered("read", i%3), returns("the same")} }),
			[]string{
				"14: warn stagnation 10/10",
				"24: block stagnation 20/20",
				"34: abort global_circuit_breaker 30/30",
			},
		},
		"a tool that fails in the same way whatever is asked": {
			script(22, func(i int) step { return step{numbered("fetch", i), fails(errors.New("no route to host"))} }),
			[]string{
				"11: warn error_streak 10/10",
				"21: block error_streak 20/20",
			},
		},
		"a tool that does not exist": {
			script(12, func(i int) step {
				return step{numbered("browse", i), fails(fmt.Errorf("%w %q", middleware.ErrUnknownTool, "browse"))}
			}),
			[]string{"11: block unknown_tool_repeat 10/10"},
		},
		"a poll without progress": {
			script(32, func(int) step { return step{middleware.Call{Tool: "command_status"}, returns("waiting")} }),
			[]string{
				"11: warn known_poll_no_progress 10/10",
				"21: block known_poll_no_progress 20/20",
				"31: abort global_circuit_breaker 30/30",
			},
		},
	}
	for name, test := range tests {
		for through, enter := range entrances {
			t.Run(name+" through "+through, func(t *testing.T) {
				var w witness
				assert.Equal(t, test.want, turns(play(newGuard(t, w.option()), &w, inRun(), enter, test.script)))
			})
		}
	}
}

func TestAllowedCallIsLeftAlone(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(inRun(), key{}, "value")
	call := middleware.Call{ID: "c1", Tool: " Read ", Args: ` {"b":1, "a":2} `, Unknown: true}
	want := middleware.Result{Result: canonical.Result{
		Text: " as it was ", Details: map[string]any{"n": 1}, Parts: []any{"image"}, IsError: true,
	}}
	failure := errors.New("as it was")

	result, err := newGuard(t).Do(ctx, call, func(c context.Context, got middleware.Call) (middleware.Result, error) {
		assert.Equal(t, ctx, c)
		assert.Equal(t, call, got)
		return want, failure
	})

	assert.Equal(t, want, result)
	assert.Same(t, failure, err, "not even wrapped")
}

func TestWarningIsReadAfterTheResult(t *testing.T) {
	for name, said := range map[string]string{"text": "the same", "no text": ""} {
		t.Run(name, func(t *testing.T) {
			guard, ctx := newGuard(t), inRun()
			for range 10 {
				result, err := guard.Do(ctx, same, returns(said))
				require.NoError(t, err)
				require.Equal(t, said, result.Text)
			}

			result, err := guard.Do(ctx, same, returns(said))

			require.NoError(t, err)
			assert.Nil(t, result.Refusal)
			assert.False(t, result.IsError)
			note, found := strings.CutPrefix(result.Text, said)
			assert.Equal(t, note, result.Note())
			assert.True(t, found, "the result comes first")
			assert.Equal(t, "[loopguard] Warning: This very call was already made 10 times. Do not repeat it as it is. Use "+
				"what it brought, take another way or another tool; if you cannot go on, say what is "+
				"missing. If nothing new comes of it, calls will be refused.", strings.TrimLeft(note, "\n"))
			if said != "" {
				assert.Regexp(t, `^\n\n\[`, note, "a paragraph of its own")
			}
		})
	}
}

func TestWarningLeavesTheOtherPartsOfTheResultAlone(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	tool := middleware.Result{Result: canonical.Result{
		Details: json.RawMessage(`{"ok":true}`), Parts: []any{map[string]any{"type": "image"}}, IsError: true,
	}}
	handler := func(context.Context, middleware.Call) (middleware.Result, error) { return tool, nil }
	for range 10 {
		_, err := guard.Do(ctx, same, handler)
		require.NoError(t, err)
	}

	result, err := guard.Do(ctx, same, handler)

	require.NoError(t, err)
	assert.Contains(t, result.Text, "10 times")
	result.Text = ""
	assert.Equal(t, tool.Result, result.Result)
	assert.Nil(t, result.Refusal)
}

func TestWarningIsReadAfterTheErrorWhichStillUnwraps(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	failure := fmt.Errorf("read: %w", &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist})
	for range 10 {
		_, err := guard.Do(ctx, same, fails(failure))
		require.Same(t, failure, err)
	}

	_, err := guard.Do(ctx, same, fails(failure))

	require.Error(t, err)
	assert.Contains(t, err.Error(), failure.Error()+"\n\n[loopguard] Warning: ")
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorIs(t, err, failure)
	var pathError *fs.PathError
	require.ErrorAs(t, err, &pathError)
	assert.Equal(t, "/x", pathError.Path)
	assert.NotErrorIs(t, err, middleware.ErrLoop, "a warning stops nothing")
}

// TestNotesAreNoPartOfTheResult would fail if what the guard says to the model were hashed: the eleventh result would
// differ from the others, and the streak would begin again.
func TestNotesAreNoPartOfTheResult(t *testing.T) {
	for name, tool := range map[string]middleware.Handler{
		"result": returns("the same"),
		"error":  fails(errors.New("the same")),
	} {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			guard := newGuard(t, middleware.WithStore(store))
			for range 12 {
				_, _ = guard.Do(inRun(), same, tool)
			}

			records := history(t, store, "r")

			require.Len(t, records, 12)
			for _, r := range records {
				assert.Equal(t, records[0].Outcome, r.Outcome)
			}
			assert.Equal(t, policy.GenericRepeat, records[10].Detector, "the eleventh was warned of")
		})
	}
}

func TestBlockIsAnAnswer(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	repeat(t, guard, ctx, 20)

	result, err := guard.Do(ctx, same, mustNotRun(t))

	require.NoError(t, err)
	assert.True(t, result.IsError)
	assert.Nil(t, result.Details)
	assert.Empty(t, result.Parts)
	assert.Equal(t, "[loopguard] Call refused: the tool was not run. This very call was already made 20 times, and "+
		"nothing new came of it. Do not repeat it as it is. Use what it brought, take another way or "+
		"another tool; if you cannot go on, say what is missing.", result.Text)
	require.NotNil(t, result.Refusal)
	assert.ErrorIs(t, result.Refusal, middleware.ErrLoop)
	assert.Equal(t, policy.Block, result.Refusal.Action)
	assert.Equal(t, policy.GenericRepeat, result.Refusal.Detector)
	assert.Equal(t, 20, result.Refusal.Count)
	assert.Equal(t, 20, result.Refusal.Threshold)
	assert.Equal(t, "read", result.Refusal.Tool)
	assert.Equal(t, "r", result.Refusal.Run)
}

func TestBlockIsAnErrorByOption(t *testing.T) {
	guard, ctx := newGuard(t, middleware.WithBlocksAsErrors()), inRun()
	repeat(t, guard, ctx, 20)

	for through, enter := range entrances {
		result, err := enter(guard, ctx, same, mustNotRun(t))

		assert.Zero(t, result, through)
		var refusal *middleware.LoopError
		require.ErrorAs(t, err, &refusal, through)
		assert.Equal(t, policy.Block, refusal.Action, through)
		assert.ErrorIs(t, err, middleware.ErrLoop, through)
	}

	_, err := guard.Do(ctx, numbered("read", 1), returns("another call may go on"))
	assert.NoError(t, err)
}

func TestAbortIsAnError(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	runInto(t, guard, ctx)

	for through, enter := range entrances {
		for _, call := range []middleware.Call{same, numbered("another", 1)} {
			result, err := enter(guard, ctx, call, mustNotRun(t))

			assert.Zero(t, result, through)
			assert.ErrorIs(t, err, middleware.ErrLoop, through)
		}
	}
}

func TestObserveModeOnlyReports(t *testing.T) {
	var enforced, observed witness
	script := make([]step, 45)
	for i := range script {
		script[i] = step{same, returns("the same")}
	}
	want := play(newGuard(t, enforced.option()), &enforced, inRun(), inTwoSteps, script[:21])
	c := policy.Default()
	c.Mode = policy.Observe
	for through, enter := range entrances {
		guard := newGuardOf(t, c, observed.option(), middleware.WithBlocksAsErrors())

		for i := range script {
			result, err := enter(guard, inRun(), same, returns("the same"))

			require.NoError(t, err, through)
			require.Equal(t, middleware.Text("the same"), result, "%s: nothing is added to what the model reads", through)
			said := observed.take()
			switch {
			case i < len(want) && want[i] == "allow":
				require.Empty(t, said, through)
			case i < len(want):
				require.Equal(t, []string{want[i] + " observed"}, said, through)
			case i >= 30:
				require.Equal(t, []string{"abort global_circuit_breaker 30/30 observed"}, said, through)
			}
		}
	}
}

func TestSwitchedOffGuardJudgesNothingAndNeedsNoRun(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuardOf(t, policy.Config{Enabled: new(false)}, middleware.WithStore(store))
	for range 40 {
		result, err := guard.Do(context.Background(), same, returns("the same"))
		require.NoError(t, err)
		require.Equal(t, middleware.Text("the same"), result)
	}
	require.NoError(t, guard.Compacted(inRun()))
	require.NoError(t, guard.Compacted(context.Background()))
	assert.Zero(t, store.Runs())
}

func TestExemptToolRunsAlsoInAStoppedRun(t *testing.T) {
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{"report_*": {Exempt: new(true)}}
	store := middleware.NewMemoryStore()
	guard, ctx := newGuardOf(t, c, middleware.WithStore(store)), inRun()
	runInto(t, guard, ctx)
	before := history(t, store, "r")

	for _, ctx := range []context.Context{ctx, context.Background()} {
		for range 40 {
			result, err := guard.Do(ctx, middleware.Call{Tool: " Report_Failure "}, returns("noted"))
			require.NoError(t, err)
			require.Equal(t, middleware.Text("noted"), result)
		}
	}
	assert.Equal(t, before, history(t, store, "r"))
}

func TestCancelledCallLeavesNoTrace(t *testing.T) {
	for name, err := range map[string]error{
		"cancelled": context.Canceled,
		"wrapped":   fmt.Errorf("fetch: %w", context.Canceled),
		"joined":    errors.Join(errors.New("fetch"), context.Canceled),
	} {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			guard := newGuard(t, middleware.WithStore(store))
			for range 40 {
				_, got := guard.Do(inRun(), same, fails(err))
				require.Equal(t, err, got)
			}
			assert.Empty(t, history(t, store, "r"))
		})
	}
}

// TestCancelledCallIsGivenNoNote: its error is that of its caller, as it was.
func TestCancelledCallIsGivenNoNote(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	repeat(t, guard, ctx, 10)
	_, err := guard.Do(ctx, same, fails(context.Canceled))
	assert.Equal(t, context.Canceled, err, "not even wrapped")
	result, err := guard.Do(ctx, same, returns("the same"))
	require.NoError(t, err)
	assert.Contains(t, result.Text, "[loopguard] Warning: ", "the warning is still due")
}

func TestTimeoutIsAFailureLikeAnyOther(t *testing.T) {
	var w witness
	script := make([]step, 22)
	for i := range script {
		script[i] = step{numbered("fetch", i), fails(fmt.Errorf("fetch: %w", context.DeadlineExceeded))}
	}
	assert.Equal(t,
		[]string{"11: warn error_streak 10/10", "21: block error_streak 20/20"},
		turns(play(newGuard(t, w.option()), &w, inRun(), (*middleware.Guard).Do, script)))
}

// TestOutcomeIsRememberedAfterTheCallersContextEnded: the deadline that ended the tool must not end the remembering.
func TestOutcomeIsRememberedAfterTheCallersContextEnded(t *testing.T) {
	store := &contextual{Store: middleware.NewMemoryStore()}
	guard := newGuard(t, middleware.WithStore(store))
	ctx, cancel := context.WithCancelCause(inRun())

	_, err := guard.Do(ctx, same, func(context.Context, middleware.Call) (middleware.Result, error) {
		cancel(errors.New("time is over"))
		return middleware.Result{}, context.DeadlineExceeded
	})

	require.ErrorIs(t, err, context.DeadlineExceeded)
	records := history(t, store.Store, "r")
	require.Len(t, records, 1)
	assert.Equal(t, policy.Done, records[0].Status)
	assert.True(t, records[0].Failure)
}

// TestCancelledCallIsTakenBackAlsoWhenTheCallersContextEnded, which is what usually happens.
func TestCancelledCallIsTakenBackAlsoWhenTheCallersContextEnded(t *testing.T) {
	store := &contextual{Store: middleware.NewMemoryStore()}
	guard := newGuard(t, middleware.WithStore(store))
	ctx, cancel := context.WithCancel(inRun())

	_, err := guard.Do(ctx, same, func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
		cancel()
		return middleware.Result{}, ctx.Err()
	})

	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, history(t, store.Store, "r"))
}

// TestCallerThatIsGoneIsNoFailureOfTheStore, so that nobody on call is woken when a user closes a window.
func TestCallerThatIsGoneIsNoFailureOfTheStore(t *testing.T) {
	for name, options := range map[string][]middleware.Option{
		"open": nil, "closed": {middleware.WithFailClosed()},
	} {
		t.Run("fail "+name, func(t *testing.T) {
			var log bytes.Buffer
			store := &contextual{Store: middleware.NewMemoryStore()}
			guard := newGuard(t, append(options, middleware.WithStore(store),
				middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
			span := newTraced().during(inRun(), func(ctx context.Context) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()

				_, err := guard.Do(ctx, same, mustNotRun(t))
				assert.Equal(t, context.Canceled, err)
				assert.ErrorIs(t, guard.Compacted(ctx), context.Canceled)
			})
			assert.Empty(t, log.String())
			assert.Empty(t, span.Events())
			assert.Empty(t, history(t, store.Store, "r"))
		})
	}
}

// contextual is a store that does what its context says, like one on a network.
type contextual struct{ middleware.Store }

func (s *contextual) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Update(ctx, run, fn)
}

func (s *contextual) Forget(ctx context.Context, run string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.Store.Forget(ctx, run)
}

func TestPanicIsRememberedAndGoesOn(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, middleware.WithStore(store))
	type anything struct{ n int }
	value := &anything{1}
	panics := func(context.Context, middleware.Call) (middleware.Result, error) { panic(value) }

	for through, enter := range map[string]entrance{"Do": entrances["Do"], "Interceptor": entrances["Interceptor"]} {
		func() {
			defer func() { assert.Same(t, value, recover(), through) }()
			_, _ = enter(guard, inRun(), same, panics)
		}()
	}

	records := history(t, store, "r")
	require.Len(t, records, 2)
	for _, r := range records {
		assert.Equal(t, policy.Done, r.Status)
		assert.True(t, r.Failure)
	}
	assert.Equal(t, records[0].Outcome, records[1].Outcome, "what it panicked with plays no part")
}

func TestToolThatAlwaysPanicsIsALoop(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	for i := range 20 {
		assert.Panics(t, func() {
			_, _ = guard.Do(ctx, numbered("divide", i), func(context.Context, middleware.Call) (middleware.Result, error) {
				panic(i)
			})
		})
	}
	result, err := guard.Do(ctx, numbered("divide", 20), mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Equal(t, policy.ErrorStreak, result.Refusal.Detector)
}

func TestGoexitInAToolIsRemembered(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, middleware.WithStore(store))
	done, returned := make(chan struct{}), false

	go func() {
		defer close(done)
		_, _ = guard.Do(inRun(), same, func(context.Context, middleware.Call) (middleware.Result, error) {
			runtime.Goexit() // what t.FailNow does, for example
			return middleware.Result{}, nil
		})
		returned = true
	}()
	<-done

	assert.False(t, returned, "Do must not swallow it")
	records := history(t, store, "r")
	require.Len(t, records, 1)
	assert.Equal(t, policy.Done, records[0].Status)
	assert.True(t, records[0].Failure)
}

func TestChangesByInnerMiddlewareDoNotMatter(t *testing.T) {
	var w witness
	i := 0
	meddle := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
			i++
			call.Tool, call.Args = fmt.Sprint("other", i), fmt.Sprint(i)
			return next(ctx, call)
		}
	}
	guard := newGuard(t, w.option())
	handle := middleware.Chain(guard.Interceptor(), meddle)(returns("the same"))
	for range 20 {
		_, err := handle(inRun(), same)
		require.NoError(t, err)
	}
	result, err := handle(inRun(), same)
	require.NoError(t, err)
	assert.NotNil(t, result.Refusal)
}
