package eino

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/compose"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// call is a call that was let through, until what came of it is known. The context of its tool carries it. It does not hold
// that context: a stream that was abandoned is found by the garbage collector, and the context may lead to the stream.
type call struct {
	guard   *middleware.Guard
	ticket  *middleware.Ticket
	span    middleware.ToolSpan
	run     string
	name    string
	id      string
	address compose.Address // where it stands in the graphs of eino

	mu    sync.Mutex
	over  bool
	heard *heard
	child string // the run of what the tool itself calls, if it calls anything
}

type callKey struct{ guard *middleware.Guard }

// heard is what the tool said, where somebody stood nearer to it than the gate.
type heard struct {
	result middleware.Result
	err    error
}

// saw remembers what the tool said, for end. Where it is run several times the last time counts.
func (c *call) saw(result middleware.Result, err error) (note string, stop error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.heard = &heard{result, err}
	}
	return "", nil
}

// end ends the call with its outcome. An interrupt is none: the call will go on when the run is resumed, and is judged
// again then. Nor is there one if the caller gave the call up.
func (c *call) end(ctx context.Context, result middleware.Result, err error) (note string, stop error) {
	c.mu.Lock()
	over, said, child := c.over, c.heard, c.child
	c.over, c.heard = true, nil
	c.mu.Unlock()
	if over {
		return "", nil
	}
	if said != nil && !interrupts(err) && !cancels(err) {
		result, err = said.result, said.err
	}
	interrupted := interrupts(err)
	if interrupted || cancels(err) || errors.Is(ctx.Err(), context.Canceled) { // a tool may hide it, in words of its own
		c.ticket.Cancel(ctx)
	} else {
		stop = c.ticket.End(ctx, result, err)
	}
	if interrupted {
		err = nil // and no failure
	} else if child != "" {
		_ = c.guard.Forget(middleware.WithRun(ctx, child)) // the guard reports it if its store fails
	}
	if stop != nil {
		err = stop
	}
	c.span.Finish(result, err)
	c.span.End()
	return c.ticket.Note(), stop
}

// errAbandoned is what becomes of a call whose result is a stream that nobody reads to its end.
var errAbandoned = fmt.Errorf("the stream was abandoned: %w", context.Canceled)

// abandon takes the call back, if it is not over.
func (c *call) abandon() {
	_, _ = c.end(trace.ContextWithSpan(context.Background(), c.span.Span), middleware.Result{}, errAbandoned)
}

// cancels reports whether an error says that the call was given up.
func cancels(err error) bool {
	_, stream := errors.AsType[*adk.StreamCanceledError](err)
	_, agent := errors.AsType[*adk.CancelError](err)
	return stream || agent || errors.Is(err, context.Canceled)
}

// interrupts reports whether an error is the way in which eino interrupts a run.
func interrupts(err error) bool {
	_, rerun := compose.IsInterruptRerunError(err)
	_, info := compose.ExtractInterruptInfo(err)
	return rerun || info
}

// nest returns the context of a call that is made by the tool. The id of the run is made of that of the call, so that it is
// the same when an interrupted run is resumed.
func (c *call) nest(ctx context.Context) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.child == "" {
		name := ""
		if c.id != "" {
			name = c.name + "-" + c.id
		}
		c.child, _ = middleware.RunID(middleware.ChildRun(ctx, name))
	}
	return middleware.WithRun(ctx, c.child)
}
