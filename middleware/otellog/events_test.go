package otellog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/otellog"
	"github.com/loopguard-go/loopguard/policy"
)

// records keeps the records that a provider is given.
type records struct {
	seen    []sdklog.Record
	refuses bool
	asked   []sdklog.EnabledParameters
}

func (r *records) provider() *sdklog.LoggerProvider {
	return sdklog.NewLoggerProvider(sdklog.WithProcessor(r))
}

func (r *records) Enabled(_ context.Context, p sdklog.EnabledParameters) bool {
	r.asked = append(r.asked, p)
	return !r.refuses
}

func (r *records) OnEmit(_ context.Context, record *sdklog.Record) error {
	r.seen = append(r.seen, record.Clone())
	return nil
}

func (r *records) Shutdown(context.Context) error   { return nil }
func (r *records) ForceFlush(context.Context) error { return nil }

// loop makes the same call until the run is stopped.
func loop(t *testing.T, ctx context.Context, options ...middleware.Option) {
	t.Helper()
	guard, err := middleware.New(policy.Default(), options...)
	require.NoError(t, err)
	for range 31 {
		_, err = guard.Do(middleware.WithRun(ctx, "r"), middleware.Call{ID: "c", Tool: "read"},
			func(context.Context, middleware.Call) (middleware.Result, error) { return middleware.Text("same"), nil })
	}
	require.ErrorIs(t, err, middleware.ErrLoop)
}

func words(a attribute.KeyValue) string { return fmt.Sprint(a.Key, "=", a.Value.AsInterface()) }

// The records are what would be on the span, which has no events then.
func TestRecordsAreTheEventsOfTheSpan(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	ctx, span := tracer.Start(context.Background(), "without")
	loop(t, ctx)
	span.End()
	var kept records
	before := time.Now()
	ctx, span = tracer.Start(context.Background(), "with")
	loop(t, ctx, middleware.WithEvents(otellog.Events(kept.provider())))
	span.End()

	events := recorder.Ended()[0].Events()
	require.Len(t, events, 12)
	require.Len(t, kept.seen, len(events))
	assert.Empty(t, recorder.Ended()[1].Events(), "never both")
	for i, event := range events {
		record := &kept.seen[i]
		var want, got []string
		for _, a := range event.Attributes {
			want = append(want, words(a))
		}
		record.WalkAttributes(func(a attribute.KeyValue) bool {
			got = append(got, words(a))
			return true
		})
		assert.Equal(t, event.Name, record.EventName())
		assert.ElementsMatch(t, want, got)
		assert.Equal(t, span.SpanContext().TraceID(), record.TraceID())
		assert.Equal(t, span.SpanContext().SpanID(), record.SpanID())
		assert.Equal(t, span.SpanContext().TraceFlags(), record.TraceFlags())
		assert.Equal(t, log.SeverityWarn, record.Severity())
		assert.Equal(t, "WARN", record.SeverityText())
		assert.WithinRange(t, record.Timestamp(), before, time.Now())
		assert.Equal(t, middleware.ScopeName, record.InstrumentationScope().Name)
		assert.Equal(t, middleware.Version, record.InstrumentationScope().Version)
		assert.Zero(t, record.DroppedAttributes())
	}
}

// A logger whose processors want nothing is asked, by severity and name, and gets nothing.
func TestDisabledLoggerGetsNothing(t *testing.T) {
	kept := records{refuses: true}
	loop(t, context.Background(), middleware.WithEvents(otellog.Events(kept.provider())))
	assert.Empty(t, kept.seen)
	require.Len(t, kept.asked, 12)
	assert.Equal(t, middleware.EventDetection, kept.asked[0].EventName)
	assert.Equal(t, log.SeverityWarn, kept.asked[0].Severity)
	assert.Equal(t, middleware.ScopeName, kept.asked[0].InstrumentationScope.Name)
	for _, nobody := range []log.LoggerProvider{noop.NewLoggerProvider(), sdklog.NewLoggerProvider()} {
		assert.False(t, otellog.Events(nobody).Enabled(context.Background(), middleware.EventDetection))
	}
}

func TestWithoutProviderItIsTheGlobalOne(t *testing.T) {
	var kept records
	otel.SetLoggerProvider(kept.provider())
	loop(t, context.Background(), middleware.WithEvents(otellog.Events(nil)))
	assert.Len(t, kept.seen, 12)
}

var errDown = errors.New("down")

type downStore struct{ middleware.Store }

func (downStore) Update(context.Context, string, func(*policy.State) error) error { return errDown }

// A store that fails is a record, too.
func TestStoreFailure(t *testing.T) {
	var kept records
	guard, err := middleware.New(policy.Default(),
		middleware.WithStore(downStore{middleware.NewMemoryStore()}), middleware.WithEvents(otellog.Events(kept.provider())))
	require.NoError(t, err)
	_, err = guard.Begin(middleware.WithRun(t.Context(), "r"), middleware.Call{Tool: "read"})
	require.NoError(t, err)
	require.Len(t, kept.seen, 1)
	assert.Equal(t, middleware.EventStoreFailure, kept.seen[0].EventName())
}
