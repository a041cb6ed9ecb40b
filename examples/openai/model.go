package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// scripted is a server that speaks the chat completions API, so that no key is needed: a function decides what the model
// says, by the turn and by what it reads of its last calls. It prints what the guard tells the model.
type scripted struct {
	*httptest.Server
	out    io.Writer
	decide func(turn int, read []string) ([]call, string)

	mu       sync.Mutex
	requests [][]message
}

// call is a tool call that the model makes.
type call struct{ id, tool, args string }

// message is a message of a conversation, in the form of the API.
type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func serve(out io.Writer, decide func(turn int, read []string) ([]call, string)) *scripted {
	s := &scripted{out: out, decide: decide}
	s.Server = httptest.NewServer(s)
	return s
}

// received returns the conversations that the model was sent, by turn.
func (s *scripted) received() [][]message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]message(nil), s.requests...)
}

// ServeHTTP answers with the tool calls, or the text, that the script decides on.
func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var request struct {
		Messages []message `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		reject(w, "this is no chat completion")
		return
	}
	read, err := lastResults(request.Messages)
	if err != nil {
		reject(w, err.Error())
		return
	}
	s.requests = append(s.requests, request.Messages)
	for _, m := range read {
		if at := strings.Index(m.Content, "[loopguard]"); at >= 0 {
			fmt.Fprintf(s.out, "  model reads of %s: %s\n", m.ToolCallID, oneLine(m.Content[at:]))
		}
	}
	texts := make([]string, len(read))
	for i, m := range read {
		texts[i] = m.Content
	}
	calls, text := s.decide(len(s.requests), texts)
	answer, reason := message{Role: "assistant", Content: text}, "stop"
	for _, c := range calls {
		answer.ToolCalls = append(answer.ToolCalls, toolCall{c.id, "function", function{c.tool, c.args}})
		reason = "tool_calls"
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprint("completion-", len(s.requests)), "object": "chat.completion", "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "message": answer, "finish_reason": reason}},
	})
}

// lastResults returns the answers to the calls that the model made last. As with the API, there must be one for each.
func lastResults(messages []message) (read []message, err error) {
	var calls []toolCall
	for _, m := range messages {
		switch m.Role {
		case "assistant":
			calls, read = m.ToolCalls, nil
		case "tool":
			read = append(read, m)
		}
	}
	for i, c := range calls {
		if i >= len(read) || read[i].ToolCallID != c.ID {
			return nil, fmt.Errorf("the answer to the call %s is missing", c.ID)
		}
	}
	return read, nil
}

func reject(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": why, "type": "invalid_request_error"}})
}

// oneLine makes a text fit for one line of a terminal.
func oneLine(text string) string {
	const most = 160
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
