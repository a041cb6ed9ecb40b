package adk_test

import (
	"context"
	"crypto/rand"
	"testing"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/loopagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

type scriptKey struct{}

// framework is the kit's view of adk. Around the agent with the tools may be others.
func framework(cfg agent.RunConfig, around func(agent.Agent) (agent.Agent, error)) guardtest.Framework {
	return guardtest.Framework{New: func(s guardtest.Setup) (guardtest.Agent, error) {
		tracing.RegisterSpanProcessor(s.Spans)
		var tools []tool.Tool
		for _, t := range s.Tools {
			made, err := newFunction(functiontool.Config{Name: t.Name}, func(ctx agent.Context, args string) (string, error) {
				return t.Run(ctx, args)
			})
			if err != nil {
				return nil, err
			}
			tools = append(tools, made)
		}
		// Without a mode the first run of a runner sets it, and two at a time race for it.
		root, err := llmagent.New(llmagent.Config{
			Name: "worker", Model: scripted(follow), Tools: tools, Mode: llmagent.ModeChat,
		})
		if err != nil {
			return nil, err
		}
		if root, err = around(root); err != nil {
			return nil, err
		}
		loops, err := adk.Plugin(s.Guard)
		if err != nil {
			return nil, err
		}
		r, err := runner.New(runner.Config{
			AppName: "test", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
			PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{loops}},
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, script *guardtest.Script) error {
			ctx = context.WithValue(ctx, scriptKey{}, script)
			for _, err := range r.Run(ctx, "user", rand.Text(), message("go on"), cfg) {
				if err != nil {
					return err
				}
			}
			return nil
		}, nil
	}}
}

// follow does what the script of the run says.
func follow(t turn) *genai.Content {
	var calls []*genai.FunctionCall
	for _, c := range t.ctx.Value(scriptKey{}).(*guardtest.Script).Next(t.last()...) {
		calls = append(calls, functionCall(c.ID, c.Tool, c.Args))
	}
	if len(calls) == 0 {
		return say("done")
	}
	return together(calls...)
}

func alone(a agent.Agent) (agent.Agent, error) { return a, nil }

// An agent that is the root runs as a node of a workflow.
func TestConformance(t *testing.T) { guardtest.Run(t, framework(agent.RunConfig{}, alone)) }

func TestConformanceOfStreams(t *testing.T) {
	guardtest.Run(t, framework(agent.RunConfig{StreamingMode: agent.StreamingModeSSE}, alone))
}

// Under any other root the runner calls agents itself.
func TestConformanceBelowAnotherAgent(t *testing.T) {
	guardtest.Run(t, framework(agent.RunConfig{}, func(a agent.Agent) (agent.Agent, error) {
		return loopagent.New(loopagent.Config{
			AgentConfig: agent.Config{Name: "again", SubAgents: []agent.Agent{a}}, MaxIterations: 1,
		})
	}))
}

// A host may run the calls of a turn in a way of its own.
func TestConformanceOneCallAtATime(t *testing.T) {
	f := framework(agent.RunConfig{}, alone)
	f.Sequential = true
	inParallel := f.New
	f.New = func(s guardtest.Setup) (guardtest.Agent, error) {
		a, err := inParallel(s)
		return func(ctx context.Context, script *guardtest.Script) error {
			return a(oneAtATime(ctx), script)
		}, err
	}
	guardtest.Run(t, f)
}
