package eino

import (
	"context"
	"crypto/rand"

	"github.com/cloudwego/eino/adk"

	"github.com/loopguard-go/loopguard/middleware"
)

// Runner is an adk.Runner that opens a run of the guard for each of its own runs. It is as safe for concurrent use as that
// one.
type Runner[M adk.MessageType] struct {
	runner *adk.TypedRunner[M]
	agent  adk.TypedAgent[M]
	gate   *gate
}

// NewRunner makes a runner as adk.NewRunner and adk.NewTypedRunner do. The tools of the agent are guarded by [Tools].
//
// A run is all that one call of the runner does, whatever agents have a part in it, and it is forgotten when its events are
// over, whatever the end is. The name of the agent stands before its random id. If the context names a run already, it
// is a child of that run. If the run was stopped, the error of its last event is or unwraps to a [*middleware.LoopError].
func NewRunner[M adk.MessageType](guard *middleware.Guard, conf adk.TypedRunnerConfig[M], options ...Option) *Runner[M] {
	return &Runner[M]{adk.NewTypedRunner(conf), conf.Agent, newGate(guard, options)}
}

// events are what a run is seen by.
type events[M adk.MessageType] = *adk.AsyncIterator[*adk.TypedAgentEvent[M]]

// Run starts a run with messages.
func (r *Runner[M]) Run(
	ctx context.Context, messages []M, options ...adk.AgentRunOption,
) *adk.AsyncIterator[*adk.TypedAgentEvent[M]] {
	all, _ := r.run(ctx, func(ctx context.Context) (events[M], error) {
		return r.runner.Run(ctx, messages, options...), nil
	})
	return all
}

// Query starts a run with one message of the user.
func (r *Runner[M]) Query(
	ctx context.Context, query string, options ...adk.AgentRunOption,
) *adk.AsyncIterator[*adk.TypedAgentEvent[M]] {
	all, _ := r.run(ctx, func(ctx context.Context) (events[M], error) {
		return r.runner.Query(ctx, query, options...), nil
	})
	return all
}

// Resume goes on with an interrupted run. To the guard it is a new one, as the old one is forgotten: see the package
// documentation for how to keep it.
func (r *Runner[M]) Resume(
	ctx context.Context, checkPointID string, options ...adk.AgentRunOption,
) (*adk.AsyncIterator[*adk.TypedAgentEvent[M]], error) {
	return r.run(ctx, func(ctx context.Context) (events[M], error) {
		return r.runner.Resume(ctx, checkPointID, options...)
	})
}

// ResumeWithParams goes on with an interrupted run as [Runner.Resume] does.
func (r *Runner[M]) ResumeWithParams(
	ctx context.Context, checkPointID string, params *adk.ResumeParams, options ...adk.AgentRunOption,
) (*adk.AsyncIterator[*adk.TypedAgentEvent[M]], error) {
	return r.run(ctx, func(ctx context.Context) (events[M], error) {
		return r.runner.ResumeWithParams(ctx, checkPointID, params, options...)
	})
}

// run opens a run, starts it, and forgets it at its end. The goroutine that waits for the end hands the events on, as those
// of adk do, and is over with them; nobody has to read them.
func (r *Runner[M]) run(ctx context.Context, start func(context.Context) (events[M], error)) (events[M], error) {
	name := r.agent.Name(ctx)
	id := rand.Text()
	if name != "" {
		id = name + "-" + id
	}
	ctx = middleware.ChildRun(ctx, id)
	closeSpan := func(error) {}
	if r.gate.tracing != nil {
		ctx, closeSpan = r.gate.tracing.StartAgent(ctx, name)
	}
	over := func(err error) {
		_ = r.gate.guard.Forget(ctx) // the guard reports it if its store fails
		closeSpan(err)
	}

	err := middleware.ErrPanic // stays so if an agent panics before there are events
	started := false
	defer func() {
		if !started {
			over(err)
		}
	}()
	all, err := start(ctx)
	if err != nil {
		return nil, err
	}
	started = true

	handed, hand := adk.NewAsyncIteratorPair[*adk.TypedAgentEvent[M]]()
	go func() {
		var failure error
		defer hand.Close()
		defer func() { over(failure) }()
		for event, ok := all.Next(); ok; event, ok = all.Next() {
			if event != nil && event.Err != nil {
				failure = event.Err
			}
			hand.Send(event)
		}
	}()
	return handed, nil
}
