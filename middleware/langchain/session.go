package langchain

import (
	"context"
	"slices"
	"sync"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/schema"
)

// session is what is remembered of one run of an agent. One agent serves many runs, so that the context carries it; with
// the context it goes. Nearly always one goroutine uses it, but a tool may leave some behind that still call others.
type session struct {
	agent agents.Agent // whose it is; an agent that plays a tool in the same run has no part in it

	mu      sync.Mutex
	remarks map[int]remark       // by step
	planned []schema.AgentAction // what was planned last and has not yet come to its tool
}

// remark is what the guard has to say about a step in which there was no tool to call; mostly nothing.
type remark struct {
	refusal string // to be read in place of the observation
	note    string // to be read after it
}

type sessionKey struct{}

// withSession returns a context with a new session for an agent.
func withSession(ctx context.Context, a agents.Agent) context.Context {
	return context.WithValue(ctx, sessionKey{}, &session{agent: a, remarks: map[int]remark{}})
}

// sessionOf returns the session of an agent. Where the context has none, it is one that is good for a single plan.
func sessionOf(ctx context.Context, a *agent) *session {
	if s, ok := ctx.Value(sessionKey{}).(*session); ok && s.agent == agents.Agent(a) {
		return s
	}
	return &session{remarks: map[int]remark{}}
}

// remember keeps a remark about a step that the executor has yet to make.
func (s *session) remember(step int, r remark) {
	if r == (remark{}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remarks[step] = r
}

// edit returns the steps as the model is to read them. What it changes, it changes in a copy.
func (s *session) edit(steps []schema.AgentStep) []schema.AgentStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.remarks) == 0 {
		return steps
	}
	edited := slices.Clone(steps)
	for i := range edited {
		if r := s.remarks[i]; r.refusal != "" {
			edited[i].Observation = r.refusal
		} else {
			edited[i].Observation += r.note
		}
	}
	return edited
}

// plan keeps the actions that an executor is about to take.
func (s *session) plan(actions []schema.AgentAction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.planned = slices.Clone(actions)
}

// callID returns the id that the model gave to the call that a tool is asked to run, or nothing. Executors keep it from
// tools; but they run the actions of a plan in their order, so that it is the first of those not yet run.
func callID(ctx context.Context, tool, input string) string {
	s, ok := ctx.Value(sessionKey{}).(*session)
	if !ok {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.planned, func(action schema.AgentAction) bool {
		return sameTool(action.Tool, tool) && toolInput(action) == input
	})
	if i < 0 {
		return ""
	}
	id := s.planned[i].ToolID
	s.planned = slices.Delete(s.planned, i, i+1)
	return id
}
