package langchain

import (
	"context"
	"crypto/rand"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/chains"

	"github.com/loopguard-go/loopguard/middleware"
)

// Executor is an agents.Executor with a guard in it. It is a chain like any other, with the memory, the callbacks and the
// limits of the one that it was made of, and as safe for concurrent use as that one: the guard adds no state that calls
// share.
type Executor struct {
	agents.Executor
	guard   *middleware.Guard
	name    string
	tracing *middleware.Tracing // nil for none
}

var (
	_ chains.Chain           = (*Executor)(nil)
	_ callbacks.HandlerHaver = (*Executor)(nil)
)

// Wrap returns a copy of an executor in which all tool calls are guarded, also those of tools that do not exist. The
// executor itself stays as it is. Each call of the chain is a run of its own, see [Executor.Call]. What [Executor.Notices]
// says is logged by the guard, if it has a logger.
//
// An agent that is guarded already keeps its guard; give Wrap the same one. Decorators of the agent, such as one that
// shortens its steps, belong under the guard: put them there first.
func Wrap(guard *middleware.Guard, executor *agents.Executor, options ...Option) *Executor {
	e := &Executor{Executor: *executor, guard: guard}
	for _, o := range options {
		o.apply(e)
	}
	e.Agent = guardAgent(guard, e.tracing, executor.Agent)
	for _, n := range e.Notices() {
		guard.LogNotice(n)
	}
	return e
}

// Call runs the agent. As with any chain, it is for chains.Run and its like to call.
//
// It opens a run and forgets it at the end, whatever the end is. If the context names a run already, it is a child of
// that run, so that a guarded agent that is a tool of another one is a sub-agent of it. If the agent was stopped the error
// is a [*middleware.LoopError].
func (e *Executor) Call(
	ctx context.Context, inputs map[string]any, options ...chains.ChainCallOption,
) (outputs map[string]any, err error) {
	ctx = withSession(e.openRun(ctx), e.Agent)
	if e.tracing != nil {
		var end func(error)
		ctx, end = e.tracing.StartAgent(ctx, e.name)
		err = middleware.ErrPanic // stays so if the agent panics
		defer func() { end(err) }()
	}
	defer func() { _ = e.guard.Forget(ctx) }() // the guard reports it if its store fails
	return e.Executor.Call(ctx, inputs, options...)
}

// openRun opens a run that no other has the id of.
func (e *Executor) openRun(ctx context.Context) context.Context {
	id := rand.Text()
	if e.name != "" {
		id = e.name + "-" + id
	}
	return middleware.ChildRun(ctx, id)
}
