// Command openai guards an agent loop that was written by hand on github.com/openai/openai-go: see agent.go, which is the part
// to copy. The model is a server that speaks the API from a script, so that it runs without a key.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "openai:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	for _, s := range scenes() {
		o, err := play(ctx, s, out)
		if err != nil {
			return err
		}
		var loop *middleware.LoopError
		switch {
		case errors.As(o.err, &loop):
			fmt.Fprintf(out, "  stopped by %s at %d: %s\n", loop.Detector, loop.Count, loop.Reason)
		case o.err != nil:
			return o.err
		default:
			fmt.Fprintf(out, "  answer: %s\n", o.answer)
		}
		fmt.Fprintf(out, "  %d requests; tools were run %d times\n\n", len(o.received), o.runs)
	}
	return nil
}

// outcome is what came of a scene.
type outcome struct {
	answer   string
	err      error
	received [][]message // what the model was sent, by turn
	runs     int         // of tools
}

// play runs an agent against the model of a scene.
func play(ctx context.Context, s scene, out io.Writer) (outcome, error) {
	fmt.Fprintf(out, "%s\n", s.title)
	config := policy.Tight()
	config.Tools = map[string]policy.ToolRule{"job_*": {Poll: new(true)}} // to ask again is what these are for
	guard, err := middleware.New(config)                                  // once for all agents of a program; here each scene has its own
	if err != nil {
		return outcome{}, err
	}
	model := serve(out, s.decide)
	defer model.Close()
	client := openai.NewClient(
		option.WithBaseURL(model.URL),
		option.WithAPIKey("none"),
		option.WithRequestTimeout(time.Minute), // of each attempt
		option.WithMaxRetries(2),               // of requests only: no tool is run, and no call counted, twice
	)
	tools, runs := s.tools()
	a := &agent{client: client, model: "scripted", guard: guard, tools: tools}
	var o outcome
	o.answer, o.err = a.run(ctx, "Do it.")
	o.received, o.runs = model.received(), int(runs.Load())
	return o, nil
}

// refused reports whether one of the answers is a refusal of the guard.
func refused(answers []string) bool {
	return strings.Contains(strings.Join(answers, "\n"), "[loopguard] Call refused")
}
