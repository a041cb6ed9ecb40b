package middleware

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
)

// Events takes the events of a guard in place of spans, see [WithEvents]. The module middleware/otellog has one that makes
// log records of them. Implementations are safe for concurrent use. They are called in the goroutine of the call, and one
// that blocks delays it.
type Events interface {
	// Enabled reports whether an event with a name would be kept. If not, it is not made.
	Enabled(ctx context.Context, name string) bool

	// Emit takes an event: [EventDetection] or [EventStoreFailure], with the attributes that it would have on a span. The
	// context is that of the call and has its span, if there is one.
	Emit(ctx context.Context, name string, attributes []attribute.KeyValue)
}
