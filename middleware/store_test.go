package middleware_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// optimistic is a store that works as on a database without locks: a change is tried on a fresh copy and kept if nobody
// was faster, else it is thrown away and tried again. It throws a number of attempts away for no reason.
type optimistic struct {
	wasted int
	mu     sync.Mutex
	runs   map[string]revision
}

type revision struct {
	number int
	state  *policy.State
}

func newOptimistic(wasted int) *optimistic {
	return &optimistic{wasted: wasted, runs: map[string]revision{}}
}

func (o *optimistic) load(run string) (number int, fresh policy.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok := o.runs[run]
	if ok {
		fresh.CopyFrom(r.state)
	}
	return r.number, fresh
}

func (o *optimistic) save(run string, number int, state *policy.State) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.runs[run].number != number {
		return false
	}
	o.runs[run] = revision{number + 1, state}
	return true
}

func (o *optimistic) Update(_ context.Context, run string, fn func(*policy.State) error) error {
	for range o.wasted {
		_, state := o.load(run)
		if err := fn(&state); err != nil {
			return fmt.Errorf("optimistic: %w", err)
		}
	}
	for {
		number, state := o.load(run)
		if err := fn(&state); err != nil {
			return fmt.Errorf("optimistic: %w", err)
		}
		if o.save(run, number, &state) {
			return nil
		}
	}
}

func (o *optimistic) Forget(_ context.Context, run string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r, ok := o.runs[run]; ok {
		o.runs[run] = revision{r.number + 1, &policy.State{}} // a change that is being tried must not survive
	}
	return nil
}

// wayward is a store that has troubles when a test wants it to.
type wayward struct {
	*middleware.MemoryStore
	trouble atomic.Value
	asked   atomic.Int64
}

const (
	well      = "well"
	down      = "down"      // it does nothing
	forgetful = "forgetful" // it does what it is asked to, and then the write is lost
	deaf      = "deaf"      // it writes, and never learns that it did
)

var errDown = errors.New("connection refused")

func newWayward(trouble string) *wayward {
	w := &wayward{MemoryStore: middleware.NewMemoryStore()}
	w.trouble.Store(trouble)
	return w
}

func (w *wayward) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	w.asked.Add(1)
	switch w.trouble.Load() {
	case down:
		return errDown
	case forgetful:
		return w.MemoryStore.Update(ctx, run, func(s *policy.State) error {
			if err := fn(s); err != nil {
				return err
			}
			return errDown
		})
	case deaf:
		if err := w.MemoryStore.Update(ctx, run, fn); err != nil {
			return err
		}
		return errDown
	default:
		return w.MemoryStore.Update(ctx, run, fn)
	}
}

func (w *wayward) Forget(ctx context.Context, run string) error {
	if w.trouble.Load() != well {
		return errDown
	}
	return w.MemoryStore.Forget(ctx, run)
}

// becomes is a tool during which something happens to the store.
func (w *wayward) becomes(trouble string, tool middleware.Handler) middleware.Handler {
	return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
		w.trouble.Store(trouble)
		return tool(ctx, call)
	}
}

// TestStoreMayTryAStepSeveralTimes: only the attempt that is kept counts, for the verdict and for the history.
func TestStoreMayTryAStepSeveralTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w witness
		script := scripts(60).Draw(t, "script")
		want := play(newGuardOf(t, policy.Tight(), w.option()), &w, inRun(), (*middleware.Guard).Do, script)
		store := newOptimistic(rapid.IntRange(0, 3).Draw(t, "wasted"))
		guard := newGuardOf(t, policy.Tight(), w.option(), middleware.WithStore(store))
		require.Equal(t, want, play(guard, &w, inRun(), (*middleware.Guard).Do, script))
	})
}

func TestStoreThatTriesAgainLosesNoCall(t *testing.T) {
	const workers, each = 8, 40
	c := policy.Default()
	c.HistorySize = workers * each
	store := newOptimistic(0)
	guard := newGuardOf(t, c, middleware.WithStore(store))
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				if _, err := guard.Do(inRun(), numbered("read", worker*each+i), returns(fmt.Sprint(worker, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	records := history(t, store, "r")
	require.Len(t, records, workers*each)
	for _, r := range records {
		require.Equal(t, policy.Done, r.Status)
	}
}

func TestAbortThroughAStoreThatTriesAgain(t *testing.T) {
	store := newOptimistic(2)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	stop := runInto(t, guard, ctx)
	records := history(t, store, "r")
	assert.Equal(t, records[len(records)-5:], stop.Calls)
}

// TestGuardsShareAStore: a new configuration is a new guard on the same store.
func TestGuardsShareAStore(t *testing.T) {
	store := middleware.NewMemoryStore()
	repeat(t, newGuard(t, middleware.WithStore(store)), inRun(), 10)
	result, err := newGuardOf(t, policy.Tight(), middleware.WithStore(store)).Do(inRun(), same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Equal(t, 10, result.Refusal.Count)
}

// TestLoopIsSeenWhileTheStoreIsDown: the guard fails open, and a local history takes over.
func TestLoopIsSeenWhileTheStoreIsDown(t *testing.T) {
	for _, trouble := range []string{down, forgetful} {
		t.Run(trouble, func(t *testing.T) {
			var w witness
			store := newWayward(trouble)
			guard := newGuard(t, middleware.WithStore(store), w.option())
			script := make([]step, 35)
			for i := range script {
				script[i] = step{same, returns("the same")}
			}
			assert.Equal(t, []string{
				"11: warn generic_repeat 10/10",
				"21: block generic_repeat 20/20",
				"31: abort global_circuit_breaker 30/30",
			}, turns(play(guard, &w, inRun(), (*middleware.Guard).Do, script)))
			assert.Zero(t, store.Runs())
		})
	}
}

// TestLoopInAStoreThatCanOnlyBeReadEscalates: Redis that is out of memory or a replica still tells what was, so the local
// history goes on from there. Each answer has another count, and in the end the run is stopped.
func TestLoopInAStoreThatCanOnlyBeReadEscalates(t *testing.T) {
	var w witness
	store := newWayward(well)
	guard, ctx := newGuard(t, middleware.WithStore(store), w.option()), inRun()
	repeat(t, guard, ctx, 15)
	_ = w.take()
	store.trouble.Store(forgetful)
	script := make([]step, 20)
	for i := range script {
		script[i] = step{same, returns("the same")}
	}
	assert.Equal(t, []string{"6: block generic_repeat 20/20", "16: abort global_circuit_breaker 30/30"},
		turns(play(guard, &w, ctx, (*middleware.Guard).Do, script)))
}

// TestStoreThatIsBackTakesOver: what happened meanwhile is not brought after, unless it stopped the run, and the run goes
// on with the history that the store has.
func TestStoreThatIsBackTakesOver(t *testing.T) {
	store := newWayward(well)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 15)
	before := history(t, store.MemoryStore, "r")

	store.trouble.Store(down)
	repeat(t, guard, ctx, 20)
	result, err := guard.Do(ctx, same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal, "the local history knows it")
	assert.Equal(t, before, history(t, store.MemoryStore, "r"))

	store.trouble.Store(well)
	repeat(t, guard, ctx, 5)
	result, err = guard.Do(ctx, same, mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Equal(t, 20, result.Refusal.Count)

	store.trouble.Store(down)
	repeat(t, guard, ctx, 20) // the local history was given up and begins again
}

// TestOtherRunsKeepTheirHistoryInTheStore: the trouble of one run is not that of others.
func TestOtherRunsKeepTheirHistoryInTheStore(t *testing.T) {
	store := newWayward(well)
	guard, other := newGuard(t, middleware.WithStore(store)), middleware.WithRun(context.Background(), "other")
	repeat(t, guard, other, 19)
	store.trouble.Store(down)
	repeat(t, guard, inRun(), 5)
	store.trouble.Store(well)
	repeat(t, guard, other, 1)
	result, err := guard.Do(other, same, mustNotRun(t))
	require.NoError(t, err)
	assert.NotNil(t, result.Refusal)
}

func TestFailClosedRunsNoCallThatCouldNotBeJudged(t *testing.T) {
	for _, trouble := range []string{down, forgetful, deaf} {
		for through, enter := range entrances {
			t.Run(trouble+" through "+through, func(t *testing.T) {
				store := newWayward(trouble)
				guard := newGuard(t, middleware.WithStore(store), middleware.WithFailClosed())

				result, err := enter(guard, inRun(), same, mustNotRun(t))

				assert.Zero(t, result)
				assert.ErrorIs(t, err, middleware.ErrStore)
				assert.ErrorIs(t, err, errDown, "the cause is there")
				assert.NotErrorIs(t, err, middleware.ErrLoop)

				store.trouble.Store(well)
				_, err = enter(guard, inRun(), same, returns("the same"))
				assert.NoError(t, err)
			})
		}
	}
}

// TestFailClosedKeepsTheResultOfACallThatRan: it happened, whatever the store thinks of it.
func TestFailClosedKeepsTheResultOfACallThatRan(t *testing.T) {
	store := newWayward(well)
	guard := newGuard(t, middleware.WithStore(store), middleware.WithFailClosed())
	result, err := guard.Do(inRun(), same, store.becomes(down, returns("done")))
	require.NoError(t, err)
	assert.Equal(t, middleware.Text("done"), result)
}

// TestDecidedBlockStands: a write that fails must not turn a refusal into an execution.
func TestDecidedBlockStands(t *testing.T) {
	for _, trouble := range []string{forgetful, deaf} {
		for name, options := range map[string][]middleware.Option{
			"open": nil, "closed": {middleware.WithFailClosed()},
		} {
			t.Run(trouble+", fail "+name, func(t *testing.T) {
				store := newWayward(well)
				guard := newGuard(t, append(options, middleware.WithStore(store))...)
				repeat(t, guard, inRun(), 20)
				store.trouble.Store(trouble)

				for through, enter := range entrances {
					result, err := enter(guard, inRun(), same, mustNotRun(t))
					require.NoError(t, err, through)
					assert.True(t, result.IsError, through)
				}

				store.trouble.Store(well)
				result, err := guard.Do(inRun(), numbered("read", 1), returns("another call"))
				require.NoError(t, err)
				assert.Equal(t, middleware.Text("another call"), result, "a block stops no run")
			})
		}
	}
}

// TestDecidedAbortStands, and the run stays stopped although the store did not keep it.
func TestDecidedAbortStands(t *testing.T) {
	for name, options := range map[string][]middleware.Option{
		"open": nil, "closed": {middleware.WithFailClosed()},
	} {
		t.Run("fail "+name, func(t *testing.T) {
			c := policy.Default()
			c.HistorySize = 100
			store := newWayward(well)
			guard, ctx := newGuardOf(t, c, append(options, middleware.WithStore(store))...), inRun()
			repeat(t, guard, ctx, 20)
			for range 10 {
				_, err := guard.Do(ctx, same, mustNotRun(t))
				require.NoError(t, err)
			}
			store.trouble.Store(forgetful)
			stop := runInto(t, guard, ctx)
			assert.Len(t, stop.Calls, 5)

			for _, trouble := range []string{forgetful, down, deaf, well} {
				store.trouble.Store(trouble)
				for _, call := range []middleware.Call{same, numbered("other", 1)} {
					_, err := guard.Do(ctx, call, mustNotRun(t))
					later, ok := errors.AsType[*middleware.LoopError](err)
					require.True(t, ok, "%s: %v", trouble, err)
					assert.Equal(t, stop.Verdict, later.Verdict, trouble)
					if trouble == forgetful || trouble == down {
						assert.Equal(t, stop.Calls, later.Calls, trouble)
					}
				}
			}

			require.NoError(t, guard.Forget(ctx))
			repeat(t, guard, ctx, 20)
		})
	}
}

// TestRunThatWasStoppedWhileTheStoreWasDownStaysStopped when the store is back, which is told of it then.
func TestRunThatWasStoppedWhileTheStoreWasDownStaysStopped(t *testing.T) {
	store := newWayward(down)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	stop := runInto(t, guard, ctx)
	store.trouble.Store(well)

	for range 3 {
		_, err := guard.Do(ctx, numbered("other", 1), mustNotRun(t))
		later, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, stop.Verdict, later.Verdict)
		assert.Equal(t, stop.Calls, later.Calls)
	}

	_, err := guard.Do(middleware.WithRun(ctx, "another"), same, returns("the same"))
	require.NoError(t, err, "other runs are not stopped")
	require.NoError(t, guard.Forget(ctx))
	repeat(t, guard, ctx, 20)
}

// TestStopOfAnOutageReachesOtherWorkers once the store could be told, and so does the end of it.
func TestStopOfAnOutageReachesOtherWorkers(t *testing.T) {
	for name, before := range map[string]int{"new run": 0, "run that the store knows": 5} {
		t.Run(name, func(t *testing.T) {
			store := newWayward(well)
			a, b := newGuard(t, middleware.WithStore(store)), newGuard(t, middleware.WithStore(store))
			repeat(t, b, inRun(), before)
			store.trouble.Store(down)
			stop := runInto(t, a, inRun())
			store.trouble.Store(well)
			for _, guard := range []*middleware.Guard{a, b} {
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				later, ok := errors.AsType[*middleware.LoopError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, stop.Verdict, later.Verdict)
			}

			require.NoError(t, b.Forget(inRun()))
			repeat(t, a, inRun(), 20)
		})
	}
}

// TestStopOfAnOutageIsNotLostToASlowerCall that began in the store before and succeeds there after the stop.
func TestStopOfAnOutageIsNotLostToASlowerCall(t *testing.T) {
	store := &hanging{newWayward(down), make(chan struct{}), make(chan struct{})}
	guard := newGuard(t, middleware.WithStore(store))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := guard.Begin(context.WithValue(inRun(), hangs{}, true), numbered("slow", 1))
		assert.NoError(t, err)
	}()
	<-store.entered
	runInto(t, guard, inRun())
	close(store.leave)
	<-done

	store.trouble.Store(well)
	_, err := guard.Do(inRun(), same, mustNotRun(t))
	assert.ErrorIs(t, err, middleware.ErrLoop)
}

// hanging is a store in which one call takes long, the one whose context says so.
type hanging struct {
	*wayward
	entered, leave chan struct{}
}

type hangs struct{}

func (h *hanging) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if ctx.Value(hangs{}) == nil {
		return h.wayward.Update(ctx, run, fn)
	}
	close(h.entered)
	<-h.leave
	return h.MemoryStore.Update(ctx, run, fn)
}

// TestStoppedRunWhoseStoreFailsAfterwards: only the store knows of the stop, so that it depends on how the guard fails.
func TestStoppedRunWhoseStoreFailsAfterwards(t *testing.T) {
	for name, options := range map[string][]middleware.Option{
		"open": nil, "closed": {middleware.WithFailClosed()},
	} {
		t.Run("fail "+name, func(t *testing.T) {
			store := newWayward(well)
			guard := newGuard(t, append(options, middleware.WithStore(store))...)
			runInto(t, guard, inRun())
			store.trouble.Store(down)
			if options == nil {
				repeat(t, guard, inRun(), 1)
			} else {
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				require.ErrorIs(t, err, middleware.ErrStore)
			}
			store.trouble.Store(well)
			_, err := guard.Do(inRun(), same, mustNotRun(t))
			assert.ErrorIs(t, err, middleware.ErrLoop)
		})
	}
}

// TestStopOfAnAttemptThatWasThrownAway is none: here the run was forgotten while its last outcome was being kept.
func TestStopOfAnAttemptThatWasThrownAway(t *testing.T) {
	var w witness
	store := &contended{optimistic: newOptimistic(0)}
	guard, ctx := newGuard(t, middleware.WithStore(store), w.option()), inRun()
	require.NoError(t, guard.Compacted(ctx))
	repeat(t, guard, ctx, 2)
	ticket := begin(t, guard, ctx, same)
	store.forgets = true

	assert.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))

	assert.Empty(t, w.take())
	store.forgets = false
	repeat(t, guard, ctx, 20)
}

// contended is a store in which the first attempt of a change loses against another worker, which forgets the run.
type contended struct {
	*optimistic
	forgets bool
}

func (c *contended) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if c.forgets {
		_, state := c.load(run)
		_ = fn(&state)
		_ = c.Forget(ctx, run)
	}
	return c.optimistic.Update(ctx, run, fn)
}

func TestStopAfterCompactionStandsWhereTheWriteIsLost(t *testing.T) {
	store := newWayward(well)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	require.NoError(t, guard.Compacted(ctx))
	repeat(t, guard, ctx, 2)

	_, err := guard.Do(ctx, same, store.becomes(forgetful, returns("the same")))

	stop, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, policy.CompactionLoopPersisted, stop.Detector)
	store.trouble.Store(well)
	_, err = guard.Do(ctx, same, mustNotRun(t))
	assert.ErrorIs(t, err, middleware.ErrLoop)
}

// TestTicketEndsWhereItBegan, so that no store gets an outcome of a call that it never saw.
func TestTicketEndsWhereItBegan(t *testing.T) {
	t.Run("in the store", func(t *testing.T) {
		store := newWayward(well)
		guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
		ticket := begin(t, guard, ctx, same)
		store.trouble.Store(down)
		repeat(t, guard, ctx, 1) // the local history took over
		store.trouble.Store(well)
		require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
		records := history(t, store.MemoryStore, "r")
		require.Len(t, records, 1)
		assert.Equal(t, policy.Done, records[0].Status)
	})
	t.Run("in the local history", func(t *testing.T) {
		store := newWayward(down)
		guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
		ticket, cancelled := begin(t, guard, ctx, same), begin(t, guard, ctx, same)
		store.trouble.Store(well)
		asked := store.asked.Load()
		require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
		cancelled.Cancel(ctx)
		assert.Equal(t, asked, store.asked.Load())
		assert.Zero(t, store.Runs())

		store.trouble.Store(down)
		repeat(t, guard, ctx, 19) // with the one above that makes 20
		result, err := guard.Do(ctx, same, mustNotRun(t))
		require.NoError(t, err)
		assert.NotNil(t, result.Refusal)
	})
}

// TestOutcomesThatAreLost: a store that fails whenever a call ends proves no streak, but the calls are there and are
// warned of.
func TestOutcomesThatAreLost(t *testing.T) {
	var w witness
	store := newWayward(well)
	guard, ctx := newGuard(t, middleware.WithStore(store), w.option()), inRun()
	var said []string
	for range 22 {
		store.trouble.Store(well)
		said = append(said, play(guard, &w, ctx, (*middleware.Guard).Do, []step{
			{same, store.becomes(down, returns("the same"))},
		})...)
	}
	assert.Equal(t, []string{"11: warn generic_repeat 10/10", "21: warn generic_repeat 20/10"}, turns(said))
	for _, r := range history(t, store.MemoryStore, "r") {
		assert.Equal(t, policy.Open, r.Status)
	}
}

// TestCompactionWhileTheStoreIsDown is an error that says so, and arms the local history.
func TestCompactionWhileTheStoreIsDown(t *testing.T) {
	store := newWayward(down)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	err := guard.Compacted(ctx)
	assert.ErrorIs(t, err, middleware.ErrStore)
	assert.ErrorIs(t, err, errDown)

	stop := runInto(t, guard, ctx)
	assert.Equal(t, policy.CompactionLoopPersisted, stop.Detector)
}

func TestForgetWhileTheStoreIsDown(t *testing.T) {
	store := newWayward(down)
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	runInto(t, guard, ctx)
	err := guard.Forget(ctx)
	assert.ErrorIs(t, err, middleware.ErrStore)
	assert.ErrorIs(t, err, errDown)
	repeat(t, guard, ctx, 20) // what is here is forgotten all the same
}

// TestStoreFailuresAreReported on the span of the call and in the log, with what was wanted of the store.
func TestStoreFailuresAreReported(t *testing.T) {
	store := newWayward(well)
	fail := func(operation func(*middleware.Guard, context.Context)) func(*middleware.Guard, context.Context) {
		return func(g *middleware.Guard, ctx context.Context) {
			store.trouble.Store(down)
			operation(g, ctx)
			store.trouble.Store(well)
		}
	}
	for operation, provoke := range map[string]func(*middleware.Guard, context.Context){
		"begin": fail(func(g *middleware.Guard, ctx context.Context) { begin(t, g, ctx, same) }),
		"end": func(g *middleware.Guard, ctx context.Context) {
			ticket := begin(t, g, ctx, same)
			fail(func(*middleware.Guard, context.Context) {
				require.NoError(t, ticket.End(ctx, middleware.Text(""), nil))
			})(g, ctx)
		},
		"cancel": func(g *middleware.Guard, ctx context.Context) {
			ticket := begin(t, g, ctx, same)
			fail(func(*middleware.Guard, context.Context) { ticket.Cancel(ctx) })(g, ctx)
		},
		"compacted": fail(func(g *middleware.Guard, ctx context.Context) { require.Error(t, g.Compacted(ctx)) }),
		"forget":    fail(func(g *middleware.Guard, ctx context.Context) { require.Error(t, g.Forget(ctx)) }),
	} {
		t.Run(operation, func(t *testing.T) {
			var log bytes.Buffer
			guard := newGuard(t, middleware.WithStore(store), middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			recorder := tracetest.NewSpanRecorder()
			ctx, span := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("").Start(inRun(), "call")

			provoke(guard, ctx)

			span.End()
			events := recorder.Ended()[0].Events()
			require.Len(t, events, 1)
			assert.Equal(t, "loopguard.store_failure", events[0].Name)
			assert.ElementsMatch(t, []attribute.KeyValue{
				attribute.String("loopguard.store.operation", operation),
				attribute.String("loopguard.run.id", "r"),
				attribute.String("exception.message", "connection refused"),
			}, events[0].Attributes)
			assert.Empty(t, recorder.Ended()[0].Attributes(), "the span had no detection")
			assert.Contains(t, log.String(), `level=WARN msg="loopguard: store failed" loopguard.store.operation=`+operation+` loopguard.run.id=r `)
			assert.Contains(t, log.String(), errDown.Error())
		})
	}
}

// amnesiac is a store that finds that it cannot read what it has.
type amnesiac struct {
	*middleware.MemoryStore
	loses bool
}

var errGarbled = errors.New("garbled")

func (a *amnesiac) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if !a.loses {
		return a.MemoryStore.Update(ctx, run, fn)
	}
	a.loses = false
	err := a.MemoryStore.Update(ctx, run, func(s *policy.State) error {
		*s = policy.State{}
		return fn(s)
	})
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", middleware.ErrStateLost, errGarbled)
}

// TestLostStateIsReportedAndTheRunGoesOn in the store, however the guard fails: the step was kept.
func TestLostStateIsReportedAndTheRunGoesOn(t *testing.T) {
	for name, options := range map[string][]middleware.Option{
		"open": nil, "closed": {middleware.WithFailClosed()},
	} {
		t.Run("fail "+name, func(t *testing.T) {
			var log bytes.Buffer
			store, meter := &amnesiac{MemoryStore: middleware.NewMemoryStore()}, newMeter()
			guard := newGuard(t, append(options, middleware.WithStore(store), meter.option(),
				middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
			repeat(t, guard, inRun(), 9)
			require.Empty(t, log.String())

			store.loses = true
			repeat(t, guard, inRun(), 1)
			said := log.String()
			assert.Equal(t, 1, strings.Count(said, "\n"), said)
			assert.Contains(t, said, `msg="loopguard: store failed" loopguard.store.operation=begin loopguard.run.id=r `+
				`exception.message="loopguard: the history of the run is lost: garbled"`)
			assert.Equal(t, map[string]int64{"store.operation=begin": 1}, meter.values(t, middleware.MetricStoreFailures))
			assert.Len(t, history(t, store, "r"), 1, "it is kept where it was")

			store.loses = true
			require.NoError(t, guard.Compacted(inRun()), "it is armed")
			assert.Contains(t, log.String(), "loopguard.store.operation=compacted")
			assert.Empty(t, history(t, store, "r"))
			assert.Equal(t, policy.CompactionLoopPersisted, runInto(t, guard, inRun()).Detector)
		})
	}
}

// TestOutageIsReportedOncePerRun: at every call it would fill the log of whoever has to mend the store.
func TestOutageIsReportedOncePerRun(t *testing.T) {
	var log bytes.Buffer
	store := newWayward(well)
	guard := newGuard(t, middleware.WithStore(store), middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	calls := func(n int) (reported []string) {
		log.Reset()
		for i := range n {
			for _, run := range []string{"a", "b"} {
				ctx := middleware.WithRun(context.Background(), run)
				_, err := guard.Do(ctx, numbered("read", i), returns("the same"))
				require.NoError(t, err)
			}
		}
		for line := range strings.Lines(log.String()) {
			_, words, _ := strings.Cut(strings.TrimSpace(line), "msg=")
			reported = append(reported, words)
		}
		return reported
	}
	outage := []string{
		`"loopguard: store failed" loopguard.store.operation=begin loopguard.run.id=a exception.message="connection refused"`,
		`"loopguard: store failed" loopguard.store.operation=begin loopguard.run.id=b exception.message="connection refused"`,
	}
	for range 2 {
		for _, trouble := range []string{down, forgetful, deaf} {
			store.trouble.Store(trouble)
			assert.Equal(t, outage, calls(5), trouble)
			assert.Empty(t, calls(5), trouble)
			store.trouble.Store(well)
			assert.Empty(t, calls(1), "it is over")
		}
	}
}

// TestHealthyStoreIsNoFailure: an outcome that nobody awaits any more is nothing to write home about.
func TestHealthyStoreIsNoFailure(t *testing.T) {
	var log bytes.Buffer
	guard := newGuard(t, middleware.WithStore(newOptimistic(1)),
		middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	ended, cancelled := begin(t, guard, inRun(), same), begin(t, guard, inRun(), same)
	require.NoError(t, guard.Forget(inRun()))
	require.NoError(t, ended.End(inRun(), middleware.Text("the same"), nil))
	cancelled.Cancel(inRun())
	assert.Empty(t, log.String())
}

// A guard that only observes may share a store with one that enforces. A run that was stopped there runs on for it, also
// while the store fails.
func TestObservingGuardIgnoresALocalStop(t *testing.T) {
	store := &readOnly{MemoryStore: middleware.NewMemoryStore()}
	enforcing := newGuard(t, middleware.WithStore(store))
	c := policy.Default()
	c.Mode = policy.Observe
	observing := newGuardOf(t, c, middleware.WithStore(store))
	ctx := inRun()
	repeat(t, enforcing, ctx, 20)
	var err error
	for range 11 {
		_, err = enforcing.Do(ctx, same, mustNotRun(t))
	}
	require.ErrorIs(t, err, middleware.ErrLoop)

	store.broken = true
	for range 5 {
		result, err := observing.Do(ctx, same, returns("the same"))
		require.NoError(t, err)
		require.Equal(t, "the same", result.Text)
	}
}

// readOnly is a store that can be read and, when it is broken, not written; when it is down, neither.
type readOnly struct {
	*middleware.MemoryStore
	broken, down bool
}

func (s *readOnly) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if s.down {
		return errReadOnly
	}
	return s.MemoryStore.Update(ctx, run, func(state *policy.State) error {
		if err := fn(state); err != nil || !s.broken {
			return err
		}
		return errReadOnly
	})
}

var errReadOnly = errors.New("read only")

// The store fails once, comes back, and then cannot be written any more: what is refused from the store goes on to count.
func TestReadOnlyStoreEscalatesAlsoAfterAnEarlierFailure(t *testing.T) {
	store := &readOnly{MemoryStore: middleware.NewMemoryStore()}
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 20)
	store.down = true
	_, err := guard.Do(ctx, same, returns("the same"))
	require.NoError(t, err, "a local history takes over, and it is new")
	store.down, store.broken = false, true
	for range 40 {
		if _, err = guard.Do(ctx, same, mustNotRun(t)); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, middleware.ErrLoop, "it ends in a stop")
}
