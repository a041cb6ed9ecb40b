package eino

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// Option changes how the guard is put into eino. Options are made by this package only.
type Option interface{ apply(*gate) }

type option func(*gate)

func (o option) apply(g *gate) { o(g) }

// WithTracing opens the spans that eino does not: "execute_tool NAME" for each tool call, also of tools that do not exist,
// until its result is there or, of a stream, at its end; and with [NewRunner] "invoke_agent NAME" around each run. Where the
// provider is nil it is the global one. Give it to all that you install, or calls of the one have spans and calls of the
// other have none. Default: no spans; detections are on the span in the context, if there is one.
func WithTracing(provider trace.TracerProvider) Option {
	return option(func(g *gate) { g.tracing = middleware.NewTracing(provider) })
}
