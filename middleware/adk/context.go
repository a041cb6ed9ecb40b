package adk

import (
	"context"

	"google.golang.org/adk/v2/agent"

	"github.com/loopguard-go/loopguard/middleware"
)

// Context returns a context that names the run of the guard that a context of the framework belongs to. Tools and callbacks
// use it to tell the guard of a compaction, to guard calls of their own with [middleware.Guard.Do], and to run another
// runner, whose invocation is then a run below this one:
//
//	inner.Run(adk.Context(ctx), userID, sessionID, message, agent.RunConfig{})
//
// The id of the run is that of the invocation, below the run of the host if there is one, see [middleware.WithRun], and
// above the branch if there is one.
func Context(ctx agent.ReadonlyContext) context.Context { return runContext(ctx) }

// invocationContext is what all contexts of the framework have in common.
type invocationContext interface {
	context.Context
	InvocationID() string
	Branch() string
}

func runContext(ctx invocationContext) context.Context {
	run := middleware.ChildRun(ctx, ctx.InvocationID())
	if branch := ctx.Branch(); branch != "" {
		run = middleware.ChildRun(run, branch)
	}
	return run
}
