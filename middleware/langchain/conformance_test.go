package langchain_test

import (
	"context"
	"testing"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware/guardtest"
	"github.com/loopguard-go/loopguard/middleware/langchain"
)

func TestConformance(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		limits := guardtest.Limits{
			Sequential:        true,
			ToolErrorsEndRuns: true,
			UnseenCallIDs:     d.name != functions.name, // only function calls have ids
		}
		guardtest.Run(t, guardtest.Framework{Limits: limits, New: func(setup guardtest.Setup) (guardtest.Agent, error) {
			return newConformingAgent(d, setup), nil
		}})
	})
}

type scriptKey struct{}

// newConformingAgent makes an agent whose model does what the script in its context says.
func newConformingAgent(d dialect, setup guardtest.Setup) guardtest.Agent {
	all := make([]tools.Tool, len(setup.Tools))
	for i, t := range setup.Tools {
		all[i] = stub{t.Name, t.Run}
	}
	executor := langchain.Wrap(setup.Guard, (&scriptedModel{d}).executor(all), langchain.WithTracing(setup.Tracing))
	return func(ctx context.Context, script *guardtest.Script) error {
		_, err := chains.Run(context.WithValue(ctx, scriptKey{}, &reading{script: script}), executor, "Go on.")
		return err
	}
}

// reading is how far the model of one run has come.
type reading struct {
	script *guardtest.Script
	turn   []guardtest.Call // of the script
	made   int              // how many of its calls were made
	before int              // how many calls were made in the turns before
}

// scriptedModel is a model that talks in a dialect.
type scriptedModel struct{ dialect }

func (m *scriptedModel) executor(all []tools.Tool) *agents.Executor {
	limit := agents.WithMaxIterations(100)
	return agents.NewExecutor(m.agent(m, all, limit), limit)
}

func (m *scriptedModel) GenerateContent(
	ctx context.Context, messages []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	r := ctx.Value(scriptKey{}).(*reading)
	if r.made == len(r.turn) {
		read := m.observations(messages)
		r.before, r.made, r.turn = len(read), 0, r.script.Next(read[r.before:]...)
	}
	choice := m.final("done")
	switch {
	case len(r.turn) == 0:
	case m.name == functions.name:
		r.made = len(r.turn)
		choice = together()
		for _, c := range r.turn {
			call := functionCall(c.Tool, c.Args)
			call.ID = c.ID
			choice.ToolCalls = append(choice.ToolCalls, call)
		}
	default: // these make one call at a time
		choice = m.call(r.turn[r.made].Tool, r.turn[r.made].Args)
		r.made++
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

func (m *scriptedModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}
