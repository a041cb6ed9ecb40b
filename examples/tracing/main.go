// Command tracing shows what an operator sees of agents that go round in circles. It runs ten agents at the same time, of
// which four are healthy and six are not, and sends their traces and metrics to any endpoint that takes OTLP over HTTP:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 go run ./tracing
//
// The agents are loops that were written by hand, see agent.go; the models are scripted, see scenarios.go. What to look for
// in the backend is in README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tracing:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	telemetry, err := newTelemetry(ctx)
	if err != nil {
		return err
	}
	report := &report{found: map[string][]middleware.Detection{}}
	config := policy.Tight()
	config.Tools = map[string]policy.ToolRule{"job_status": {Poll: new(true)}} // to ask again is what it is for
	guard, err := middleware.New(config,
		middleware.WithMeterProvider(telemetry.meters),
		middleware.WithMetricTools("read_page", "query", "job_status"), // all others are counted without a name
		middleware.WithOnDetection(report.detected))
	if err != nil {
		return err
	}
	agent := agent{guard, middleware.NewTracing(telemetry.tracers)}

	outcomes := make([]outcome, len(scenarios))
	var all sync.WaitGroup
	for i, s := range scenarios {
		all.Go(func() { outcomes[i] = agent.work(ctx, s) })
	}
	all.Wait()

	report.print(out, outcomes)
	return telemetry.send(ctx, out)
}
