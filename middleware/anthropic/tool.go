package anthropic

import (
	"context"
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loopguard-go/loopguard/middleware"
)

// Tool guards a tool. The context of each call must name a run: a [ToolRunner] opens one, other hosts do with
// [middleware.WithRun]. Name, description and schema stay, and the method Unwrap() sdk.BetaTool gives the tool back. A tool
// that is guarded already, by whatever guard, is returned as it is.
//
// A warning is one more text block after those of the tool, or is appended to its error. A refusal and an abort are errors,
// which runners turn into results with is_error; errors.As finds the [*middleware.LoopError] in both, and its Action tells
// them apart. Only a [ToolRunner] ends the run as well.
func Tool(guard *middleware.Guard, t sdk.BetaTool) sdk.BetaTool {
	if isGuarded(t) {
		return t
	}
	return &tool{t, guard}
}

// Tools guards all of several tools.
func Tools(guard *middleware.Guard, all []sdk.BetaTool) []sdk.BetaTool {
	guarded := make([]sdk.BetaTool, len(all))
	for i, t := range all {
		guarded[i] = Tool(guard, t)
	}
	return guarded
}

type tool struct {
	sdk.BetaTool
	guard *middleware.Guard
}

// Unwrap returns the tool without guard.
func (t *tool) Unwrap() sdk.BetaTool { return t.BetaTool }

// Execute runs the tool, if it may run.
func (t *tool) Execute(ctx context.Context, input json.RawMessage) ([]sdk.BetaToolResultBlockParamContentUnion, error) {
	run := conversationOf(ctx)
	id, input := run.take(t.Name(), input)
	ticket, err := t.guard.Begin(ctx, middleware.Call{ID: id, Tool: t.Name(), Args: string(input)})
	if err != nil {
		return nil, run.end(err)
	}
	if text, refused := ticket.Refusal(); refused {
		return nil, &refusal{text, &middleware.LoopError{Verdict: ticket.Verdict(), Tool: t.Name()}}
	}
	blocks, err, stop := betaBlocks.perform(ctx, ticket, func() ([]sdk.BetaToolResultBlockParamContentUnion, error) {
		return t.BetaTool.Execute(ctx, input)
	})
	if stop != nil {
		return nil, run.end(stop)
	}
	return blocks, err
}

// refusal is the error of a call that was blocked. It says what the model is to read.
type refusal struct {
	text string
	loop *middleware.LoopError
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.loop }

// isGuarded reports whether a tool is guarded, also under decorators that can be unwrapped.
func isGuarded(t sdk.BetaTool) bool {
	for {
		if _, ok := t.(*tool); ok {
			return true
		}
		decorator, ok := t.(interface{ Unwrap() sdk.BetaTool })
		if !ok {
			return false
		}
		t = decorator.Unwrap()
	}
}
