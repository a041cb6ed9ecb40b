package adk

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

type stubContext struct {
	context.Context
	id, branch string
}

func (c stubContext) InvocationID() string { return c.id }
func (c stubContext) Branch() string       { return c.branch }

// The answer of a user may come while the invocation that asked for it is not yet over, and goes on with its id.
func TestAnInvocationIsOverWhenAllAreThatHaveItsID(t *testing.T) {
	var s invocations
	s.open = map[string]*invocation{}
	ctx := stubContext{t.Context(), "e-1", ""}
	s.begin(ctx)
	s.begin(ctx)
	i := s.of(ctx)
	i.uses(runContext(stubContext{t.Context(), "e-1", "all.one"}))
	assert.Empty(t, s.end(ctx))
	assert.Same(t, i, s.of(ctx))
	assert.ElementsMatch(t, []string{"e-1", "e-1/all.one"}, s.end(ctx))
	assert.Nil(t, s.of(ctx))
	assert.Empty(t, s.open)
	assert.Empty(t, s.end(ctx), "a plugin before this one may have ended it before it began")
}

func TestNotesAreGivenOutOnce(t *testing.T) {
	i := &invocation{notes: map[callKey][]string{{"call_1", "build"}: {"one", "two"}}}
	response := &genai.FunctionResponse{ID: "call_1", Name: "build"}
	assert.Empty(t, i.noteOn(&genai.FunctionResponse{ID: "call_1", Name: "test"}))
	assert.Equal(t, "one", i.noteOn(response))
	assert.Equal(t, "two", i.noteOn(response))
	assert.Empty(t, i.noteOn(response))
	assert.Empty(t, i.notes)
}

// stubCall is the context of a call.
type stubCall struct {
	agent.Context
	stubContext
}

func (c *stubCall) InvocationID() string           { return c.id }
func (c *stubCall) Branch() string                 { return c.branch }
func (c *stubCall) Value(key any) any              { return c.stubContext.Value(key) }
func (c *stubCall) Err() error                     { return c.stubContext.Err() }
func (c *stubCall) FunctionCallID() string         { return "call_1" }
func (c *stubCall) Actions() *session.EventActions { return &session.EventActions{} }

type stubTool struct{ tool.Tool }

func (stubTool) Name() string                                   { return "build" }
func (stubTool) Run(agent.Context, any) (map[string]any, error) { return nil, nil }

// An invocation may have any number of calls.
func TestCallsAreForgottenOneByOne(t *testing.T) {
	guard, err := middleware.New(policy.Default())
	require.NoError(t, err)
	ctx := stubContext{t.Context(), "e-1", ""}
	p := &callbacks{guard: guard, invocations: invocations{open: map[string]*invocation{}}}
	p.invocations.begin(ctx)
	failure := errors.New("no disk")
	for range 25 { // and some are refused
		call := &stubCall{stubContext: ctx}
		answer, _ := p.beforeTool(call, stubTool{}, nil)
		if answer == nil {
			_, _ = p.onToolError(call, stubTool{}, nil, failure)
			_, _ = p.afterTool(call, stubTool{}, nil, nil, failure)
		} else {
			_, _ = p.afterTool(call, stubTool{}, nil, answer, nil)
		}
		call = &stubCall{stubContext: ctx} // answered by a plugin before
		_, _ = p.afterTool(call, stubTool{}, nil, map[string]any{"result": "broken"}, nil)
		call = &stubCall{stubContext: ctx} // of a tool that does not exist
		_, _ = p.onToolError(call, struct{ tool.Tool }{stubTool{}}, nil, failure)
	}
	assert.Empty(t, p.invocations.of(ctx).tickets)
}
