//go:build !race

package middleware_test

import (
	"context"
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
	assert.LessOrEqual(t, without, 15.)
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
