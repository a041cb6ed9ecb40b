package middleware_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// events keeps events.
type events struct {
	mu      sync.Mutex
	seen    []event
	refuses bool
	asked   map[string]int
}

type event struct {
	name       string
	attributes map[string]any
	span       trace.SpanContext
}

func (e *events) Enabled(_ context.Context, name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked == nil {
		e.asked = map[string]int{}
	}
	e.asked[name]++
	return !e.refuses
}

func (e *events) Emit(ctx context.Context, name string, attributes []attribute.KeyValue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, event{name, attributesOf(attributes), trace.SpanContextFromContext(ctx)})
}

// troubled is a run with all that there is to report: warnings, blocks, aborts, with and without a paired tool and a call
// id, and a store that fails.
func troubled(t testingT, ctx context.Context, options ...middleware.Option) {
	store := newWayward(well)
	guard := newGuard(t, append(options, middleware.WithStore(store))...)
	call := same
	call.ID = "c1"
	for range 33 {
		_, _ = guard.Do(middleware.WithRun(ctx, "repeat"), call, returns("the same"))
	}
	for i := range 33 {
		_, _ = guard.Do(middleware.WithRun(ctx, "pingpong"), numbered([]string{"Read", "Write"}[i%2], 0), returns("the same"))
	}
	require.NoError(t, guard.Compacted(middleware.WithRun(ctx, "compact")))
	for range 3 {
		_, _ = guard.Do(middleware.WithRun(ctx, "compact"), call, returns("the same"))
	}
	_, err := guard.Do(middleware.WithRun(ctx, "store"), call, store.becomes(down, returns("ok")))
	require.NoError(t, err)
	require.ErrorIs(t, guard.Compacted(middleware.WithRun(ctx, "store")), middleware.ErrStore)
	_, err = guard.Do(middleware.WithRun(ctx, "begin"), call, returns("ok"))
	require.NoError(t, err)
	require.ErrorIs(t, guard.Forget(middleware.WithRun(ctx, "store")), middleware.ErrStore)
}

// TestEventsAreThoseOfTheSpan, under the same name and with the same attributes, and the span has none of them then.
func TestEventsAreThoseOfTheSpan(t *testing.T) {
	many := sdktrace.NewSpanLimits()
	many.EventCountLimit = -1
	with, without := newTraced(), newTraced(sdktrace.WithRawSpanLimits(many))
	want := without.during(context.Background(), func(ctx context.Context) { troubled(t, ctx) })
	var kept events
	got := with.during(context.Background(), func(ctx context.Context) { troubled(t, ctx, middleware.WithEvents(&kept)) })

	assert.Empty(t, got.Events(), "never both")
	assert.Equal(t, attributesOf(want.Attributes()), attributesOf(got.Attributes()), "what is said on the span itself stays there")
	assert.Equal(t, "abort global_circuit_breaker", mark(got))

	require.Greater(t, len(want.Events()), 30)
	require.Len(t, kept.seen, len(want.Events()))
	names := map[string]int{}
	for i, w := range want.Events() {
		names[kept.seen[i].name]++
		assert.Equal(t, event{w.Name, attributesOf(w.Attributes), got.SpanContext()}, kept.seen[i])
	}
	assert.Equal(t, 4, names[middleware.EventStoreFailure], "end, compacted, begin and forget")
	assert.Len(t, names, 2)
}

// TestEventsNeedNoSpan: they are there for hosts without traces too, and on unsampled ones.
func TestEventsNeedNoSpan(t *testing.T) {
	unsampled, span := newTraced(sdktrace.WithSampler(sdktrace.NeverSample())).Start(context.Background(), "agent")
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "not sampled": unsampled} {
		var kept events
		runInto(t, newGuard(t, middleware.WithEvents(&kept)), middleware.WithRun(ctx, "r"))
		require.Len(t, kept.seen, 12, name)
		assert.Equal(t, trace.SpanContextFromContext(ctx), kept.seen[0].span, name)
	}
	assert.True(t, span.SpanContext().HasTraceID())
}

// TestEventsHaveTheSpanOfTheTool in their context.
func TestEventsHaveTheSpanOfTheTool(t *testing.T) {
	var kept events
	tracing, recorder := newTracing()
	guard := newGuard(t, middleware.WithEvents(&kept))
	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
	for range 31 {
		_, _ = handle(inRun(), same)
	}
	require.Len(t, kept.seen, 12)
	for i, call := range []int{11, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31} {
		span := recorder.Ended()[call-1]
		assert.Equal(t, span.SpanContext(), kept.seen[i].span)
		assert.Equal(t, kept.seen[i].attributes["loopguard.action"], attributesOf(span.Attributes())["loopguard.action"])
		assert.Empty(t, span.Events())
	}
}

func TestEventsOfObserveModeSayThatNothingWasEnforced(t *testing.T) {
	var kept events
	c := policy.Default()
	c.Mode = policy.Observe
	repeat(t, newGuardOf(t, c, middleware.WithEvents(&kept)), inRun(), 31)
	require.Len(t, kept.seen, 12)
	for _, e := range kept.seen {
		assert.Equal(t, false, e.attributes["loopguard.enforced"])
	}
}

// TestEventsThatNobodyKeepsAreNotMade, and do not go to the span instead.
func TestEventsThatNobodyKeepsAreNotMade(t *testing.T) {
	kept := events{refuses: true}
	span := newTraced().during(context.Background(), func(ctx context.Context) {
		troubled(t, ctx, middleware.WithEvents(&kept))
	})
	assert.Empty(t, kept.seen)
	assert.Empty(t, span.Events())
	assert.Equal(t, "abort global_circuit_breaker", mark(span))
	assert.NotZero(t, kept.asked[middleware.EventDetection])
	assert.NotZero(t, kept.asked[middleware.EventStoreFailure])
	assert.Len(t, kept.asked, 2)
}

func TestHealthyRunHasNoEvents(t *testing.T) {
	var kept events
	guard := newGuard(t, middleware.WithEvents(&kept))
	for n := range 100 {
		_, err := guard.Do(inRun(), numbered("read", n), returns("ok"))
		require.NoError(t, err)
	}
	assert.Empty(t, kept.seen)
	assert.Empty(t, kept.asked)
}
