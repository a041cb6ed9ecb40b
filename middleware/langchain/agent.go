package langchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
)

// Agent guards an agent, for hosts that build their own executor and open runs themselves, see [middleware.WithRun]. Its
// tools are guarded as by [Tool], and calls of tools that it does not have are judged where they are planned. The method
// Unwrap() agents.Agent gives the agent back. An agent that is guarded already, by whatever guard, is returned as it is.
//
// Only in an [Executor] can the model be told what the guard says of a tool that does not exist: there the context of the
// run carries a memory of what is to be said at which step. Elsewhere such calls are counted and reported all the same,
// and end in an abort; until then the model reads the words of agents.Executor.
func Agent(guard *middleware.Guard, a agents.Agent) agents.Agent { return guardAgent(guard, nil, a) }

func guardAgent(guard *middleware.Guard, tracing *middleware.Tracing, a agents.Agent) agents.Agent {
	if _, ok := a.(*agent); ok {
		return a
	}
	around := guard.Interceptor()
	if tracing != nil {
		around = middleware.Chain(tracing.Interceptor(), around)
	}
	return &agent{a, around}
}

type agent struct {
	agents.Agent
	around middleware.Interceptor
}

// Unwrap returns the agent without guard.
func (a *agent) Unwrap() agents.Agent { return a.Agent }

// GetTools returns the tools of the agent, guarded. It is where an executor gets the tools that it calls.
func (a *agent) GetTools() []tools.Tool { return guardTools(a.around, a.Agent.GetTools()) }

// Plan lets the agent decide what to do next, having read what the guard had to say about its invented tools. If it plans
// to call such a tool and that stops the run, the error is a [*middleware.LoopError].
func (a *agent) Plan(
	ctx context.Context, steps []schema.AgentStep, inputs map[string]string, options ...chains.ChainCallOption,
) ([]schema.AgentAction, *schema.AgentFinish, error) {
	s := sessionOf(ctx, a)
	actions, finish, err := a.Agent.Plan(ctx, s.edit(steps), inputs, options...)
	if err != nil || finish != nil { // a finish wins over actions
		return actions, finish, err
	}
	s.plan(actions)
	for i, action := range actions {
		if a.has(action.Tool) {
			continue
		}
		said, err := a.judgeUnknown(ctx, action)
		if err != nil {
			return nil, nil, err
		}
		s.remember(len(steps)+i, said) // an executor makes each action one step
	}
	return actions, nil, nil
}

// has reports whether an executor would find a tool by this name.
func (a *agent) has(name string) bool {
	return slices.ContainsFunc(a.Agent.GetTools(), func(t tools.Tool) bool { return sameTool(t.Name(), name) })
}

// judgeUnknown takes a call of a tool that does not exist through the guard.
func (a *agent) judgeUnknown(ctx context.Context, action schema.AgentAction) (remark, error) {
	call := middleware.Call{ID: action.ToolID, Tool: action.Tool, Args: toolInput(action), Unknown: true}
	unknown := fmt.Errorf("%w: %s", middleware.ErrUnknownTool, action.Tool)
	result, err := a.around(func(context.Context, middleware.Call) (middleware.Result, error) {
		return middleware.Result{}, unknown
	})(ctx, call)
	switch {
	case result.Refusal != nil:
		return remark{refusal: result.Text}, nil
	case errors.Is(err, unknown): // and perhaps a note
		return remark{note: strings.TrimPrefix(err.Error(), unknown.Error())}, nil
	}
	return remark{}, err
}

// sameTool reports whether two names are one to an executor.
func sameTool(a, b string) bool {
	//lint:ignore SA6005 it is what executors do, and strings.EqualFold differs for some letters
	return strings.ToUpper(a) == strings.ToUpper(b)
}

// toolInput is what an executor gives the tool of an action.
func toolInput(action schema.AgentAction) string {
	return strings.TrimSuffix(action.ToolInput, "\nObservation:")
}
