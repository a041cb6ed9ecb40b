package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// DefaultIdleTime is how long a run without calls is kept, see [WithIdleTime].
const DefaultIdleTime = 5 * time.Minute

// Option changes a [Middleware]. Options are made by this package only.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

// config is what the options set.
type config struct {
	idle    time.Duration
	nameRun func(context.Context, sdk.Request) string
	tracing *middleware.Tracing
}

// WithRun lets a function name the run of a tool call, for servers whose sessions are no runs: from the metadata or the
// header of the request, or from who made it. Where it returns nothing the run is that of the context, or else of the
// session. It must be safe for concurrent use and must not panic. Default: none.
//
// Whoever can choose the name of a run can join it, and with it others to a stop. Where clients do not trust each other,
// make the authenticated user a part of the name.
func WithRun(name func(context.Context, sdk.Request) string) Option {
	return option(func(c *config) error {
		switch {
		case name == nil:
			return errors.New("WithRun: the function is nil")
		case c.nameRun != nil:
			return errors.New("WithRun: the name of a run is given twice, see also WithRunFromMeta")
		}
		c.nameRun = name
		return nil
	})
}

// WithRunFromMeta is [WithRun] by a string in the metadata of the request (_meta) under a key, such as
// "com.example/conversation".
func WithRunFromMeta(key string) Option {
	return option(func(c *config) error {
		if key == "" {
			return errors.New("WithRunFromMeta: the key is empty")
		}
		return WithRun(func(_ context.Context, req sdk.Request) string {
			name, _ := req.GetParams().GetMeta()[key].(string)
			return name
		}).apply(c)
	})
}

// WithIdleTime sets how long a run is kept that has no calls, be it that of a session or one named by [WithRun]: after that
// time the next call opens a new one, also if the run was stopped. Calls in flight keep it. Default: [DefaultIdleTime]. It
// must be more than 0. The guard's store may have forgotten the run before, see [middleware.WithIdleTime].
func WithIdleTime(d time.Duration) Option {
	return option(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithIdleTime: %v, must be more than 0", d)
		}
		c.idle = d
		return nil
	})
}

// WithTracing opens the spans that the SDK does not: "execute_tool NAME" for each tool call, also of tools that do not exist.
// Where the provider is nil it is the global one. Default: no spans; detections are on the span in the context, if there is
// one.
func WithTracing(provider trace.TracerProvider) Option {
	return option(func(c *config) error {
		c.tracing = middleware.NewTracing(provider)
		return nil
	})
}

func newAdapter(guard *middleware.Guard, options []Option) (*adapter, error) {
	if guard == nil {
		return nil, errors.New("loopguard: the guard is nil")
	}
	c := config{idle: DefaultIdleTime}
	for _, o := range options {
		if o == nil {
			return nil, errors.New("loopguard: an option is nil")
		}
		if err := o.apply(&c); err != nil {
			return nil, fmt.Errorf("loopguard: %w", err)
		}
	}
	return &adapter{
		guard:   guard,
		runs:    newRuns(guard, c.idle),
		nameRun: c.nameRun,
		tracing: c.tracing,
		words:   canonical.New(),
	}, nil
}
