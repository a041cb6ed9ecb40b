package anthropic_test

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/toolrunner"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
	"github.com/loopguard-go/loopguard/policy"
)

// A deployment that can only fail, and a model that tries it again and again until it reads that it should not.
func ExampleNewToolRunner() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	type target struct {
		Environment string `json:"environment" jsonschema:"required"`
	}
	deployments := 0
	deploy, err := toolrunner.NewBetaToolFromJSONSchema("deploy", "deploys the service to an environment",
		func(context.Context, target) (sdk.BetaToolResultBlockParamContentUnion, error) {
			deployments++
			return text("permission denied: no token")[0], nil
		})
	if err != nil {
		panic(err)
	}
	model := newAPI(untilRefused("deploy", `{"environment":"production"}`)) // stands for the API
	defer model.Close()
	client := model.client() // sdk.NewClient()

	runner := anthropic.NewToolRunner(guard, &client.Beta.Messages, []sdk.BetaTool{deploy}, sdk.BetaToolRunnerParams{
		BetaMessageNewParams: sdk.BetaMessageNewParams{
			Model:     sdk.ModelClaudeSonnet5_5,
			MaxTokens: 1024,
			Messages:  []sdk.BetaMessageParam{sdk.NewBetaUserMessage(sdk.NewBetaTextBlock("Deploy the service."))},
		},
	})
	message, err := runner.RunToCompletion(context.Background())
	if err != nil {
		panic(err) // of a run that was stopped, errors.As finds the *middleware.LoopError
	}
	fmt.Println(message.Content[0].Text)
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop.
	// deployments: 10
}

// A loop that was written by hand opens the run itself.
func ExampleToolResults() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	deployments := 0
	tools := map[string]anthropic.Func{
		"deploy": func(context.Context, json.RawMessage) ([]sdk.ToolResultBlockParamContentUnion, error) {
			deployments++
			return []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: "permission denied: no token"}}}, nil
		},
	}
	model := newAPI(untilRefused("deploy", `{"environment":"production"}`)) // stands for the API
	defer model.Close()
	client := model.client() // sdk.NewClient()

	work := func(ctx context.Context, task string) (*sdk.Message, error) {
		ctx = middleware.NewRun(ctx)
		defer func() { _ = guard.Forget(ctx) }()
		params := sdk.MessageNewParams{
			Model:     sdk.ModelClaudeSonnet5_5,
			MaxTokens: 1024,
			Messages:  []sdk.MessageParam{sdk.NewUserMessage(sdk.NewTextBlock(task))},
			// Tools: their definitions
		}
		for {
			message, err := client.Messages.New(ctx, params)
			if err != nil {
				return nil, err
			}
			params.Messages = append(params.Messages, message.ToParam())
			results, err := anthropic.ToolResults(ctx, guard, message, tools)
			switch {
			case err != nil:
				return nil, err // the run is over: errors.As finds the *middleware.LoopError
			case len(results) > 0:
				params.Messages = append(params.Messages, sdk.NewUserMessage(results...))
			case message.StopReason != sdk.StopReasonPauseTurn: // else the turn goes on as it is
				return message, nil
			}
		}
	}
	message, err := work(context.Background(), "Deploy the service.")
	if err != nil {
		panic(err)
	}
	fmt.Println(message.Content[0].Text)
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop.
	// deployments: 10
}
