package mcp

import (
	"context"
	"crypto/rand"
	"runtime"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// name is the key of a run that has a name.
type name string

// enterRun returns a context that names the run of a call, and a function to be called when the call has come to its end.
func (a *adapter) enterRun(ctx context.Context, req sdk.Request) (context.Context, func()) {
	if a.nameRun != nil {
		if id := canonical.Bound(a.nameRun(ctx, req)); id != "" {
			return a.enter(ctx, name(id), func() (string, func()) { return id, func() {} })
		}
	}
	if _, ok := middleware.RunID(ctx); ok {
		return ctx, func() {} // whoever opened it forgets it
	}
	switch s := req.GetSession().(type) {
	case *sdk.ServerSession:
		if s != nil {
			return enterSession(ctx, a, s)
		}
	case *sdk.ClientSession:
		if s != nil {
			return enterSession(ctx, a, s)
		}
	}
	return ctx, func() {} // made by hand: the guard knows a default, or says what is missing
}

func (a *adapter) enter(
	ctx context.Context, key any, open func() (id string, closing func()),
) (context.Context, func()) {
	e := a.runs.enter(key, open)
	return middleware.WithRun(ctx, e.id), func() { a.runs.leave(e) }
}

// enterSession enters the run of a session. Most sessions have no id, and that of others is a secret, so that it is known by
// the session itself, which is not kept for that.
func enterSession[S any](ctx context.Context, a *adapter, session *S) (context.Context, func()) {
	key := weak.Make(session)
	return a.enter(ctx, key, func() (string, func()) {
		cleanup := runtime.AddCleanup(session, func(key weak.Pointer[S]) { a.runs.end(key) }, key)
		return rand.Text(), cleanup.Stop
	})
}
