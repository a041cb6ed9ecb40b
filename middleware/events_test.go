package middleware_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// records keeps the records of the logs API.
type records struct {
	mu      sync.Mutex
	seen    []sdklog.Record
	refuses bool
	asked   []sdklog.EnabledParameters
}

func (r *records) provider(options ...sdklog.LoggerProviderOption) *sdklog.LoggerProvider {
	return sdklog.NewLoggerProvider(append(options, sdklog.WithProcessor(r))...)
}

func (r *records) Enabled(_ context.Context, p sdklog.EnabledParameters) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, p)
	return !r.refuses
}

func (r *records) OnEmit(_ context.Context, record *sdklog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, record.Clone())
	return nil
}

func (r *records) Shutdown(context.Context) error   { return nil }
func (r *records) ForceFlush(context.Context) error { return nil }

// wordsOf is what the attributes of a record say.
func wordsOf(r *sdklog.Record) map[string]any {
	var all []attribute.KeyValue
	r.WalkAttributes(func(a attribute.KeyValue) bool {
		all = append(all, a)
		return true
	})
	return attributesOf(all)
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

// TestRecordsAreTheEventsOfTheSpan, under the same name and with the same attributes, and the span has none of them then.
func TestRecordsAreTheEventsOfTheSpan(t *testing.T) {
	many := sdktrace.NewSpanLimits()
	many.EventCountLimit = -1
	with, without := newTraced(), newTraced(sdktrace.WithRawSpanLimits(many))
	want := without.during(context.Background(), func(ctx context.Context) { troubled(t, ctx) })
	var kept records
	before := time.Now()
	got := with.during(context.Background(), func(ctx context.Context) {
		troubled(t, ctx, middleware.WithLoggerProvider(kept.provider()))
	})

	assert.Empty(t, got.Events(), "never both")
	assert.Equal(t, attributesOf(want.Attributes()), attributesOf(got.Attributes()), "what is said on the span itself stays there")
	assert.Equal(t, "abort global_circuit_breaker", mark(got))

	require.Greater(t, len(want.Events()), 30)
	require.Len(t, kept.seen, len(want.Events()))
	names := map[string]int{}
	for i, event := range want.Events() {
		record := &kept.seen[i]
		names[record.EventName()]++
		assert.Equal(t, event.Name, record.EventName())
		assert.Equal(t, attributesOf(event.Attributes), wordsOf(record))
		assert.Equal(t, got.SpanContext().TraceID(), record.TraceID())
		assert.Equal(t, got.SpanContext().SpanID(), record.SpanID())
		assert.Equal(t, got.SpanContext().TraceFlags(), record.TraceFlags())
		assert.Equal(t, log.SeverityWarn, record.Severity())
		assert.Equal(t, "WARN", record.SeverityText())
		assert.WithinRange(t, record.Timestamp(), before, time.Now())
		assert.Equal(t, middleware.ScopeName, record.InstrumentationScope().Name)
		assert.Equal(t, middleware.Version, record.InstrumentationScope().Version)
		assert.Zero(t, record.DroppedAttributes())
	}
	assert.Equal(t, 4, names[middleware.EventStoreFailure], "end, compacted, begin and forget")
	assert.Len(t, names, 2)
}

// TestRecordsNeedNoSpan: they are there for hosts without traces too, and on unsampled ones.
func TestRecordsNeedNoSpan(t *testing.T) {
	unsampled, span := newTraced(sdktrace.WithSampler(sdktrace.NeverSample())).Start(context.Background(), "agent")
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "not sampled": unsampled} {
		var kept records
		guard := newGuard(t, middleware.WithLoggerProvider(kept.provider()))
		runInto(t, guard, middleware.WithRun(ctx, "r"))
		require.Len(t, kept.seen, 12, name)
		assert.Equal(t, trace.SpanContextFromContext(ctx).TraceID(), kept.seen[0].TraceID(), name)
	}
	assert.True(t, span.SpanContext().HasTraceID())
}

// TestRecordsAreOnTheSpanOfTheTool, by its ids.
func TestRecordsAreOnTheSpanOfTheTool(t *testing.T) {
	var kept records
	tracing, recorder := newTracing()
	guard := newGuard(t, middleware.WithLoggerProvider(kept.provider()))
	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(returns("the same"))
	for range 31 {
		_, _ = handle(inRun(), same)
	}
	require.Len(t, kept.seen, 12)
	for i, call := range []int{11, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31} {
		span := recorder.Ended()[call-1]
		assert.Equal(t, span.SpanContext().SpanID(), kept.seen[i].SpanID())
		assert.Equal(t, wordsOf(&kept.seen[i])["loopguard.action"], attributesOf(span.Attributes())["loopguard.action"])
		assert.Empty(t, span.Events())
	}
}

func TestRecordsOfObserveModeSayThatNothingWasEnforced(t *testing.T) {
	var kept records
	c := policy.Default()
	c.Mode = policy.Observe
	repeat(t, newGuardOf(t, c, middleware.WithLoggerProvider(kept.provider())), inRun(), 31)
	require.Len(t, kept.seen, 12)
	for i := range kept.seen {
		assert.Equal(t, false, wordsOf(&kept.seen[i])["loopguard.enforced"])
	}
}

// TestLoggerThatIsDisabledIsAskedAndGetsNothing, and the events do not go to the span instead.
func TestLoggerThatIsDisabledIsAskedAndGetsNothing(t *testing.T) {
	kept := records{refuses: true}
	span := newTraced().during(context.Background(), func(ctx context.Context) {
		troubled(t, ctx, middleware.WithLoggerProvider(kept.provider()))
	})
	assert.Empty(t, kept.seen)
	assert.Empty(t, span.Events())
	assert.Equal(t, "abort global_circuit_breaker", mark(span))
	names := map[string]bool{}
	for _, asked := range kept.asked {
		names[asked.EventName] = true
		assert.Equal(t, log.SeverityWarn, asked.Severity)
		assert.Equal(t, middleware.ScopeName, asked.InstrumentationScope.Name)
	}
	assert.Equal(t, map[string]bool{middleware.EventDetection: true, middleware.EventStoreFailure: true}, names)
}

func TestHealthyRunLeavesNoRecord(t *testing.T) {
	var kept records
	guard := newGuard(t, middleware.WithLoggerProvider(kept.provider()))
	for n := range 100 {
		_, err := guard.Do(inRun(), numbered("read", n), returns("ok"))
		require.NoError(t, err)
	}
	assert.Empty(t, kept.seen)
	assert.Empty(t, kept.asked)
}
