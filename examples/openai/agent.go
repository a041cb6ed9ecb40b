package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/openai/openai-go/v3"

	"github.com/loopguard-go/loopguard/middleware"
)

// tool is a function that the model may call: JSON arguments in, text out.
type tool struct {
	definition openai.FunctionDefinitionParam
	run        func(ctx context.Context, args string) (string, error)
}

// agent is a loop of our own around chat completions with tool calls.
type agent struct {
	client openai.Client
	model  string
	guard  *middleware.Guard
	tools  map[string]tool
}

// run works on one message of the user, which is one run of the guard.
func (a *agent) run(ctx context.Context, task string) (string, error) {
	ctx = middleware.ChildRun(ctx, "") // of the run in ctx, if an agent calls this one
	defer func() { _ = a.guard.Forget(ctx) }()

	params := openai.ChatCompletionNewParams{
		Model:    a.model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(task)},
	}
	for _, name := range slices.Sorted(maps.Keys(a.tools)) {
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(a.tools[name].definition))
	}
	for {
		completion, err := a.client.Chat.Completions.New(ctx, params)
		if err != nil {
			return "", err
		}
		if len(completion.Choices) == 0 {
			return "", errors.New("the model returned no choice")
		}
		choice := completion.Choices[0]
		if choice.FinishReason == "length" { // what it asks for may be cut off
			return "", errors.New("the answer of the model was too long")
		}
		if len(choice.Message.ToolCalls) == 0 {
			return choice.Message.Content, nil
		}
		results, err := a.callAll(ctx, choice.Message.ToolCalls)
		if err != nil {
			return "", err // the run is over: errors.As finds the *middleware.LoopError
		}
		params.Messages = append(params.Messages, choice.Message.ToParam())
		params.Messages = append(params.Messages, results...)
	}
}

// callAll takes the calls of one message of the model and returns one tool message for each, in the same order: the API
// rejects a conversation in which one is missing. The calls begin in the order of the model, so that the guard judges them in
// that order, and then run at the same time.
func (a *agent) callAll(
	ctx context.Context, calls []openai.ChatCompletionMessageToolCallUnion,
) ([]openai.ChatCompletionMessageParamUnion, error) {
	results := make([]openai.ChatCompletionMessageParamUnion, len(calls))
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	defer all.Wait()
	for i, call := range calls {
		name, args := call.Function.Name, call.Function.Arguments
		t, known := a.tools[name]
		ticket, err := a.guard.Begin(ctx, middleware.Call{ID: call.ID, Tool: name, Args: args, Unknown: !known})
		if err != nil {
			return nil, err
		}
		if text, refused := ticket.Refusal(); refused {
			results[i] = openai.ToolMessage(text, call.ID)
			continue
		}
		if !known {
			t.run = func(context.Context, string) (string, error) {
				return "", fmt.Errorf("%w: %s", middleware.ErrUnknownTool, name)
			}
		}
		all.Go(func() {
			var text string
			text, errs[i] = finish(ctx, ticket, t, args)
			results[i] = openai.ToolMessage(text, call.ID)
		})
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// finish runs a tool that may run, tells the guard what came of it, and returns what the model reads. The error ends the run.
func finish(ctx context.Context, ticket *middleware.Ticket, t tool, args string) (string, error) {
	text, err := t.run(ctx, args)
	if errors.Is(ctx.Err(), context.Canceled) { // nobody waits for the answer, whatever the tool made of that
		ticket.Cancel(ctx)
		return "", ctx.Err()
	}
	if stop := ticket.End(ctx, middleware.Text(text), err); stop != nil {
		return "", stop
	}
	if err != nil { // is for the model to deal with
		text = "error: " + err.Error()
	}
	return text + ticket.Note(), nil
}
