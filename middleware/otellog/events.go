// Package otellog makes log records of OpenTelemetry of what a guard would else put on spans as events.
//
//	guard, err := middleware.New(policy.Default(), middleware.WithEvents(otellog.Events(provider)))
//
// A record has the name and the attributes of the event, the severity Warn, and the trace and the span of the call.
//
// It is a module of its own because the API for logs changed from version to version until v1.47: the core of loopguard
// works with older versions of OpenTelemetry, which cannot have both.
package otellog

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/loopguard-go/loopguard/middleware"
)

// Events returns what sends events to a provider. Where the provider is nil it is the global one.
func Events(provider log.LoggerProvider) middleware.Events {
	if provider == nil {
		provider = otel.GetLoggerProvider()
	}
	return events{provider.Logger(middleware.ScopeName, log.WithInstrumentationVersion(middleware.Version))}
}

type events struct{ logger log.Logger }

// Enabled asks the logger, which knows of the filters of its processors.
func (e events) Enabled(ctx context.Context, name string) bool {
	return e.logger.Enabled(ctx, log.EnabledParameters{Severity: log.SeverityWarn, EventName: name})
}

// Emit emits a record. The trace and the span are those of the context.
func (e events) Emit(ctx context.Context, name string, attributes []attribute.KeyValue) {
	var record log.Record
	record.SetEventName(name)
	record.SetSeverity(log.SeverityWarn)
	record.SetSeverityText("WARN")
	record.SetTimestamp(time.Now())
	record.AddAttributes(attributes...)
	e.logger.Emit(ctx, record)
}
