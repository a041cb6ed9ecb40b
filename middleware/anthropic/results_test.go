package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
	"github.com/loopguard-go/loopguard/policy"
)

// answer runs the calls of a message in one of the two ways, and returns the results as they are sent.
type answerer func(
	ctx context.Context, guard *middleware.Guard, said message, tools map[string]func(context.Context, string) (string, error),
	options ...anthropic.Option,
) ([]result, error)

func eachWay(t *testing.T, test func(*testing.T, answerer)) {
	t.Run("stable", func(t *testing.T) {
		test(t, func(
			ctx context.Context, guard *middleware.Guard, said message,
			tools map[string]func(context.Context, string) (string, error), options ...anthropic.Option,
		) ([]result, error) {
			all := map[string]anthropic.Func{}
			for name, run := range tools {
				all[name] = func(ctx context.Context, input json.RawMessage) ([]sdk.ToolResultBlockParamContentUnion, error) {
					text, err := run(ctx, string(input))
					return []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: text}}}, err
				}
			}
			var m sdk.Message
			said.decode(t, &m)
			results, err := anthropic.ToolResults(ctx, guard, &m, all, options...)
			return decode(t, results), err
		})
	})
	t.Run("beta", func(t *testing.T) {
		test(t, func(
			ctx context.Context, guard *middleware.Guard, said message,
			tools map[string]func(context.Context, string) (string, error), options ...anthropic.Option,
		) ([]result, error) {
			var all []sdk.BetaTool
			for name, run := range tools {
				all = append(all, newTool(name, func(ctx context.Context, input json.RawMessage) (blocks, error) {
					said, err := run(ctx, string(input))
					return text(said), err
				}))
			}
			var m sdk.BetaMessage
			said.decode(t, &m)
			results, err := anthropic.BetaToolResults(ctx, guard, &m, all, options...)
			return decode(t, results), err
		})
	})
}

func (m message) decode(t *testing.T, into any) {
	raw := fmt.Sprintf(`{"id":"msg","type":"message","role":"assistant","stop_reason":%q,"content":[`, m.stop)
	for i, block := range m.blocks {
		if i > 0 {
			raw += ","
		}
		raw += block
	}
	require.NoError(t, json.Unmarshal([]byte(raw+"]}"), into))
}

func decode(t *testing.T, results any) (all []result) {
	raw, err := json.Marshal(results)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &all))
	return all
}

func TestEachCallHasItsResult(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		var found detections
		guard := newGuard(t, config(), found.option())
		ctx := middleware.NewRun(t.Context())
		var slow sync.WaitGroup
		slow.Add(1)
		results, err := answer(ctx, guard, message{"tool_use", []string{
			`{"type":"text","text":"Let me see."}`,
			use("a", "slow", `{"id": 9007199254740993}`),
			`{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"it"}}`,
			use("b", "fails", `{}`),
			use("c", "invented", `{}`),
			use("d", "quick", `{}`),
		}}, map[string]func(context.Context, string) (string, error){
			"slow":  func(_ context.Context, input string) (string, error) { slow.Wait(); return input, nil },
			"fails": func(context.Context, string) (string, error) { return "half", errors.New("no disk") },
			"quick": func(context.Context, string) (string, error) { slow.Done(); return "quick", nil },
		})
		require.NoError(t, err)
		said := func(text string) []map[string]any { return []map[string]any{{"type": "text", "text": text}} }
		assert.Equal(t, []result{
			{ID: "a", Content: said(`{"id": 9007199254740993}`)},
			{ID: "b", Content: said("Error: no disk"), IsError: true},
			{ID: "c", Content: said("Error: unknown tool: invented"), IsError: true},
			{ID: "d", Content: said("quick")},
		}, results)
		assert.Empty(t, found.words())
	})
}

func TestAMessageThatAsksForNothing(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		for _, said := range []message{
			answers("done"),
			{"max_tokens", []string{use("a", "build", `{}`)}}, // which may be cut off
			{"pause_turn", nil},
		} {
			results, err := answer(t.Context(), newGuard(t, config()), said, nil)
			assert.NoError(t, err, "not even a run is needed")
			assert.Empty(t, results)
		}
	})
	for _, none := range []func() (any, error){
		func() (any, error) { return anthropic.ToolResults(t.Context(), newGuard(t, config()), nil, nil) },
		func() (any, error) { return anthropic.BetaToolResults(t.Context(), newGuard(t, config()), nil, nil) },
		func() (any, error) { // what was asked for by a model that refused then
			var m sdk.BetaMessage
			asks(use("a", "build", `{}`), `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`).decode(t, &m)
			return anthropic.BetaToolResults(t.Context(), newGuard(t, config()), &m, nil)
		},
	} {
		results, err := none()
		assert.NoError(t, err)
		assert.Empty(t, results)
	}
}

func TestCallsAreJudgedInTheirOrder(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		var found detections
		guard := newGuard(t, config(), found.option())
		ctx := middleware.NewRun(t.Context())
		tools := map[string]func(context.Context, string) (string, error){
			"build": func(context.Context, string) (string, error) { return "broken", nil },
		}
		for turn := range 3 {
			var uses []string
			for i := range 3 {
				uses = append(uses, use(fmt.Sprintf("%d%d", turn, i), "build", `{}`))
			}
			results, err := answer(ctx, guard, asks(uses...), tools)
			require.Len(t, results, 3, "also of a run that was stopped")
			if turn < 2 {
				require.NoError(t, err)
				continue
			}
			require.ErrorIs(t, err, middleware.ErrLoop)
			for i, r := range results {
				assert.Equal(t, fmt.Sprintf("%d%d", turn, i), r.ID)
				assert.True(t, r.IsError)
			}
			assert.Contains(t, results[1].text(), "Call refused")
			assert.Contains(t, results[2].text(), "run stopped")
		}
		assert.Equal(t, []string{
			"warn generic_repeat build 10",
			"block generic_repeat build 20", "block generic_repeat build 21", "abort global_circuit_breaker build 22",
		}, found.words())
	})
}

// What comes after a call that ended the run is neither judged nor run.
func TestAfterAnAbortNothingIsJudged(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		var found detections
		guard := newGuard(t, config(), found.option())
		ctx := middleware.NewRun(t.Context())
		var runs atomic.Int32
		tools := map[string]func(context.Context, string) (string, error){
			"build": func(context.Context, string) (string, error) { return "broken", nil },
			"look":  func(context.Context, string) (string, error) { runs.Add(1); return "", nil },
		}
		for i := range 8 {
			_, err := answer(ctx, guard, asks(use(fmt.Sprint(i), "build", `{}`)), tools)
			require.NoError(t, err)
		}
		before := len(found.words())
		results, err := answer(ctx, guard, asks(
			use("a", "look", `{"n":1}`), use("b", "build", `{}`), use("c", "look", `{"n":2}`), use("d", "invented", `{}`),
		), tools)
		loop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok)
		assert.Equal(t, policy.Abort, loop.Action)
		require.Len(t, results, 4)
		assert.False(t, results[0].IsError)
		for _, r := range results[1:] {
			assert.True(t, r.IsError)
			assert.Contains(t, r.text(), "run stopped")
		}
		assert.Len(t, found.words(), before+1)
		assert.EqualValues(t, 1, runs.Load())
	})
}

func TestAPanicGoesOnWhenTheOthersAreDone(t *testing.T) {
	for name, calls := range map[string][]string{
		"alone":         {use("a", "crash", `{}`)},
		"the first one": {use("a", "crash", `{"late":true}`), use("b", "slow", `{}`), use("c", "slow", `{"n":2}`)},
		"the last one":  {use("b", "slow", `{}`), use("a", "crash", `{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, answer answerer) {
				var running atomic.Int32
				slow := make(chan struct{}, len(calls))
				store := middleware.NewMemoryStore()
				ctx := middleware.NewRun(t.Context())
				assert.PanicsWithValue(t, "no disk", func() {
					_, _ = answer(ctx, newGuard(t, config(), middleware.WithStore(store)), asks(calls...),
						map[string]func(context.Context, string) (string, error){
							"crash": func(_ context.Context, input string) (string, error) {
								for range len(calls) - 1 {
									<-slow
								}
								if input != `{}` {
									time.Sleep(40 * time.Millisecond) // when the others are done
								}
								panic("no disk")
							},
							"slow": func(context.Context, string) (string, error) {
								running.Add(1)
								defer running.Add(-1)
								slow <- struct{}{}
								time.Sleep(20 * time.Millisecond)
								return "", nil
							},
						})
				})
				assert.Zero(t, running.Load())
				failures := 0
				for _, r := range records(ctx, store) {
					if r.Failure {
						failures++
					}
				}
				assert.Equal(t, 1, failures)
			})
		})
	}
}

// As the failing checks of a test do.
func TestAToolThatEndsItsGoroutine(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		results, err := answer(middleware.NewRun(t.Context()), newGuard(t, config()),
			asks(use("a", "leave", `{}`), use("b", "stay", `{}`)),
			map[string]func(context.Context, string) (string, error){
				"leave": func(context.Context, string) (string, error) { runtime.Goexit(); return "", nil },
				"stay":  func(context.Context, string) (string, error) { return "here", nil },
			})
		require.NoError(t, err)
		assert.True(t, results[0].IsError)
		assert.NotEmpty(t, results[0].text())
		assert.Equal(t, "here", results[1].text())
	})
}

func TestResultsWithoutRun(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		results, err := answer(t.Context(), newGuard(t, config()), asks(use("a", "build", `{}`), use("b", "build", `{}`)), nil)
		assert.ErrorIs(t, err, middleware.ErrNoRun)
		assert.Len(t, results, 2)
	})
}

func TestToolsThatAreGuardedAreJudgedOnce(t *testing.T) {
	guard := newGuard(t, config())
	tools := anthropic.Tools(guard, []sdk.BetaTool{says("build", "broken")})
	ctx := middleware.NewRun(t.Context())
	var m sdk.BetaMessage
	asks(use("a", "build", `{}`)).decode(t, &m)
	for call := 1; call <= 5; call++ {
		results, err := anthropic.BetaToolResults(ctx, guard, &m, tools)
		require.NoError(t, err)
		assert.False(t, decode(t, results)[0].IsError, "call %d", call)
	}
}

func TestAFunctionThatIsNilIsNoTool(t *testing.T) {
	var m sdk.Message
	asks(use("a", "build", `{}`)).decode(t, &m)
	results, err := anthropic.ToolResults(
		middleware.NewRun(t.Context()), newGuard(t, config()), &m, map[string]anthropic.Func{"build": nil})
	require.NoError(t, err)
	assert.Equal(t, "Error: unknown tool: build", decode(t, results)[0].text())
}

// A message of the beta says when the context was compacted, be there calls in it or not.
func TestACompactionInALoop(t *testing.T) {
	const summary = `{"type":"compaction","content":"It was about a build."}`
	call := use("a", "build", `{}`)
	for name, said := range map[string][]message{
		"with the calls": {{"tool_use", []string{summary, call}}, asks(call), asks(call)},
		"alone":          {{"compaction", []string{summary}}, asks(call), asks(call), asks(call)},
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, policy.Config{})
			ctx := middleware.NewRun(t.Context())
			for i, one := range said {
				var m sdk.BetaMessage
				one.decode(t, &m)
				results, err := anthropic.BetaToolResults(ctx, guard, &m, []sdk.BetaTool{says("build", "broken")})
				if i < len(said)-1 {
					require.NoError(t, err)
					continue
				}
				loop, ok := errors.AsType[*middleware.LoopError](err)
				require.True(t, ok)
				assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
				assert.Contains(t, decode(t, results)[0].text(), "run stopped")
			}
		})
	}
	var m sdk.BetaMessage
	message{"compaction", []string{summary}}.decode(t, &m)
	_, err := anthropic.BetaToolResults(t.Context(), newGuard(t, policy.Config{}), &m, nil)
	assert.ErrorIs(t, err, middleware.ErrNoRun)
}

// Messages that were streamed are accumulated by the host, and are like the others.
func TestAStreamedMessage(t *testing.T) {
	model := startAPI(t, func(int, []result) message { return asks(use("a", "look", `{"id":9007199254740993}`)) })
	client := model.client()
	stream := client.Messages.NewStreaming(t.Context(), sdk.MessageNewParams{
		Model: "scripted", MaxTokens: 64, Messages: []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock("Look."))},
	})
	var m sdk.Message
	for stream.Next() {
		require.NoError(t, m.Accumulate(stream.Current()))
	}
	require.NoError(t, stream.Err())
	var given string
	_, err := anthropic.ToolResults(middleware.NewRun(t.Context()), newGuard(t, config()), &m, map[string]anthropic.Func{
		"look": func(_ context.Context, input json.RawMessage) ([]sdk.ToolResultBlockParamContentUnion, error) {
			given = string(input)
			return nil, nil
		},
	})
	require.NoError(t, err)
	assert.Equal(t, `{"id":9007199254740993}`, given)
}

func TestSpansOfALoop(t *testing.T) {
	eachWay(t, func(t *testing.T, answer answerer) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		guard := newGuard(t, config())
		ctx := middleware.NewRun(t.Context())
		broken := fmt.Errorf("hunter2: %w", errors.ErrUnsupported)
		tools := map[string]func(context.Context, string) (string, error){
			"build": func(context.Context, string) (string, error) { return "", broken },
		}
		for i := range 9 {
			_, err := answer(ctx, guard, asks(use(fmt.Sprint("call_", i+1), "build", `{}`)), tools, anthropic.WithTracing(provider))
			assert.Equal(t, i == 8, err != nil)
		}
		_, _ = answer(middleware.NewRun(t.Context()), guard, asks(use("u", "invented", `{}`)), tools, anthropic.WithTracing(provider))
		spans := recorder.Ended()
		require.Len(t, spans, 10)
		types := make([]string, len(spans))
		for i, span := range spans {
			attributes := attribute.NewSet(span.Attributes()...)
			kind, _ := attributes.Value(middleware.AttrErrorType)
			types[i] = kind.AsString()
			assert.Equal(t, i == 8, span.Status().Code == codes.Error)
			for _, a := range span.Attributes() {
				assert.NotContains(t, a.Value.String(), "hunter2")
			}
		}
		assert.Equal(t, "execute_tool build", spans[0].Name())
		assert.Equal(t, "execute_tool invented", spans[9].Name())
		failed := fmt.Sprintf("%T", broken)
		assert.Equal(t, []string{
			failed, failed, failed, failed, failed, "loopguard.block", "loopguard.block", "loopguard.block", "loopguard.abort",
			"unknown_tool",
		}, types)
		assert.Len(t, spans[3].Events(), 1, "the warning")

		ctx = middleware.NewRun(t.Context())
		require.NoError(t, guard.Compacted(ctx))
		for i := range 3 {
			_, err := answer(ctx, guard, asks(use(fmt.Sprint("c", i), "build", `{}`)), tools, anthropic.WithTracing(provider))
			assert.Equal(t, i == 2, err != nil)
		}
		assert.Equal(t, codes.Error, recorder.Ended()[12].Status().Code, "a call whose outcome ends the run")
	})
}
