package middleware

import (
	"context"
	"crypto/rand"
)

type runKey struct{}

// WithRun returns a context whose tool calls belong to the run with an id. A run is what an agent does for one message of
// its user: a new message takes a new run, and a sub-agent a run of its own. All history is per run, so an id that two
// runs share merges them. Whoever opens a run forgets it at the end, see [Guard.Forget]. An empty id names no run.
func WithRun(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, runKey{}, id)
}

// NewRun is [WithRun] with a new random id.
func NewRun(ctx context.Context) context.Context { return WithRun(ctx, rand.Text()) }

// ChildRun returns a context for a sub-agent of the run in ctx: a run of its own with the id "parent/name". With an empty
// name it takes a random one; give each use of a sub-agent its own. Where ctx names no run it is a run without parent.
//
// If the child is stopped, its error is a [*LoopError] whose Run is the child. To the parent that is the failure of a tool:
// turn it into a result if the parent is to go on.
func ChildRun(ctx context.Context, name string) context.Context {
	if name == "" {
		name = rand.Text()
	}
	if parent, ok := RunID(ctx); ok {
		name = parent + "/" + name
	}
	return WithRun(ctx, name)
}

// RunID returns the id of the run that a context names.
func RunID(ctx context.Context) (id string, ok bool) {
	id, _ = ctx.Value(runKey{}).(string)
	return id, id != ""
}
