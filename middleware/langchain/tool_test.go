package langchain_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
)

// chainTool is a chain in the role of a tool.
type chainTool struct {
	name  string
	chain chains.Chain
}

func (c chainTool) Name() string        { return c.name }
func (c chainTool) Description() string { return "asks another agent" }

func (c chainTool) Call(ctx context.Context, input string) (string, error) {
	return chains.Run(ctx, c.chain, input)
}

// logged is a decorator of someone else's.
type logged struct{ tools.Tool }

func (l logged) Unwrap() tools.Tool { return l.Tool }

func TestToolKeepsWhatItIs(t *testing.T) {
	build := stub{name: "build"}
	guarded := langchain.Tool(newGuard(t, config()), build)
	assert.Equal(t, build.Name(), guarded.Name())
	assert.Equal(t, build.Description(), guarded.Description())
	assert.Equal(t, "build", guarded.(interface{ Unwrap() tools.Tool }).Unwrap().Name())
}

func TestAGuardedToolIsNotGuardedTwice(t *testing.T) {
	guard := newGuard(t, config())
	once := langchain.Tool(guard, stub{name: "build"})
	assert.Same(t, once, langchain.Tool(guard, once))
	assert.Equal(t, logged{once}, langchain.Tool(newGuard(t, config()), logged{logged{once}}).(logged).Tool)
	assert.NotEqual(t, tools.Tool(logged{stub{name: "test"}}), langchain.Tool(guard, logged{stub{name: "test"}}))

	runs := 0
	m := &model{dialect: mrkl, script: untilRefused(mrkl, "build", "all")}
	all := langchain.Tools(guard, []tools.Tool{says("build", "broken", &runs)})
	_, err := chains.Run(t.Context(), langchain.Wrap(guard, m.executor(all)), "the build")
	require.NoError(t, err)
	assert.Equal(t, 5, runs, "each call counts once")
}

func TestToolAnswers(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	build := langchain.Tool(guard, says("build", "broken", &runs))
	ctx := middleware.WithRun(t.Context(), "r")
	for call := 1; call <= 8; call++ {
		said, err := build.Call(ctx, `{"target": "all"}`)
		require.NoError(t, err)
		switch {
		case call == 4:
			assert.Regexp(t, `^broken\n\n\[loopguard\] Warning: `, said)
		case call >= 6:
			assert.Regexp(t, `^\[loopguard\] Call refused: `, said)
			assert.NotContains(t, said, "broken")
		default:
			assert.Equal(t, "broken", said)
		}
	}
	assert.Equal(t, 5, runs)
	for range 2 {
		_, err := build.Call(ctx, `{"target": "none"}`)
		if err == nil { // another call of the run, and the one that stops it
			_, err = build.Call(ctx, `{"target": "all"}`)
		}
		require.ErrorIs(t, err, middleware.ErrLoop)
	}
	require.NoError(t, guard.Forget(ctx))
	said, err := build.Call(ctx, `{"target": "all"}`)
	require.NoError(t, err)
	assert.Equal(t, "broken", said)

	_, err = build.Call(t.Context(), "")
	require.ErrorIs(t, err, middleware.ErrNoRun)
}

func TestToolErrorsStayWhatTheyAre(t *testing.T) {
	failure := errors.New("no disk")
	build := langchain.Tool(newGuard(t, config()), stub{"build", func(context.Context, string) (string, error) {
		return "", failure
	}})
	ctx := middleware.WithRun(t.Context(), "r")
	for call := 1; call <= 5; call++ {
		_, err := build.Call(ctx, "all")
		require.ErrorIs(t, err, failure)
		require.NotErrorIs(t, err, middleware.ErrLoop)
		if call == 4 {
			assert.Regexp(t, `^no disk\n\n\[loopguard\] Warning: `, err.Error())
		} else {
			assert.Same(t, failure, err)
		}
	}
	said, err := build.Call(ctx, "all")
	require.NoError(t, err)
	assert.Contains(t, said, "Call refused")
}

func TestBlocksAsErrorsEndTheChain(t *testing.T) {
	for _, tool := range []string{"build", "grep"} {
		runs := 0
		m := &model{dialect: mrkl, script: forever(mrkl, tool, "all")}
		guard := newGuard(t, config(), middleware.WithBlocksAsErrors())
		executor := langchain.Wrap(guard, m.executor([]tools.Tool{says("build", "broken", &runs)}))
		_, err := chains.Run(t.Context(), executor, "the build")
		var loop *middleware.LoopError
		require.ErrorAs(t, err, &loop)
		assert.Equal(t, "block", loop.Action.String())
	}
}

// A tool may leave goroutines behind that call other tools while the agent plans on.
func TestToolsThatOutliveTheirCall(t *testing.T) {
	guard := newGuard(t, config())
	other := langchain.Tool(guard, stub{"other", func(context.Context, string) (string, error) { return "fine", nil }})
	var left sync.WaitGroup
	build := stub{"build", func(ctx context.Context, input string) (string, error) {
		left.Go(func() { _, _ = other.Call(ctx, input) })
		return "started " + input, nil
	}}
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 20 {
			return functions.final("done")
		}
		return functions.call("build", string(rune('a'+len(t.read))))
	}}
	_, err := chains.Run(t.Context(), langchain.Wrap(guard, m.executor([]tools.Tool{build})), "the build")
	require.NoError(t, err)
	left.Wait()
}
