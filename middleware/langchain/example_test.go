package langchain_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
	"github.com/loopguard-go/loopguard/policy"
)

// A deployment that can only fail, and a model that tries it again and again until it reads that it should not.
func ExampleWrap() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	deploy := &deploy{}
	agent := agents.NewOneShotAgent(stubborn{}, []tools.Tool{deploy})
	executor := langchain.Wrap(guard, agents.NewExecutor(agent, agents.WithMaxIterations(40)))

	answer, err := chains.Run(context.Background(), executor, "Deploy the service.")
	fmt.Println(answer, err)
	fmt.Println("deployments:", deploy.count)
	// Output:
	// I was told to stop: the deployment needs a token that I do not have. <nil>
	// deployments: 10
}

type deploy struct{ count int }

func (*deploy) Name() string        { return "deploy" }
func (*deploy) Description() string { return "deploys the service to an environment" }

func (d *deploy) Call(context.Context, string) (string, error) {
	d.count++
	return "permission denied: no token", nil
}

// stubborn stands for a real model.
type stubborn struct{}

func (s stubborn) GenerateContent(
	_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	said := "Thought: it will work this time\nAction: deploy\nAction Input: production"
	if strings.Contains(fmt.Sprint(messages), "[loopguard] Call refused") {
		said = "Final Answer: I was told to stop: the deployment needs a token that I do not have."
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: said}}}, nil
}

func (s stubborn) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, s, prompt, options...)
}

// A host that runs tools itself opens the runs itself, too.
func ExampleTool() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	deploy := &deploy{}
	guarded := langchain.Tool(guard, deploy)

	ctx := middleware.NewRun(context.Background())
	defer func() { _ = guard.Forget(ctx) }()
	var read string
	for range 11 {
		if read, err = guarded.Call(ctx, "production"); err != nil {
			panic(err)
		}
	}
	fmt.Println(read[:len("[loopguard] Call refused")])
	fmt.Println("deployments:", deploy.count)
	// Output:
	// [loopguard] Call refused
	// deployments: 10
}
