package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/firebase/genkit/go/ai"

	"github.com/loopguard-go/loopguard/middleware"
)

// generation is what the hooks of one generation share.
type generation struct{ *settings }

// wrapTurn is called for each turn, and the later turns are within the first: so the first opens the run and ends it. If
// the run is stopped it is the turn after that which does not take place.
func (g *generation) wrapTurn(
	ctx context.Context, params *ai.GenerateParams, next ai.GenerateNext,
) (*ai.ModelResponse, error) {
	if s := g.session(ctx); s != nil {
		if stop := s.stopped(); stop != nil {
			return nil, stop
		}
		return next(ctx, params)
	}
	if params.Iteration > 0 {
		return nil, errLost
	}
	ctx, s := g.open(ctx)
	defer g.close(ctx, s)
	g.notice(params)
	response, err := next(ctx, params)
	if stop := s.stopped(); stop != nil { // also if a call beside the one that was stopped failed or was interrupted
		return nil, stop
	}
	return response, err
}

// errLost is the error of a generation whose turns do not know of each other.
var errLost = fmt.Errorf("loopguard: another middleware does not pass on the context that it is given: %w", middleware.ErrNoRun)

// stoppedText is in place of the result of a call that stopped the run. No model reads it; who reads a stream does.
const stoppedText = "[loopguard] The run was stopped."

// wrapTool takes a call through the guard.
//
// A call that stops the run returns a result all the same, and the next turn the error. For with an error here genkit would
// end the generation at once, and leave the goroutines of the calls beside it waiting for ever.
func (g *generation) wrapTool(
	ctx context.Context, params *ai.ToolParams, next ai.ToolNext,
) (*ai.MultipartToolResponse, error) {
	s := g.session(ctx)
	if s == nil {
		return nil, errLost
	}
	if s.stopped() != nil {
		return &ai.MultipartToolResponse{Output: stoppedText}, nil
	}
	ctx = context.WithValue(middleware.WithRun(ctx, s.run), toolKey{}, s.run)
	defer g.tidy(ctx, s)

	var (
		response *ai.MultipartToolResponse
		failure  error
		open     bool
	)
	result, err := g.around(func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
		response, failure = next(ctx, params)
		if open = isOpen(ctx, failure); open {
			return middleware.Result{}, context.Canceled
		}
		return outcomeOf(response), failure
	})(ctx, callOf(params.Request))

	switch {
	case open:
		return response, failure
	case result.Refusal != nil:
		return &ai.MultipartToolResponse{Output: result.Text}, nil
	case err != nil && (failure == nil || !errors.Is(err, failure)): // it is the guard's
		s.end(err)
		return &ai.MultipartToolResponse{Output: stoppedText}, nil
	case err != nil:
		return response, err
	}
	return withNote(response, result.Note()), nil
}

// isOpen reports whether a call has come to no outcome: it was interrupted, to be confirmed and restarted, or its caller gave
// it up.
func isOpen(ctx context.Context, failure error) bool {
	interrupted, _ := ai.IsToolInterruptError(failure)
	return interrupted || errors.Is(ctx.Err(), context.Canceled)
}

// callOf returns a call as the guard takes it. Arguments that are not JSON fail in the tool as well.
func callOf(r *ai.ToolRequest) middleware.Call {
	args, _ := json.Marshal(r.Input)
	return middleware.Call{ID: r.Ref, Tool: r.Name, Args: string(args)}
}
