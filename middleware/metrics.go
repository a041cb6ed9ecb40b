package middleware

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// The metrics. Their attributes have few values: names of tools are the model's words, so that a tool is named only if it
// is one that the user chose, see [WithMetricTools].
const (
	// MetricCalls counts the calls that were judged, in {call}.
	MetricCalls = "loopguard.calls"
	// MetricCallsRefused counts the calls that were refused, in {call}, by detector and action.
	MetricCallsRefused = "loopguard.calls.refused"
	// MetricDetections counts detections, in {detection}, by detector, action and whether it was enforced.
	MetricDetections = "loopguard.detections"
	// MetricRunsStopped counts the runs that were stopped, in {run}, by detector.
	MetricRunsStopped = "loopguard.runs.stopped"
	// MetricRunsEvicted counts the runs that a store in memory had to give up, in {run}.
	MetricRunsEvicted = "loopguard.runs.evicted"
	// MetricRunsLive is the number of runs that a store in memory keeps, in {run}.
	MetricRunsLive = "loopguard.runs.live"
	// MetricStoreFailures counts the failures of the store, in {failure}, by operation.
	MetricStoreFailures = "loopguard.store.failures"
	// MetricGuardDuration is how long the guard itself took, in seconds, by step: begin or end.
	MetricGuardDuration = "loopguard.guard.duration"
)

// metrics are the instruments of a guard. All options of a measurement are made beforehand.
type metrics struct {
	on       bool // someone listens
	calls    metric.Int64Counter
	refused  metric.Int64Counter
	detected metric.Int64Counter
	stopped  metric.Int64Counter
	failures metric.Int64Counter
	duration metric.Float64Histogram

	tools      map[string][]metric.AddOption // by folded name
	begin, end []metric.RecordOption
}

// measured is a store that has numbers of its own: a [MemoryStore], or one that embeds it.
type measured interface{ measure(metric.Meter) error }

// newMetrics makes the instruments, and none where there is no provider.
func newMetrics(provider metric.MeterProvider, tools []string, store Store) (m metrics, err error) {
	if provider == nil {
		return m, nil
	}
	m.on = true
	meter := provider.Meter(ScopeName, metric.WithInstrumentationVersion(Version))
	counter := func(name, unit, about string) metric.Int64Counter {
		c, failure := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		err = errors.Join(err, failure)
		return c
	}
	m.calls = counter(MetricCalls, "{call}", "Tool calls that were judged.")
	m.refused = counter(MetricCallsRefused, "{call}", "Tool calls that were refused.")
	m.detected = counter(MetricDetections, "{detection}", "Detections: warnings, blocks and aborts.")
	m.stopped = counter(MetricRunsStopped, "{run}", "Runs that were stopped.")
	m.failures = counter(MetricStoreFailures, "{failure}", "Failures of the store.")
	var failure error
	m.duration, failure = meter.Float64Histogram(MetricGuardDuration, metric.WithUnit("s"),
		metric.WithDescription("How long the guard itself took."),
		metric.WithExplicitBucketBoundaries(1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1, 1))
	err = errors.Join(err, failure)
	m.begin, m.end = step("begin"), step("end")
	m.tools = map[string][]metric.AddOption{}
	for _, tool := range tools {
		folded := canonical.FoldTool(tool)
		m.tools[folded] = []metric.AddOption{attributes(attribute.String(AttrToolName, folded))}
	}
	if s, ok := store.(measured); ok && err == nil {
		err = s.measure(meter)
	}
	if err != nil {
		return m, fmt.Errorf("metrics: %w", err)
	}
	// A series that starts with its first stop is one whose increase nobody sees; so these start at zero.
	for _, detector := range []string{policy.GlobalCircuitBreaker, policy.CompactionLoopPersisted} {
		m.stopped.Add(context.Background(), 0, attributes(attribute.String(AttrDetector, detector)))
	}
	return m, nil
}

func step(name string) []metric.RecordOption {
	return []metric.RecordOption{attributes(attribute.String(AttrStep, name))}
}

func attributes(a ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(a...))
}

// start returns the time, if someone will ask how long it took.
func (m *metrics) start() (t time.Time) {
	if m.on {
		t = time.Now()
	}
	return t
}

// called counts a call that was judged, and records how long that took.
func (m *metrics) called(ctx context.Context, tool string, start time.Time) {
	if !m.on {
		return
	}
	m.calls.Add(ctx, 1, m.tools[tool]...)
	m.duration.Record(ctx, time.Since(start).Seconds(), m.begin...)
}

// ended records how long it took to remember an outcome.
func (m *metrics) ended(ctx context.Context, start time.Time) {
	if m.on {
		m.duration.Record(ctx, time.Since(start).Seconds(), m.end...)
	}
}

// detection counts a detection.
func (m *metrics) detection(ctx context.Context, d Detection, e effect) {
	if !m.on {
		return
	}
	by := []attribute.KeyValue{
		attribute.String(AttrDetector, d.Detector), attribute.String(AttrAction, d.Action.String()),
	}
	if _, ok := m.tools[e.tool]; ok {
		by = append(by, attribute.String(AttrToolName, e.tool))
	}
	if e.refuses {
		m.refused.Add(ctx, 1, attributes(by...))
	}
	m.detected.Add(ctx, 1, attributes(append(slices.Clone(by), attribute.Bool(AttrEnforced, d.Enforced))...))
	if e.stops {
		m.stopped.Add(ctx, 1, attributes(attribute.String(AttrDetector, d.Detector)))
	}
}

// storeFailure counts a failure of the store.
func (m *metrics) storeFailure(ctx context.Context, operation string) {
	if m.on {
		m.failures.Add(ctx, 1, attributes(attribute.String(AttrStoreOperation, operation)))
	}
}
