package guardtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// stub is a tool that remembers how it was run.
type stub struct {
	name string
	// answer is what it does when it is run for the nth time, counted from 1.
	answer func(ctx context.Context, n int, args string) (string, error)

	mu   sync.Mutex
	runs []execution
}

// execution is one time that a tool was run.
type execution struct {
	args string
	span trace.SpanContext
}

func (s *stub) tool() Tool {
	return Tool{Name: s.name, Description: "Does what " + s.name + " does.", Run: s.run}
}

func (s *stub) run(ctx context.Context, args string) (string, error) {
	s.mu.Lock()
	s.runs = append(s.runs, execution{args, trace.SpanContextFromContext(ctx)})
	n := len(s.runs)
	s.mu.Unlock()
	return s.answer(ctx, n, args)
}

// executions returns how it was run so far.
func (s *stub) executions() []execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// stuck is the tool of an agent in a loop: a command that fails the same way each time, with another process id and another
// duration. What it says is read by its marker.
func stuck() *stub {
	return &stub{name: "exec", answer: func(_ context.Context, n int, _ string) (string, error) {
		return fmt.Sprintf(`{"status":"failed","exitCode":1,"pid":%d,"durationMs":%d,"output":"%s: no such file (pid %d)"}`,
			4000+n, 10+n, marker, 4000+n), nil
	}}
}

// marker is a word that only a tool says.
const marker = "report-7f3a.txt"

// reader is the tool of a healthy agent: it says what it was asked for.
func reader() *stub {
	return &stub{name: "read_file", answer: func(_ context.Context, _ int, args string) (string, error) {
		return "content of " + field(args, "path"), nil
	}}
}

// field returns an argument.
func field(args, name string) string {
	var fields map[string]any
	if json.Unmarshal([]byte(args), &fields) != nil {
		return "arguments that are no object"
	}
	value, _ := fields[name].(string)
	return value
}

// calls numbers calls, so that each of a run has an id of its own.
type calls int

func (c *calls) to(tool, args string) Call {
	*c++
	return Call{ID: fmt.Sprintf("call_%d", *c), Tool: tool, Args: args}
}

// repeated is the same call, turn after turn.
func repeated(n int, tool, args string) (turns [][]Call) {
	var next calls
	for range n {
		turns = append(turns, []Call{next.to(tool, args)})
	}
	return turns
}

// varied is a call of one tool, turn after turn, with other arguments each time.
func varied(n int, tool, argument string) (turns [][]Call) {
	var next calls
	for i := range n {
		turns = append(turns, []Call{next.to(tool, fmt.Sprintf(`{%q:"item-%d"}`, argument, i+1))})
	}
	return turns
}
