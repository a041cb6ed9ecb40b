package eino_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/require"

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

// words returns what was reported: of which tool, what, by whom.
func (d *detections) words() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var words []string
	for _, found := range d.all {
		words = append(words, fmt.Sprint(found.Tool, " ", found.Action, " ", found.Detector))
	}
	return words
}

// run is what a tool of the tests does.
type run func(ctx context.Context, args string) (string, error)

// tool of the tests, in one of the four kinds that eino has.
type named struct{ name string }

func (n named) Info(context.Context) (*schema.ToolInfo, error) {
	return &schema.ToolInfo{Name: n.name, Desc: "does what " + n.name + " does"}, nil
}

type invokable struct {
	named
	run
}

func (t invokable) InvokableRun(ctx context.Context, args string, _ ...tool.Option) (string, error) {
	return t.run(ctx, args)
}

type streamable struct {
	named
	run
}

func (t streamable) StreamableRun(ctx context.Context, args string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	said, err := t.run(ctx, args)
	return stream(chunks(said), err), nil
}

type enhanced struct {
	named
	run
}

func (t enhanced) InvokableRun(ctx context.Context, args *schema.ToolArgument, _ ...tool.Option) (*schema.ToolResult, error) {
	said, err := t.run(ctx, args.Text)
	return textResult(said), err
}

type enhancedStreamable struct {
	named
	run
}

func (t enhancedStreamable) StreamableRun(
	ctx context.Context, args *schema.ToolArgument, _ ...tool.Option,
) (*schema.StreamReader[*schema.ToolResult], error) {
	said, err := t.run(ctx, args.Text)
	var results []*schema.ToolResult
	for _, chunk := range chunks(said) {
		results = append(results, textResult(chunk))
	}
	return stream(results, err), nil
}

// kind is how a tool of the tests comes.
type kind struct {
	name string
	tool func(name string, do run) tool.BaseTool
}

var kinds = []kind{
	{"invokable", func(name string, do run) tool.BaseTool { return invokable{named{name}, do} }},
	{"streamable", func(name string, do run) tool.BaseTool { return streamable{named{name}, do} }},
	{"enhanced invokable", func(name string, do run) tool.BaseTool { return enhanced{named{name}, do} }},
	{"enhanced streamable", func(name string, do run) tool.BaseTool { return enhancedStreamable{named{name}, do} }},
}

func textResult(said string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: said}}}
}

// chunks cuts a text into pieces.
func chunks(said string) []string {
	var pieces []string
	for len(said) > 7 {
		pieces, said = append(pieces, said[:7]), said[7:]
	}
	return append(pieces, said)
}

// stream is a stream of chunks that ends with an error, if there is one.
func stream[T any](all []T, err error) *schema.StreamReader[T] {
	reader, writer := schema.Pipe[T](len(all) + 1)
	for _, chunk := range all {
		writer.Send(chunk, nil)
	}
	if err != nil {
		var none T
		writer.Send(none, err)
	}
	writer.Close()
	return reader
}

// says is an invokable tool that always says the same.
func says(name, said string, runs *int) tool.BaseTool {
	return invokable{named{name}, func(context.Context, string) (string, error) {
		*runs++
		return said, nil
	}}
}

// turn is what a model is given: what it reads of the calls that it made last, and of all.
type turn struct {
	ctx  context.Context
	last []string
	read []string
}

// readsRefusal reports whether any of the calls was refused.
func (t turn) readsRefusal() bool {
	return strings.Contains(strings.Join(t.read, "\n"), "Call refused")
}

// scripted is a model that does what a function says. It can serve many runs at a time.
type scripted func(turn) *schema.Message

func (m scripted) Generate(ctx context.Context, messages []*schema.Message, _ ...model.Option) (*schema.Message, error) {
	return m(turnOf(ctx, messages)), nil
}

func (m scripted) Stream(
	ctx context.Context, messages []*schema.Message, _ ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	return stream([]*schema.Message{m(turnOf(ctx, messages))}, nil), nil
}

func (m scripted) WithTools([]*schema.ToolInfo) (model.ToolCallingChatModel, error) { return m, nil }

func turnOf(ctx context.Context, messages []*schema.Message) turn {
	t := turn{ctx: ctx}
	for _, m := range messages {
		switch m.Role {
		case schema.Assistant:
			t.last = nil
		case schema.Tool:
			said := m.Content
			for _, p := range m.UserInputMultiContent {
				said += p.Text
			}
			t.last, t.read = append(t.last, said), append(t.read, said)
		}
	}
	return t
}

func final(said string) *schema.Message { return schema.AssistantMessage(said, nil) }

// call is a turn of a model with one call.
func call(id, name, args string) *schema.Message { return together(toolCall(id, name, args)) }

// together is a turn of a model with several calls.
func together(calls ...schema.ToolCall) *schema.Message { return schema.AssistantMessage("", calls) }

func toolCall(id, name, args string) schema.ToolCall {
	return schema.ToolCall{ID: id, Type: "function", Function: schema.FunctionCall{Name: name, Arguments: args}}
}

// forever makes one call again and again, whatever it reads.
func forever(name, args string) scripted {
	return func(t turn) *schema.Message { return call(fmt.Sprint("call_", len(t.read)+1), name, args) }
}

// untilRefused makes one call again and again, and gives up when it is refused.
func untilRefused(name, args string) scripted {
	return func(t turn) *schema.Message {
		if t.readsRefusal() {
			return final("gave up")
		}
		return forever(name, args)(t)
	}
}

// times makes one call n times.
func times(n int, name, args string, read *[]string) scripted {
	return func(t turn) *schema.Message {
		*read = t.read
		if len(t.read) >= n {
			return final("done")
		}
		return forever(name, args)(t)
	}
}

// newReact makes an agent of the package react.
func newReact(t *testing.T, m scripted, conf compose.ToolsNodeConfig) *react.Agent {
	t.Helper()
	agent, err := reactAgent(m, conf)
	require.NoError(t, err)
	return agent
}

func reactAgent(m scripted, conf compose.ToolsNodeConfig) (*react.Agent, error) {
	return react.NewAgent(context.Background(), &react.AgentConfig{ToolCallingModel: m, ToolsConfig: conf, MaxStep: 200})
}

// reactAgentOf makes one with the limits that it has of itself.
func reactAgentOf(m scripted, conf compose.ToolsNodeConfig) (*react.Agent, error) {
	return react.NewAgent(context.Background(), &react.AgentConfig{ToolCallingModel: m, ToolsConfig: conf})
}

// generate runs an agent of the package react in a run of its own.
func generate(t *testing.T, guard *middleware.Guard, agent *react.Agent) (*schema.Message, error) {
	t.Helper()
	ctx := middleware.NewRun(t.Context())
	defer func() { _ = guard.Forget(ctx) }()
	return agent.Generate(ctx, []*schema.Message{schema.UserMessage("go")})
}

// newChatModelAgent makes an agent of the agent kit.
func newChatModelAgent(t *testing.T, name string, m scripted, conf compose.ToolsNodeConfig, handlers ...adk.ChatModelAgentMiddleware) adk.Agent {
	t.Helper()
	agent, err := chatModelAgent(name, m, conf, handlers...)
	require.NoError(t, err)
	return agent
}

func chatModelAgent(
	name string, m model.BaseChatModel, conf compose.ToolsNodeConfig, handlers ...adk.ChatModelAgentMiddleware,
) (*adk.ChatModelAgent, error) {
	return adk.NewChatModelAgent(context.Background(), &adk.ChatModelAgentConfig{
		Name: name, Description: "works", Model: m,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: conf}, MaxIterations: 100, Handlers: handlers,
	})
}

// drain reads all events and returns what the agent said last and the error.
func drain[M adk.MessageType](events *adk.AsyncIterator[*adk.TypedAgentEvent[M]]) (last M, interrupts []*adk.InterruptCtx, err error) {
	for event, ok := events.Next(); ok; event, ok = events.Next() {
		if event.Err != nil {
			err = errors.Join(err, event.Err)
		}
		if event.Action != nil && event.Action.Interrupted != nil {
			interrupts = event.Action.Interrupted.InterruptContexts
		}
		if event.Output != nil && event.Output.MessageOutput != nil {
			message, failed := event.Output.MessageOutput.GetMessage()
			if failed == nil {
				last = message
			}
		}
	}
	return last, interrupts, err
}
