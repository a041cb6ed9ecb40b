// Quickstart shows a loop guard at work in an agent of langchaingo.
//
// The model is scripted, so that no API key is needed. All else is what a real program has: the agent and its executor, a
// tool that runs real processes, the guard, and traces. Three models run into a loop: one changes course when it is told
// to, one hunts for a tool that does not exist, and one listens to nothing and is stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/tools"
	"go.opentelemetry.io/otel/codes"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
	"github.com/loopguard-go/loopguard/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	workspace, err := newWorkspace()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(workspace) }()

	tracing, err := newTracing(ctx)
	if err != nil {
		return err
	}
	report := &report{out: out}

	// One guard serves the whole program. Tight warns at 5 and refuses at 10; it would stop a run at 15.
	config := policy.Tight()
	config.GlobalCircuitBreakerThreshold = 12
	guard, err := middleware.New(config, middleware.WithOnDetection(report.detected))
	if err != nil {
		return err
	}
	toolbox := []tools.Tool{execTool{workspace}, listTool{workspace}}
	for _, s := range scenarios {
		if err := s.play(ctx, tracing, guard, toolbox, report); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return tracing.finish(ctx, report)
}

// play runs one agent on its task, in a trace of its own.
func (s scenario) play(
	ctx context.Context, tracing *tracing, guard *middleware.Guard, toolbox []tools.Tool, report *report,
) error {
	ctx, span := tracing.tracer().Start(ctx, s.name) // in your program, the span of the request for example
	defer span.End()
	report.start(s.name, s.task)

	agent := agents.NewOpenAIFunctionsAgent(&model{script: s.script, report: report}, toolbox)
	executor := agents.NewExecutor(agent, agents.WithMaxIterations(40))
	guarded := langchain.Wrap(guard, executor, // that is all there is to install
		langchain.WithName("helper"), langchain.WithTracing(tracing.provider))

	answer, err := chains.Run(ctx, guarded, s.task)
	var loop *middleware.LoopError
	switch {
	case errors.As(err, &loop):
		span.SetStatus(codes.Error, loop.Reason)
		report.stopped(loop)
	case err != nil:
		return err
	default:
		report.finished(answer)
	}
	return nil
}

// newWorkspace makes the directory in which the tools work.
func newWorkspace() (string, error) {
	dir, err := os.MkdirTemp("", "loopguard-quickstart-")
	if err != nil {
		return "", err
	}
	files := map[string]string{"db.yaml": "host: db.internal\n", "queue.txt": "3 jobs waiting\n"}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}
