package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// traced starts spans and keeps those that ended.
type traced struct {
	trace.Tracer
	recorder *tracetest.SpanRecorder
}

func newTraced(options ...sdktrace.TracerProviderOption) traced {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	return traced{provider.Tracer("test"), recorder}
}

// during returns the span in which something was done.
func (d traced) during(ctx context.Context, do func(context.Context)) sdktrace.ReadOnlySpan {
	ctx, span := d.Start(ctx, "agent")
	do(ctx)
	span.End()
	ended := d.recorder.Ended()
	return ended[len(ended)-1]
}

// digestOf is what the history calls a call.
func digestOf(t testingT, call middleware.Call) string {
	store := middleware.NewMemoryStore()
	begin(t, newGuard(t, middleware.WithStore(store)), inRun(), call)
	return history(t, store, "r")[0].Signature.String()
}

func TestEventOfADetection(t *testing.T) {
	call := middleware.Call{ID: "call_7", Tool: "Read", Args: `{"path":"/etc/hosts"}`}
	tests := map[string]struct {
		before    int
		action    policy.Action
		detector  string
		threshold int
		reason    string
	}{
		"warn": {10, policy.Warn, policy.GenericRepeat, 10, "This very call was already made 10 times."},
		"block": {20, policy.Block, policy.GenericRepeat, 20,
			"This very call was already made 20 times, and nothing new came of it."},
		"abort": {30, policy.Abort, policy.GlobalCircuitBreaker, 30, "30 calls brought nothing new."},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t)
			for range test.before {
				_, err := guard.Do(inRun(), call, returns("the same"))
				require.NoError(t, err)
			}

			span := newTraced().during(inRun(), func(ctx context.Context) {
				_, _ = guard.Do(ctx, call, returns("the same"))
			})

			require.Len(t, span.Events(), 1)
			event := span.Events()[0]
			assert.Equal(t, "loopguard.detection", event.Name)
			assert.ElementsMatch(t, []attribute.KeyValue{
				attribute.String("loopguard.detector", test.detector),
				attribute.String("loopguard.action", name),
				attribute.Bool("loopguard.enforced", true),
				attribute.Int("loopguard.count", test.before),
				attribute.Int("loopguard.threshold", test.threshold),
				attribute.String("loopguard.reason", test.reason),
				attribute.String("loopguard.run.id", "r"),
				attribute.String("loopguard.call.digest", digestOf(t, call)),
				attribute.String("gen_ai.tool.name", "Read"),
				attribute.String("gen_ai.tool.call.id", "call_7"),
			}, event.Attributes)
			assert.ElementsMatch(t, []attribute.KeyValue{
				attribute.String("loopguard.detector", test.detector),
				attribute.String("loopguard.action", name),
			}, span.Attributes())
			assert.Equal(t, codes.Unset, span.Status().Code, "it is not our span")
		})
	}
}

func TestEventOfObserveModeSaysThatNothingWasEnforced(t *testing.T) {
	c := policy.Default()
	c.Mode = policy.Observe
	guard := newGuardOf(t, c)
	span := newTraced().during(inRun(), func(ctx context.Context) {
		require.NoError(t, guard.Compacted(ctx))
		repeat(t, guard, ctx, 32)
	})
	want := []string{"abort compaction_loop_persisted", "warn generic_repeat"}
	for range 10 {
		want = append(want, "block generic_repeat")
	}
	want = append(want, "abort global_circuit_breaker", "abort global_circuit_breaker")
	assert.ElementsMatch(t, []attribute.KeyValue{
		attribute.String("loopguard.detector", policy.CompactionLoopPersisted),
		attribute.String("loopguard.action", "abort"),
		attribute.Bool("loopguard.enforced", false),
	}, span.Attributes(), "who searches for aborts must see that this one was none")
	require.Len(t, span.Events(), len(want))
	for i, event := range span.Events() {
		attributes := attribute.NewSet(event.Attributes...)
		assert.Equal(t, want[i], valueOf(t, attributes, "loopguard.action")+" "+valueOf(t, attributes, "loopguard.detector"))
		enforced, ok := attributes.Value("loopguard.enforced")
		assert.True(t, ok && !enforced.AsBool())
	}
}

func valueOf(t testingT, set attribute.Set, key attribute.Key) string {
	t.Helper()
	value, ok := set.Value(key)
	require.True(t, ok, key)
	return value.String()
}

// mark is what the attributes of a span say of its severest detection.
func mark(span sdktrace.ReadOnlySpan) string {
	set := attribute.NewSet(span.Attributes()...)
	action, _ := set.Value("loopguard.action")
	detector, _ := set.Value("loopguard.detector")
	return action.AsString() + " " + detector.AsString()
}

func TestPairedToolIsThereForPingPongOnly(t *testing.T) {
	guard, paired := newGuard(t), 0
	span := newTraced().during(inRun(), func(ctx context.Context) {
		for i := range 33 {
			_, _ = guard.Do(ctx, numbered([]string{"Read", "Write"}[i%2], 0), returns("the same"))
		}
	})
	for _, event := range span.Events() {
		attributes := attribute.NewSet(event.Attributes...)
		if valueOf(t, attributes, "loopguard.detector") != policy.PingPong {
			assert.False(t, attributes.HasValue("loopguard.paired_tool"))
			continue
		}
		paired++
		tool, other := valueOf(t, attributes, "gen_ai.tool.name"), valueOf(t, attributes, "loopguard.paired_tool")
		assert.ElementsMatch(t, []string{"Read", "Write"}, []string{tool, other}, "as the model wrote them")
	}
	assert.Greater(t, paired, 10)
}

func TestCallIDIsThereIfTheModelGaveOne(t *testing.T) {
	guard := newGuard(t)
	span := newTraced().during(inRun(), func(ctx context.Context) { runInto(t, guard, ctx) })
	require.NotEmpty(t, span.Events())
	for _, event := range span.Events() {
		assert.False(t, new(attribute.NewSet(event.Attributes...)).HasValue("gen_ai.tool.call.id"))
	}
}

// TestSpanKeepsItsSeverestDetection, in whatever order they come.
func TestSpanKeepsItsSeverestDetection(t *testing.T) {
	warn := func(g *middleware.Guard, ctx context.Context) { repeat(t, g, middleware.NewRun(ctx), 11) }
	block := func(g *middleware.Guard, ctx context.Context) {
		ctx = middleware.NewRun(ctx)
		for i := range 11 {
			_, _ = g.Do(ctx, numbered("browse", i), fails(middleware.ErrUnknownTool))
		}
	}
	abort := func(g *middleware.Guard, ctx context.Context) {
		ctx = middleware.NewRun(ctx)
		require.NoError(t, g.Compacted(ctx))
		runInto(t, g, ctx)
	}
	type steps []func(*middleware.Guard, context.Context)
	for _, test := range []struct {
		steps steps
		want  string
	}{
		{steps{warn}, "warn generic_repeat"},
		{steps{warn, warn}, "warn generic_repeat"},
		{steps{block, warn}, "block unknown_tool_repeat"},
		{steps{warn, block, warn}, "block unknown_tool_repeat"},
		{steps{abort, block, warn}, "abort compaction_loop_persisted"},
		{steps{warn, abort, block, warn}, "abort compaction_loop_persisted"},
	} {
		guard := newGuard(t)
		span := newTraced().during(context.Background(), func(ctx context.Context) {
			for _, step := range test.steps {
				step(guard, ctx)
			}
		})
		assert.Equal(t, test.want, mark(span))
		assert.Len(t, span.Attributes(), 2)
		assert.Zero(t, span.DroppedAttributes())
	}
}

// TestFirstOfTheSeverestDetectionsStays: it is where the trouble began.
func TestFirstOfTheSeverestDetectionsStays(t *testing.T) {
	guard := newGuard(t)
	span := newTraced().during(inRun(), func(ctx context.Context) {
		for i := range 11 {
			_, _ = guard.Do(middleware.NewRun(ctx), same, returns("x"))
			_, _ = guard.Do(ctx, numbered("browse", i), fails(middleware.ErrUnknownTool))
		}
		repeat(t, guard, middleware.WithRun(ctx, "another"), 20)
		_, err := guard.Do(middleware.WithRun(ctx, "another"), same, mustNotRun(t))
		require.NoError(t, err)
	})
	assert.Equal(t, "block unknown_tool_repeat", mark(span))
}

func TestParallelDetectionsKeepTheSeverest(t *testing.T) {
	guard := newGuard(t)
	span := newTraced().during(context.Background(), func(ctx context.Context) {
		var group sync.WaitGroup
		for n := range 16 {
			group.Go(func() {
				ctx := middleware.WithRun(ctx, fmt.Sprint(n))
				if n == 7 {
					runInto(t, guard, ctx)
				} else {
					repeat(t, guard, ctx, 11)
				}
				trace.SpanFromContext(ctx).SetAttributes(attribute.Int("host.own", n))
			})
		}
		group.Wait()
	})
	assert.Equal(t, "abort global_circuit_breaker", mark(span))
}

// TestThousandDetectionsOnOneSpan: an SDK keeps 128 events and drops the others, and what matters is still found.
func TestThousandDetectionsOnOneSpan(t *testing.T) {
	var w witness
	guard := newGuard(t, w.option())
	span := newTraced().during(context.Background(), func(ctx context.Context) {
		runInto(t, guard, middleware.WithRun(ctx, "bad"))
		for n := range 1_000 {
			repeat(t, guard, middleware.WithRun(ctx, fmt.Sprint(n)), 11)
		}
	})
	assert.Len(t, w.take(), 12+1_000)
	assert.Len(t, span.Events(), 128)
	assert.Equal(t, 12+1_000-128, span.DroppedEvents())
	assert.Equal(t, "abort global_circuit_breaker", mark(span))
}

// TestNothingIsWrittenOnSpansThatDoNotRecord: absent, not sampled, or ended.
func TestNothingIsWrittenOnSpansThatDoNotRecord(t *testing.T) {
	loop := func(ctx context.Context) {
		guard := newGuard(t, middleware.WithStore(newWayward(down)))
		require.ErrorIs(t, runInto(t, guard, ctx), middleware.ErrLoop)
	}
	t.Run("absent", func(*testing.T) { loop(inRun()) })
	t.Run("not sampled", func(t *testing.T) {
		unsampled := newTraced(sdktrace.WithSampler(sdktrace.NeverSample()))
		ctx, span := unsampled.Start(inRun(), "agent")
		require.False(t, span.IsRecording())
		loop(ctx)
		span.End()
		assert.Empty(t, unsampled.recorder.Ended())
	})
	t.Run("ended", func(t *testing.T) {
		ended := newTraced()
		ctx, span := ended.Start(inRun(), "agent")
		span.End()
		loop(ctx)
		assert.Empty(t, ended.recorder.Ended()[0].Events())
		assert.Empty(t, ended.recorder.Ended()[0].Attributes())
	})
	t.Run("remote", func(*testing.T) {
		loop(trace.ContextWithRemoteSpanContext(inRun(), trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
		})))
	})
}

func TestHealthyRunLeavesNothingOnTheTrace(t *testing.T) {
	guard := newGuard(t)
	span := newTraced().during(inRun(), func(ctx context.Context) {
		for n := range 100 {
			_, err := guard.Do(ctx, numbered("read", n), returns("ok"))
			require.NoError(t, err)
		}
	})
	assert.Empty(t, span.Events())
	assert.Empty(t, span.Attributes())
}

// TestCallbacksHearEveryDetection, in the order in which they were given, with the context of the call.
func TestCallbacksHearEveryDetection(t *testing.T) {
	type key struct{}
	var heard []string
	hear := func(name string) middleware.Option {
		return middleware.WithOnDetection(func(ctx context.Context, d middleware.Detection) {
			heard = append(heard, fmt.Sprint(name, " ", ctx.Value(key{}), " ", d.CallID,
				" ", d.Tool, " ", d.Run, " ", inWords(d.Verdict)))
			assert.Equal(t, digestOf(t, same), d.Call.String())
		})
	}
	guard := newGuard(t, hear("a"), hear("b"))
	ctx := context.WithValue(inRun(), key{}, "value")
	call := same
	call.ID = "c1"
	for range 11 {
		_, err := guard.Do(ctx, call, returns("the same"))
		require.NoError(t, err)
	}
	assert.Equal(t, []string{
		"a value c1 read r warn generic_repeat 10/10",
		"b value c1 read r warn generic_repeat 10/10",
	}, heard)
}

// TestCallbackMayUseTheGuard: nothing is locked when it is called.
func TestCallbackMayUseTheGuard(t *testing.T) {
	var guard *middleware.Guard
	guard = newGuard(t, middleware.WithOnDetection(func(ctx context.Context, d middleware.Detection) {
		if d.Action == policy.Block {
			assert.NoError(t, guard.Forget(ctx))
		}
	}))
	for n := range 100 {
		result, err := guard.Do(inRun(), same, returns("the same"))
		require.NoError(t, err)
		assert.Equal(t, (n+1)%21 == 0, result.Refusal != nil)
	}
}

func TestDetectionsAreLoggedUnderTheNamesOfTheTrace(t *testing.T) {
	var out bytes.Buffer
	guard := newGuard(t, middleware.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
	call := same
	call.ID = "c1"
	for range 11 {
		_, err := guard.Do(inRun(), call, returns("the same"))
		require.NoError(t, err)
	}
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "one line")
	delete(line, "time")
	assert.Equal(t, map[string]any{
		"level":                 "WARN",
		"msg":                   "loopguard: warn",
		"loopguard.detector":    "generic_repeat",
		"loopguard.action":      "warn",
		"loopguard.enforced":    true,
		"loopguard.count":       10.,
		"loopguard.threshold":   10.,
		"loopguard.reason":      "This very call was already made 10 times.",
		"loopguard.run.id":      "r",
		"loopguard.call.digest": digestOf(t, call),
		"gen_ai.tool.name":      "read",
		"gen_ai.tool.call.id":   "c1",
	}, line)
}

func TestLoggerThatIsNotInterestedGetsNothing(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError})
	guard := newGuard(t, middleware.WithLogger(slog.New(handler)), middleware.WithStore(newWayward(down)))
	runInto(t, guard, inRun())
	assert.Regexp(t, `^time=\S+ level=ERROR msg="loopguard: abort" [^\n]*\n$`, out.String(), "only an abort is an error")
}

// What a model wrote may be no UTF-8 and of any length. Exporters refuse such spans, and with them all of a batch.
func TestNamesAndIDsAreMadeHarmless(t *testing.T) {
	var seen middleware.Detection
	guard := newGuard(t, middleware.WithOnDetection(func(_ context.Context, d middleware.Detection) { seen = d }))
	ctx := middleware.WithRun(context.Background(), "run\xff")
	call := middleware.Call{Tool: "bad\xffname", ID: strings.Repeat("i", 5<<20)}
	for range 11 {
		_, err := guard.Do(ctx, call, returns("the same"))
		require.NoError(t, err)
	}
	assert.Equal(t, "bad\uFFFDname", seen.Tool)
	assert.Equal(t, "run\uFFFD", seen.Run)
	assert.Regexp(t, `^sha256:[0-9a-f]{32}$`, seen.CallID)
}
