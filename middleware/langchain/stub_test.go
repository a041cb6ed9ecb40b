package langchain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// config acts early: the same call with the same result is warned of at the 4th call, refused from the 6th on, and stops
// the run at the 9th. A tool that does not exist is refused from the 4th call on.
func config() policy.Config {
	return policy.Config{
		Enabled:                       new(true),
		WarningThreshold:              3,
		CriticalThreshold:             5,
		UnknownToolThreshold:          3,
		GlobalCircuitBreakerThreshold: 8,
	}
}

func newGuard(t *testing.T, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
}

// detections keeps what a guard reports.
type detections struct {
	mu  sync.Mutex
	all []middleware.Detection
}

func (d *detections) option() middleware.Option {
	return middleware.WithOnDetection(func(_ context.Context, found middleware.Detection) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, found)
	})
}

// byRun returns what was reported of each run, in words.
func (d *detections) byRun() [][]string {
	runs := map[string][]string{}
	for _, found := range d.all {
		runs[found.Run] = append(runs[found.Run], fmt.Sprint(found.Action, " of ", found.Tool, ": ", found.Reason))
	}
	return slices.Collect(maps.Values(runs))
}

// stub is a tool that is a function.
type stub struct {
	name string
	run  func(ctx context.Context, input string) (string, error)
}

func (s stub) Name() string        { return s.name }
func (s stub) Description() string { return "does what " + s.name + " does" }

func (s stub) Call(ctx context.Context, input string) (string, error) { return s.run(ctx, input) }

// says is a tool that always says the same, and counts how often it was run.
func says(name, text string, runs *int) stub {
	return stub{name, func(context.Context, string) (string, error) {
		*runs++
		return text, nil
	}}
}

// turn is what a model is given: the question, and what it reads of the calls that it has made so far.
type turn struct {
	ctx      context.Context
	question string
	read     []string
}

// readsRefusal reports whether any of the calls was refused.
func (t turn) readsRefusal() bool {
	return strings.Contains(strings.Join(t.read, "\n"), "Call refused")
}

// model is a scripted model. Its answer is a function of what it is given, so that it can serve many runs at a time.
type model struct {
	dialect
	script func(turn) *llms.ContentChoice

	mu    sync.Mutex
	calls int
	last  turn   // what it was given last
	text  string // all of it, as text
}

func (m *model) GenerateContent(
	ctx context.Context, messages []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	given := turn{ctx: ctx, question: m.question(messages), read: m.observations(messages)}
	choice := m.script(given)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.text = given, fmt.Sprint(messages)
	for i := range choice.ToolCalls {
		m.calls++
		choice.ToolCalls[i].ID = fmt.Sprintf("call_%d", m.calls)
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

func (m *model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// executor makes an unguarded executor of a model and its tools. Agents and executors take the same options.
func (m *model) executor(all []tools.Tool, options ...agents.Option) *agents.Executor {
	options = append([]agents.Option{agents.WithMaxIterations(50)}, options...)
	return agents.NewExecutor(m.agent(m, all, options...), options...)
}

// dialect is one of the kinds of agents that langchaingo has, and how its models talk.
type dialect struct {
	name         string
	agent        func(llms.Model, []tools.Tool, ...agents.Option) agents.Agent
	call         func(tool, input string) *llms.ContentChoice
	final        func(answer string) *llms.ContentChoice
	question     func([]llms.MessageContent) string
	observations func([]llms.MessageContent) []string
}

var (
	mrkl = dialect{
		name: "MRKL",
		agent: func(m llms.Model, all []tools.Tool, o ...agents.Option) agents.Agent {
			return agents.NewOneShotAgent(m, all, o...)
		},
		call: func(tool, input string) *llms.ContentChoice {
			return text("Thought: I need a tool\nAction: %s\nAction Input: %s", tool, input)
		},
		final:        func(answer string) *llms.ContentChoice { return text("Thought: done\nFinal Answer: %s", answer) },
		question:     func(m []llms.MessageContent) string { return match(`Question: (.*)\n`, promptOf(m)) },
		observations: promptObservations,
	}
	conversational = dialect{
		name: "conversational",
		agent: func(m llms.Model, all []tools.Tool, o ...agents.Option) agents.Agent {
			return agents.NewConversationalAgent(m, all, o...)
		},
		call: func(tool, input string) *llms.ContentChoice {
			return text("Thought: Do I need to use a tool? Yes\nAction: %s\nAction Input: %s", tool, input)
		},
		final:        func(answer string) *llms.ContentChoice { return text("Thought: No\nAI:%s", answer) },
		question:     func(m []llms.MessageContent) string { return match(`New input: (.*)\n`, promptOf(m)) },
		observations: promptObservations,
	}
	functions = dialect{
		name: "functions",
		agent: func(m llms.Model, all []tools.Tool, o ...agents.Option) agents.Agent {
			return agents.NewOpenAIFunctionsAgent(m, all, o...)
		},
		call:         func(tool, input string) *llms.ContentChoice { return together(functionCall(tool, input)) },
		final:        func(answer string) *llms.ContentChoice { return text("%s", answer) },
		question:     func(m []llms.MessageContent) string { return fmt.Sprint(m[1].Parts[0]) },
		observations: messageObservations,
	}
)

func eachDialect(t *testing.T, test func(*testing.T, dialect)) {
	for _, d := range []dialect{mrkl, conversational, functions} {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

func text(format string, args ...any) *llms.ContentChoice {
	return &llms.ContentChoice{Content: fmt.Sprintf(format, args...)}
}

// functionCall is a call as models make it of tools with one argument.
func functionCall(tool, input string) llms.ToolCall {
	arguments, _ := json.Marshal(map[string]string{"__arg1": input})
	return llms.ToolCall{Type: "function", FunctionCall: &llms.FunctionCall{Name: tool, Arguments: string(arguments)}}
}

// together is a turn of parallel calls.
func together(calls ...llms.ToolCall) *llms.ContentChoice {
	return &llms.ContentChoice{ToolCalls: calls}
}

// promptOf returns what follows the instructions in the prompt of an agent that talks in texts.
func promptOf(messages []llms.MessageContent) string {
	prompt := messages[0].Parts[0].(llms.TextContent).Text
	return prompt[strings.Index(prompt, "Begin!"):]
}

func promptObservations(messages []llms.MessageContent) []string {
	observations := strings.Split(promptOf(messages), "\nObservation: ")[1:]
	for i, o := range observations {
		o, _, _ = strings.Cut(o, "Thought:") // of the next turn
		observations[i] = strings.TrimSpace(o)
	}
	return observations
}

func messageObservations(messages []llms.MessageContent) []string {
	var observations []string
	for _, m := range messages {
		for _, part := range m.Parts {
			if response, ok := part.(llms.ToolCallResponse); ok {
				observations = append(observations, response.Content)
			}
		}
	}
	return observations
}

func match(pattern, s string) string { return regexp.MustCompile(pattern).FindStringSubmatch(s)[1] }
