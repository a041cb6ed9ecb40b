package adk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
)

// invocations are the invocations that are not over. The contexts of an invocation carry its id and nothing of ours.
type invocations struct {
	mu   sync.Mutex
	open map[string]*invocation
}

// begin opens an invocation. One that goes on after its user answered has the id of the one that asked, which may not be
// over yet.
func (s *invocations) begin(ctx invocationContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.open[ctx.InvocationID()]
	if i == nil {
		i = &invocation{
			runs:    map[string]*run{},
			tickets: map[agent.Context]*middleware.Ticket{},
			notes:   map[callKey][]string{},
		}
		s.open[ctx.InvocationID()] = i
	}
	i.begun++
	i.uses(runContext(ctx)) // also if there are no calls: a compaction may be all that is said of it
}

// end closes an invocation and returns the runs that are over with it.
func (s *invocations) end(ctx invocationContext) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.open[ctx.InvocationID()]
	if i == nil {
		return nil
	}
	if i.begun--; i.begun > 0 {
		return nil
	}
	delete(s.open, ctx.InvocationID())
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.runs))
}

// of returns the invocation of a context, or nil if it is over or was never opened.
func (s *invocations) of(ctx invocationContext) *invocation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[ctx.InvocationID()]
}

// invocation is what is remembered of an invocation while it lasts.
type invocation struct {
	begun int // how many times, under the lock of invocations

	mu      sync.Mutex
	runs    map[string]*run                      // by id
	tickets map[agent.Context]*middleware.Ticket // of calls from their first callback to their last; nil if there is no more to say
	notes   map[callKey][]string                 // that were not yet added to a result
}

// run is a run of the guard.
type run struct {
	stop error // if it was stopped
	said bool  // and the framework was told
}

// callKey is what a result in an event has in common with its call. Models use ids again.
type callKey struct{ id, tool string }

// uses remembers that a run has to be forgotten.
func (i *invocation) uses(host context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.run(host)
}

func (i *invocation) run(host context.Context) *run {
	id, _ := middleware.RunID(host)
	if i.runs[id] == nil {
		i.runs[id] = &run{}
	}
	return i.runs[id]
}

// stop remembers why a run was stopped. The first reason stays.
func (i *invocation) stop(host context.Context, why error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r := i.run(host); r.stop == nil {
		r.stop = why
	}
}

// stopped returns why the run of a context was stopped, if it was; where it returned that before, only if it is asked again.
func (i *invocation) stopped(ctx invocationContext, again bool) error {
	if i == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id, _ := middleware.RunID(runContext(ctx))
	r := i.runs[id]
	if r == nil || r.stop == nil || r.said && !again {
		return nil
	}
	r.said = true
	return r.stop
}

// All callbacks of a call are given one and the same context, which no other call has.

func (i *invocation) put(ctx agent.Context, t *middleware.Ticket) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tickets[ctx] = t
}

func (i *invocation) has(ctx agent.Context) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, ok := i.tickets[ctx]
	return ok
}

// done returns the ticket of a call that came to its end, the first time.
func (i *invocation) done(ctx agent.Context) *middleware.Ticket {
	i.mu.Lock()
	defer i.mu.Unlock()
	t := i.tickets[ctx]
	i.tickets[ctx] = nil
	return t
}

// take forgets a call.
func (i *invocation) take(ctx agent.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.tickets, ctx)
}

// note keeps a note until the event with the result comes by.
func (i *invocation) note(ctx agent.Context, t tool.Tool, note string) {
	if note == "" {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	key := callKey{ctx.FunctionCallID(), t.Name()}
	i.notes[key] = append(i.notes[key], note)
}

// noteOn returns the note on a result, if there is one, and forgets it.
func (i *invocation) noteOn(r *genai.FunctionResponse) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := callKey{r.ID, r.Name}
	notes := i.notes[key]
	if len(notes) == 0 {
		return ""
	}
	if i.notes[key] = notes[1:]; len(notes) == 1 {
		delete(i.notes, key)
	}
	return notes[0]
}

// lasting returns the error of a tool without what is new in it each time.
func (i *invocation) lasting(t tool.Tool, err error) error {
	if err == nil {
		return nil
	}
	said := err.Error()
	// With a stack, which differs each time.
	if strings.HasPrefix(said, fmt.Sprintf("panic in tool %q: ", t.Name())) {
		return middleware.ErrPanic
	}
	// A sub-agent that was stopped. On its way through a workflow its error became a text, with counts and ids in it.
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, r := range i.runs {
		if r.stop != nil && strings.Contains(said, r.stop.Error()) {
			return r.stop
		}
	}
	return err
}
