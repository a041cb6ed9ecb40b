// Command customloop guards an agent loop that was written by hand, without a framework: see agent.go, which is the part
// to copy. It shows parallel calls, a sub-agent with a run of its own, and a context that is compacted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/tmc/langchaingo/llms"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "customloop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	config := policy.Tight()
	config.Tools = map[string]policy.ToolRule{"job_*": {Poll: new(true)}} // to ask again is what these are for
	guard, err := middleware.New(config, middleware.WithOnDetection(
		func(_ context.Context, d middleware.Detection) {
			fmt.Fprintf(out, "  guard: %s by %s at %d, tool %s, run %s\n", d.Action, d.Detector, d.Count, d.Tool, d.Run)
		}))
	if err != nil {
		return err
	}
	for _, scene := range []struct {
		title string
		play  func(context.Context, *middleware.Guard, io.Writer) error
	}{
		{"Three calls at a time, and one of them makes no progress", parallel},
		{"A sub-agent goes in circles, in a run of its own", subAgent},
		{"A context is compacted and the agent starts the same loop again", compaction},
	} {
		fmt.Fprintf(out, "%s\n", scene.title)
		if err := scene.play(ctx, guard, out); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// parallel has a model that watches three jobs at the same time. One of them is stuck; when the guard refuses to ask for it
// again, the model gives that one up. The others move and are left alone.
func parallel(ctx context.Context, guard *middleware.Guard, out io.Writer) error {
	model := &scripted{name: "model", out: out, decide: func(turn int, read []string) ([]llms.ToolCall, string) {
		if refused(read) {
			return nil, "Jobs a and b are running; job c is stuck and I stopped waiting for it."
		}
		n := strconv.Itoa(turn)
		return []llms.ToolCall{call("a"+n, "job_a", "{}"), call("b"+n, "job_b", "{}"), call("c"+n, "job_c", "{}")}, ""
	}}
	a := &agent{model: model, guard: guard, tools: map[string]tool{
		"job_a": progress(3),
		"job_b": progress(7),
		"job_c": func(context.Context, string) (string, error) { return `{"state":"queued"}`, nil },
	}}
	answer, err := a.run(middleware.WithRun(ctx, "watch"), "Wait for the jobs.")
	fmt.Fprintf(out, "  answer: %s\n", answer)
	return err
}

// progress returns the status tool of a job that moves by a step each time it is asked for.
func progress(step int) tool {
	percent := 0
	return func(context.Context, string) (string, error) {
		percent += step
		return fmt.Sprintf(`{"state":"running","percent":%d}`, percent), nil
	}
}

// subAgent has a model that hands its work to another agent. That one reads the same page again and again; the guard
// refuses it there, and the run of the model itself is not touched.
func subAgent(ctx context.Context, guard *middleware.Guard, out io.Writer) error {
	uses := 0
	researcher := func(ctx context.Context, _ string) (string, error) {
		uses++ // each use of a sub-agent is a run of its own
		model := &scripted{name: "researcher", out: out, decide: func(turn int, read []string) ([]llms.ToolCall, string) {
			if refused(read) {
				return nil, "The page names no author."
			}
			return []llms.ToolCall{call("r"+strconv.Itoa(turn), "read_page", `{"url":"https://example.org/"}`)}, ""
		}}
		a := &agent{model: model, guard: guard, tools: map[string]tool{
			"read_page": func(context.Context, string) (string, error) { return "Example Domain", nil },
		}}
		return a.run(middleware.ChildRun(ctx, fmt.Sprintf("researcher-%d", uses)), "Who wrote it?")
	}
	model := &scripted{name: "model", out: out, decide: func(turn int, read []string) ([]llms.ToolCall, string) {
		if turn == 1 {
			return []llms.ToolCall{call("m1", "research", `{"question":"Who wrote it?"}`)}, ""
		}
		return nil, "I could not find an author. " + read[0]
	}}
	a := &agent{model: model, guard: guard, tools: map[string]tool{"research": researcher}}
	answer, err := a.run(middleware.WithRun(ctx, "question"), "Find the author.")
	fmt.Fprintf(out, "  answer: %s\n", answer)
	return err
}

// compaction has a model that forgets with every compaction that it was here before. The guard does not: it stops the run
// after three calls that are the same.
func compaction(ctx context.Context, guard *middleware.Guard, out io.Writer) error {
	model := &scripted{name: "model", out: out, decide: func(turn int, _ []string) ([]llms.ToolCall, string) {
		return []llms.ToolCall{call("c"+strconv.Itoa(turn), "read_file", `{"path":"main.go"}`)}, ""
	}}
	a := &agent{model: model, guard: guard, compactAt: 8, tools: map[string]tool{
		"read_file": func(context.Context, string) (string, error) { return "package main", nil },
	}}
	_, err := a.run(middleware.WithRun(ctx, "refactoring"), "Tidy up main.go.")
	var loop *middleware.LoopError
	if !errors.As(err, &loop) {
		return fmt.Errorf("the run was not stopped: %w", err)
	}
	fmt.Fprintf(out, "  stopped: %v\n", loop)
	return nil
}
