package mcp

import (
	"context"
	"errors"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// Middleware returns middleware that takes the tool calls of a server's clients, or of a client, through the guard: give it
// to Server.AddReceivingMiddleware or to Client.AddSendingMiddleware. Only requests of the method tools/call are touched. It
// is safe for concurrent use, and one may be added to any number of servers and clients; a program that makes a new server
// for each request makes the middleware once. The error names an option that is wrong.
//
// It belongs inside of what opens spans or names runs, so add that after it, or before it in the same call, and around what
// changes results.
func Middleware(guard *middleware.Guard, options ...Option) (sdk.Middleware, error) {
	a, err := newAdapter(guard, options)
	if err != nil {
		return nil, err
	}
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			call, ok := callOf(method, req)
			if !ok {
				return next(ctx, method, req)
			}
			ctx, leave := a.enterRun(ctx, req)
			defer leave()
			got := a.guarded(ctx, peerOf(req), call, func(ctx context.Context) answer {
				result, err := next(ctx, method, req)
				return answer{result, err}
			})
			return got.result, got.err
		}
	}, nil
}

// adapter is what all calls have in common.
type adapter struct {
	guard   *middleware.Guard
	runs    *runs
	nameRun func(context.Context, sdk.Request) string // nil for none
	tracing *middleware.Tracing                       // nil for none
	words   *canonical.Canonicalizer                  // knows in which words a tool is said not to exist
}

// guarded judges a call, in a span if there is to be one, and runs it if it may run.
func (a *adapter) guarded(
	ctx context.Context, to peer, call middleware.Call, run func(context.Context) answer,
) (got answer) {
	handle := func(ctx context.Context, call middleware.Call) (outcome middleware.Result, err error) {
		got, outcome, err = a.judge(ctx, to, call, run)
		return outcome, err
	}
	if a.tracing != nil {
		handle = a.tracing.Interceptor()(handle)
	}
	_, _ = handle(ctx, call) // which is for the span
	return got
}

// judge takes a call through the guard. It returns what the caller gets, and how the call ended.
func (a *adapter) judge(
	ctx context.Context, to peer, call middleware.Call, run func(context.Context) answer,
) (answer, middleware.Result, error) {
	ticket, err := a.guard.Begin(ctx, call)
	if err != nil {
		return answer{err: to.failure(err)}, middleware.Result{}, err
	}
	if text, refused := ticket.Refusal(); refused {
		loop := &middleware.LoopError{Verdict: ticket.Verdict()}
		return answer{result: to.refusal(text)}, middleware.Result{Refusal: loop}, nil
	}
	// If something panics or ends the goroutine; else the ticket is ended by then.
	defer func() { _ = ticket.End(ctx, middleware.Result{}, middleware.ErrPanic) }()

	got := run(ctx)
	outcome, err := got.outcome(call.Tool)
	switch {
	case got.asksForInput():
		ticket.Cancel(ctx) // the call goes on when it comes again, with the input
		return got, middleware.Result{}, nil
	case errors.Is(ctx.Err(), context.Canceled):
		err = ctx.Err() // whatever was made of it, nobody reads it
	case !call.Unknown && ticket.Verdict().Action == policy.Allow && a.saysUnknown(call.Tool, outcome, err):
		// Nobody could know it before. Nothing was run, so that the call is judged again as what it is.
		ticket.Cancel(ctx)
		call.Unknown = true
		return a.judge(ctx, to, call, func(context.Context) answer { return got })
	}
	if stop := ticket.End(ctx, outcome, err); stop != nil {
		return answer{err: to.failure(stop)}, middleware.Result{}, stop
	}
	return got.noted(ticket.Note()), outcome, err
}

// saysUnknown reports whether a call failed because there is no such tool, in whatever words the guard knows.
func (a *adapter) saysUnknown(tool string, outcome middleware.Result, err error) bool {
	if err == nil && !outcome.IsError {
		return false
	}
	id := a.words.Identify(canonical.Call{Tool: tool})
	if err != nil {
		return id.Error(err).UnknownTool
	}
	return id.Result(outcome.Result).UnknownTool
}
