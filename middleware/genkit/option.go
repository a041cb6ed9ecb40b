package genkit

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// Option changes a [Middleware]. Options are made by this package only.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

// WithName puts a name before the random ids of the runs that the middleware opens, so that errors, logs and traces say which
// agent it was. The sub-agent "researcher" of the run R has runs such as "R/researcher-7KQ…". Default: the ids are random
// alone.
func WithName(name string) Option {
	return option(func(s *settings) { s.name = name })
}

// WithHostRun makes generations part of the run that the context names (or of the guard's default run), which the host opens
// with [middleware.NewRun] and ends with [middleware.Guard.Forget]. It is for hosts that need several generations for one
// message of the user: to have interrupted calls confirmed and restarted, or to try again after an error. If there is no run
// the first tool call ends the generation with [middleware.ErrNoRun]. A generation within a tool is a run of its own even so.
// Default: each generation is a run of its own, below the one that the context names, if it names one.
func WithHostRun() Option {
	return option(func(s *settings) { s.hostRun = true })
}

// WithTracing opens a span "execute_tool NAME" around each call. Where the provider is nil it is the global one, which is the
// one that genkit uses. Calls that were refused have no other span; the span that genkit opens for a tool is inside this one.
// Default: no spans; detections are on genkit's span of the turn.
func WithTracing(provider trace.TracerProvider) Option {
	return option(func(s *settings) { s.tracing = middleware.NewTracing(provider) })
}
