package main

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// agent is a loop of our own around a model that calls tools. One serves all runs.
type agent struct {
	guard   *middleware.Guard
	tracing *middleware.Tracing
}

// outcome is how a run ended.
type outcome struct {
	name  string
	run   string // its id
	trace trace.TraceID
	calls int
	err   error
}

// work plays a scenario: one run for the guard, one trace for people.
func (a agent) work(ctx context.Context, s scenario) (o outcome) {
	ctx = middleware.NewRun(ctx)
	defer func() { _ = a.guard.Forget(ctx) }() // whoever opens a run forgets it
	ctx, end := a.tracing.StartAgent(ctx, s.name)
	defer func() { end(o.err) }()

	run, _ := middleware.RunID(ctx)
	o = outcome{name: s.name, run: run, trace: trace.SpanContextFromContext(ctx).TraceID()}

	// The spans go around the guard, so that a detection is on the span of the call that it is about.
	tools := newTools()
	handle := middleware.Chain(a.tracing.Interceptor(), a.guard.Interceptor())(tools.run)

	read := ""
	for {
		next := s.model(o.calls, read)
		if next.answer != "" {
			return o
		}
		o.calls++
		id := fmt.Sprintf("call_%d", o.calls)
		result, err := handle(ctx, middleware.Call{ID: id, Tool: next.tool, Args: next.args, Unknown: !tools.have(next.tool)})
		switch {
		case errors.Is(err, middleware.ErrLoop), ctx.Err() != nil:
			o.err = err // the run is over
			return o
		case err != nil:
			read = "error: " + err.Error() // for the model to mend
		default:
			read = result.Text
		}
		if o.calls == s.compactAfter { // a real agent would shorten its context here; what matters is to tell the guard
			_ = a.guard.Compacted(ctx)
		}
	}
}
