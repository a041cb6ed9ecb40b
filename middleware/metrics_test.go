package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// meter collects what was measured.
type meter struct {
	*sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeter() meter {
	reader := sdkmetric.NewManualReader()
	return meter{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader}
}

func (m meter) option() middleware.Option { return middleware.WithMeterProvider(m.MeterProvider) }

// collect returns all metrics by name.
func (m meter) collect(t testingT) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, m.reader.Collect(context.Background(), &all))
	metrics := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		require.Equal(t, middleware.ScopeName, scope.Scope.Name)
		require.Equal(t, middleware.Version, scope.Scope.Version)
		for _, one := range scope.Metrics {
			require.NotContains(t, metrics, one.Name)
			metrics[one.Name] = one
		}
	}
	return metrics
}

// values returns the sums of a metric by their attributes, such as "loopguard.action=warn,loopguard.detector=generic_repeat".
func (m meter) values(t testingT, name string) map[string]int64 {
	t.Helper()
	metric, ok := m.collect(t)[name]
	if !ok {
		return nil
	}
	sum, ok := metric.Data.(metricdata.Sum[int64])
	require.True(t, ok, name)
	values := map[string]int64{}
	for _, point := range sum.DataPoints {
		if point.Value != 0 || name != middleware.MetricRunsStopped { // these start at zero
			values[inOneLine(point.Attributes)] = point.Value
		}
	}
	return values
}

// A series that starts with its first stop has no increase that an alert could see.
func TestStoppedRunsAreCountedFromZero(t *testing.T) {
	m := newMeter()
	newGuard(t, m.option())
	sum, ok := m.collect(t)[middleware.MetricRunsStopped].Data.(metricdata.Sum[int64])
	require.True(t, ok)
	require.Len(t, sum.DataPoints, 2, "one for each detector that stops runs")
	for _, point := range sum.DataPoints {
		assert.Zero(t, point.Value)
	}
}

func inOneLine(set attribute.Set) string {
	return strings.ReplaceAll(set.Encoded(attribute.DefaultEncoder()), "loopguard.", "")
}

// times returns how many durations there are of each step.
func (m meter) times(t testingT) map[string]uint64 {
	t.Helper()
	histogram, ok := m.collect(t)[middleware.MetricGuardDuration].Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	times := map[string]uint64{}
	for _, point := range histogram.DataPoints {
		times[inOneLine(point.Attributes)] = point.Count
		assert.Positive(t, point.Sum)
		assert.Less(t, point.Sum, time.Minute.Seconds(), "in seconds")
	}
	return times
}

// TestMetrics is the history of one run, and all that is measured of it.
func TestMetrics(t *testing.T) {
	m := newMeter()
	store := middleware.NewMemoryStore()
	guard := newGuard(t, m.option(), middleware.WithStore(store))
	calls := func(n int) {
		for range n {
			_, _ = guard.Do(inRun(), same, returns("the same"))
		}
	}

	calls(10) // allowed
	assert.Equal(t, map[string]int64{"": 10}, m.values(t, middleware.MetricCalls))
	assert.Empty(t, m.values(t, middleware.MetricDetections))
	assert.Empty(t, m.values(t, middleware.MetricCallsRefused))
	assert.Empty(t, m.values(t, middleware.MetricRunsStopped))
	assert.Equal(t, map[string]uint64{"step=begin": 10, "step=end": 10}, m.times(t))

	calls(1) // warned
	assert.Equal(t, map[string]int64{"action=warn,detector=generic_repeat,enforced=true": 1},
		m.values(t, middleware.MetricDetections))
	assert.Empty(t, m.values(t, middleware.MetricCallsRefused))

	calls(9) // allowed: the warning was given
	calls(4) // blocked
	assert.Equal(t, map[string]int64{"": 24}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{
		"action=warn,detector=generic_repeat,enforced=true":  1,
		"action=block,detector=generic_repeat,enforced=true": 4,
	}, m.values(t, middleware.MetricDetections))
	assert.Equal(t, map[string]int64{"action=block,detector=generic_repeat": 4}, m.values(t, middleware.MetricCallsRefused))
	assert.Empty(t, m.values(t, middleware.MetricRunsStopped))
	assert.Equal(t, map[string]uint64{"step=begin": 24, "step=end": 20}, m.times(t), "a refused call has no end")

	calls(7) // and the last of them is aborted
	assert.Equal(t, map[string]int64{"detector=global_circuit_breaker": 1}, m.values(t, middleware.MetricRunsStopped))
	calls(100) // of a stopped run: each is reported, and the run was stopped once
	assert.Equal(t, map[string]int64{"": 131}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{
		"action=warn,detector=generic_repeat,enforced=true":          1,
		"action=block,detector=generic_repeat,enforced=true":         10,
		"action=abort,detector=global_circuit_breaker,enforced=true": 101,
	}, m.values(t, middleware.MetricDetections))
	assert.Equal(t, map[string]int64{
		"action=block,detector=generic_repeat":         10,
		"action=abort,detector=global_circuit_breaker": 101,
	}, m.values(t, middleware.MetricCallsRefused))
	assert.Equal(t, map[string]int64{"detector=global_circuit_breaker": 1}, m.values(t, middleware.MetricRunsStopped))
	assert.Equal(t, map[string]int64{"": 1}, m.values(t, middleware.MetricRunsLive))
	assert.Equal(t, map[string]int64{"": 0}, m.values(t, middleware.MetricRunsEvicted))

	require.NoError(t, guard.Forget(inRun()))
	assert.Equal(t, map[string]int64{"": 0}, m.values(t, middleware.MetricRunsLive))
	calls(31) // it goes on after it was forgotten, and is stopped again
	assert.Equal(t, map[string]int64{"detector=global_circuit_breaker": 2}, m.values(t, middleware.MetricRunsStopped))
	assert.Nil(t, m.values(t, middleware.MetricStoreFailures))
}

// TestNamesUnitsAndKindsOfMetrics pins what dashboards are made of.
func TestNamesUnitsAndKindsOfMetrics(t *testing.T) {
	m := newMeter()
	troubled(t, context.Background(), m.option())
	all := m.collect(t)
	for name, want := range map[string]struct {
		unit      string
		monotonic bool
	}{
		"loopguard.calls":          {"{call}", true},
		"loopguard.calls.refused":  {"{call}", true},
		"loopguard.detections":     {"{detection}", true},
		"loopguard.runs.stopped":   {"{run}", true},
		"loopguard.runs.evicted":   {"{run}", true},
		"loopguard.runs.live":      {"{run}", false},
		"loopguard.store.failures": {"{failure}", true},
	} {
		require.Contains(t, all, name)
		sum, ok := all[name].Data.(metricdata.Sum[int64])
		require.True(t, ok, name)
		assert.Equal(t, want.unit, all[name].Unit, name)
		assert.Equal(t, want.monotonic, sum.IsMonotonic, name)
		assert.Equal(t, metricdata.CumulativeTemporality, sum.Temporality, name)
		assert.NotEmpty(t, all[name].Description, name)
		delete(all, name)
	}
	require.Contains(t, all, "loopguard.guard.duration")
	duration := all["loopguard.guard.duration"]
	histogram, ok := duration.Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	assert.Equal(t, "s", duration.Unit)
	assert.NotEmpty(t, duration.Description)
	for _, point := range histogram.DataPoints {
		assert.Equal(t, 1e-6, point.Bounds[0])
		assert.Equal(t, 1., point.Bounds[len(point.Bounds)-1])
		assert.True(t, slices.IsSorted(point.Bounds))
	}
	delete(all, "loopguard.guard.duration")
	assert.Empty(t, all)
}

func TestMetricsOfObserveMode(t *testing.T) {
	m := newMeter()
	c := policy.Default()
	c.Mode = policy.Observe
	guard := newGuardOf(t, c, m.option())
	require.NoError(t, guard.Compacted(inRun()))
	repeat(t, guard, inRun(), 35)
	assert.Equal(t, map[string]int64{"": 35}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{
		"action=abort,detector=compaction_loop_persisted,enforced=false": 1,
		"action=warn,detector=generic_repeat,enforced=false":             1,
		"action=block,detector=generic_repeat,enforced=false":            10,
		"action=abort,detector=global_circuit_breaker,enforced=false":    5,
	}, m.values(t, middleware.MetricDetections))
	assert.Empty(t, m.values(t, middleware.MetricCallsRefused), "nothing was")
	assert.Empty(t, m.values(t, middleware.MetricRunsStopped))
	assert.Equal(t, map[string]uint64{"step=begin": 35, "step=end": 35}, m.times(t))
}

// TestMetricsOfTheGuardAfterCompaction: the calls were run, so that none was refused, and the run was stopped.
func TestMetricsOfTheGuardAfterCompaction(t *testing.T) {
	m := newMeter()
	guard, runs := newGuard(t, m.option()), 0
	require.NoError(t, guard.Compacted(inRun()))
	for range 3 {
		_, _ = guard.Do(inRun(), same, func(context.Context, middleware.Call) (middleware.Result, error) {
			runs++
			return middleware.Text("the same"), nil
		})
	}
	require.Equal(t, 3, runs)
	assert.Equal(t, map[string]int64{"": 3}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{"action=abort,detector=compaction_loop_persisted,enforced=true": 1},
		m.values(t, middleware.MetricDetections))
	assert.Equal(t, map[string]int64{"detector=compaction_loop_persisted": 1}, m.values(t, middleware.MetricRunsStopped))
	assert.Empty(t, m.values(t, middleware.MetricCallsRefused), "all three were run")

	for range 2 {
		_, err := guard.Do(inRun(), same, mustNotRun(t))
		require.ErrorIs(t, err, middleware.ErrLoop)
	}
	assert.Equal(t, map[string]int64{"action=abort,detector=compaction_loop_persisted": 2},
		m.values(t, middleware.MetricCallsRefused))
	assert.Equal(t, map[string]int64{"detector=compaction_loop_persisted": 1}, m.values(t, middleware.MetricRunsStopped))
}

// TestCallsThatAreNotJudgedAreNotCounted: those of exempt tools, without a run, or under a guard that is off.
func TestCallsThatAreNotJudgedAreNotCounted(t *testing.T) {
	m := newMeter()
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{"think": {Exempt: new(true)}}
	guard := newGuardOf(t, c, m.option(), middleware.WithMetricTools("think"))
	_, err := guard.Do(inRun(), middleware.Call{Tool: "think"}, returns("hm"))
	require.NoError(t, err)
	_, err = guard.Do(context.Background(), same, mustNotRun(t))
	require.ErrorIs(t, err, middleware.ErrNoRun)
	off := newGuardOf(t, policy.Config{Enabled: new(false)}, m.option())
	_, err = off.Do(inRun(), same, returns("ok"))
	require.NoError(t, err)
	assert.Empty(t, m.values(t, middleware.MetricCalls))
	assert.NotContains(t, m.collect(t), middleware.MetricGuardDuration)
}

// TestCancelledCallHasNoEnd: it is counted as one that was judged.
func TestCancelledCallHasNoEnd(t *testing.T) {
	m := newMeter()
	_, err := newGuard(t, m.option()).Do(inRun(), same, fails(context.Canceled))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, map[string]int64{"": 1}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]uint64{"step=begin": 1}, m.times(t))
}

func TestMetricsOfABoundedStore(t *testing.T) {
	m := newMeter()
	store := middleware.NewMemoryStore(middleware.WithMaxRuns(2))
	guard := newGuard(t, m.option(), middleware.WithStore(store))
	live := func() int64 { return m.values(t, middleware.MetricRunsLive)[""] }
	evicted := func() int64 { return m.values(t, middleware.MetricRunsEvicted)[""] }
	assert.Zero(t, live())
	assert.Zero(t, evicted())
	for n := range 5 {
		begin(t, guard, middleware.WithRun(context.Background(), fmt.Sprint(n)), same)
	}
	assert.EqualValues(t, 2, live())
	assert.EqualValues(t, 3, evicted())
	require.NoError(t, guard.Forget(middleware.WithRun(context.Background(), "4")))
	assert.EqualValues(t, 1, live())
	assert.EqualValues(t, 3, evicted(), "what was forgotten on purpose does not count")
	runtime.KeepAlive(guard)
}

// TestGuardsThatShareAStoreCountItsRunsOnce: a new configuration is a new guard on the same store.
func TestGuardsThatShareAStoreCountItsRunsOnce(t *testing.T) {
	m := newMeter()
	store := middleware.NewMemoryStore(middleware.WithMaxRuns(2))
	for range 3 {
		guard := newGuard(t, m.option(), middleware.WithStore(store))
		for n := range 3 {
			begin(t, guard, middleware.WithRun(context.Background(), fmt.Sprint(n)), same)
		}
	}
	require.Equal(t, 2, store.Runs())
	assert.Equal(t, map[string]int64{"": 2}, m.values(t, middleware.MetricRunsLive))
	assert.Equal(t, map[string]int64{"": int64(store.Evicted())}, m.values(t, middleware.MetricRunsEvicted))
}

// TestGuardsWithStoresOfTheirOwnAddUp, on one provider.
func TestGuardsWithStoresOfTheirOwnAddUp(t *testing.T) {
	m := newMeter()
	guards := []*middleware.Guard{newGuard(t, m.option()), newGuard(t, m.option()), newGuard(t, m.option())}
	for _, guard := range guards {
		begin(t, guard, inRun(), same)
	}
	assert.Equal(t, map[string]int64{"": 3}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{"": 3}, m.values(t, middleware.MetricRunsLive))
	runtime.KeepAlive(guards)
}

// TestStoreThatIsGoneIsNotCounted: a provider lives as long as the program, and must not keep the runs of every guard that
// ever was. What such a store had to give up still counts: a counter never goes back.
func TestStoreThatIsGoneIsNotCounted(t *testing.T) {
	m := newMeter()
	func() {
		guard := newGuard(t, m.option(), middleware.WithStore(middleware.NewMemoryStore(middleware.WithMaxRuns(1))))
		for n := range 3 {
			begin(t, guard, middleware.WithRun(context.Background(), fmt.Sprint(n)), same)
		}
	}()
	guard := newGuard(t, m.option())
	for n := range 5 {
		begin(t, guard, middleware.WithRun(context.Background(), fmt.Sprint(n)), same)
	}
	assert.Eventually(t, func() bool {
		runtime.GC()
		return m.values(t, middleware.MetricRunsLive)[""] == 5
	}, 10*time.Second, time.Millisecond)
	assert.Equal(t, map[string]int64{"": 2}, m.values(t, middleware.MetricRunsEvicted))
	runtime.KeepAlive(guard)
}

// bare is a store that knows no numbers of itself.
type bare struct{ middleware.Store }

func TestStoreWithoutNumbers(t *testing.T) {
	m := newMeter()
	runInto(t, newGuard(t, m.option(), middleware.WithStore(bare{middleware.NewMemoryStore()})), inRun())
	all := m.collect(t)
	assert.NotContains(t, all, middleware.MetricRunsLive)
	assert.NotContains(t, all, middleware.MetricRunsEvicted)
	assert.Equal(t, map[string]int64{"": 31}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{"detector=global_circuit_breaker": 1}, m.values(t, middleware.MetricRunsStopped))
}

// TestMetricToolsAreToldApart, under whatever spelling the model has for them, in every metric that is about a call.
func TestMetricToolsAreToldApart(t *testing.T) {
	long := strings.Repeat("long", 50)
	m := newMeter()
	guard := newGuard(t, m.option(), middleware.WithMetricTools(" Read", "write", "READ"), middleware.WithMetricTools(long))
	for i, tool := range []string{"read", "Read ", "read" + strings.Repeat(" ", 200), long, strings.ToUpper(long), "other", ""} {
		ctx := middleware.WithRun(context.Background(), fmt.Sprint(i))
		for range 31 {
			_, _ = guard.Do(ctx, middleware.Call{Tool: tool}, returns("the same"))
		}
	}
	read, longOne := "gen_ai.tool.name=read", "gen_ai.tool.name="+long
	assert.Equal(t, map[string]int64{read: 3 * 31, longOne: 2 * 31, "": 2 * 31}, m.values(t, middleware.MetricCalls))
	assert.Equal(t, map[string]int64{
		read + ",action=block,detector=generic_repeat":            30,
		read + ",action=abort,detector=global_circuit_breaker":    3,
		longOne + ",action=block,detector=generic_repeat":         20,
		longOne + ",action=abort,detector=global_circuit_breaker": 2,
		"action=block,detector=generic_repeat":                    20,
		"action=abort,detector=global_circuit_breaker":            2,
	}, m.values(t, middleware.MetricCallsRefused))
	detections := m.values(t, middleware.MetricDetections)
	assert.Len(t, detections, 9)
	assert.EqualValues(t, 3, detections[read+",action=warn,detector=generic_repeat,enforced=true"])
	assert.EqualValues(t, 2, detections[longOne+",action=warn,detector=generic_repeat,enforced=true"])
	assert.Equal(t, map[string]int64{"detector=global_circuit_breaker": 7}, m.values(t, middleware.MetricRunsStopped))
}

// TestInventedNamesMakeNoSeries: ten thousand of them, and all detectors at work.
func TestInventedNamesMakeNoSeries(t *testing.T) {
	m := newMeter()
	guard := newGuardOf(t, policy.Tight(), m.option(), middleware.WithMetricTools("read", "write"))
	for n := range 10_000 {
		ctx := middleware.WithRun(context.Background(), fmt.Sprint(n/20))
		call := middleware.Call{ID: fmt.Sprint(n), Tool: fmt.Sprint("invented", n), Args: fmt.Sprint(n), Unknown: true}
		if n%4000 >= 2000 {
			call = middleware.Call{Tool: fmt.Sprint("invented", n/20)}
		}
		_, _ = guard.Do(ctx, call, fails(errors.New("no such tool")))
		_, _ = guard.Do(ctx, numbered("Read", n), returns("ok"))
	}
	series := 0
	for name, one := range m.collect(t) {
		switch data := one.Data.(type) {
		case metricdata.Sum[int64]:
			series += len(data.DataPoints)
			for _, point := range data.DataPoints {
				assert.NotContains(t, inOneLine(point.Attributes), "invented", name)
			}
		case metricdata.Histogram[float64]:
			series += len(data.DataPoints)
		}
	}
	assert.Equal(t, map[string]int64{"": 10_000, "gen_ai.tool.name=read": 10_000}, m.values(t, middleware.MetricCalls))
	assert.NotEmpty(t, m.values(t, middleware.MetricCallsRefused))
	assert.Less(t, series, 30)
	t.Logf("%d series", series)
}

// TestMetricsOfAStoreThatFails count what is reported, by what was wanted of the store.
func TestMetricsOfAStoreThatFails(t *testing.T) {
	failures := func(do func(*middleware.Guard, *wayward), options ...middleware.Option) map[string]int64 {
		m, store := newMeter(), newWayward(well)
		do(newGuard(t, append(options, m.option(), middleware.WithStore(store))...), store)
		return m.values(t, middleware.MetricStoreFailures)
	}
	assert.Nil(t, failures(func(g *middleware.Guard, _ *wayward) { repeat(t, g, inRun(), 5) }))
	assert.Equal(t, map[string]int64{"store.operation=begin": 2}, failures(func(g *middleware.Guard, s *wayward) {
		s.trouble.Store(down)
		repeat(t, g, inRun(), 5)
		repeat(t, g, middleware.WithRun(context.Background(), "another"), 5)
	}), "once for each run, and not at every call of an outage")
	assert.Equal(t, map[string]int64{"store.operation=begin": 5}, failures(func(g *middleware.Guard, s *wayward) {
		s.trouble.Store(down)
		for range 5 {
			_, err := g.Do(inRun(), same, mustNotRun(t))
			require.ErrorIs(t, err, middleware.ErrStore)
		}
	}, middleware.WithFailClosed()), "each of the calls that were not run")
	assert.Equal(t, map[string]int64{
		"store.operation=end": 1, "store.operation=cancel": 1, "store.operation=compacted": 1, "store.operation=forget": 1,
	}, failures(func(g *middleware.Guard, s *wayward) {
		for i, outcome := range []error{nil, context.Canceled} {
			s.trouble.Store(well)
			ctx := middleware.WithRun(context.Background(), fmt.Sprint(i))
			_, err := g.Do(ctx, same, s.becomes(down, fails(outcome)))
			require.ErrorIs(t, err, outcome)
		}
		require.ErrorIs(t, g.Compacted(inRun()), middleware.ErrStore)
		require.ErrorIs(t, g.Forget(inRun()), middleware.ErrStore)
	}))
}

// TestRunIsStoppedOnce, whatever its store does while it is, and however many guards see it.
func TestRunIsStoppedOnce(t *testing.T) {
	stops := func(m meter) (n int64) {
		for _, value := range m.values(t, middleware.MetricRunsStopped) {
			n += value
		}
		return n
	}
	for _, trouble := range []string{well, down, forgetful, deaf} {
		t.Run(trouble, func(t *testing.T) {
			m, store := newMeter(), newWayward(well)
			guard := newGuard(t, m.option(), middleware.WithStore(store))
			repeat(t, guard, inRun(), 20)
			store.trouble.Store(trouble)
			runInto(t, guard, inRun())
			for range 5 {
				_, err := guard.Do(inRun(), same, returns("the same"))
				require.ErrorIs(t, err, middleware.ErrLoop)
			}
			store.trouble.Store(well)
			for range 5 {
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				require.ErrorIs(t, err, middleware.ErrLoop)
			}
			assert.EqualValues(t, 1, stops(m))
		})
	}
	t.Run("by another guard", func(t *testing.T) {
		m, store := newMeter(), newWayward(well)
		a := newGuard(t, m.option(), middleware.WithStore(store))
		b := newGuard(t, m.option(), middleware.WithStore(store))
		runInto(t, a, inRun())
		_, err := b.Do(inRun(), same, mustNotRun(t))
		require.ErrorIs(t, err, middleware.ErrLoop)
		assert.EqualValues(t, 1, stops(m))
	})
	t.Run("by another guard, during an outage", func(t *testing.T) {
		m, store := newMeter(), newWayward(down)
		a := newGuard(t, m.option(), middleware.WithStore(store))
		b := newGuard(t, m.option(), middleware.WithStore(store))
		repeat(t, b, inRun(), 1) // which has a local history now
		store.trouble.Store(well)
		runInto(t, a, inRun())
		store.trouble.Store(forgetful)
		_, err := b.Do(inRun(), same, mustNotRun(t))
		require.ErrorIs(t, err, middleware.ErrLoop)
		assert.EqualValues(t, 1, stops(m))
	})
	t.Run("by many calls at a time", func(t *testing.T) {
		m := newMeter()
		guard := newGuard(t, m.option())
		repeat(t, guard, inRun(), 20)
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() {
				for range 20 {
					_, _ = guard.Do(inRun(), same, returns("the same"))
				}
			})
		}
		group.Wait()
		assert.EqualValues(t, 1, stops(m))
		assert.Equal(t, map[string]int64{"": 340}, m.values(t, middleware.MetricCalls))
	})
}

// TestMeasurementsLeadToTheTrace: the SDK keeps the span in the context as an example of a number.
func TestMeasurementsLeadToTheTrace(t *testing.T) {
	m := newMeter()
	tracing, recorder := newTracing()
	handle := middleware.Chain(tracing.Interceptor(), newGuard(t, m.option()).Interceptor())(returns("the same"))
	for range 11 {
		_, _ = handle(inRun(), same)
	}
	sum := m.collect(t)[middleware.MetricDetections].Data.(metricdata.Sum[int64])
	require.Len(t, sum.DataPoints, 1)
	require.Len(t, sum.DataPoints[0].Exemplars, 1)
	id := newest(recorder).SpanContext().SpanID()
	assert.Equal(t, id[:], sum.DataPoints[0].Exemplars[0].SpanID)
}

// TestProviderThatMeasuresNothingDoesNoHarm.
func TestProviderThatMeasuresNothingDoesNoHarm(t *testing.T) {
	shut := newMeter()
	require.NoError(t, shut.Shutdown(context.Background()))
	for _, option := range []middleware.Option{middleware.WithMeterProvider(noop.NewMeterProvider()), shut.option()} {
		require.ErrorIs(t, runInto(t, newGuard(t, option), inRun()), middleware.ErrLoop)
	}
}
