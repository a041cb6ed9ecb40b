package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/tmc/langchaingo/llms"
)

// scripted is a model that needs no key: a function decides by the turn and by what the tools answered last. It prints
// what it reads.
type scripted struct {
	name   string
	out    io.Writer
	decide func(turn int, read []string) ([]llms.ToolCall, string)

	mu   sync.Mutex
	turn int
}

// GenerateContent answers with the tool calls, or the text, that the script decides on.
func (m *scripted) GenerateContent(
	_ context.Context, history []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	read := lastAnswers(history)
	for _, text := range read {
		fmt.Fprintf(m.out, "  %s reads: %s\n", m.name, oneLine(text))
	}
	m.turn++
	calls, text := m.decide(m.turn, read)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text, ToolCalls: calls}}}, nil
}

// Call is the part of the interface that agents do not use.
func (m *scripted) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// lastAnswers returns the answers of the tools since the model spoke last.
func lastAnswers(history []llms.MessageContent) []string {
	var answers []string
	for _, message := range history {
		switch message.Role {
		case llms.ChatMessageTypeAI:
			answers = nil
		case llms.ChatMessageTypeTool:
			for _, part := range message.Parts {
				if response, ok := part.(llms.ToolCallResponse); ok {
					answers = append(answers, response.Content)
				}
			}
		}
	}
	return answers
}

// refused reports whether one of the answers is a refusal of the guard.
func refused(answers []string) bool {
	for _, text := range answers {
		if strings.Contains(text, "[loopguard] Call refused") {
			return true
		}
	}
	return false
}

// call makes a tool call of the model.
func call(id, name, args string) llms.ToolCall {
	return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: args}}
}

// oneLine makes a text fit for one line of a terminal.
func oneLine(text string) string {
	const most = 160
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
