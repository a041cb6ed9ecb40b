package integration_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

var (
	soakTime = flag.Duration("soak", 3*time.Second, "how long TestSoak goes on")
	soakSeed = flag.Uint64("seed", 0, "where TestSoak starts; 0 for somewhere")
)

// soakedRuns is how many runs the store of the soak keeps: fewer than there are, so that some have to go.
const soakedRuns = 200

// TestSoak has a guard judge thousands of runs on all cores: healthy agents and looping ones, alone or several in a run, that
// end their runs, abandon them at any point, start them afresh, or are compacted, in a store that is too small. What the
// guard said of each call must be what it says if it is given the same calls one after the other, in the order in which
// the store took them.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("the same agents again, though not in the same order: -soak %v -seed %d", *soakTime, seed)
	goroutines, before := runtime.NumGoroutine(), memoryInUse()

	store := &soakStore{MemoryStore: middleware.NewMemoryStore(middleware.WithMaxRuns(soakedRuns))}
	guard, err := middleware.New(policy.Tight(), middleware.WithStore(store))
	require.NoError(t, err)
	again, err := middleware.New(policy.Tight())
	require.NoError(t, err)
	var runs, restarts int
	verdicts := map[policy.Action]int{}
	start := time.Now()
	for round := uint64(0); time.Since(start) < *soakTime; round++ {
		store.steps = map[string][]soakStep{}
		soak(guard, rand.New(rand.NewPCG(seed, round)))
		for run, steps := range store.steps {
			runs++
			restarts += replaySoaked(t, again, run, steps, verdicts)
		}
	}
	store.steps = nil
	t.Logf("%d runs, %d fresh starts of one, %d given up for room; %v", runs, restarts, store.Evicted(), verdicts)
	for _, action := range []policy.Action{policy.Allow, policy.Warn, policy.Block, policy.Abort} {
		require.NotZero(t, verdicts[action], "no call had the verdict %v", action)
	}
	require.NotZero(t, restarts)
	require.NotZero(t, store.Evicted(), "no run was given up")

	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(end), "goroutines are left")
	}
	require.LessOrEqual(t, store.Runs(), soakedRuns)
	left := memoryInUse() - before
	t.Logf("%d runs are left, in %d KiB", store.Runs(), left>>10)
	require.LessOrEqual(t, left, int64(soakedRuns*4<<10+1<<20))
	require.NoError(t, guard.Forget(middleware.WithRun(t.Context(), "r"))) // so that it is alive until here
}

// replaySoaked gives the calls of a run to another guard, compares what it says, and returns how often the run started
// afresh.
func replaySoaked(
	t *testing.T, guard *middleware.Guard, run string, steps []soakStep, verdicts map[policy.Action]int,
) (restarts int) {
	ctx := middleware.WithRun(t.Context(), run)
	defer func() { _ = guard.Forget(ctx) }()
	tickets := map[*soakCall]*middleware.Ticket{}
	for i, step := range steps {
		if step.afresh {
			restarts++
			require.NoError(t, guard.Forget(ctx))
		}
		switch c := step.call; step.kind {
		case compacted:
			require.NoError(t, guard.Compacted(ctx))
		case begun:
			ticket, err := guard.Begin(ctx, c.Call)
			said := verdictOf(ticket, err)
			require.Equal(t, said, c.said, "run %s, step %d, call %s %s", run, i, c.Tool, c.Args)
			verdicts[said.Action]++
			tickets[c] = ticket
		case ended:
			stop := verdictOf(tickets[c], tickets[c].End(ctx, c.result, c.err))
			require.Equal(t, stop, c.closing, "run %s, step %d, outcome of %s %s", run, i, c.Tool, c.Args)
			if stop.Action == policy.Abort {
				verdicts[policy.Abort]++
			}
		case cancelled:
			tickets[c].Cancel(ctx)
		}
	}
	return restarts
}

// verdictOf returns what was said when a call began, or ended with an error.
func verdictOf(ticket *middleware.Ticket, err error) policy.Verdict {
	if loop, ok := errors.AsType[*middleware.LoopError](err); ok {
		return loop.Verdict
	}
	return ticket.Verdict()
}

// soakStep is a change of the history of a run.
type soakStep struct {
	kind   soakKind
	call   *soakCall
	afresh bool // there was no history, though there had been: it was forgotten, or given up for room
}

type soakKind int

const (
	begun soakKind = iota
	ended
	cancelled
	compacted
)

type soakCall struct {
	middleware.Call
	result middleware.Result
	err    error

	said    policy.Verdict // when it began
	closing policy.Verdict // when it ended
}

type soakStepKey struct{}

// soakStore remembers the steps in the order in which they were taken. The context says which they are.
type soakStore struct {
	*middleware.MemoryStore

	mu    sync.Mutex
	steps map[string][]soakStep // by run
}

func (s *soakStore) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	step, _ := ctx.Value(soakStepKey{}).(soakStep)
	return s.MemoryStore.Update(ctx, run, func(state *policy.State) error {
		isNew := state.IsZero()
		if err := fn(state); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		step.afresh = isNew && len(s.steps[run]) > 0
		s.steps[run] = append(s.steps[run], step)
		return nil
	})
}

// soak runs agents on all cores until there were more runs than the store keeps.
func soak(guard *middleware.Guard, random *rand.Rand) {
	workers := 4 * runtime.GOMAXPROCS(0)
	var working sync.WaitGroup
	for range workers {
		random := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
		working.Go(func() {
			for range max(1, 4*soakedRuns/workers) {
				ctx := middleware.NewRun(context.Background())
				var together sync.WaitGroup
				for range 1 + random.IntN(3) {
					a := newSoakAgent(guard, random)
					together.Go(func() { a.run(ctx) })
				}
				together.Wait()
				if random.IntN(2) == 0 {
					_ = guard.Forget(ctx)
				}
			}
		})
	}
	working.Wait()
}

// soakAgent makes calls until it has enough, or is stopped.
type soakAgent struct {
	guard  *middleware.Guard
	random *rand.Rand
	next   func(i int) soakCall
}

func newSoakAgent(guard *middleware.Guard, random *rand.Rand) *soakAgent {
	a := &soakAgent{guard: guard, random: rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))}
	a.next = soakBehaviours[random.IntN(len(soakBehaviours))]
	return a
}

func (a *soakAgent) run(ctx context.Context) {
	for i := range a.random.IntN(60) {
		if a.random.IntN(4) == 0 {
			runtime.Gosched()
		}
		switch a.random.IntN(100) {
		case 0:
			_ = a.guard.Forget(ctx)
		case 1:
			_ = a.guard.Compacted(context.WithValue(ctx, soakStepKey{}, soakStep{kind: compacted}))
		}
		call := a.next(i)
		if !a.make(ctx, &call) && a.random.IntN(3) > 0 { // some go on with a run that was stopped
			return
		}
	}
}

// make makes a call. It reports whether the run goes on.
func (a *soakAgent) make(ctx context.Context, c *soakCall) bool {
	in := func(kind soakKind) context.Context {
		return context.WithValue(ctx, soakStepKey{}, soakStep{kind: kind, call: c})
	}
	ticket, err := a.guard.Begin(in(begun), c.Call)
	c.said = verdictOf(ticket, err)
	if err != nil {
		return false
	}
	if _, refused := ticket.Refusal(); refused {
		return true
	}
	if a.random.IntN(4) == 0 {
		runtime.Gosched()
	}
	switch a.random.IntN(30) {
	case 0: // abandoned
	case 1:
		ticket.Cancel(in(cancelled))
	default:
		err := ticket.End(in(ended), c.result, c.err)
		c.closing = verdictOf(ticket, err)
		return err == nil
	}
	return true
}

// soakBehaviours are what agents do, call by call.
var soakBehaviours = []func(i int) soakCall{
	func(i int) soakCall { return soaked("read_file", i, "content of file %d", i) },
	func(i int) soakCall { return soaked("job_status", 0, "%d percent", i) },
	func(int) soakCall { return soaked("read_file", 0, "the same") },
	func(i int) soakCall { return soaked("read_file", i%2, "page %d", i%2) },
	func(i int) soakCall { return soaked("search", i%3, "hit %d", i%3) },
	func(i int) soakCall {
		c := soaked("exec", 0, "")
		c.result.Details = map[string]any{"status": "failed", "exitCode": 1, "pid": i, "output": fmt.Sprintf("took %d ms", i)}
		return c
	},
	func(i int) soakCall {
		c := soaked("fetch", i, "")
		c.err = fmt.Errorf("connection refused, attempt %d", i)
		return c
	},
	func(i int) soakCall {
		c := soaked("frobnicate", i%4, "")
		c.Unknown, c.err = true, middleware.ErrUnknownTool
		return c
	},
}

func soaked(tool string, argument int, said string, args ...any) soakCall {
	return soakCall{
		Call:   middleware.Call{Tool: tool, Args: fmt.Sprintf(`{"n":%d}`, argument)},
		result: middleware.Result{Result: canonical.Result{Text: fmt.Sprintf(said, args...)}},
	}
}

// memoryInUse returns the bytes on the heap that are in use.
func memoryInUse() int64 {
	var stats runtime.MemStats
	for range 3 { // what is in pools goes with the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
