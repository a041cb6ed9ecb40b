package anthropic

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
)

// call is a call that the model asks for, and its tool, which is nil if there is none.
type call[B any] struct {
	id, name string
	input    json.RawMessage
	tool     func(context.Context, json.RawMessage) ([]B, error)
}

// answer is what the model reads of a call.
type answer[B any] struct {
	content []B
	failed  bool
}

// failure is the answer of a call that failed.
func (k blocks[B]) failure(text string) answer[B] { return answer[B]{[]B{k.text(text)}, true} }

// answer begins calls in their order, runs them at the same time, and returns what the model reads of them. The error is
// that with which the run ends; calls after the one that ended it are not judged any more.
func (k blocks[B]) answer(
	ctx context.Context, guard *middleware.Guard, calls []call[B], options []Option,
) (answers []answer[B], stop error) {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	answers = make([]answer[B], len(calls))
	stops := make([]error, len(calls))
	panics := make([]any, len(calls))
	var others sync.WaitGroup
	defer others.Wait() // if the last call panics
	for i, one := range calls {
		if stop != nil {
			answers[i] = k.failure(stop.Error())
			continue
		}
		var run func() (answer[B], error)
		if run, answers[i], stop = k.begin(ctx, guard, c.tracing, one); run == nil {
			continue
		}
		if i == len(calls)-1 { // needs no goroutine, so that the trace of a panic is whole
			answers[i], stops[i] = run()
			break
		}
		others.Go(func() {
			defer func() { panics[i] = recover() }()
			answers[i], stops[i] = run()
		})
	}
	others.Wait()
	for i := range calls {
		if panics[i] != nil {
			panic(panics[i])
		}
		if stop == nil {
			stop = stops[i]
		}
	}
	return answers, stop
}

// begin judges a call and returns the function that runs it. If it may not run that is nil, and the answer is there already.
func (k blocks[B]) begin(
	ctx context.Context, guard *middleware.Guard, tracing *middleware.Tracing, c call[B],
) (run func() (answer[B], error), said answer[B], stop error) {
	judged := middleware.Call{ID: c.id, Tool: c.name, Args: string(c.input), Unknown: c.tool == nil}
	finish := func(middleware.Result, error) {}
	if tracing != nil {
		var span middleware.ToolSpan
		ctx, span = tracing.StartTool(ctx, judged)
		finish = func(result middleware.Result, err error) {
			span.Finish(result, err)
			span.End()
		}
	}
	ticket, err := guard.Begin(ctx, judged)
	if err != nil {
		finish(middleware.Result{}, err)
		return nil, k.failure(err.Error()), err
	}
	if text, refused := ticket.Refusal(); refused {
		finish(middleware.Result{Refusal: &middleware.LoopError{Verdict: ticket.Verdict()}}, nil)
		return nil, k.failure(text), nil
	}
	return func() (said answer[B], stop error) {
		end := middleware.ErrPanic // stays so if the tool panics
		defer func() { finish(middleware.Result{}, end) }()
		content, err, stop := k.perform(ctx, ticket, func() (content []B, err error) {
			err = unknown(c.name)
			if c.tool != nil {
				content, err = c.tool(ctx, c.input)
			}
			end = err
			return content, err
		})
		switch {
		case stop != nil:
			end = stop
			return k.failure(stop.Error()), stop
		case err != nil:
			return k.failure("Error: " + err.Error()), nil
		}
		return answer[B]{content: content}, nil
	}, k.failure("Error: the tool did not return."), nil // if it ends its goroutine
}
