package genkit_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/tracing"
	framework "github.com/firebase/genkit/go/genkit"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

// limits are those of genkit: a tool that fails or does not exist ends the generation, tools run in goroutines that recover
// nothing, and arguments are copied by way of JSON.
var limits = guardtest.Limits{ToolErrorsEndRuns: true, PanicsKill: true, UnseenUnknownTools: true, RoundedNumbers: true}

type scriptKey struct{}

// scripted defines the tools, and a model that does what the script in the context says.
func scripted(t *testing.T, setup guardtest.Setup) (g *framework.Genkit, tools []ai.ToolRef) {
	g = framework.Init(t.Context())
	for _, tool := range setup.Tools {
		run := func(ctx *ai.ToolContext, input any) (string, error) {
			args, err := json.Marshal(input)
			if err != nil {
				return "", err
			}
			return tool.Run(ctx, string(args))
		}
		anyObject := ai.WithInputSchema(map[string]any{"type": "object"})
		tools = append(tools, framework.DefineTool(g, tool.Name, tool.Description, run, anyObject))
	}
	m := &model{script: func(t turn) *ai.Message {
		next := t.ctx.Value(scriptKey{}).(*guardtest.Script).Next(t.lastTexts()...)
		if len(next) == 0 {
			return answer("done")
		}
		said := calls()
		for _, c := range next {
			var input any
			if err := json.Unmarshal([]byte(c.Args), &input); err != nil {
				panic(err)
			}
			said.Content = append(said.Content, ai.NewToolRequestPart(&ai.ToolRequest{Ref: c.ID, Name: c.Tool, Input: input}))
		}
		return said
	}}
	m.define(g)
	return g, tools
}

// installation is a way to generate with a middleware.
type installation struct {
	name     string
	generate func(ctx context.Context, g *framework.Genkit, use genkit.Middleware, tools []ai.ToolRef) error
}

func TestConformance(t *testing.T) {
	const turns = 100
	for _, i := range []installation{
		{"Generate", func(ctx context.Context, g *framework.Genkit, use genkit.Middleware, tools []ai.ToolRef) error {
			_, err := framework.Generate(ctx, g,
				ai.WithModelName(modelName), ai.WithPrompt("go"), ai.WithTools(tools...), ai.WithMaxTurns(turns), ai.WithUse(use))
			return err
		}},
		{"GenerateStream", func(ctx context.Context, g *framework.Genkit, use genkit.Middleware, tools []ai.ToolRef) error {
			for _, err := range framework.GenerateStream(ctx, g,
				ai.WithModelName(modelName), ai.WithPrompt("go"), ai.WithTools(tools...), ai.WithMaxTurns(turns), ai.WithUse(use)) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"prompt in a flow", func(ctx context.Context, g *framework.Genkit, use genkit.Middleware, tools []ai.ToolRef) error {
			id := rand.Text()
			prompt := framework.DefinePrompt(g, "p"+id,
				ai.WithModelName(modelName), ai.WithPrompt("go"), ai.WithTools(tools...), ai.WithMaxTurns(turns))
			flow := framework.DefineFlow(g, "f"+id, func(ctx context.Context, _ string) (string, error) {
				response, err := prompt.Execute(ctx, ai.WithUse(use))
				return response.Text(), err
			})
			_, err := flow.Run(ctx, "go")
			return err
		}},
		{"by name", func(ctx context.Context, g *framework.Genkit, _ genkit.Middleware, tools []ai.ToolRef) error {
			options := &ai.GenerateActionOptions{
				Model:    modelName,
				Messages: []*ai.Message{ai.NewUserTextMessage("go")},
				MaxTurns: turns,
				Use:      []*ai.MiddlewareRef{{Name: "loopguard"}},
			}
			for _, tool := range tools {
				options.Tools = append(options.Tools, tool.Name())
			}
			_, err := framework.GenerateWithRequest(ctx, g, options, nil, nil)
			return err
		}},
	} {
		t.Run(i.name, func(t *testing.T) {
			var before sdk.SpanProcessor
			guardtest.Run(t, guardtest.Framework{Limits: limits, New: func(setup guardtest.Setup) (guardtest.Agent, error) {
				if before != nil {
					tracing.TracerProvider().UnregisterSpanProcessor(before)
				}
				before = setup.Spans
				tracing.TracerProvider().RegisterSpanProcessor(setup.Spans)

				g, tools := scripted(t, setup)
				use := genkit.New(setup.Guard, genkit.WithTracing(setup.Tracing))
				framework.DefineMiddleware(g, "guards against loops", use)
				return func(ctx context.Context, script *guardtest.Script) error {
					return i.generate(context.WithValue(ctx, scriptKey{}, script), g, use, tools)
				}, nil
			}})
			tracing.TracerProvider().UnregisterSpanProcessor(before)
		})
	}
}
