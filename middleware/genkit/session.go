package genkit

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
)

// session is the part of a run that one generation makes. The context carries it from turn to turn, and with the context it
// goes. The calls of a turn use it from goroutines of their own.
type session struct {
	run    string // its id
	opened bool   // here, so that it ends here

	mu   sync.Mutex
	stop error // what the generation is to end with
	over bool
}

// sessionKey is the key of the session of a generation. If two guards are in one generation each has its own.
type sessionKey struct{ *generation }

// toolKey is the key, in the context of a tool, of the run that its call is in.
type toolKey struct{}

// session returns the session of the generation, or nil in the first turn.
func (g *generation) session(ctx context.Context) *session {
	s, _ := ctx.Value(sessionKey{g}).(*session)
	return s
}

// open returns a context with a new session.
func (g *generation) open(ctx context.Context) (context.Context, *session) {
	run, _ := middleware.RunID(ctx)
	inTool := ctx.Value(toolKey{}) == any(run)
	s := &session{opened: inTool || !g.hostRun}
	if s.opened {
		ctx = middleware.ChildRun(ctx, g.newName())
	}
	s.run, _ = middleware.RunID(ctx)
	return context.WithValue(ctx, sessionKey{g}, s), s
}

// newName returns a name that no other run has.
func (g *generation) newName() string {
	if g.name == "" {
		return rand.Text()
	}
	return g.name + "-" + rand.Text()
}

// close ends the session, and the run if it was opened with it.
func (g *generation) close(ctx context.Context, s *session) {
	s.mu.Lock()
	s.over = s.opened
	s.mu.Unlock()
	g.tidy(ctx, s)
}

// tidy forgets the run if it is over. Where a tool failed, genkit ends the generation without waiting for the calls beside it,
// and one that is late brings the run back to life.
func (g *generation) tidy(ctx context.Context, s *session) {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over {
		_ = g.guard.Forget(ctx) // the guard reports it if its store fails
	}
}

// end makes the generation end with an error.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = err
}

// stopped returns what the generation is to end with, if it is to end.
func (s *session) stopped() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stop
}
