package langchain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
	"github.com/loopguard-go/loopguard/policy"
)

const notValid = "grep is not a valid tool, try another one"

// hunting calls a tool that does not exist, with other arguments each time, until it is refused.
func hunting(d dialect) func(turn) *llms.ContentChoice {
	return func(t turn) *llms.ContentChoice {
		if t.readsRefusal() {
			return d.final("there is no grep")
		}
		return d.call("grep", fmt.Sprintf("attempt %d", len(t.read)))
	}
}

// steps returns the intermediate steps of a call.
func steps(t *testing.T, output map[string]any) []schema.AgentStep {
	t.Helper()
	taken, ok := output["intermediateSteps"].([]schema.AgentStep)
	require.True(t, ok)
	return taken
}

func input(question string) map[string]any { return map[string]any{"input": question} }

func TestAnUnknownToolIsRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		var seen detections
		m := &model{dialect: d, script: hunting(d)}
		plain := m.executor(nil, agents.WithReturnIntermediateSteps())
		executor := langchain.Wrap(newGuard(t, config(), seen.option()), plain)

		output, err := chains.Call(t.Context(), executor, input("find it"))
		require.NoError(t, err)
		assert.Equal(t, "there is no grep", output["output"])

		require.Len(t, m.last.read, 4)
		for _, observation := range m.last.read[:3] {
			assert.Equal(t, notValid, observation)
		}
		assert.Regexp(t, `^\[loopguard\] Call refused: .* 3 calls failed or were refused because there is no such tool`, m.last.read[3])

		taken := steps(t, output)
		require.Len(t, taken, 4)
		for _, step := range taken {
			assert.Equal(t, notValid, step.Observation, "the steps keep what happened")
		}

		require.Len(t, seen.all, 1)
		assert.Equal(t, policy.UnknownToolRepeat, seen.all[0].Detector)
		assert.Equal(t, policy.Block, seen.all[0].Action)
		assert.Equal(t, "grep", seen.all[0].Tool)
	})
}

func TestUnknownToolsUnderSeveralNames(t *testing.T) {
	names := []string{"grep", "rg", "ag", "ack"}
	m := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		if t.readsRefusal() {
			return mrkl.final("none of them")
		}
		return mrkl.call(names[len(t.read)], "needle")
	}}
	answer, err := chains.Run(t.Context(), langchain.Wrap(newGuard(t, config()), m.executor(nil)), "find it")
	require.NoError(t, err)
	assert.Equal(t, "none of them", answer)
	assert.Len(t, m.last.read, 4)
}

func TestAWarningFollowsTheExecutorsWords(t *testing.T) {
	c := config()
	c.UnknownToolThreshold = 20
	eachDialect(t, func(t *testing.T, d dialect) {
		m := &model{dialect: d, script: func(t turn) *llms.ContentChoice {
			if len(t.read) == 5 {
				return d.final("enough")
			}
			return d.call("grep", "needle")
		}}
		_, err := chains.Run(t.Context(), langchain.Wrap(newGuard(t, c), m.executor(nil)), "find it")
		require.NoError(t, err)
		assert.Equal(t, []string{notValid, notValid, notValid}, m.last.read[:3])
		assert.Regexp(t, "^"+notValid+`\n\n\[loopguard\] Warning: .* 3 times`, m.last.read[3])
		assert.Equal(t, notValid, m.last.read[4])
	})
}

func TestAnUnknownToolStopsTheRun(t *testing.T) {
	handler := agents.NewParserErrorHandler(nil) // takes errors of a plan for unreadable answers, but not this one
	eachDialect(t, func(t *testing.T, d dialect) {
		m := &model{dialect: d, script: forever(d, "grep", "needle")}
		executor := langchain.Wrap(newGuard(t, config()), m.executor(nil, agents.WithParserErrorHandler(handler)))
		_, err := chains.Run(t.Context(), executor, "find it")
		var loop *middleware.LoopError
		require.ErrorAs(t, err, &loop)
		assert.Equal(t, policy.Abort, loop.Action)
		assert.Equal(t, "grep", loop.Tool)
		assert.Len(t, m.last.read, 8)
	})
}

func TestUnreadableAnswersAreNoCalls(t *testing.T) {
	var seen detections
	m := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		switch {
		case t.readsRefusal():
			return mrkl.final("there is no grep")
		case len(t.read)%2 == 0:
			return text("Thought: I forgot how to talk")
		default:
			return mrkl.call("grep", "needle")
		}
	}}
	plain := m.executor(nil, agents.WithParserErrorHandler(agents.NewParserErrorHandler(nil)))
	_, err := chains.Run(t.Context(), langchain.Wrap(newGuard(t, config(), seen.option()), plain), "find it")
	require.NoError(t, err)
	require.Len(t, m.last.read, 8)
	for i, observation := range m.last.read[:7] {
		if i%2 == 0 {
			assert.Contains(t, observation, "unable to parse agent output")
		} else {
			assert.Equal(t, notValid, observation)
		}
	}
	assert.Contains(t, m.last.read[7], "Call refused", "the fourth call is the eighth step")
	assert.Len(t, seen.all, 1)
}

func TestParallelCalls(t *testing.T) {
	var seen detections
	runs := 0
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if t.readsRefusal() {
			return functions.final("enough")
		}
		n := len(t.read)
		return together(
			functionCall("grep", fmt.Sprint("one ", n)),
			functionCall("build", "all"),
			functionCall("grep", fmt.Sprint("two ", n)),
			functionCall("build", "all"),
		)
	}}
	c := config()
	c.UnknownToolThreshold, c.GlobalCircuitBreakerThreshold = 4, 30
	c.Detectors = policy.Detectors{PingPong: new(false), Stagnation: new(false)}
	executor := langchain.Wrap(newGuard(t, c, seen.option()), m.executor([]tools.Tool{says("build", "broken", &runs)}))
	_, err := chains.Run(t.Context(), executor, "the build")
	require.NoError(t, err)

	require.Len(t, m.last.read, 12, "three turns of four calls")
	for i, observation := range m.last.read {
		switch {
		case i == 7:
			assert.Regexp(t, `^broken\n\n\[loopguard\] Warning`, observation, "the fourth of build")
		case i == 8, i == 10:
			assert.Contains(t, observation, "Call refused", "the fifth and sixth of grep")
		case i == 11:
			assert.Contains(t, observation, "Call refused", "the sixth of build")
		case i%2 == 0:
			assert.Equal(t, notValid, observation)
		default:
			assert.Equal(t, "broken", observation)
		}
	}

	var calls []string
	for _, found := range seen.all {
		calls = append(calls, found.Action.String()+" "+found.Tool+" "+found.CallID)
	}
	slices.Sort(calls)
	assert.Equal(t, []string{
		"block build call_12", "block grep call_11", "block grep call_9", "warn build call_8",
	}, calls, "with the ids that the model gave them")
}

// What a tool does with other tools was not asked for by the model and has no id.
func TestCallIDsAreThoseOfTheModel(t *testing.T) {
	var seen detections
	c := config()
	c.WarningThreshold = 1
	guard := newGuard(t, c, seen.option())
	test := langchain.Tool(guard, stub{"test", func(_ context.Context, input string) (string, error) {
		return "tested " + input, nil
	}})
	build := stub{"build", func(ctx context.Context, _ string) (string, error) { return test.Call(ctx, "build") }}
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 4 {
			return functions.final("done")
		}
		return together(functionCall("build", "all"), functionCall("test", "all\nObservation:"))
	}}
	_, err := chains.Run(t.Context(), langchain.Wrap(guard, m.executor([]tools.Tool{build, test})), "the build")
	require.NoError(t, err)
	assert.Equal(t, "tested all", strings.SplitN(m.last.read[1], "\n", 2)[0], "executors cut the end off")

	var calls []string
	for _, found := range seen.all {
		calls = append(calls, found.Tool+" "+found.CallID)
	}
	assert.Equal(t, []string{"build call_3", "test ", "test call_4"}, calls, "of the second turn")
}

func TestToolsAreFoundAsTheExecutorFindsThem(t *testing.T) {
	runs := 0
	m := &model{dialect: mrkl, script: untilRefused(mrkl, "BUILD", "all")}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &runs)}))
	_, err := chains.Run(t.Context(), executor, "the build")
	require.NoError(t, err)
	assert.Equal(t, 5, runs, "case does not matter")
}

func TestObservingChangesNothing(t *testing.T) {
	c := config()
	c.Mode = policy.Observe
	var seen detections
	eachDialect(t, func(t *testing.T, d dialect) {
		m := &model{dialect: d, script: func(t turn) *llms.ContentChoice {
			if len(t.read) == 12 {
				return d.final("enough")
			}
			return d.call("grep", "needle")
		}}
		_, err := chains.Run(t.Context(), langchain.Wrap(newGuard(t, c, seen.option()), m.executor(nil)), "find it")
		require.NoError(t, err)
		for _, observation := range m.last.read {
			assert.Equal(t, notValid, observation)
		}
		assert.NotEmpty(t, seen.all)
	})
}

// A host with an executor of its own making that opens runs itself: only the words about invented tools are lost.
func TestAgentWithoutWrap(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	m := &model{dialect: mrkl, script: untilRefused(mrkl, "build", "all")}
	agent := langchain.Agent(guard, m.agent(m, []tools.Tool{says("build", "broken", &runs)}))
	executor := agents.NewExecutor(agent, agents.WithMaxIterations(50))

	_, err := chains.Run(middleware.NewRun(t.Context()), executor, "the build")
	require.NoError(t, err)
	assert.Equal(t, 5, runs)
	assert.Contains(t, m.last.read[3], "Warning")

	m.script = forever(mrkl, "grep", "needle")
	_, err = chains.Run(middleware.NewRun(t.Context()), executor, "find it")
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Equal(t, slices.Repeat([]string{notValid}, 8), m.last.read)

	_, err = chains.Run(t.Context(), executor, "find it")
	require.ErrorIs(t, err, middleware.ErrNoRun)
}

// An agent that plays a tool in the run of another has steps of its own, which the remarks are not about.
func TestAgentsInOneRunKeepTheirRemarksApart(t *testing.T) {
	guard := newGuard(t, config())
	hunt := func(t turn) *llms.ContentChoice { return mrkl.call("grep", fmt.Sprint(len(t.read))) }

	inner := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 4 {
			return mrkl.final("the helper is done")
		}
		return hunt(t)
	}}
	helper := agents.NewExecutor(langchain.Agent(guard, inner.agent(inner, nil)))
	outer := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		switch len(t.read) {
		case 4:
			return mrkl.call("helper", "find it for me")
		case 5:
			return mrkl.final("done")
		}
		return hunt(t)
	}}
	executor := langchain.Wrap(guard, outer.executor([]tools.Tool{chainTool{"helper", helper}}))
	_, err := chains.Run(t.Context(), executor, "find it")
	require.NoError(t, err)
	assert.Contains(t, outer.last.read[3], "Call refused")
	assert.Equal(t, "the helper is done", outer.last.read[4])
	assert.Equal(t, slices.Repeat([]string{notValid}, 4), inner.last.read)
}

func TestAGuardedAgentIsNotGuardedTwice(t *testing.T) {
	guard := newGuard(t, config())
	m := &model{dialect: mrkl}
	once := langchain.Agent(guard, m.agent(m, nil))
	assert.Same(t, once, langchain.Agent(guard, once))

	executor := langchain.Wrap(guard, agents.NewExecutor(once))
	assert.Same(t, once, executor.Agent)
	assert.Same(t, once, langchain.Wrap(guard, &executor.Executor).Agent)
}
