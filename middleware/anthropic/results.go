package anthropic

import (
	"context"
	"encoding/json"
	"errors"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loopguard-go/loopguard/middleware"
)

// Func is a tool of a loop that was written by hand. The input is JSON, as the model wrote it. An error is what the model
// reads in the place of a result. It may be called by several goroutines at once.
type Func func(ctx context.Context, input json.RawMessage) ([]sdk.ToolResultBlockParamContentUnion, error)

// ToolResults runs the calls that a message asks for, all at the same time, and returns what the next message of the user
// consists of: a result for each call, in order. Where there are none the message asks for none; mind its StopReason, as
// "pause_turn" is no end.
//
// The context must name a run, see [middleware.NewRun]. A warning is one more text block of a result; a tool that failed, one
// that does not exist and a refused call have a result with is_error. If the error is not nil the run is over: it is a
// [*middleware.LoopError], or says why calls could not be judged. The results are complete even then, so that the messages
// can be kept.
//
// Calls are judged in their order, whatever order they end in. If a tool panics, the panic goes on in the goroutine of the
// caller when the other calls are done.
func ToolResults(
	ctx context.Context, guard *middleware.Guard, message *sdk.Message, tools map[string]Func, options ...Option,
) ([]sdk.ContentBlockParamUnion, error) {
	var calls []call[sdk.ToolResultBlockParamContentUnion]
	for _, use := range toolUses(message) {
		calls = append(calls, call[sdk.ToolResultBlockParamContentUnion]{use.ID, use.Name, use.Input, tools[use.Name]})
	}
	answers, err := stableBlocks.answer(ctx, guard, calls, options)
	var results []sdk.ContentBlockParamUnion
	for i, a := range answers {
		result := sdk.ToolResultBlockParam{ToolUseID: calls[i].id, Content: a.content}
		if a.failed {
			result.IsError = sdk.Bool(true)
		}
		results = append(results, sdk.ContentBlockParamUnion{OfToolResult: &result})
	}
	return results, err
}

// BetaToolResults is [ToolResults] for messages of the beta, whose tools have a type in the SDK. They are given as they
// are: it is here that they are guarded. A message in which the context was compacted tells the guard of it, also if it
// asks for no calls.
func BetaToolResults(
	ctx context.Context, guard *middleware.Guard, message *sdk.BetaMessage, tools []sdk.BetaTool, options ...Option,
) ([]sdk.BetaContentBlockParamUnion, error) {
	if message != nil && compacted(message) {
		if err := guard.Compacted(ctx); err != nil && !errors.Is(err, middleware.ErrStore) { // which the guard reports
			return nil, err
		}
	}
	known := map[string]sdk.BetaTool{}
	for _, t := range tools {
		if guarded, ok := t.(*tool); ok {
			t = guarded.BetaTool
		}
		known[t.Name()] = t
	}
	var calls []call[sdk.BetaToolResultBlockParamContentUnion]
	for _, use := range betaToolUses(message) {
		c := call[sdk.BetaToolResultBlockParamContentUnion]{id: use.ID, name: use.Name, input: use.Input}
		if t, ok := known[use.Name]; ok {
			c.tool = t.Execute
		}
		calls = append(calls, c)
	}
	answers, err := betaBlocks.answer(ctx, guard, calls, options)
	var results []sdk.BetaContentBlockParamUnion
	for i, a := range answers {
		result := sdk.BetaToolResultBlockParam{ToolUseID: calls[i].id, Content: a.content}
		if a.failed {
			result.IsError = sdk.Bool(true)
		}
		results = append(results, sdk.BetaContentBlockParamUnion{OfToolResult: &result})
	}
	return results, err
}
