package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
)

// BenchmarkCalls makes calls by a number of workers, each with a client and a store of its own, as if it were a process. A
// call has two steps, Begin and End. The workers have a run each, or are at work on one.
func BenchmarkCalls(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		shared := middleware.NewMemoryStore()
		benchmarkWorkers(b, func() middleware.Store { return shared })
	})
	b.Run("redis", func(b *testing.B) {
		server := startServer(b)
		benchmarkWorkers(b, func() middleware.Store { return newStore(b, server.client()) })
	})
}

func benchmarkWorkers(b *testing.B, newStore func() middleware.Store) {
	for _, workers := range []int{1, 8, 32} {
		for _, runs := range []string{"a run each", "one run"} {
			if workers == 1 && runs == "one run" {
				continue
			}
			b.Run(fmt.Sprintf("%d workers/%s", workers, runs), func(b *testing.B) {
				guards, contexts := make([]*middleware.Guard, workers), make([]context.Context, workers)
				for i := range workers {
					run := fmt.Sprint(b.Name(), b.N)
					if runs == "a run each" {
						run = fmt.Sprint(run, i)
					}
					guards[i], contexts[i] = newGuard(b, newStore()), middleware.WithRun(context.Background(), run)
					call(b, guards[i], contexts[i], -1-i) // so that it is connected
				}
				b.ResetTimer()
				took := make([]time.Duration, 2*b.N)
				var next atomic.Int64
				var group sync.WaitGroup
				for i := range workers {
					group.Go(func() {
						for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
							took[2*n], took[2*n+1] = call(b, guards[i], contexts[i], n)
						}
					})
				}
				group.Wait()
				b.StopTimer()
				slices.Sort(took)
				microseconds := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				b.ReportMetric(microseconds(took[len(took)/2]), "p50-µs/step")
				b.ReportMetric(microseconds(took[len(took)*99/100]), "p99-µs/step")
				b.ReportMetric(microseconds(took[len(took)-1]), "max-µs/step")
			})
		}
	}
}

// call makes a call unlike those around it, and says how long its steps took.
func call(b *testing.B, guard *middleware.Guard, ctx context.Context, n int) (begin, end time.Duration) {
	started := time.Now()
	ticket, err := guard.Begin(ctx, middleware.Call{Tool: "read", Args: fmt.Sprintf(`{"path":"/srv/app/%d","limit":200}`, n)})
	begin = time.Since(started)
	require.NoError(b, err)
	started = time.Now()
	require.NoError(b, ticket.End(ctx, middleware.Text(fmt.Sprint("ten bytes ", n)), nil))
	return begin, time.Since(started)
}
