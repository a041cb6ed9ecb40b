package eino_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
	"github.com/loopguard-go/loopguard/policy"
)

// A deployment that can only fail, and a model that tries it again and again until it reads that it should not.
func Example() {
	ctx := context.Background()
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	deployments := 0
	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
		Name:  "deployer",
		Model: stubborn{},
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: eino.Tools(guard, compose.ToolsNodeConfig{
			Tools: []tool.BaseTool{deploy(&deployments)},
		})},
		MaxIterations: 50,
	})
	if err != nil {
		panic(err)
	}
	runner := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent})

	events := runner.Query(ctx, "Deploy the service.")
	for event, ok := events.Next(); ok; event, ok = events.Next() {
		if loop, stuck := errors.AsType[*middleware.LoopError](event.Err); stuck {
			fmt.Println("the agent was stopped:", loop.Detector)
		}
		if event.Output == nil {
			continue
		}
		if said, err := event.Output.MessageOutput.GetMessage(); err == nil && said.Role == schema.Assistant && said.Content != "" {
			fmt.Println(said.Content)
		}
	}
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have.
	// deployments: 10
}

// Graphs have no runs: the host opens one for each message of the user.
func ExampleTools() {
	ctx := context.Background()
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	deployments := 0
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: stubborn{},
		ToolsConfig:      eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{deploy(&deployments)}}),
		MaxStep:          100,
	})
	if err != nil {
		panic(err)
	}

	ctx = middleware.NewRun(ctx)
	defer func() { _ = guard.Forget(ctx) }()
	said, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage("Deploy the service.")})
	if err != nil {
		panic(err)
	}
	fmt.Println(said.Content)
	fmt.Println("deployments:", deployments)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have.
	// deployments: 10
}

type deployment struct {
	Environment string `json:"environment"`
}

func deploy(count *int) tool.BaseTool {
	t, err := utils.InferTool("deploy", "deploys the service to an environment", func(context.Context, deployment) (string, error) {
		*count++
		return "permission denied: no token", nil
	})
	if err != nil {
		panic(err)
	}
	return t
}

// stubborn stands for a real model.
type stubborn struct{}

func (stubborn) Generate(_ context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	if strings.Contains(messages[len(messages)-1].Content, "[loopguard] Call refused") {
		return schema.AssistantMessage("I was told to stop: the deployment needs a token that I do not have.", nil), nil
	}
	return schema.AssistantMessage("", []schema.ToolCall{{
		ID: fmt.Sprint("call_", len(messages)), Function: schema.FunctionCall{Name: "deploy", Arguments: `{"environment":"production"}`},
	}}), nil
}

func (s stubborn) Stream(
	ctx context.Context, messages []*schema.Message, options ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	said, err := s.Generate(ctx, messages, options...)
	return schema.StreamReaderFromArray([]*schema.Message{said}), err
}

func (s stubborn) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return s, nil }
