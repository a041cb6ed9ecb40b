package main

import (
	"context"
	"errors"
	"sync"

	"github.com/tmc/langchaingo/llms"

	"github.com/loopguard-go/loopguard/middleware"
)

// tool runs one tool call: JSON arguments in, text out.
type tool func(ctx context.Context, args string) (string, error)

// agent is a loop of our own around a model that calls tools.
type agent struct {
	model llms.Model
	guard *middleware.Guard
	tools map[string]tool

	// compactAt is the number of messages above which the context is compacted, 0 for never.
	compactAt int
}

// run works on one message of the user. The context names the run.
func (a *agent) run(ctx context.Context, task string) (string, error) {
	defer func() { _ = a.guard.Forget(ctx) }() // whoever opens a run forgets it

	history := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, task)}
	for {
		response, err := a.model.GenerateContent(ctx, history)
		if err != nil {
			return "", err
		}
		choice := response.Choices[0]
		if len(choice.ToolCalls) == 0 {
			return choice.Content, nil
		}
		results, err := a.callAll(ctx, choice.ToolCalls)
		if err != nil {
			return "", err // the run is over: errors.As finds the *middleware.LoopError
		}
		history = append(history, request(choice.ToolCalls))
		history = append(history, results...)

		if a.compactAt > 0 && len(history) > a.compactAt {
			history = history[:1] // a real agent would summarize; what matters is to tell the guard
			if err := a.guard.Compacted(ctx); err != nil {
				return "", err
			}
		}
	}
}

// callAll takes the calls of one answer of the model. They begin in its order, so that the guard judges them in that
// order, and then run at the same time.
func (a *agent) callAll(ctx context.Context, calls []llms.ToolCall) ([]llms.MessageContent, error) {
	results := make([]llms.MessageContent, len(calls))
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	defer all.Wait()
	for i, call := range calls {
		name, args := call.FunctionCall.Name, call.FunctionCall.Arguments
		run, known := a.tools[name]
		ticket, err := a.guard.Begin(ctx, middleware.Call{ID: call.ID, Tool: name, Args: args, Unknown: !known})
		if err != nil {
			return nil, err
		}
		if text, refused := ticket.Refusal(); refused {
			results[i] = answer(call, text)
			continue
		}
		if !known {
			run = missing
		}
		all.Go(func() {
			var text string
			text, errs[i] = finish(ctx, ticket, run, args)
			results[i] = answer(call, text)
		})
	}
	all.Wait()
	return results, errors.Join(errs...)
}

// finish runs a tool that may run, tells the guard what came of it, and returns what the model reads.
func finish(ctx context.Context, ticket *middleware.Ticket, run tool, args string) (string, error) {
	text, err := run(ctx, args)
	if stop := ticket.End(ctx, middleware.Text(text), err); stop != nil {
		return "", stop
	}
	if err != nil {
		text = "error: " + err.Error()
	}
	return text + ticket.Note(), nil
}

// missing takes the place of a tool that the model made up.
func missing(context.Context, string) (string, error) { return "", middleware.ErrUnknownTool }

// request is the message in which the model asked for calls.
func request(calls []llms.ToolCall) llms.MessageContent {
	message := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	for _, call := range calls {
		message.Parts = append(message.Parts, call)
	}
	return message
}

// answer is the message with what came of a call.
func answer(call llms.ToolCall, text string) llms.MessageContent {
	return llms.MessageContent{
		Role:  llms.ChatMessageTypeTool,
		Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: call.ID, Name: call.FunctionCall.Name, Content: text}},
	}
}
