package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

// host is what a host writes to run an agent.
type host func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error

var hosts = map[string]host{
	"runner": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		_, err := anthropic.NewToolRunner(setup.Guard, &client.Beta.Messages, betaTools(setup), params()).RunToCompletion(ctx)
		return err
	},
	"runner, all": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		return drain(anthropic.NewToolRunner(setup.Guard, &client.Beta.Messages, betaTools(setup), unthreaded()).All(ctx))
	},
	"runner over a thread": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		return drain(anthropic.NewThreadToolRunner(setup.Guard, thread(client), betaTools(setup)).All(ctx))
	},
	"streaming runner": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		return drainAll(anthropic.NewToolRunnerStreaming(setup.Guard, &client.Beta.Messages, betaTools(setup), params()), ctx)
	},
	"streaming runner, step by step": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		r := anthropic.NewToolRunnerStreaming(setup.Guard, &client.Beta.Messages, betaTools(setup), unthreaded())
		for !r.IsCompleted() {
			if err := drain(r.NextStreaming(ctx)); err != nil {
				return err
			}
		}
		return nil
	},
	"streaming runner over a thread": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		return drainAll(anthropic.NewThreadToolRunnerStreaming(setup.Guard, thread(client), betaTools(setup)), ctx)
	},
	"loop": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		ctx = middleware.NewRun(ctx)
		defer func() { _ = setup.Guard.Forget(ctx) }()
		tools := map[string]anthropic.Func{}
		for _, t := range setup.Tools {
			tools[t.Name] = func(ctx context.Context, input json.RawMessage) ([]sdk.ToolResultBlockParamContentUnion, error) {
				said, err := t.Run(ctx, string(input))
				return []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: said}}}, err
			}
		}
		sent := sdk.MessageNewParams{Model: "scripted", MaxTokens: 1024, Messages: []sdk.MessageParam{
			sdk.NewUserMessage(sdk.NewTextBlock("Do it.")),
		}}
		for {
			message, err := client.Messages.New(ctx, sent)
			if err != nil {
				return err
			}
			results, err := anthropic.ToolResults(ctx, setup.Guard, message, tools, anthropic.WithTracing(setup.Tracing))
			if err != nil || len(results) == 0 {
				return err
			}
			sent.Messages = append(sent.Messages, message.ToParam(), sdk.NewUserMessage(results...))
		}
	},
	"loop of the beta": func(ctx context.Context, setup guardtest.Setup, client sdk.Client) error {
		ctx = middleware.NewRun(ctx)
		defer func() { _ = setup.Guard.Forget(ctx) }()
		sent := params().BetaMessageNewParams
		for {
			message, err := client.Beta.Messages.New(ctx, sent)
			if err != nil {
				return err
			}
			results, err := anthropic.BetaToolResults(
				ctx, setup.Guard, message, betaTools(setup), anthropic.WithTracing(setup.Tracing))
			if err != nil || len(results) == 0 {
				return err
			}
			sent.Messages = append(sent.Messages, message.ToParam(), sdk.NewBetaUserMessage(results...))
		}
	},
}

func TestConformance(t *testing.T) {
	for name, run := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guardtest.Run(t, guardtest.Framework{
				New: func(setup guardtest.Setup) (guardtest.Agent, error) {
					return func(ctx context.Context, script *guardtest.Script) error {
						return play(ctx, setup, script, run)
					}, nil
				},
				// The SDK runs tools in goroutines of its own, and recovers no panics there.
				Limits: guardtest.Limits{PanicsKill: name != "loop" && name != "loop of the beta"},
			})
		})
	}
}

// play runs an agent whose model follows a script.
func play(ctx context.Context, setup guardtest.Setup, script *guardtest.Script, run host) error {
	model := newAPI(func(_ int, read []result) message {
		texts := make([]string, len(read))
		for i, r := range read {
			texts[i] = r.text()
		}
		calls := script.Next(texts...)
		if len(calls) == 0 {
			return answers("done")
		}
		uses := make([]string, len(calls))
		for i, c := range calls {
			uses[i] = use(c.ID, c.Tool, c.Args)
		}
		return asks(uses...)
	})
	defer model.Close()
	return run(ctx, setup, model.client(option.WithTracerProvider(setup.Tracing)))
}

func betaTools(setup guardtest.Setup) (all []sdk.BetaTool) {
	for _, t := range setup.Tools {
		all = append(all, newTool(t.Name, func(ctx context.Context, input json.RawMessage) (blocks, error) {
			said, err := t.Run(ctx, string(input))
			return text(said), err
		}))
	}
	return all
}

func unthreaded() sdk.BetaToolRunnerParams {
	p := params()
	p.DisableThread = true
	return p
}

func thread(client sdk.Client) *sdk.BetaMessageThread {
	p := params()
	return client.Beta.Messages.NewThread(sdk.BetaMessageThreadCreateParams{
		Model: p.Model, MaxTokens: p.MaxTokens, Messages: p.Messages,
	})
}

// drain takes all there is, and returns the first error.
func drain[V any](all func(func(V, error) bool)) (failed error) {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// drainAll does not stop at an error, as hosts may forget to.
func drainAll(r *anthropic.ToolRunnerStreaming, ctx context.Context) (failed error) {
	for events := range r.AllStreaming(ctx) {
		if err := drain(events); err != nil {
			failed = errors.Join(failed, err)
			if ctx.Err() != nil {
				break // else the SDK goes on for ever
			}
		}
	}
	return failed
}
