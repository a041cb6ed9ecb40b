package middleware_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// What the cost of a call does as there are more of all things: goroutines, runs, remembered calls. The call is an ordinary one,
// arguments of about 120 bytes and an output of 1 KiB.

// ordinary makes an ordinary call, and says what comes of it.
type ordinary struct {
	calls   []middleware.Call
	results []middleware.Result
}

// newOrdinary makes n different ones.
func newOrdinary(n int) ordinary {
	outputs := []string{commandOutput("build", 1<<10), commandOutput("check", 1<<10)}
	var o ordinary
	for i := range n {
		o.calls = append(o.calls, middleware.Call{Tool: "exec", Args: commandArgs(i)})
		o.results = append(o.results, execResult(0, i, outputs[i%2]))
	}
	return o
}

// make makes the ith call in a circle.
func (o ordinary) make(t testingT, g *middleware.Guard, ctx context.Context, i int) {
	i %= len(o.calls)
	ticket, err := g.Begin(ctx, o.calls[i])
	if err == nil {
		err = ticket.End(ctx, o.results[i], nil)
	}
	if err != nil {
		t.Errorf("%v", err)
	}
}

// BenchmarkGoroutines makes calls from several goroutines at once, each its own. The time is that which passes for each call,
// so that it is halved where two goroutines get twice as much done as one: as much as the machine gives, which is what a
// goroutine that only hashes the same output shows.
func BenchmarkGoroutines(b *testing.B) {
	const circle = 64
	output := []byte(commandOutput("build", 1<<10))
	for _, n := range []int{1, 2, 16} {
		b.Run(fmt.Sprintf("sha256/%d", n), func(b *testing.B) {
			together(n, b.N, func(int, int) { sha256.Sum256(output) })
		})
	}
	for _, where := range []string{"different runs", "one run"} {
		for _, n := range []int{1, 2, 16} {
			b.Run(fmt.Sprintf("%s/%d", where, n), func(b *testing.B) {
				var w witness
				guard := newGuard(b, w.option())
				contexts := make([]context.Context, n)
				for i := range contexts {
					contexts[i] = inRun()
					if where == "different runs" {
						contexts[i] = middleware.NewRun(context.Background())
					}
				}
				o := newOrdinary(n * circle)
				call := func(g, i int) { o.make(b, guard, contexts[g], g*circle+i%circle) }
				together(n, n*circle, call)
				b.ReportAllocs()
				b.ResetTimer()
				together(n, b.N, call)
				b.StopTimer()
				if said := w.take(); len(said) > 0 {
					b.Fatalf("the calls were meant to be allowed: %v", said[0])
				}
			})
		}
	}
}

// together has n goroutines do something, each its share of so many times.
func together(n, times int, do func(g, i int)) {
	var running sync.WaitGroup
	for g := range n {
		running.Go(func() {
			for i := range (times + n - 1 - g) / n {
				do(g, i)
			}
		})
	}
	running.Wait()
}

// BenchmarkLiveRuns makes calls in turn in as many runs as are alive, each with a full history.
func BenchmarkLiveRuns(b *testing.B) {
	o := newOrdinary(64)
	for _, n := range []int{1, 1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var w witness
			guard := newGuard(b, w.option(), middleware.WithStore(middleware.NewMemoryStore(middleware.WithMaxRuns(2*n))))
			contexts := make([]context.Context, n)
			for i := range contexts {
				contexts[i] = middleware.NewRun(context.Background())
			}
			before := heap()
			for i := range 32 {
				for _, ctx := range contexts {
					o.make(b, guard, ctx, i)
				}
			}
			after := heap()
			call := 32 * n
			b.ReportAllocs()
			for b.Loop() {
				o.make(b, guard, contexts[call%n], call/n)
				call++
			}
			if n > 1 {
				b.ReportMetric(float64(after-before)/float64(n), "B/run")
			}
			if said := w.take(); len(said) > 0 {
				b.Fatalf("the calls were meant to be allowed: %v", said[0])
			}
			runtime.KeepAlive(guard)
		})
	}
}

// BenchmarkHistorySize makes calls in runs that remember many of them.
func BenchmarkHistorySize(b *testing.B) {
	for _, size := range []int{30, 300, 3_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			o := newOrdinary(2 * size)
			c := policy.Default()
			c.HistorySize = size
			var w witness
			guard, ctx, i := newGuardOf(b, c, w.option()), inRun(), 0
			benchmarkAllowed(b, &w, 2*size, func() {
				o.make(b, guard, ctx, i)
				i++
			})
		})
	}
}

// TestMemoryOfALiveRun: a run with a full history takes 4 KiB at the most.
func TestMemoryOfALiveRun(t *testing.T) {
	const runs = 4_000
	o, guard := newOrdinary(64), newGuard(t)
	before := heap()
	for range runs {
		ctx := middleware.NewRun(context.Background())
		for i := range len(o.calls) {
			o.make(t, guard, ctx, i)
		}
	}
	perRun := (heap() - before) / runs
	t.Logf("%d bytes", perRun)
	assert.LessOrEqual(t, perRun, int64(4<<10))
	require.NoError(t, guard.Forget(inRun())) // so that the guard is alive until here
}

// heap returns the bytes that are in use.
func heap() int64 {
	var stats runtime.MemStats
	for range 3 { // what is in pools goes with the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
