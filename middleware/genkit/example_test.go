package genkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/loopguard-go/loopguard/middleware"
	loopguard "github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/policy"
)

// A deployment that can only fail, and a model that tries it again and again until it reads that it should not.
func Example() {
	ctx := context.Background()
	g := genkit.Init(ctx, genkit.WithDefaultModel("example/stubborn"))
	defineStubborn(g)
	deployments := 0
	deploy := genkit.DefineTool(g, "deploy", "deploys the service to an environment",
		func(_ *ai.ToolContext, environment string) (string, error) {
			deployments++
			return "permission denied: no token", nil
		})

	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	guarded := loopguard.New(guard) // once, for all generations
	answer, err := genkit.GenerateText(ctx, g,
		ai.WithPrompt("Deploy the service."),
		ai.WithTools(deploy),
		ai.WithMaxTurns(40), // genkit's default is 5
		ai.WithUse(guarded))

	fmt.Println(answer, err)
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have. <nil>
	// deployments: 10
}

// A person confirms each deployment, so that each message of the user takes several generations. The host opens the run that
// they are all part of.
func ExampleWithHostRun() {
	ctx := context.Background()
	g := genkit.Init(ctx, genkit.WithDefaultModel("example/stubborn"))
	defineStubborn(g)
	deployments := 0
	deploy := genkit.DefineTool(g, "deploy", "deploys the service to an environment",
		func(ctx *ai.ToolContext, environment string) (string, error) {
			if !ctx.IsResumed() {
				return "", ctx.Interrupt(nil)
			}
			deployments++
			return "permission denied: no token", nil
		})
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	guarded := loopguard.New(guard, loopguard.WithHostRun())

	ctx = middleware.NewRun(ctx)
	defer func() { _ = guard.Forget(ctx) }()
	response, err := genkit.Generate(ctx, g, ai.WithPrompt("Deploy the service."), ai.WithTools(deploy), ai.WithUse(guarded))
	for err == nil && len(response.Interrupts()) > 0 {
		var confirmed *ai.Part
		if confirmed, err = deploy.RestartWith(response.Interrupts()[0]); err != nil {
			break
		}
		response, err = genkit.Generate(ctx, g, ai.WithMessages(response.History()...), ai.WithTools(deploy), ai.WithUse(guarded),
			ai.WithToolRestarts(confirmed))
	}
	fmt.Println(response.Text(), err)
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have. <nil>
	// deployments: 10
}

// With ai.WithReturnToolRequests the host runs the tools, and no middleware sees it. Then each call goes through the guard by
// hand.
func Example_toolsOfTheHost() {
	ctx := context.Background()
	g := genkit.Init(ctx, genkit.WithDefaultModel("example/stubborn"))
	defineStubborn(g)
	deployments := 0
	genkit.DefineTool(g, "deploy", "deploys the service to an environment",
		func(_ *ai.ToolContext, environment string) (string, error) {
			deployments++
			return "permission denied: no token", nil
		})
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}

	// What is between the call of the model and its result, as a part of a message.
	run := func(ctx context.Context, r *ai.ToolRequest) (*ai.Part, error) {
		tool := genkit.LookupTool(g, r.Name)
		call := middleware.Call{ID: r.Ref, Tool: r.Name, Args: asText(r.Input), Unknown: tool == nil}
		result, err := guard.Do(ctx, call, func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
			if tool == nil {
				return middleware.Text("there is no such tool"), nil
			}
			output, err := tool.RunRaw(ctx, r.Input)
			return middleware.Text(asText(output)), err
		})
		if err != nil {
			return nil, err
		}
		return ai.NewToolResponsePart(&ai.ToolResponse{Name: r.Name, Ref: r.Ref, Output: result.Text}), nil
	}

	ctx = middleware.NewRun(ctx)
	defer func() { _ = guard.Forget(ctx) }()
	messages := []*ai.Message{ai.NewUserTextMessage("Deploy the service.")}
	for {
		response, err := genkit.Generate(ctx, g,
			ai.WithMessages(messages...), ai.WithTools(ai.ToolName("deploy")), ai.WithReturnToolRequests(true))
		if err != nil {
			panic(err)
		}
		requests := response.ToolRequests()
		if len(requests) == 0 {
			fmt.Println(response.Text())
			break
		}
		results := ai.NewMessage(ai.RoleTool, nil)
		for _, r := range requests {
			result, err := run(ctx, r)
			if err != nil {
				panic(err)
			}
			results.Content = append(results.Content, result)
		}
		messages = append(messages, response.Message, results)
	}
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have.
	// deployments: 10
}

// asText returns a text as it is, and all else as JSON.
func asText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, _ := json.Marshal(value)
	return string(text)
}

// defineStubborn stands for a real model.
func defineStubborn(g *genkit.Genkit) {
	supports := &ai.ModelSupports{Tools: true, Multiturn: true}
	genkit.DefineModel(g, "example/stubborn", &ai.ModelOptions{Supports: supports},
		func(_ context.Context, r *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
			said := ai.NewModelMessage(ai.NewToolRequestPart(&ai.ToolRequest{Name: "deploy", Input: "production"}))
			for _, part := range r.Messages[len(r.Messages)-1].Content {
				if part.IsToolResponse() && strings.Contains(fmt.Sprint(part.ToolResponse.Output), "[loopguard] Call refused") {
					said = ai.NewModelTextMessage("I was told to stop: the deployment needs a token that I do not have.")
				}
			}
			return &ai.ModelResponse{Request: r, Message: said}, nil
		})
}
