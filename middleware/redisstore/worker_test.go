package redisstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// A worker is a process of its own with a guard on the Redis of the test. It is this test binary once more, is asked in
// lines of JSON and answers in such.

const workerVariable = "LOOPGUARD_TEST_WORKER"

// workerConfig is what a worker is started with.
type workerConfig struct {
	Addr        string
	HistorySize int
	Timeout     time.Duration
}

// task is what a worker is asked for: calls of a run, by several goroutines at a time.
type task struct {
	Run        string
	Tool       string
	Args       string // with "%d", the calls are numbered by it from First on, and all different
	First      int
	Calls      int // of each goroutine
	Goroutines int
}

// report is what came of a task.
type report struct {
	Ran      int           // calls whose tool was run
	Refused  int           // calls that were blocked
	Stopped  int           // calls that were refused because the run is stopped
	Failures int           // of the store
	Slowest  time.Duration // of the calls, the tool takes none
	Errors   []string
}

// work is the main function of a worker.
func work(config string) (status int) {
	var c workerConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return complain(err)
	}
	client := redis.NewClient(&redis.Options{Addr: c.Addr, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	store, err := redisstore.New(client, redisstore.WithTimeout(c.Timeout))
	if err != nil {
		return complain(err)
	}
	counted := &countedStore{Store: store}
	rules := policy.Default()
	rules.HistorySize = c.HistorySize
	guard, err := middleware.New(rules, middleware.WithStore(counted))
	if err != nil {
		return complain(err)
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var t task
		if err := in.Decode(&t); err != nil {
			return 0 // the test is over
		}
		if err := out.Encode(t.do(guard, counted)); err != nil {
			return complain(err)
		}
	}
}

func complain(err error) (status int) {
	fmt.Fprintln(os.Stderr, "worker:", err)
	return 1
}

// countedStore counts the failures of a store.
type countedStore struct {
	middleware.Store
	mu     sync.Mutex
	failed []string
}

func (c *countedStore) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	var own error // of the step, that there is nothing to change
	err := c.Store.Update(ctx, run, func(s *policy.State) error {
		own = fn(s)
		return own
	})
	if err != nil && own == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed = append(c.failed, err.Error())
	}
	return err
}

// do makes the calls of a task.
func (t task) do(guard *middleware.Guard, store *countedStore) (r report) {
	var mu sync.Mutex
	var group sync.WaitGroup
	ctx := middleware.WithRun(context.Background(), t.Run)
	for g := range max(1, t.Goroutines) {
		group.Go(func() {
			for i := range max(1, t.Calls) {
				call := middleware.Call{Tool: t.Tool, Args: t.Args}
				if t.First > 0 {
					call.Args = fmt.Sprintf(t.Args, t.First+g*t.Calls+i)
				}
				ran := false
				started := time.Now()
				result, err := guard.Do(ctx, call, func(context.Context, middleware.Call) (middleware.Result, error) {
					ran = true
					return middleware.Text("the same"), nil
				})
				took := time.Since(started)
				mu.Lock()
				r.Slowest = max(r.Slowest, took)
				switch {
				case ran:
					r.Ran++
				case result.Refusal != nil:
					r.Refused++
				case errors.Is(err, middleware.ErrLoop):
					r.Stopped++
				default:
					r.Errors = append(r.Errors, fmt.Sprint(err))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	store.mu.Lock()
	defer store.mu.Unlock()
	r.Failures = len(store.failed)
	r.Errors = append(r.Errors, store.failed...)
	store.failed = nil
	return r
}

// worker is a worker as the test sees it.
type worker struct {
	in  *json.Encoder
	out *json.Decoder
}

// startWorker starts a worker, which ends with the test.
func startWorker(t testing.TB, c workerConfig) *worker {
	t.Helper()
	if c.HistorySize == 0 {
		c.HistorySize = policy.DefaultHistorySize
	}
	if c.Timeout == 0 {
		c.Timeout = patient
	}
	config, err := json.Marshal(c)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	process := exec.Command(self)
	process.Env = append(os.Environ(), workerVariable+"="+string(config), endAtOnce)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	require.NoError(t, err)
	stdout, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		_ = process.Wait()
	})
	return &worker{json.NewEncoder(stdin), json.NewDecoder(bufio.NewReader(stdout))}
}

// do has the worker do a task.
func (w *worker) do(t testing.TB, do task) report {
	t.Helper()
	w.begin(t, do)
	return w.finish(t)
}

func (w *worker) begin(t testing.TB, do task) {
	t.Helper()
	require.NoError(t, w.in.Encode(do))
}

func (w *worker) finish(t testing.TB) (r report) {
	t.Helper()
	require.NoError(t, w.out.Decode(&r))
	return r
}
