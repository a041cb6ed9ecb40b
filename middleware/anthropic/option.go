package anthropic

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// Option changes how [ToolResults] and [BetaToolResults] work. Options are made by this package only.
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (o optionFunc) apply(c *config) { o(c) }

type config struct{ tracing *middleware.Tracing }

// WithTracing opens a span "execute_tool NAME" around each call, also of tools that do not exist. Where the provider is nil
// it is the global one. Default: no spans; detections are on the span in the context, if there is one. Runners need no such
// option, as the SDK opens spans around their calls itself.
func WithTracing(provider trace.TracerProvider) Option {
	return optionFunc(func(c *config) { c.tracing = middleware.NewTracing(provider) })
}
