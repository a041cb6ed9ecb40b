package middleware_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// newTracing makes a Tracing and what keeps its spans when they have ended.
func newTracing(options ...sdktrace.TracerProviderOption) (*middleware.Tracing, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(recorder))...)
	return middleware.NewTracing(provider), recorder
}

// attributesOf is what attributes say, by their keys.
func attributesOf(attributes []attribute.KeyValue) map[string]any {
	words := map[string]any{}
	for _, a := range attributes {
		words[string(a.Key)] = a.Value.AsInterface()
	}
	return words
}

// newest is the span that ended last.
func newest(recorder *tracetest.SpanRecorder) sdktrace.ReadOnlySpan {
	ended := recorder.Ended()
	return ended[len(ended)-1]
}

func TestSpanOfATool(t *testing.T) {
	tracing, recorder := newTracing()
	host := newTraced()
	call := middleware.Call{ID: "call_7", Tool: "Read", Args: `{"path":"/etc/hosts"}`}
	var inside trace.SpanContext
	tool := func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
		inside = trace.SpanContextFromContext(ctx)
		return middleware.Text("127.0.0.1"), nil
	}

	agent := host.during(inRun(), func(ctx context.Context) {
		result, err := middleware.Chain(tracing.Interceptor(), newGuard(t).Interceptor())(tool)(ctx, call)
		require.NoError(t, err)
		require.Equal(t, middleware.Text("127.0.0.1"), result)
	})

	require.Len(t, recorder.Ended(), 1)
	span := recorder.Ended()[0]
	assert.Equal(t, "execute_tool Read", span.Name())
	assert.Equal(t, trace.SpanKindInternal, span.SpanKind())
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "execute_tool",
		"gen_ai.tool.name":      "Read",
		"gen_ai.tool.type":      "function",
		"gen_ai.tool.call.id":   "call_7",
	}, attributesOf(span.Attributes()))
	assert.Empty(t, span.Events())
	assert.Equal(t, codes.Unset, span.Status().Code)
	assert.Equal(t, middleware.ScopeName, span.InstrumentationScope().Name)
	assert.Equal(t, middleware.Version, span.InstrumentationScope().Version)
	assert.Equal(t, agent.SpanContext().SpanID(), span.Parent().SpanID())
	assert.Equal(t, agent.SpanContext().TraceID(), span.SpanContext().TraceID())
	assert.Equal(t, span.SpanContext(), inside, "what the tool does is below its span")
}

func TestSpanOfACallWithoutIDHasNone(t *testing.T) {
	tracing, recorder := newTracing()
	_, err := tracing.Interceptor()(returns("ok"))(context.Background(), same)
	require.NoError(t, err)
	assert.NotContains(t, attributesOf(newest(recorder).Attributes()), "gen_ai.tool.call.id")
}

// ownError is an error of the host's own type.
type ownError struct{ text string }

func (e *ownError) Error() string { return e.text }

// TestErrorTypes are classes of which there are few, and the status is an error for an abort only.
func TestErrorTypes(t *testing.T) {
	observe := policy.Default()
	observe.Mode = policy.Observe
	failed := middleware.Text("no such file")
	failed.IsError = true
	returnsError := func(context.Context, middleware.Call) (middleware.Result, error) { return failed, nil }
	own := fails(&ownError{"no route to host"})
	stopped := &middleware.LoopError{Run: "r/sub", Verdict: policy.Verdict{Action: policy.Block, Enforced: true}}
	for _, test := range []struct {
		name    string
		config  policy.Config
		options []middleware.Option
		before  int // how often the call was made
		tool    middleware.Handler
		want    any
		stopped string
	}{
		{name: "success", tool: returns("ok")},
		{name: "error", tool: own, want: "*middleware_test.ownError"},
		{name: "plain error", tool: fails(errors.New("no route to host")), want: "*errors.errorString"},
		{name: "error result", tool: returnsError, want: "tool_error"},
		{name: "cancelled", tool: fails(context.Canceled), want: "context.Canceled"},
		{name: "cancelled within", tool: fails(fmt.Errorf("dial: %w", context.Canceled)), want: "context.Canceled"},
		{name: "out of time", tool: fails(fmt.Errorf("dial: %w", context.DeadlineExceeded)), want: "context.DeadlineExceeded"},
		{name: "unknown", tool: fails(middleware.ErrUnknownTool), want: "unknown_tool"},
		{name: "unknown within", tool: fails(fmt.Errorf("%w: grep", middleware.ErrUnknownTool)), want: "unknown_tool"},
		{name: "block of another guard", tool: fails(stopped), want: "loopguard.block"},
		{name: "warned", before: 10, tool: returns("the same")},
		{name: "warned and failed", before: 10, tool: own, want: "*middleware_test.ownError"},
		{name: "warned and unknown", before: 10, tool: fails(middleware.ErrUnknownTool), want: "unknown_tool"},
		{name: "blocked", before: 20, tool: mustNotRun(t), want: "loopguard.block"},
		{
			name: "blocked with an error", before: 20, tool: mustNotRun(t), want: "loopguard.block",
			options: []middleware.Option{middleware.WithBlocksAsErrors()},
		},
		{
			name: "aborted", before: 30, tool: mustNotRun(t), want: "loopguard.abort",
			stopped: "stopped by global_circuit_breaker",
		},
		{
			name: "aborted before", before: 33, tool: mustNotRun(t), want: "loopguard.abort",
			stopped: "stopped by global_circuit_breaker",
		},
		{name: "blocked in observe mode", config: observe, before: 20, tool: returns("the same")},
		{name: "aborted in observe mode", config: observe, before: 33, tool: returns("the same")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.config.Enabled == nil {
				test.config = policy.Default()
			}
			guard := newGuardOf(t, test.config, test.options...)
			for range test.before {
				_, _ = guard.Do(inRun(), same, returns("the same"))
			}
			tracing, recorder := newTracing()

			host := newTraced().during(inRun(), func(ctx context.Context) {
				_, _ = middleware.Chain(tracing.Interceptor(), guard.Interceptor())(test.tool)(ctx, same)
			})

			require.Len(t, recorder.Ended(), 1)
			span := recorder.Ended()[0]
			assert.Equal(t, test.want, attributesOf(span.Attributes())["error.type"])
			if test.stopped == "" {
				assert.Equal(t, sdktrace.Status{}, span.Status())
			} else {
				assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: test.stopped}, span.Status())
			}
			assert.Equal(t, sdktrace.Status{}, host.Status(), "it is not our span")
			assert.Empty(t, host.Attributes())
			assert.Empty(t, host.Events())
		})
	}
}

// TestErrorTypesOfTheGuardItself: what it returns when it cannot judge a call is told from what tools return.
func TestErrorTypesOfTheGuardItself(t *testing.T) {
	kind := func(guard *middleware.Guard, ctx context.Context) any {
		tracing, recorder := newTracing()
		_, err := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(mustNotRun(t))(ctx, same)
		require.Error(t, err)
		assert.Equal(t, codes.Unset, newest(recorder).Status().Code)
		return attributesOf(newest(recorder).Attributes())["error.type"]
	}
	closed := newGuard(t, middleware.WithStore(newWayward(down)), middleware.WithFailClosed())
	assert.Equal(t, "loopguard.store", kind(closed, inRun()))
	late := newGuard(t, middleware.WithStore(late{middleware.NewMemoryStore()}), middleware.WithFailClosed())
	assert.Equal(t, "loopguard.store", kind(late, inRun()), "it is not the tool that took too long")
	assert.Equal(t, "loopguard.no_run", kind(newGuard(t), context.Background()))
}

// late is a store that gives up by itself.
type late struct{ *middleware.MemoryStore }

func (late) Update(context.Context, string, func(*policy.State) error) error {
	return fmt.Errorf("redis: %w", context.DeadlineExceeded)
}

// TestOutcomeThatStopsTheRun: the guard after compaction stops a run when the call is over.
func TestOutcomeThatStopsTheRun(t *testing.T) {
	tracing, recorder := newTracing()
	guard := newGuard(t)
	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
	require.NoError(t, guard.Compacted(inRun()))
	for range 3 {
		_, _ = handle(inRun(), same)
	}
	span := newest(recorder)
	assert.Equal(t, map[string]any{
		"gen_ai.operation.name": "execute_tool",
		"gen_ai.tool.name":      "read",
		"gen_ai.tool.type":      "function",
		"error.type":            "loopguard.abort",
		"loopguard.detector":    "compaction_loop_persisted",
		"loopguard.action":      "abort",
	}, attributesOf(span.Attributes()))
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "stopped by compaction_loop_persisted"}, span.Status())
	assert.Len(t, span.Events(), 1)
}

// TestDetectionsAreOnTheSpanOfTheirCall, and on no other. So none is lost to the limits of a span, however many there are.
func TestDetectionsAreOnTheSpanOfTheirCall(t *testing.T) {
	tracing, recorder := newTracing()
	guard := newGuard(t)
	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
	host := newTraced().during(inRun(), func(ctx context.Context) {
		for range 1_000 {
			_, _ = handle(ctx, same)
		}
	})
	spans := recorder.Ended()
	require.Len(t, spans, 1_000)
	for i, span := range spans {
		want := map[string]any{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "read", "gen_ai.tool.type": "function",
		}
		events, n := 1, i+1
		switch {
		case n == 11:
			want["loopguard.action"], want["loopguard.detector"] = "warn", "generic_repeat"
		case n <= 20:
			events = 0
		case n <= 30:
			want["loopguard.action"], want["loopguard.detector"] = "block", "generic_repeat"
			want["error.type"] = "loopguard.block"
		default:
			want["loopguard.action"], want["loopguard.detector"] = "abort", "global_circuit_breaker"
			want["error.type"] = "loopguard.abort"
		}
		require.Equal(t, want, attributesOf(span.Attributes()), "call %d", n)
		require.Len(t, span.Events(), events, "call %d", n)
		require.Zero(t, span.DroppedEvents())
		require.Zero(t, span.DroppedAttributes())
	}
	assert.Empty(t, host.Events())
	assert.Empty(t, host.Attributes())
}

// TestSpanInTwoSteps is how a loop of one's own has the same spans.
func TestSpanInTwoSteps(t *testing.T) {
	enter := func(tracing *middleware.Tracing) entrance {
		return func(
			g *middleware.Guard, ctx context.Context, call middleware.Call, tool middleware.Handler,
		) (result middleware.Result, err error) {
			ctx, span := tracing.StartTool(ctx, call)
			defer span.End()
			defer func() { span.Finish(result, err) }()
			ticket, err := g.Begin(ctx, call)
			if err != nil {
				return middleware.Result{}, err
			}
			if text, refused := ticket.Refusal(); refused {
				result = middleware.Text(text)
				result.Refusal = &middleware.LoopError{Verdict: ticket.Verdict()}
				return result, nil
			}
			result, err = tool(ctx, call)
			if stop := ticket.End(ctx, result, err); stop != nil {
				return middleware.Result{}, stop
			}
			return result, err
		}
	}
	spans := func(enter entrance, recorder *tracetest.SpanRecorder) (all []string) {
		guard := newGuard(t)
		for range 33 {
			_, _ = enter(guard, inRun(), same, fails(errors.New("the same")))
		}
		for _, span := range recorder.Ended() {
			all = append(all, fmt.Sprint(span.Name(), attributesOf(span.Attributes()), span.Status(), len(span.Events())))
		}
		return all
	}
	tracing, recorder := newTracing()
	want := spans(func(
		g *middleware.Guard, ctx context.Context, call middleware.Call, tool middleware.Handler,
	) (middleware.Result, error) {
		return middleware.Chain(tracing.Interceptor(), g.Interceptor())(tool)(ctx, call)
	}, recorder)
	tracing, recorder = newTracing()
	assert.Equal(t, want, spans(enter(tracing), recorder))
}

func TestSpanOfAnAgent(t *testing.T) {
	stop := &middleware.LoopError{Verdict: policy.Verdict{
		Action: policy.Abort, Detector: policy.GlobalCircuitBreaker, Enforced: true,
	}}
	for _, test := range []struct {
		name, agent, run string
		err              error
		title            string
		want             map[string]any
		status           sdktrace.Status
	}{
		{
			name: "with all", agent: "researcher", run: "r", title: "invoke_agent researcher",
			want: map[string]any{"gen_ai.agent.name": "researcher", "loopguard.run.id": "r"},
		},
		{name: "without name", run: "r", title: "invoke_agent", want: map[string]any{"loopguard.run.id": "r"}},
		{name: "without run", title: "invoke_agent", want: map[string]any{}},
		{
			name: "failed", title: "invoke_agent", err: &ownError{"no model"},
			want: map[string]any{"error.type": "*middleware_test.ownError"},
		},
		{
			name: "stopped", title: "invoke_agent", err: fmt.Errorf("agent: %w", stop),
			want:   map[string]any{"error.type": "loopguard.abort"},
			status: sdktrace.Status{Code: codes.Error, Description: "stopped by global_circuit_breaker"},
		},
		{
			name: "cancelled", title: "invoke_agent", err: fmt.Errorf("agent: %w", context.Canceled),
			want: map[string]any{"error.type": "context.Canceled"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			tracing, recorder := newTracing()
			host := newTraced().during(middleware.WithRun(context.Background(), test.run), func(ctx context.Context) {
				inner, end := tracing.StartAgent(ctx, test.agent)
				assert.NotEqual(t, trace.SpanFromContext(ctx), trace.SpanFromContext(inner))
				end(test.err)
			})
			require.Len(t, recorder.Ended(), 1)
			span := recorder.Ended()[0]
			assert.Equal(t, test.title, span.Name())
			assert.Equal(t, trace.SpanKindInternal, span.SpanKind())
			test.want["gen_ai.operation.name"] = "invoke_agent"
			assert.Equal(t, test.want, attributesOf(span.Attributes()))
			assert.Equal(t, test.status, span.Status())
			assert.Equal(t, host.SpanContext().SpanID(), span.Parent().SpanID())
			assert.Equal(t, sdktrace.Status{}, host.Status())
		})
	}
}

// TestNilProviderIsTheGlobalOne, also one that is set later, as programs do.
func TestNilProviderIsTheGlobalOne(t *testing.T) {
	before := otel.GetTracerProvider()
	defer otel.SetTracerProvider(before)
	recorder := tracetest.NewSpanRecorder()
	early := middleware.NewTracing(nil)
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)))
	_, err := middleware.NewTracing(nil).Interceptor()(returns("ok"))(context.Background(), same)
	require.NoError(t, err)
	assert.Len(t, recorder.Ended(), 1)
	_, err = early.Interceptor()(returns("ok"))(context.Background(), same)
	require.NoError(t, err)
	if _, replaced := before.(*sdktrace.TracerProvider); !replaced { // the first one that is set takes over, once a process
		assert.NotEmpty(t, newest(recorder).Name())
	}
}

// TestSpansThatDoNotRecordDoNoHarm: verdicts, results and what callbacks hear are the same.
func TestSpansThatDoNotRecordDoNoHarm(t *testing.T) {
	unsampled, recorder := newTracing(sdktrace.WithSampler(sdktrace.NeverSample()))
	shut := sdktrace.NewTracerProvider()
	require.NoError(t, shut.Shutdown(context.Background()))
	run := func(around ...middleware.Interceptor) (all []string) {
		var w witness
		guard := newGuard(t, w.option())
		handle := middleware.Chain(append(around, guard.Interceptor())...)(returns("the same"))
		for range 35 {
			result, err := handle(inRun(), same)
			all = append(all, fmt.Sprint(w.take(), result.Text, err))
		}
		return all
	}
	want := run()
	assert.Equal(t, want, run(unsampled.Interceptor()))
	assert.Empty(t, recorder.Ended())
	assert.Equal(t, want, run(middleware.NewTracing(noop.NewTracerProvider()).Interceptor()))
	assert.Equal(t, want, run(middleware.NewTracing(shut).Interceptor()))
	recording, _ := newTracing()
	assert.Equal(t, want, run(recording.Interceptor()))
}

// TestSpanThatEndedEarly takes nothing any more, and nothing breaks.
func TestSpanThatEndedEarly(t *testing.T) {
	tracing, recorder := newTracing()
	guard := newGuard(t)
	for range 35 {
		ctx, span := tracing.StartTool(inRun(), same)
		span.End()
		result, err := guard.Do(ctx, same, returns("the same"))
		span.Finish(result, err)
		span.End()
	}
	require.Len(t, recorder.Ended(), 35)
	for _, span := range recorder.Ended() {
		assert.Empty(t, span.Events())
		assert.Len(t, span.Attributes(), 3)
		assert.Equal(t, codes.Unset, span.Status().Code)
	}
}

// TestPanicOfAToolEndsItsSpan, and goes on. What it says may be an argument or a result, so that it is not on the span.
func TestPanicOfAToolEndsItsSpan(t *testing.T) {
	secret := rand.Text()
	panics := func(context.Context, middleware.Call) (middleware.Result, error) { panic(secret) }
	tracing, recorder := newTracing()
	handle := middleware.Chain(tracing.Interceptor(), newGuard(t).Interceptor())(panics)

	assert.PanicsWithValue(t, secret, func() { _, _ = handle(inRun(), same) })

	require.Len(t, recorder.Ended(), 1)
	span := recorder.Ended()[0]
	assert.Empty(t, span.Events())
	assert.NotContains(t, everythingOn(span), secret)
	assert.Equal(t, "panic", attributesOf(span.Attributes())["error.type"], "it did not succeed")
	assert.Equal(t, codes.Unset, span.Status().Code)
}

// TestPanicInTwoSteps is not on the span either, where a host defers the end of the span itself, as one does.
func TestPanicInTwoSteps(t *testing.T) {
	secret := rand.Text()
	tracing, recorder := newTracing()
	assert.PanicsWithValue(t, secret, func() {
		_, span := tracing.StartTool(inRun(), same)
		defer span.End()
		panic(secret)
	})
	require.Len(t, recorder.Ended(), 1)
	assert.NotContains(t, everythingOn(recorder.Ended()[0]), secret)
}

func TestToolThatEndsItsGoroutineEndsItsSpan(t *testing.T) {
	tracing, recorder := newTracing()
	exits := func(context.Context, middleware.Call) (middleware.Result, error) {
		runtime.Goexit()
		return middleware.Result{}, nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = middleware.Chain(tracing.Interceptor(), newGuard(t).Interceptor())(exits)(inRun(), same)
	}()
	<-done
	assert.Len(t, recorder.Ended(), 1)
}

// TestNamesOnSpansAreBounded: they are the model's words. The span has the same name as the detections on it.
func TestNamesOnSpansAreBounded(t *testing.T) {
	for _, name := range []string{"Read", strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("long ", 1<<18)} {
		tracing, recorder := newTracing()
		c := policy.Default()
		c.WarningThreshold = 1
		guard := newGuardOf(t, c)
		for range 2 {
			call := middleware.Call{Tool: name}
			_, err := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))(inRun(), call)
			require.NoError(t, err)
		}
		span := newest(recorder)
		bounded := canonical.Bound(name)
		assert.LessOrEqual(t, len(bounded), 128)
		assert.Equal(t, "execute_tool "+bounded, span.Name())
		assert.Equal(t, bounded, attributesOf(span.Attributes())["gen_ai.tool.name"])
		require.Len(t, span.Events(), 1)
		assert.Equal(t, bounded, attributesOf(span.Events()[0].Attributes)["gen_ai.tool.name"])
	}
}

// TestTextOnTracesIsUTF8, whatever a model writes: exporters lose all spans of a batch for one that is not.
func TestTextOnTracesIsUTF8(t *testing.T) {
	tracing, recorder := newTracing()
	var kept events
	for _, options := range [][]middleware.Option{nil, {middleware.WithEvents(&kept)}} {
		guard := newGuard(t, options...)
		handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
		for i := range 33 {
			name := []string{"r\xffead", "wri\xc3te"}[i%2]
			_, _ = handle(inRun(), middleware.Call{ID: "call\xff", Tool: name})
		}
	}
	require.Len(t, recorder.Ended(), 66)
	require.NotEmpty(t, kept.seen)
	for _, span := range recorder.Ended() {
		require.True(t, utf8.ValidString(span.Name()), span.Name())
		attributes := span.Attributes()
		for _, event := range span.Events() {
			attributes = append(slices.Clone(attributes), event.Attributes...)
		}
		for _, a := range attributes {
			require.True(t, utf8.ValidString(a.Value.String()), "%s: %q", a.Key, a.Value.String())
		}
	}
	for _, e := range kept.seen {
		for key, value := range e.attributes {
			require.True(t, utf8.ValidString(fmt.Sprint(value)), "%s: %q", key, value)
		}
	}
}

func TestSpanOfAToolWithoutName(t *testing.T) {
	tracing, recorder := newTracing()
	_, err := tracing.Interceptor()(returns("ok"))(context.Background(), middleware.Call{})
	require.NoError(t, err)
	assert.Equal(t, "execute_tool", newest(recorder).Name())
}

// TestSubAgentThatWasStopped: its run was, not that of the agent that called it, whose tool merely failed.
func TestSubAgentThatWasStopped(t *testing.T) {
	tracing, recorder := newTracing()
	guard := newGuard(t)
	around := middleware.Chain(tracing.Interceptor(), guard.Interceptor())
	sub := func(ctx context.Context, call middleware.Call) (_ middleware.Result, err error) {
		ctx, end := tracing.StartAgent(middleware.ChildRun(ctx, "sub"), "sub")
		defer func() { end(err) }()
		for range 31 {
			if result, err := around(returns("the same"))(ctx, same); err != nil {
				return result, err
			}
		}
		return middleware.Text("done"), nil
	}
	_, err := around(sub)(inRun(), middleware.Call{Tool: "ask"})
	var stop *middleware.LoopError
	require.ErrorAs(t, err, &stop)
	require.Equal(t, "r/sub", stop.Run)

	ended := recorder.Ended()
	outer, agent, last := ended[32], ended[31], ended[30]
	assert.Equal(t, "execute_tool ask", outer.Name())
	assert.Equal(t, "invoke_agent sub", agent.Name())
	assert.Equal(t, outer.SpanContext().SpanID(), agent.Parent().SpanID())
	assert.Equal(t, agent.SpanContext().SpanID(), last.Parent().SpanID())
	for _, span := range []sdktrace.ReadOnlySpan{outer, agent, last} {
		assert.Equal(t, "loopguard.abort", attributesOf(span.Attributes())["error.type"], span.Name())
		assert.Equal(t, "stopped by global_circuit_breaker", span.Status().Description, span.Name())
	}
	assert.NotContains(t, attributesOf(outer.Attributes()), "loopguard.action", "that run has no detection")
}

func TestTracingIsForManyGoroutines(t *testing.T) {
	tracing, recorder := newTracing()
	guard := newGuard(t)
	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
	var group sync.WaitGroup
	for n := range 16 {
		group.Go(func() {
			ctx, end := tracing.StartAgent(middleware.WithRun(context.Background(), fmt.Sprint(n)), "worker")
			var err error
			for range 35 {
				_, err = handle(ctx, same)
			}
			end(err)
		})
	}
	group.Wait()
	require.Len(t, recorder.Ended(), 16*36)
	agents, marks := map[trace.SpanID]bool{}, map[string]int{}
	for _, span := range recorder.Ended() {
		if span.Name() == "invoke_agent worker" {
			agents[span.SpanContext().SpanID()] = true
			assert.Equal(t, codes.Error, span.Status().Code)
		}
	}
	for _, span := range recorder.Ended() {
		if span.Name() == "execute_tool read" {
			assert.True(t, agents[span.Parent().SpanID()])
			marks[mark(span)]++
		}
	}
	assert.Equal(t, map[string]int{
		" ": 16 * 19, "warn generic_repeat": 16, "block generic_repeat": 160, "abort global_circuit_breaker": 16 * 5,
	}, marks)
}

// everythingOn is all that a span says, as text.
func everythingOn(span sdktrace.ReadOnlySpan) string {
	return fmt.Sprintf("%+v", tracetest.SpanStubFromReadOnlySpan(span)) + fmt.Sprint(attributesOf(span.Attributes()))
}

// TestArgumentsAndResultsAreNowhere: on no span, metric, record or log, and in no error, whatever a call came to.
func TestArgumentsAndResultsAreNowhere(t *testing.T) {
	secret := rand.Text()
	ends := map[string]middleware.Handler{
		"text":  returns("a " + secret),
		"error": fails(&ownError{"denied: " + secret}),
		"error result": func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Result{Result: canonical.Result{Text: secret, IsError: true}}, nil
		},
		"details": func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Result{Result: canonical.Result{Details: map[string]any{"stdout": secret, secret: 1}}}, nil
		},
		"unknown": fails(fmt.Errorf("%w: %s", middleware.ErrUnknownTool, secret)),
		"cancel":  fails(fmt.Errorf("%s: %w", secret, context.Canceled)),
		"panic":   func(context.Context, middleware.Call) (middleware.Result, error) { panic(secret) },
	}
	for name, tool := range ends {
		for _, args := range []string{secret, `{"password":"` + secret + `"}`, `{"` + secret + `":1}`, `{"bad":` + secret} {
			for _, apart := range []bool{false, true} {
				tracing, recorder := newTracing()
				var kept events
				var out bytes.Buffer
				reader := sdkmetric.NewManualReader()
				options := []middleware.Option{
					middleware.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))),
					middleware.WithMetricTools("read"),
					middleware.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))),
					middleware.WithStore(newWayward(down)),
				}
				if apart {
					options = append(options, middleware.WithEvents(&kept))
				}
				guard := newGuard(t, options...)
				said := ""
				handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(tool)
				host := newTraced().during(inRun(), func(ctx context.Context) {
					require.Error(t, guard.Compacted(ctx))
					for range 35 {
						func() {
							defer func() { _ = recover() }()
							_, err := handle(ctx, middleware.Call{ID: "c", Tool: "read", Args: args})
							var loop *middleware.LoopError
							if errors.As(err, &loop) {
								said += fmt.Sprintf("%+v %v", loop, loop.LogValue())
							}
						}()
					}
				})
				for _, span := range append(recorder.Ended(), host) {
					said += everythingOn(span)
				}
				kept.mu.Lock()
				for _, r := range kept.seen {
					said += fmt.Sprintf("%+v", r)
				}
				kept.mu.Unlock()
				var metrics metricdata.ResourceMetrics
				require.NoError(t, reader.Collect(context.Background(), &metrics))
				said += fmt.Sprintf("%+v", metrics) + out.String()
				require.Contains(t, said, "execute_tool read")
				if at := strings.Index(said, secret); at >= 0 {
					assert.Fail(t, "it is told", "%s of %s, events apart: %t: %s", name, args, apart, said[max(0, at-100):at])
				}
			}
		}
	}
}
