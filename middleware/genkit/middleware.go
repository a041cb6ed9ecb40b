package genkit

import (
	"context"
	"errors"
	"sync"

	"github.com/firebase/genkit/go/ai"

	"github.com/loopguard-go/loopguard/middleware"
)

// Middleware guards the tool calls of every generation that it is given to, with [ai.WithUse]. It is made by [New], once for
// many generations. It is safe for concurrent use: what belongs to one generation is made anew for each.
type Middleware struct{ *settings }

var _ ai.Middleware = Middleware{}

// settings are what all generations share.
type settings struct {
	guard   *middleware.Guard
	around  middleware.Interceptor
	tracing *middleware.Tracing // nil for none
	name    string
	hostRun bool
	noticed sync.Once
}

// New makes a middleware of a guard. Each generation that uses it is a run of its own; see [WithHostRun] for runs that are more
// than that. A generation within a tool of another one is a run below that one's.
func New(guard *middleware.Guard, options ...Option) Middleware {
	s := &settings{guard: guard}
	for _, o := range options {
		o.apply(s)
	}
	if guard == nil {
		return Middleware{s}
	}
	s.around = guard.Interceptor()
	if s.tracing != nil {
		s.around = middleware.Chain(s.tracing.Interceptor(), s.around)
	}
	return Middleware{s}
}

// Name is what the middleware is called where it is registered, see genkit.DefineMiddleware.
func (Middleware) Name() string { return "loopguard" }

// New makes the hooks of one generation. It is for genkit to call. The error says that there is no guard, which is how a
// generation finds out that its middleware was not made by the function [New].
func (m Middleware) New(context.Context) (*ai.Hooks, error) {
	if m.settings == nil || m.guard == nil {
		return nil, errors.New("loopguard: there is no guard: the middleware has to be made with New and a guard")
	}
	g := &generation{m.settings}
	return &ai.Hooks{WrapGenerate: g.wrapTurn, WrapTool: g.wrapTool}, nil
}
