package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// scenario is a task, and what a model does about it.
type scenario struct {
	name, task string
	script     script
}

// script says what a model does next, given what it has read of its calls so far.
type script func(read []string) *llms.ContentChoice

var scenarios = []scenario{
	{"stuck on a failing command", "Where is the database configured?", stuck},
	{"hunting for a tool that does not exist", "Where in the code is the database opened?", hunting},
	{"deaf to warnings and refusals", "Tell me when the queue is empty.", deaf},
}

// stuck reads a file that is not there, over and over, until it is told to take another way.
func stuck(read []string) *llms.ContentChoice {
	switch last := newest(read); {
	case strings.Contains(last, "db.yaml"):
		return answer("The file is called db.yaml; I kept looking for db.yml.")
	case strings.Contains(last, "Call refused"):
		return call("list_files", `{}`)
	default:
		return call("exec", `{"command": "cat db.yml"}`)
	}
}

// hunting is sure that there is a tool for it.
func hunting(read []string) *llms.ContentChoice {
	if strings.Contains(newest(read), "Call refused") {
		return answer("I have no tool to search code with, so I cannot tell. Please ask somebody who can.")
	}
	queries := []string{"sql.Open", "database", "func open", "postgres", "db.internal", "dsn"}
	return call("search_code", fmt.Sprintf(`{"query": %q}`, queries[len(read)]))
}

// deaf looks at the queue and reads nothing but that.
func deaf([]string) *llms.ContentChoice { return call("exec", `{"command": "cat queue.txt"}`) }

func newest(read []string) string {
	if len(read) == 0 {
		return ""
	}
	return read[len(read)-1]
}

func answer(text string) *llms.ContentChoice { return &llms.ContentChoice{Content: text} }

func call(tool, arguments string) *llms.ContentChoice {
	return &llms.ContentChoice{ToolCalls: []llms.ToolCall{{
		Type: "function", FunctionCall: &llms.FunctionCall{Name: tool, Arguments: arguments},
	}}}
}

// model plays a script. In your program, a real one stands in its place.
type model struct {
	script script
	report *report
}

func (m *model) GenerateContent(
	_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	var read []string
	for _, message := range messages {
		for _, part := range message.Parts {
			if response, ok := part.(llms.ToolCallResponse); ok {
				read = append(read, response.Content)
			}
		}
	}
	if len(read) > 0 {
		m.report.read(newest(read))
	}
	choice := m.script(read)
	for i := range choice.ToolCalls {
		choice.ToolCalls[i].ID = fmt.Sprintf("call_%d", len(read)+1)
		m.report.called(choice.ToolCalls[i].FunctionCall.Name)
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

func (m *model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}
