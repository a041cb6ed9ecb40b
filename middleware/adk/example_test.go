package adk_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/policy"
)

// A deployment that can only fail, and a model that tries it again and again until it reads that it should not.
func Example() {
	type target struct {
		Environment string `json:"environment"`
	}
	count := 0
	deploy, err := functiontool.New(functiontool.Config{Name: "deploy", Description: "deploys the service"},
		func(agent.Context, target) (string, error) {
			count++
			return "", errors.New("permission denied: no token")
		})
	if err != nil {
		panic(err)
	}
	root, err := llmagent.New(llmagent.Config{Name: "deployer", Model: stubborn{}, Tools: []tool.Tool{deploy}})
	if err != nil {
		panic(err)
	}

	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	loops, err := adk.Plugin(guard)
	if err != nil {
		panic(err)
	}
	r, err := runner.New(runner.Config{
		AppName:           "deployments",
		Agent:             root,
		SessionService:    session.InMemoryService(),
		AutoCreateSession: true,
		PluginConfig:      runner.PluginConfig{Plugins: []*plugin.Plugin{loops}},
	})
	if err != nil {
		panic(err)
	}

	question := genai.NewContentFromText("Deploy the service.", genai.RoleUser)
	for event, err := range r.Run(context.Background(), "user", "session", question, agent.RunConfig{}) {
		if loop, ok := errors.AsType[*middleware.LoopError](err); ok {
			fmt.Println("the agent was stuck:", loop)
			return
		}
		if err != nil {
			panic(err)
		}
		if event.IsFinalResponse() {
			fmt.Println(event.Content.Parts[0].Text)
		}
	}
	fmt.Println("deployments:", count)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have.
	// deployments: 10
}

// stubborn stands for a real model.
type stubborn struct{}

func (stubborn) Name() string { return "stubborn" }

func (stubborn) GenerateContent(_ context.Context, req *model.LLMRequest, _ bool) iter.Seq2[*model.LLMResponse, error] {
	c := genai.NewContentFromFunctionCall("deploy", map[string]any{"environment": "production"}, genai.RoleModel)
	if last := req.Contents[len(req.Contents)-1].Parts[0].FunctionResponse; last != nil && isRefusal(last.Response) {
		c = genai.NewContentFromText("I was told to stop: the deployment needs a token that I do not have.", genai.RoleModel)
	}
	return func(yield func(*model.LLMResponse, error) bool) { yield(&model.LLMResponse{Content: c}, nil) }
}

func isRefusal(response map[string]any) bool {
	said, _ := response["error"].(string)
	return strings.HasPrefix(said, "[loopguard] Call refused")
}
