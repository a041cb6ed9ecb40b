package eino_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

// TestConformance runs agents of all makes with tools of all kinds.
func TestConformance(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for _, make := range makes {
				t.Run(make.name, func(t *testing.T) {
					skipRaces(t, k, make)
					guardtest.Run(t, guardtest.Framework{
						New: func(setup guardtest.Setup) (guardtest.Agent, error) {
							conf := eino.Tools(setup.Guard, compose.ToolsNodeConfig{Tools: toolsOf(setup, k)}, eino.WithTracing(setup.Tracing))
							return make.agent(setup, conf)
						},
						// eino ends a run if a tool returns an error.
						Limits: guardtest.Limits{ToolErrorsEndRuns: true},
					})
				})
			}
		})
	}
}

// TestConformanceWithErrorsAsAnswers: a host may turn the errors of tools into what the model reads.
func TestConformanceWithErrorsAsAnswers(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for _, make := range makes {
				t.Run(make.name, func(t *testing.T) {
					skipRaces(t, k, make)
					guardtest.Run(t, guardtest.Framework{
						New: func(setup guardtest.Setup) (guardtest.Agent, error) {
							conf := compose.ToolsNodeConfig{Tools: toolsOf(setup, k), ToolCallMiddlewares: []compose.ToolMiddleware{errorsAsAnswers}}
							return make.agent(setup, eino.Tools(setup.Guard, conf, eino.WithTracing(setup.Tracing)))
						},
					})
				})
			}
		})
	}
}

// TestConformanceOneAfterTheOther: the calls of a turn need not run at the same time.
func TestConformanceOneAfterTheOther(t *testing.T) {
	guardtest.Run(t, guardtest.Framework{
		New: func(setup guardtest.Setup) (guardtest.Agent, error) {
			conf := compose.ToolsNodeConfig{Tools: toolsOf(setup, kinds[0]), ExecuteSequentially: true}
			return makes[0].agent(setup, eino.Tools(setup.Guard, conf, eino.WithTracing(setup.Tracing)))
		},
		Limits: guardtest.Limits{ToolErrorsEndRuns: true, Sequential: true},
	})
}

// TestConformanceOfTheParts: what Tools is made of, put together by hand.
func TestConformanceOfTheParts(t *testing.T) {
	guardtest.Run(t, guardtest.Framework{
		New: func(setup guardtest.Setup) (guardtest.Agent, error) {
			tracing := eino.WithTracing(setup.Tracing)
			conf := compose.ToolsNodeConfig{
				Tools:               toolsOf(setup, kinds[0]),
				ToolCallMiddlewares: []compose.ToolMiddleware{eino.Middleware(setup.Guard, tracing), errorsAsAnswers},
				UnknownToolsHandler: eino.UnknownTools(setup.Guard, nil, tracing),
			}
			return runner(setup, conf, false, eino.Handler[adk.Message](setup.Guard, tracing))
		},
	})
}

type maker struct {
	name      string
	streaming bool
	agent     func(guardtest.Setup, compose.ToolsNodeConfig) (guardtest.Agent, error)
}

// skipRaces skips what has a data race in eino itself: where the enhanced tools of a turn stream, they share a variable
// (the err of compose.ToolsNode.Stream).
func skipRaces(t *testing.T, k kind, m maker) {
	t.Helper()
	if raceDetector && m.streaming && strings.HasPrefix(k.name, "enhanced") {
		t.Skip("a data race in eino: run it without the race detector")
	}
}

// makes are the agents that eino has.
var makes = []maker{
	{"react", false, func(setup guardtest.Setup, conf compose.ToolsNodeConfig) (guardtest.Agent, error) {
		agent, err := reactAgent(fromScript, conf)
		return func(ctx context.Context, script *guardtest.Script) error {
			ctx = middleware.NewRun(withScript(ctx, script))
			defer func() { _ = setup.Guard.Forget(ctx) }()
			_, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage("go")})
			return err
		}, err
	}},
	{"react, streaming", true, func(setup guardtest.Setup, conf compose.ToolsNodeConfig) (guardtest.Agent, error) {
		agent, err := reactAgent(fromScript, conf)
		return func(ctx context.Context, script *guardtest.Script) error {
			ctx = middleware.NewRun(withScript(ctx, script))
			defer func() { _ = setup.Guard.Forget(ctx) }()
			said, err := agent.Stream(ctx, []*schema.Message{schema.UserMessage("go")})
			if err != nil {
				return err
			}
			_, err = schema.ConcatMessageStream(said)
			return err
		}, err
	}},
	{"agent kit", false, func(setup guardtest.Setup, conf compose.ToolsNodeConfig) (guardtest.Agent, error) {
		return runner(setup, conf, false)
	}},
	{"agent kit, streaming", true, func(setup guardtest.Setup, conf compose.ToolsNodeConfig) (guardtest.Agent, error) {
		return runner(setup, conf, true)
	}},
	{"agent kit, agentic messages", false, func(setup guardtest.Setup, conf compose.ToolsNodeConfig) (guardtest.Agent, error) {
		agent := afresh[adk.AgenticMessage](func() (adk.TypedAgent[adk.AgenticMessage], error) {
			return adk.NewTypedChatModelAgent(context.Background(), &adk.TypedChatModelAgentConfig[adk.AgenticMessage]{
				Name: "worker", Description: "works", Model: agentic{},
				ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: conf}, MaxIterations: 100,
			})
		})
		r := eino.NewRunner(setup.Guard, adk.TypedRunnerConfig[adk.AgenticMessage]{Agent: agent}, eino.WithTracing(setup.Tracing))
		return func(ctx context.Context, script *guardtest.Script) error {
			_, _, err := drain(r.Query(withScript(ctx, script), "go"))
			return err
		}, nil
	}},
}

// afresh makes an agent for each run: an adk.ChatModelAgent of this version is not made for several at once, a guard or not.
type afresh[M adk.MessageType] func() (adk.TypedAgent[M], error)

func (afresh[M]) Name(context.Context) string        { return "worker" }
func (afresh[M]) Description(context.Context) string { return "works" }

func (make afresh[M]) Run(
	ctx context.Context, input *adk.TypedAgentInput[M], options ...adk.AgentRunOption,
) *adk.AsyncIterator[*adk.TypedAgentEvent[M]] {
	agent, err := make()
	if err != nil {
		panic(err)
	}
	return agent.Run(ctx, input, options...)
}

func runner(
	setup guardtest.Setup, conf compose.ToolsNodeConfig, streaming bool, handlers ...adk.ChatModelAgentMiddleware,
) (guardtest.Agent, error) {
	agent := afresh[adk.Message](func() (adk.Agent, error) { return chatModelAgent("worker", fromScript, conf, handlers...) })
	r := eino.NewRunner(setup.Guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}, eino.WithTracing(setup.Tracing))
	return func(ctx context.Context, script *guardtest.Script) error {
		_, _, err := drain(r.Query(withScript(ctx, script), "go"))
		return err
	}, nil
}

func toolsOf(setup guardtest.Setup, k kind) []tool.BaseTool {
	var all []tool.BaseTool
	for _, t := range setup.Tools {
		all = append(all, k.tool(t.Name, t.Run))
	}
	return all
}

// The script of a run is in its context, so that one agent serves many.

type scriptKey struct{}

func withScript(ctx context.Context, script *guardtest.Script) context.Context {
	return context.WithValue(ctx, scriptKey{}, script)
}

func next(t turn) []guardtest.Call {
	return t.ctx.Value(scriptKey{}).(*guardtest.Script).Next(t.last...)
}

var fromScript scripted = func(t turn) *schema.Message {
	var calls []schema.ToolCall
	for _, c := range next(t) {
		calls = append(calls, toolCall(c.ID, c.Tool, c.Args))
	}
	return schema.AssistantMessage("done", calls)
}

// agentic is the same model in the newer kind of messages that eino has.
type agentic struct{}

func (agentic) Generate(ctx context.Context, messages []*schema.AgenticMessage, _ ...model.Option) (*schema.AgenticMessage, error) {
	t := turn{ctx: ctx}
	for _, m := range messages {
		if m.Role == schema.AgenticRoleTypeAssistant {
			t.last = nil
		}
		for _, block := range m.ContentBlocks {
			if result := block.FunctionToolResult; result != nil {
				said := ""
				for _, part := range result.Content {
					if part.Text != nil {
						said += part.Text.Text
					}
				}
				t.last = append(t.last, said)
			}
		}
	}
	answer := &schema.AgenticMessage{Role: schema.AgenticRoleTypeAssistant}
	for _, c := range next(t) {
		answer.ContentBlocks = append(answer.ContentBlocks,
			schema.NewContentBlock(&schema.FunctionToolCall{CallID: c.ID, Name: c.Tool, Arguments: c.Args}))
	}
	if answer.ContentBlocks == nil {
		answer.ContentBlocks = append(answer.ContentBlocks, schema.NewContentBlock(&schema.AssistantGenText{Text: "done"}))
	}
	return answer, nil
}

func (a agentic) Stream(
	ctx context.Context, messages []*schema.AgenticMessage, options ...model.Option,
) (*schema.StreamReader[*schema.AgenticMessage], error) {
	answer, err := a.Generate(ctx, messages, options...)
	return stream([]*schema.AgenticMessage{answer}, err), nil
}

// errorsAsAnswers is a middleware of a host that makes errors of tools something that the model reads.
var errorsAsAnswers = compose.ToolMiddleware{
	Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			out, err := next(ctx, in)
			if err != nil {
				out = &compose.ToolOutput{Result: "[tool error] " + err.Error()}
			}
			return out, nil
		}
	},
	Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
			out, err := next(ctx, in)
			if err != nil {
				return &compose.StreamToolOutput{Result: stream([]string{"[tool error] " + err.Error()}, nil)}, nil
			}
			out.Result = answering(out.Result, func(said string) string { return said })
			return out, nil
		}
	},
	EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
			out, err := next(ctx, in)
			if err != nil {
				out = &compose.EnhancedInvokableToolOutput{Result: textResult("[tool error] " + err.Error())}
			}
			return out, nil
		}
	},
	EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
			out, err := next(ctx, in)
			if err != nil {
				return &compose.EnhancedStreamableToolOutput{
					Result: stream([]*schema.ToolResult{textResult("[tool error] " + err.Error())}, nil),
				}, nil
			}
			out.Result = answering(out.Result, textResult)
			return out, nil
		}
	},
}

// answering reads a stream and makes its error a last chunk.
func answering[T any](in *schema.StreamReader[T], say func(string) T) *schema.StreamReader[T] {
	defer in.Close()
	var all []T
	for {
		chunk, err := in.Recv()
		switch {
		case err == nil:
			all = append(all, chunk)
			continue
		case err.Error() != "EOF":
			all = append(all, say("[tool error] "+err.Error()))
		}
		return stream(all, nil)
	}
}
