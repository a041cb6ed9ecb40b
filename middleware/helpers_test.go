package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// What the tests of this package share: guards, handlers that stand in for tools, and a witness of what was found.

// testingT is what *testing.T, *testing.B and *rapid.T have in common.
type testingT interface {
	require.TestingT
	Helper()
}

// newGuard makes a guard with the defaults of the product.
func newGuard(t testingT, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	return newGuardOf(t, policy.Default(), options...)
}

func newGuardOf(t testingT, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
}

// inRun is the context of the run "r".
func inRun() context.Context { return middleware.WithRun(context.Background(), "r") }

// same is the call that the tests repeat.
var same = middleware.Call{Tool: "read", Args: `{"path":"/etc/hosts"}`}

// numbered is a call unlike any with another number.
func numbered(tool string, n int) middleware.Call {
	return middleware.Call{Tool: tool, Args: fmt.Sprintf(`{"n":%d}`, n)}
}

// returns is a tool that always returns the same text.
func returns(said string) middleware.Handler {
	return func(context.Context, middleware.Call) (middleware.Result, error) { return middleware.Text(said), nil }
}

// fails is a tool that always fails.
func fails(err error) middleware.Handler {
	return func(context.Context, middleware.Call) (middleware.Result, error) { return middleware.Result{}, err }
}

// mustNotRun is a tool that the guard should have kept from running.
func mustNotRun(t testingT) middleware.Handler {
	return func(context.Context, middleware.Call) (middleware.Result, error) {
		t.Helper()
		t.Errorf("the tool was run")
		return middleware.Result{}, nil
	}
}

// repeat makes the same call a number of times and wants every one of them to run.
func repeat(t testingT, g *middleware.Guard, ctx context.Context, n int) {
	t.Helper()
	for range n {
		result, err := g.Do(ctx, same, returns("the same"))
		require.NoError(t, err)
		require.Nil(t, result.Refusal)
	}
}

// runInto repeats the same call until the run is stopped.
func runInto(t testingT, g *middleware.Guard, ctx context.Context) *middleware.LoopError {
	t.Helper()
	for range 100 {
		if _, err := g.Do(ctx, same, returns("the same")); err != nil {
			var stop *middleware.LoopError
			require.ErrorAs(t, err, &stop)
			require.Equal(t, policy.Abort, stop.Action)
			return stop
		}
	}
	t.Errorf("the run was not stopped")
	t.FailNow()
	return nil
}

// witness keeps all detections of a guard.
type witness struct {
	mu   sync.Mutex
	seen []middleware.Detection
}

func (w *witness) option() middleware.Option {
	return middleware.WithOnDetection(func(_ context.Context, d middleware.Detection) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen = append(w.seen, d)
	})
}

// take returns what was seen since the last time, in words.
func (w *witness) take() []string {
	var words []string
	for _, d := range w.takeAll() {
		words = append(words, inWords(d.Verdict))
	}
	return words
}

func (w *witness) takeAll() []middleware.Detection {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

// inWords writes a verdict as "warn generic_repeat 10/10".
func inWords(v policy.Verdict) string {
	if v.Action == policy.Allow {
		return "allow"
	}
	words := fmt.Sprintf("%s %s %d/%d", v.Action, v.Detector, v.Count, v.Threshold)
	if !v.Enforced {
		words += " observed"
	}
	return words
}

// step is one call of a script, and what its tool does.
type step struct {
	call middleware.Call
	tool middleware.Handler
}

// play makes the calls of a script one after the other, and says of each what was found.
func play(g *middleware.Guard, w *witness, ctx context.Context, enter entrance, script []step) []string {
	said := make([]string, len(script))
	for i, s := range script {
		_, _ = enter(g, ctx, s.call, s.tool)
		said[i] = "allow"
		if words := w.take(); len(words) > 0 {
			said[i] = strings.Join(words, ", ")
		}
	}
	return said
}

// turns picks from what was said of the calls of a run where it changes: "11: warn generic_repeat 10/10".
func turns(said []string) []string {
	kind := func(words string) string { return words[:max(0, strings.LastIndexByte(words, ' '))] }
	before := ""
	var changes []string
	for i, words := range said {
		if kind(words) != before && words != "allow" {
			changes = append(changes, fmt.Sprintf("%d: %s", i+1, words))
		}
		before = kind(words)
	}
	return changes
}

// entrance is a way of a call through a guard.
type entrance func(*middleware.Guard, context.Context, middleware.Call, middleware.Handler) (middleware.Result, error)

// entrances are all ways there are. They must do the same.
var entrances = map[string]entrance{
	"Do": (*middleware.Guard).Do,
	"Interceptor": func(
		g *middleware.Guard, ctx context.Context, call middleware.Call, tool middleware.Handler,
	) (middleware.Result, error) {
		return g.Interceptor()(tool)(ctx, call)
	},
	"Begin and End": inTwoSteps,
}

// inTwoSteps is how a loop of one's own uses a guard.
func inTwoSteps(
	g *middleware.Guard, ctx context.Context, call middleware.Call, tool middleware.Handler,
) (middleware.Result, error) {
	ticket, err := g.Begin(ctx, call)
	if err != nil {
		return middleware.Result{}, err
	}
	if said, refused := ticket.Refusal(); refused {
		refused := middleware.Text(said)
		refused.IsError = true
		return refused, nil
	}
	result, err := tool(ctx, call)
	if stop := ticket.End(ctx, result, err); stop != nil {
		return middleware.Result{}, stop
	}
	if note := ticket.Note(); note != "" {
		if err != nil {
			return result, fmt.Errorf("%w%s", err, note)
		}
		result.Text += note
	}
	return result, err
}

// errPeek keeps a store from writing what was only looked at.
var errPeek = errors.New("peek")

// history returns the newest calls of a run in a store, oldest first.
func history(t testingT, s middleware.Store, run string) []policy.Record {
	t.Helper()
	var records []policy.Record
	err := s.Update(context.Background(), run, func(state *policy.State) error {
		records = state.Last(1 << 20)
		return errPeek
	})
	require.ErrorIs(t, err, errPeek)
	return records
}
