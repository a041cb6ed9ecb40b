package adk

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
)

// Plugin makes a plugin that puts a guard into all agents of a runner. It belongs first in runner.PluginConfig. One plugin
// may serve several runners and any number of invocations at a time; a runner takes it once. The error says that the guard
// is nil.
func Plugin(guard *middleware.Guard) (*plugin.Plugin, error) {
	if guard == nil {
		return nil, errors.New("adk: the guard is nil")
	}
	p := &callbacks{guard: guard, invocations: invocations{open: map[string]*invocation{}}}
	return plugin.New(plugin.Config{
		Name:                "loopguard",
		BeforeRunCallback:   p.beforeRun,
		AfterRunCallback:    p.afterRun,
		BeforeModelCallback: p.beforeModel,
		AfterAgentCallback:  p.afterAgent,
		BeforeToolCallback:  p.beforeTool,
		OnToolErrorCallback: p.onToolError,
		AfterToolCallback:   p.afterTool,
		OnEventCallback:     p.onEvent,
	})
}

// callbacks are what the framework calls. A callback that returns something keeps it from calling those of later plugins
// and of the agent, so that these return nothing where they can.
type callbacks struct {
	guard       *middleware.Guard
	invocations invocations
}

func (p *callbacks) beforeRun(ctx agent.InvocationContext) (*genai.Content, error) {
	if ctx.RunConfig() == nil { // a live session, see the package comment
		return nil, nil
	}
	p.invocations.begin(ctx)
	return nil, nil
}

// afterRun is called however an invocation ends, also if whoever reads its events stops reading.
func (p *callbacks) afterRun(ctx agent.InvocationContext) {
	for _, run := range p.invocations.end(ctx) {
		_ = p.guard.Forget(middleware.WithRun(ctx, run)) // the guard reports it if its store fails
	}
}

// beforeModel ends a run that was stopped: errors of tools and of their callbacks are answers to the model and end nothing.
func (p *callbacks) beforeModel(ctx agent.Context, _ *model.LLMRequest) (*model.LLMResponse, error) {
	return nil, p.invocations.of(ctx).stopped(ctx, true)
}

// afterAgent says that the run was stopped where no call of the model follows in which to say it.
func (p *callbacks) afterAgent(ctx agent.Context) (*genai.Content, error) {
	return nil, p.invocations.of(ctx).stopped(ctx, false)
}

// beforeTool judges a call. What it returns is the answer instead of a result.
func (p *callbacks) beforeTool(ctx agent.Context, t tool.Tool, args map[string]any) (map[string]any, error) {
	i := p.invocations.of(ctx)
	if i == nil {
		return nil, nil
	}
	ticket, answer := p.begin(ctx, i, middleware.Call{ID: ctx.FunctionCallID(), Tool: t.Name(), Args: arguments(args)})
	i.put(ctx, ticket)
	return answer, nil
}

// onToolError is called with what a tool, or a callback before it, returned as an error, and is the only one that is called
// for a tool that does not exist.
func (p *callbacks) onToolError(ctx agent.Context, t tool.Tool, args map[string]any, err error) (map[string]any, error) {
	i := p.invocations.of(ctx)
	switch {
	case i == nil:
	case i.has(ctx):
		p.end(ctx, i, t, nil, err)
	case exists(t): // a plugin before this one failed in place of the tool
		if answer, _ := p.beforeTool(ctx, t, args); answer != nil {
			return answer, nil
		}
		p.end(ctx, i, t, nil, err)
	default:
		ticket, answer := p.begin(ctx, i, middleware.Call{
			ID: ctx.FunctionCallID(), Tool: t.Name(), Args: arguments(args), Unknown: true,
		})
		if answer != nil {
			return answer, nil
		}
		i.put(ctx, ticket)
		// Not the error, which lists the tools that there are, in an order that changes.
		p.end(ctx, i, t, nil, fmt.Errorf("%w: %s", middleware.ErrUnknownTool, t.Name()))
		i.take(ctx) // no other callback follows
	}
	return nil, nil
}

// afterTool is called with what the model is to read, also if that is the answer of a callback.
func (p *callbacks) afterTool(
	ctx agent.Context, t tool.Tool, args, result map[string]any, err error,
) (map[string]any, error) {
	i := p.invocations.of(ctx)
	if i == nil {
		return nil, nil
	}
	if !i.has(ctx) { // a plugin before this one answered in place of the tool
		if answer, _ := p.beforeTool(ctx, t, args); answer != nil {
			i.take(ctx)
			return answer, nil
		}
	}
	p.end(ctx, i, t, result, err)
	i.take(ctx)
	return nil, nil
}

// onEvent adds the notes to the results that they are about. It is the last that is done to an event before it is kept and
// the model reads it, and no other callback is passed over for it.
func (p *callbacks) onEvent(ctx agent.InvocationContext, event *session.Event) (*session.Event, error) {
	i := p.invocations.of(ctx)
	if i == nil || event == nil || event.LLMResponse.Content == nil {
		return nil, nil
	}
	for _, part := range event.LLMResponse.Content.Parts {
		if part == nil || part.FunctionResponse == nil {
			continue
		}
		if note := i.noteOn(part.FunctionResponse); note != "" {
			part.FunctionResponse.Response = noted(part.FunctionResponse.Response, note)
		}
	}
	return nil, nil
}

// begin judges a call. The ticket is nil if there is an answer.
func (p *callbacks) begin(ctx agent.Context, i *invocation, call middleware.Call) (*middleware.Ticket, map[string]any) {
	host := Context(ctx)
	i.uses(host)
	ticket, err := p.guard.Begin(host, call)
	if err != nil {
		i.stop(host, err)
		return nil, failure(stopText(err))
	}
	if text, refused := ticket.Refusal(); refused {
		return nil, failure(text)
	}
	return ticket, nil
}

// end remembers what came of a call, once. There is nothing to remember of one that did not run.
func (p *callbacks) end(ctx agent.Context, i *invocation, t tool.Tool, result map[string]any, err error) {
	ticket := i.done(ctx)
	if ticket == nil {
		return
	}
	host := Context(ctx)
	if awaitsApproval(ctx) || err == nil && endsWork(t, result) || errors.Is(ctx.Err(), context.Canceled) {
		ticket.Cancel(host)
		return
	}
	if stop := ticket.End(host, outcome(result), i.lasting(t, err)); stop != nil {
		i.stop(host, stop)
	}
	i.note(ctx, t, ticket.Note())
}
