package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	serviceName      = "loopguard-tracing"
	patience         = 3 * time.Second // with the endpoint
)

// telemetry is where traces and metrics go.
type telemetry struct {
	endpoint string
	tracers  *trace.TracerProvider
	meters   *metric.MeterProvider
}

// newTelemetry sets up OpenTelemetry as any program does. The exporters read the endpoint, and all else that the
// specification has variables for (headers, certificates, an endpoint for each signal), from the environment.
func newTelemetry(ctx context.Context) (*telemetry, error) {
	t := &telemetry{endpoint: os.Getenv(endpointVariable)}
	if t.endpoint == "" {
		return nil, fmt.Errorf("nowhere to send to: set %s to what takes OTLP over HTTP, such as http://localhost:4318",
			endpointVariable)
	}
	spans, err := otlptracehttp.New(ctx,
		otlptracehttp.WithTimeout(patience), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", endpointVariable, t.endpoint, err)
	}
	numbers, err := otlpmetrichttp.New(ctx,
		otlpmetrichttp.WithTimeout(patience), otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w", endpointVariable, t.endpoint, err)
	}
	service := resource.NewSchemaless(
		attribute.String("service.name", serviceName),
		attribute.String("service.instance.id", rand.Text()), // else the counters of two processes are taken for one
	)
	t.tracers = trace.NewTracerProvider(trace.WithBatcher(spans), trace.WithResource(service))
	t.meters = metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(numbers)), metric.WithResource(service))
	return t, nil
}

// send sends what has not been sent and says what became of it. Many backends keep only one kind of telemetry, so that it
// is an error only if the traces did not arrive.
func (t *telemetry) send(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	numbers := make(chan error, 1)
	go func() { numbers <- t.meters.Shutdown(ctx) }() // sends, too
	err := errors.Join(t.tracers.ForceFlush(ctx), t.tracers.Shutdown(ctx))
	notTaken := <-numbers
	if err != nil {
		return fmt.Errorf("the traces could not be sent to %s: %w", t.endpoint, err)
	}
	fmt.Fprintf(out, "\nThe traces were sent to %s: look there for the service %s.\n", t.endpoint, serviceName)
	fmt.Fprintf(out, "The tag loopguard.action=block finds runs that were refused calls, =abort those that were stopped.\n")
	if notTaken != nil {
		fmt.Fprintln(out, "The metrics were not taken there, as is to be expected of a backend for traces only, such as Jaeger.")
		fmt.Fprintf(out, "  %v\n", notTaken)
		return nil
	}
	fmt.Fprintf(out, "The metrics were sent, too: look for %s.\n", middleware.MetricRunsStopped)
	return nil
}
