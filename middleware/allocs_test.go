//go:build !race

package middleware_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// The race detector makes pools forget at random, so that allocations are counted without it only.

// TestAllocationsOfAnAllowedCall are a few, and none for the length of the run. The limits are what was measured; raise
// them only for a reason.
func TestAllocationsOfAnAllowedCall(t *testing.T) {
	calls := fewCalls()
	result := middleware.Text("ten bytes.")
	tool := func(context.Context, middleware.Call) (middleware.Result, error) { return result, nil }
	for _, test := range []struct {
		name  string
		limit float64
		call  func(*middleware.Guard, context.Context, middleware.Call) error
	}{
		{"Begin and End", 4, func(g *middleware.Guard, ctx context.Context, call middleware.Call) error {
			ticket, err := g.Begin(ctx, call)
			if err != nil {
				return err
			}
			return ticket.End(ctx, result, nil)
		}},
		{"Do", 4, func(g *middleware.Guard, ctx context.Context, call middleware.Call) error {
			_, err := g.Do(ctx, call, tool)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var w witness
			guard, ctx, i := newGuard(t, w.option()), inRun(), 0
			once := func() {
				if err := test.call(guard, ctx, calls[i%len(calls)]); err != nil {
					t.Fatal(err)
				}
				i++
			}
			for range 100 { // until the history is full and all memory is there
				once()
			}
			got := testing.AllocsPerRun(1_000, once)
			t.Logf("%v allocations", got)
			assert.LessOrEqual(t, got, test.limit)
			assert.Empty(t, w.take(), "the calls were meant to be allowed")
		})
	}
}

// TestSpanThatDoesNotRecordCostsNothing compares with no span at all: for a call that is allowed, and for one with a
// detection.
func TestSpanThatDoesNotRecordCostsNothing(t *testing.T) {
	_, unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("").
		Start(context.Background(), "agent")
	_, ended := sdktrace.NewTracerProvider().Tracer("").Start(context.Background(), "agent")
	ended.End()
	c := policy.Default()
	c.WarningThreshold = 1
	var w witness
	guard := newGuardOf(t, c, w.option())
	measure := func(ctx context.Context, calls int) float64 {
		ctx = middleware.WithRun(ctx, "r")
		run := func() {
			for range calls {
				ticket, err := guard.Begin(ctx, same)
				require.NoError(t, err)
				require.NoError(t, ticket.End(ctx, middleware.Result{}, nil))
			}
			require.NoError(t, guard.Forget(ctx))
			w.seen = w.seen[:0]
		}
		run()
		return testing.AllocsPerRun(200, run)
	}
	without := measure(context.Background(), 2)
	t.Logf("%v allocations of an allowed call, a warned one and their run", without)
	assert.LessOrEqual(t, without, 16.)
	for name, span := range map[string]trace.Span{"noop": noop.Span{}, "not sampled": unsampled, "ended": ended} {
		with := trace.ContextWithSpan(context.Background(), span)
		assert.Equal(t, measure(context.Background(), 1), measure(with, 1), "%s, allowed", name)
		assert.Equal(t, without, measure(with, 2), "%s, warned", name)
	}
	ticket := begin(t, guard, inRun(), same)
	require.NoError(t, ticket.End(inRun(), middleware.Result{}, nil))
	begin(t, guard, inRun(), same)
	assert.Equal(t, []string{"warn generic_repeat 1/1"}, w.take(), "the second call was meant to be warned of")
}

// TestAllocationsOfAMeasuredCall: to measure an allowed call takes no memory, with and without a span in the context that
// the SDK may keep as an example. Without a provider nothing is measured at all.
func TestAllocationsOfAMeasuredCall(t *testing.T) {
	calls, result := fewCalls(), middleware.Text("ten bytes.")
	sampled, span := sdktrace.NewTracerProvider().Tracer("").Start(inRun(), "agent")
	defer span.End()
	unsampled, span := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())).Tracer("").
		Start(inRun(), "agent")
	defer span.End()
	measure := func(ctx context.Context, options ...middleware.Option) float64 {
		var w witness
		guard, i := newGuard(t, append(options, w.option())...), 0
		once := func() {
			ticket, err := guard.Begin(ctx, calls[i%len(calls)])
			if err != nil {
				t.Fatal(err)
			}
			if err := ticket.End(ctx, result, nil); err != nil {
				t.Fatal(err)
			}
			i++
		}
		for range 1_000 { // until the history is full, all memory is there, and so are the examples
			once()
		}
		got := testing.AllocsPerRun(1_000, once)
		assert.Empty(t, w.take(), "the calls were meant to be allowed")
		return got
	}
	for name, ctx := range map[string]context.Context{"no span": inRun(), "not sampled": unsampled, "sampled": sampled} {
		without := measure(ctx)
		for tools, chosen := range map[string][]string{"no tools": nil, "its tool": {"read", "write"}} {
			with := measure(ctx, newMeter().option(), middleware.WithMetricTools(chosen...))
			t.Logf("%s, %s: %v allocations, %v without metrics", name, tools, with, without)
			assert.LessOrEqual(t, without, 4., name)
			assert.LessOrEqual(t, with, without, "%s, %s", name, tools)
		}
	}
}

// TestDisabledEventsCostNothing: a warned call takes as much memory as if nobody had asked for its event.
func TestDisabledEventsCostNothing(t *testing.T) {
	c := policy.Default()
	c.WarningThreshold = 1
	measure := func(options ...middleware.Option) float64 {
		var w witness
		guard := newGuardOf(t, c, append(options, w.option())...)
		run := func() {
			for range 2 {
				ticket, err := guard.Begin(inRun(), same)
				require.NoError(t, err)
				require.NoError(t, ticket.End(inRun(), middleware.Result{}, nil))
			}
			require.NoError(t, guard.Forget(inRun()))
			require.Len(t, w.seen, 1)
			w.seen = w.seen[:0]
		}
		run()
		return testing.AllocsPerRun(200, run)
	}
	without := measure()
	assert.Equal(t, without, measure(middleware.WithEvents(&events{refuses: true})))
	assert.Greater(t, measure(middleware.WithEvents(&events{})), without, "else nothing was measured")
}

// TestAllocationsOfAToolSpan: on one that is not sampled nothing is written, so that it takes what opening such a span by
// hand takes. A no-op provider takes the least.
func TestAllocationsOfAToolSpan(t *testing.T) {
	call := middleware.Call{ID: "call_7", Tool: "read"}
	result, failure := middleware.Text("ten bytes."), errors.New("no such file")
	tool := func(context.Context, middleware.Call) (middleware.Result, error) { return result, nil }
	failing := func(context.Context, middleware.Call) (middleware.Result, error) { return result, failure }
	ctx := inRun()
	for name, provider := range map[string]trace.TracerProvider{
		"noop":        noop.NewTracerProvider(),
		"not sampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
	} {
		tracer := provider.Tracer("")
		byHand := testing.AllocsPerRun(1_000, func() {
			_, span := tracer.Start(ctx, "execute_tool "+call.Tool, trace.WithSpanKind(trace.SpanKindInternal))
			span.End()
		})
		for outcome, tool := range map[string]middleware.Handler{"success": tool, "failure": failing} {
			handle := middleware.NewTracing(provider).Interceptor()(tool)
			got := testing.AllocsPerRun(1_000, func() { _, _ = handle(ctx, call) })
			t.Logf("%s, %s: %v allocations, %v by hand", name, outcome, got, byHand)
			assert.LessOrEqual(t, got, byHand, "%s, %s", name, outcome)
		}
	}
	handle := middleware.NewTracing(sdktrace.NewTracerProvider()).Interceptor()(tool)
	t.Logf("recording: %v allocations", testing.AllocsPerRun(1_000, func() { _, _ = handle(ctx, call) }))
}
