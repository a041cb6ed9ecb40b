package langchain

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// Option changes an [Executor]. Options are made by this package only.
type Option interface{ apply(*Executor) }

type option func(*Executor)

func (o option) apply(e *Executor) { o(e) }

// WithName puts a name before the random ids of the executor's runs, so that errors, logs and traces say which agent it
// was. The sub-agent "researcher" of the run R has runs such as "R/researcher-7KQ…". Default: the ids are random alone.
func WithName(name string) Option {
	return option(func(e *Executor) { e.name = name })
}

// WithTracing opens the spans that langchaingo does not: "invoke_agent NAME" around each call of the executor, with the
// name of [WithName], and in it "execute_tool NAME" for each tool call, also of tools that do not exist. Where the provider
// is nil it is the global one. A tool that was guarded with [Tool] before has no span. Default: no spans; detections are on
// the span in the context, if there is one.
func WithTracing(provider trace.TracerProvider) Option {
	return option(func(e *Executor) { e.tracing = middleware.NewTracing(provider) })
}
