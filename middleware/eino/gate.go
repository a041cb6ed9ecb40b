package eino

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudwego/eino/compose"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/loopguard-go/loopguard/middleware"
)

// gate is a guard as it stands around tools. It does not change once it is made.
type gate struct {
	guard   *middleware.Guard
	tracing *middleware.Tracing // nil for none
}

func newGate(guard *middleware.Guard, options []Option) *gate {
	g := &gate{guard: guard}
	for _, o := range options {
		o.apply(g)
	}
	return g
}

// endpoint runs a tool. Its result is a text, a *schema.ToolResult, or a stream of either.
type endpoint[R any] func(context.Context, *compose.ToolInput) (R, error)

// form is what the gate has to know of a kind of result.
type form[R any] struct {
	// unknown says that there is no such tool.
	unknown bool
	// say makes a result of a text.
	say func(text string) R
	// finish tells the listener of the result, when it is all there, and returns it with the note.
	finish func(result R, l listener) (R, error)
}

// listener is told what comes of a call.
type listener struct {
	// done takes the outcome. Only the first time counts. It returns the note that the model is to read with the result, or
	// the error that stops the run.
	done func(middleware.Result, error) (note string, stop error)
	// abandoned, if not nil, takes that nobody will read the result to its end. It does not hold the context of the call.
	abandoned func()
}

// guarded puts the gate around a tool.
func guarded[R any](g *gate, f form[R], next endpoint[R]) endpoint[R] {
	return func(ctx context.Context, in *compose.ToolInput) (R, error) {
		if c := g.underWay(ctx, in); c != nil {
			return through(ctx, in, f, next, listener{done: c.saw})
		}
		var none R
		ctx, c, err := g.begin(ctx, in, f.unknown)
		if err != nil {
			return none, err
		}
		if text, refused := c.ticket.Refusal(); refused {
			return f.say(text), nil
		}
		done := func(result middleware.Result, err error) (string, error) { return c.end(ctx, result, err) }
		result, err := through(ctx, in, f, next, listener{done, c.abandon})
		if errors.Is(ctx.Err(), context.Canceled) {
			c.abandon() // nobody will read a stream now; anything else is done by then
		}
		return result, err
	}
}

// through runs a tool and tells the listener what comes of it.
func through[R any](ctx context.Context, in *compose.ToolInput, f form[R], next endpoint[R], l listener) (R, error) {
	returned := false
	defer func() { // without recover the trace of a panic stays whole
		if !returned {
			_, _ = l.done(middleware.Result{}, middleware.ErrPanic)
		}
	}()
	result, err := next(ctx, in)
	returned = true
	if err != nil {
		var none R
		return none, l.failed(err)
	}
	return f.finish(result, l)
}

// failed takes the error of a tool and returns it with the note, which reaches the model where errors do.
func (l listener) failed(err error) error {
	note, stop := l.done(middleware.Result{}, err)
	switch {
	case stop != nil:
		return stop
	case note != "":
		return fmt.Errorf("%w%s", err, note)
	}
	return err
}

// begin judges a call. The context is the one to run the tool with.
func (g *gate) begin(ctx context.Context, in *compose.ToolInput, unknown bool) (context.Context, *call, error) {
	ctx = g.nest(ctx)
	judged := middleware.Call{ID: in.CallID, Tool: in.Name, Args: in.Arguments, Unknown: unknown}
	span := middleware.ToolSpan{Span: noop.Span{}}
	if g.tracing != nil {
		ctx, span = g.tracing.StartTool(ctx, judged)
	}
	ticket, err := g.guard.Begin(ctx, judged)
	if err != nil {
		span.Finish(middleware.Result{}, err)
		span.End()
		return ctx, nil, err
	}
	if _, refused := ticket.Refusal(); refused {
		span.Finish(middleware.Result{Refusal: &middleware.LoopError{Verdict: ticket.Verdict()}}, nil)
		span.End()
	}
	c := &call{
		guard: g.guard, ticket: ticket, span: span,
		name: in.Name, id: in.CallID, address: compose.GetCurrentAddress(ctx),
	}
	c.run, _ = middleware.RunID(ctx)
	return context.WithValue(ctx, callKey{g.guard}, c), c, nil
}

// underWay returns the call that the context belongs to, if the gate stands around this very call further out already.
func (g *gate) underWay(ctx context.Context, in *compose.ToolInput) *call {
	c := g.callOf(ctx)
	if c == nil || c.name != in.Name || c.id != in.CallID || !c.address.Equals(compose.GetCurrentAddress(ctx)) {
		return nil
	}
	return c
}

// nest returns the context of a call that the tool of another call makes: an agent that is a tool has a run of its own,
// which is a child of the run that it is used in. Where somebody has opened one for it that stays.
func (g *gate) nest(ctx context.Context) context.Context {
	run, ok := middleware.RunID(ctx)
	if outer := g.callOf(ctx); ok && outer != nil && outer.run == run {
		return outer.nest(ctx)
	}
	return ctx
}

func (g *gate) callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{g.guard}).(*call)
	return c
}
