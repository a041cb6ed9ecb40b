package middleware

import (
	"context"

	"github.com/loopguard-go/loopguard/canonical"
)

// Do judges a call, runs it with next if it may run, and remembers what came of it.
//
// If the call is blocked, next is not called and the result is what the model is to read; its Refusal says more. With
// [WithBlocksAsErrors] the error is the refusal instead. If the run is stopped, the error is a [*LoopError]. If the model
// is to be warned, a note is added to the text of the result, or to the error of the tool, which still unwraps to it. A result
// without text has the note for its text then, beside its details: show the model both.
//
// A panic of the tool is remembered as a failure and goes on. An error that is [context.Canceled] means that the caller
// gave the call up: the history forgets it.
//
// A tool that runs a sub-agent may return the [*LoopError] of that one's run, which matches [ErrLoop] too: Run says which
// run was stopped.
func (g *Guard) Do(ctx context.Context, call Call, next Handler) (Result, error) {
	ticket, err := g.Begin(ctx, call)
	if err != nil {
		return Result{}, err
	}
	if text, refused := ticket.Refusal(); refused {
		return Result{Result: canonical.Result{Text: text, IsError: true}, Refusal: ticket.refusal}, nil
	}
	// If the tool panics or ends the goroutine; else the ticket is ended by then. Without recover the trace stays whole.
	defer func() { _ = ticket.End(ctx, Result{}, ErrPanic) }()

	result, err := next(ctx, call)
	if stop := ticket.End(ctx, result, err); stop != nil {
		return Result{}, stop
	}
	if note := ticket.Note(); note != "" {
		if err != nil {
			return result, &notedError{err, note}
		}
		result.Text += note
		result.note = note
	}
	return result, err
}

// notedError is the error of a tool with a note for the model.
type notedError struct {
	error
	note string
}

func (e *notedError) Error() string { return e.error.Error() + e.note }
func (e *notedError) Unwrap() error { return e.error }
