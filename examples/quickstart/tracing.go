package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// tracing is where the spans go: to a collector, if the environment names one, else into memory.
type tracing struct {
	provider *sdk.TracerProvider
	endpoint string                      // of the collector, or empty
	recorded *tracetest.InMemoryExporter // nil if there is a collector
}

const (
	endpointVariable = "OTEL_EXPORTER_OTLP_ENDPOINT"
	serviceName      = "loopguard-quickstart"
	patience         = 3 * time.Second // with a collector
)

func newTracing(ctx context.Context) (*tracing, error) {
	t := &tracing{endpoint: os.Getenv(endpointVariable)}
	var destination sdk.TracerProviderOption
	if t.endpoint == "" {
		t.recorded = tracetest.NewInMemoryExporter()
		destination = sdk.WithSyncer(t.recorded)
	} else {
		collector, err := otlptracehttp.New(ctx, // it reads the endpoint itself
			otlptracehttp.WithTimeout(patience), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: false}))
		if err != nil {
			return nil, fmt.Errorf("%s is %q: %w", endpointVariable, t.endpoint, err)
		}
		destination = sdk.WithBatcher(collector)
	}
	service := resource.NewSchemaless(attribute.String("service.name", serviceName))
	t.provider = sdk.NewTracerProvider(destination, sdk.WithResource(service))
	return t, nil
}

func (t *tracing) tracer() trace.Tracer { return t.provider.Tracer("loopguard/examples/quickstart") }

// finish sends the traces, or shows them.
func (t *tracing) finish(ctx context.Context, report *report) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() { _ = t.provider.Shutdown(ctx) }()

	if t.recorded != nil {
		report.traces(t.recorded.GetSpans())
		return nil
	}
	if err := t.provider.ForceFlush(ctx); err != nil {
		return fmt.Errorf("the traces could not be sent to %s (unset %s to have them printed): %w",
			t.endpoint, endpointVariable, err)
	}
	report.sent(t.endpoint)
	return nil
}
