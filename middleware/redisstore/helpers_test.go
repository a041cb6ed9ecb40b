package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// patient is the timeout of stores where it is about what is kept, and not about how long that takes on a busy machine.
const patient = time.Minute

// newStore makes a store that is patient, unless the options say otherwise.
func newStore(t testing.TB, client redis.UniversalClient, options ...redisstore.Option) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(client, append([]redisstore.Option{redisstore.WithTimeout(patient)}, options...)...)
	require.NoError(t, err)
	return store
}

func newGuard(t testing.TB, store middleware.Store, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(policy.Default(), append(options, middleware.WithStore(store))...)
	require.NoError(t, err)
	return guard
}

// inRun is the context of the run "r".
func inRun() context.Context { return middleware.WithRun(context.Background(), "r") }

// same is the call that the tests repeat.
var same = middleware.Call{Tool: "read", Args: `{"path":"/etc/hosts"}`}

// returns is a tool that always returns the same text.
func returns(said string) middleware.Handler {
	return func(context.Context, middleware.Call) (middleware.Result, error) { return middleware.Text(said), nil }
}

// mustNotRun is a tool that the guard should have kept from running.
func mustNotRun(t testing.TB) middleware.Handler {
	return func(context.Context, middleware.Call) (middleware.Result, error) {
		t.Errorf("the tool was run")
		return middleware.Result{}, nil
	}
}

// repeat makes the same call a number of times and wants every one of them to run.
func repeat(t testing.TB, g *middleware.Guard, n int) {
	t.Helper()
	for range n {
		result, err := g.Do(inRun(), same, returns("the same"))
		require.NoError(t, err)
		require.Nil(t, result.Refusal)
	}
}

// numbers makes calls of their own, one for each step.
var numbers atomic.Uint64

// aCall is a step that begins a call unlike all others.
func aCall(s *policy.State) error {
	n := numbers.Add(1)
	beginner.Begin(s, policy.Call{
		ID: n, Tool: "read", Name: "read", Signature: canonical.Digest{byte(n), byte(n >> 8), byte(n >> 16)},
	})
	return nil
}

var beginner = func() *policy.Policy {
	c := policy.Default()
	c.HistorySize = 10_000
	p, _, err := policy.New(c)
	if err != nil {
		panic(err)
	}
	return p
}()

func update(t testing.TB, s middleware.Store, run string, step func(*policy.State) error) {
	t.Helper()
	require.NoError(t, s.Update(context.Background(), run, step))
}

// errPeek keeps a store from writing what was only looked at.
var errPeek = errors.New("peek")

// history returns the newest calls of a run in a store, oldest first.
func history(t testing.TB, s middleware.Store, run string) (records []policy.Record) {
	t.Helper()
	err := s.Update(context.Background(), run, func(state *policy.State) error {
		records = state.Last(1 << 20)
		return errPeek
	})
	require.Equal(t, errPeek, err)
	return records
}

// slack is what a busy machine may take longer. It is less than the five seconds for which a client hangs that knows no
// deadlines.
const slack = 2 * time.Second

// within wants something to take no longer than it may.
func within(t testing.TB, most time.Duration, do func()) {
	t.Helper()
	started := time.Now()
	do()
	assert.Less(t, time.Since(started), most+slack, "it took too long")
}

// commands counts the commands that a client sends, as a hook of it.
type commands struct {
	names []string
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.names = append(c.names, cmd.Name())
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// take returns what was sent since the last time.
func (c *commands) take() string {
	sent := fmt.Sprint(c.names)
	c.names = nil
	return sent
}
