package anthropic

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loopguard-go/loopguard/middleware"
)

// conversation is the run that a runner makes, and what is remembered of it. The runner belongs to one goroutine; its tools
// run in others, and are what the lock is for.
type conversation struct {
	guard   *middleware.Guard
	run     string            // its id, from the first step on
	remarks map[string]remark // by call

	mu      sync.Mutex
	stop    error     // why the run is over, if the guard ended it
	pending []pending // the calls of the newest message that have not come to a tool
}

// pending is a call that the model asked for.
type pending struct {
	id, name string
	input    json.RawMessage // as the model wrote it
	given    string          // as the runner gives it to its tools
}

// step is what a runner does in one go. Its context carries it.
type step struct {
	*conversation
	cancel context.CancelCauseFunc
}

type stepKey struct{}

// enter returns the context for a step of the runner, and the function that ends the step, and the run too if it is over.
// The first step opens the run.
func (c *conversation) enter(ctx context.Context) (_ context.Context, leave func(over bool)) {
	if c.run == "" {
		c.run, _ = middleware.RunID(middleware.ChildRun(ctx, ""))
	}
	ctx, cancel := context.WithCancelCause(middleware.WithRun(ctx, c.run))
	ctx = context.WithValue(ctx, stepKey{}, step{c, cancel})
	return ctx, func(over bool) {
		if over {
			_ = c.guard.Forget(ctx) // the guard reports it if its store fails
		}
		cancel(nil)
	}
}

// conversationOf returns the conversation that a context belongs to, or nil, whose methods do no harm. A run that a tool
// opened is not the one of the runner.
func conversationOf(ctx context.Context) *conversation {
	s, ok := ctx.Value(stepKey{}).(step)
	if run, _ := middleware.RunID(ctx); !ok || run != s.run {
		return nil
	}
	return s.conversation
}

// meet looks at the message of the model whose calls the runner is about to run.
func (c *conversation) meet(ctx context.Context, message *sdk.BetaMessage) {
	if message == nil {
		return
	}
	if compacted(message) {
		_ = c.guard.Compacted(ctx) // the guard reports it if its store fails
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = nil
	for _, use := range betaToolUses(message) {
		given, _ := json.Marshal(use.AsToolUse().Input) // as the runner does it
		if len(use.Input) == 0 {
			use.Input = given
		}
		c.pending = append(c.pending, pending{id: use.ID, name: use.Name, input: use.Input, given: string(given)})
	}
	for i, p := range c.pending { // two that the runner made equal cannot be told apart when they come to their tool
		for j, other := range c.pending[:i] {
			if p.name == other.name && p.given == other.given && !bytes.Equal(p.input, other.input) {
				c.pending[i].input, c.pending[j].input = json.RawMessage(p.given), json.RawMessage(p.given)
			}
		}
	}
}

// take returns the id of a call that comes to a tool, and the input as the model wrote it. The runner keeps both from its
// tools: it reads numbers as float64, and gives no ids. Calls of one message that are equal may have each other's ids.
func (c *conversation) take(tool string, input json.RawMessage) (id string, written json.RawMessage) {
	if c == nil {
		return "", input
	}
	call, ok := c.remove(func(p pending) bool { return p.name == tool && p.given == string(input) })
	if !ok {
		return "", input
	}
	return call.id, call.input
}

// remove removes the first of the pending calls that is meant, and returns it.
func (c *conversation) remove(meant func(pending) bool) (call pending, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.pending, meant)
	if i < 0 {
		return pending{}, false
	}
	call = c.pending[i]
	c.pending = slices.Delete(c.pending, i, i+1)
	return call, true
}

// awaits reports whether there are pending calls.
func (c *conversation) awaits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) > 0
}

// end ends the run, with the first error that it is given, and returns the error that it was given now.
func (c *conversation) end(err error) error {
	if c == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		c.stop = err
	}
	return err
}

// stopped returns why the guard ended the run, if it did.
func (c *conversation) stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stop
}

// reason returns the error with which a step ended, given that of the runner.
func (c *conversation) reason(err error) error {
	if stop := c.stopped(); stop != nil && err != nil {
		return stop
	}
	return err
}
