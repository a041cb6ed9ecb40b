package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// TestTwoProcessesShareARun: each makes every other call. The 21st is refused, and the 31st ends the run, whoever makes it.
func TestTwoProcessesShareARun(t *testing.T) {
	server := startServer(t)
	var workers [2]*worker
	for i := range workers {
		workers[i] = startWorker(t, workerConfig{Addr: server.addr()})
	}
	for first := range workers {
		call := task{Run: []string{"a", "b"}[first], Tool: same.Tool, Args: same.Args}
		for n := 1; n <= 34; n++ {
			want := report{Ran: 1}
			switch {
			case n >= 31:
				want = report{Stopped: 1}
			case n >= 21:
				want = report{Refused: 1}
			}
			got := workers[(first+n)%2].do(t, call)
			got.Slowest = 0
			require.Equal(t, want, got, "call %d", n)
		}
	}
}

// TestManyWorkersOfOneRun: 32 in eight processes make calls at the same time, and every one of them is in the history.
func TestManyWorkersOfOneRun(t *testing.T) {
	const processes, goroutines, each = 8, 4, 8
	const all = processes * goroutines * each
	server := startServer(t)
	var workers [processes]*worker
	for i := range workers {
		workers[i] = startWorker(t, workerConfig{Addr: server.addr(), HistorySize: all})
	}
	for i, w := range workers {
		w.begin(t, task{
			Run: "r", Tool: "read", Args: `{"n":%d}`, First: 1 + i*goroutines*each, Goroutines: goroutines, Calls: each,
		})
	}
	var slowest time.Duration
	for _, w := range workers {
		r := w.finish(t)
		assert.Equal(t, goroutines*each, r.Ran)
		assert.Empty(t, r.Errors)
		slowest = max(slowest, r.Slowest)
	}
	t.Logf("the slowest call took %s", slowest)
	records := history(t, newStore(t, server.client()), "r")
	require.Len(t, records, all)
	calls := map[canonical.Digest]bool{}
	for _, r := range records {
		calls[r.Signature] = true
		assert.Equal(t, policy.Done, r.Status)
	}
	assert.Len(t, calls, all, "no record is there twice in place of another")
}

// TestServerThatIsKilledUnderSeveralProcesses: each goes on by itself, and none of them hangs.
func TestServerThatIsKilledUnderSeveralProcesses(t *testing.T) {
	for name, trouble := range map[string]func(*server){"killed": (*server).kill, "paused": (*server).pause} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			var workers [3]*worker
			for i := range workers {
				workers[i] = startWorker(t, workerConfig{Addr: server.addr(), Timeout: short})
				require.Equal(t, 1, workers[i].do(t, task{Run: "r", Tool: "read", Args: "{}"}).Ran)
			}
			for i, w := range workers {
				w.begin(t, task{Run: "r", Tool: "read", Args: `{"n":%d}`, First: 1 + 1000*i, Goroutines: 2, Calls: 100})
			}
			time.Sleep(20 * time.Millisecond)
			trouble(server)
			time.Sleep(5 * short)
			if name == "paused" {
				server.resume()
			} else {
				server.start()
			}
			for _, w := range workers {
				r := w.finish(t)
				assert.Equal(t, 200, r.Ran, "no call is lost")
				assert.Positive(t, r.Failures, "there was an outage")
				t.Logf("%d steps failed, the slowest call took %s", r.Failures, r.Slowest)
				assert.Less(t, r.Slowest, 2*short+slack, "a call has two steps")
			}
			require.Equal(t, 1, workers[0].do(t, task{Run: "r", Tool: "read", Args: "{}"}).Ran)
		})
	}
}
