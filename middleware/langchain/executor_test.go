package langchain_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
	"github.com/loopguard-go/loopguard/policy"
)

// untilRefused makes one call again and again, and gives up when it is refused.
func untilRefused(d dialect, tool, input string) func(turn) *llms.ContentChoice {
	return func(t turn) *llms.ContentChoice {
		if t.readsRefusal() {
			return d.final("gave up on " + t.question)
		}
		return d.call(tool, input)
	}
}

// forever makes one call again and again, whatever it reads.
func forever(d dialect, tool, input string) func(turn) *llms.ContentChoice {
	return func(turn) *llms.ContentChoice { return d.call(tool, input) }
}

func TestTheModelIsWarnedAndRefused(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		runs := 0
		m := &model{dialect: d, script: untilRefused(d, "build", "all")}
		executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &runs)}))

		answer, err := chains.Run(t.Context(), executor, "the build")
		require.NoError(t, err)
		assert.Equal(t, "gave up on the build", answer)
		assert.Equal(t, 5, runs, "the sixth call is refused")

		read := m.last.read
		require.Len(t, read, 6)
		for _, i := range []int{0, 1, 2, 4} {
			assert.Equal(t, "broken", read[i])
		}
		assert.Regexp(t, `^broken\n\n\[loopguard\] Warning: .* 3 times`, read[3])
		assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\. .* 5 times`, read[5])
	})
}

func TestAnAbortEndsTheChain(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		runs := 0
		m := &model{dialect: d, script: forever(d, "build", "all")}
		executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &runs)}))

		_, err := chains.Run(t.Context(), executor, "the build")
		require.ErrorIs(t, err, middleware.ErrLoop)
		var loop *middleware.LoopError
		require.ErrorAs(t, err, &loop)
		assert.Same(t, loop, err, "langchaingo wraps nothing around it")
		assert.Equal(t, policy.Abort, loop.Action)
		assert.Equal(t, policy.GlobalCircuitBreaker, loop.Detector)
		assert.Equal(t, 8, loop.Count)
		assert.Equal(t, "build", loop.Tool)
		assert.NotEmpty(t, loop.Run)
		assert.NotEmpty(t, loop.Calls)
		assert.Equal(t, 5, runs)
		assert.Len(t, m.last.read, 8, "the ninth call stops the run")
	})
}

func TestEachCallIsARunOfItsOwn(t *testing.T) {
	store := middleware.NewMemoryStore()
	var seen detections
	guard := newGuard(t, config(), middleware.WithStore(store), seen.option())

	var ids []string
	build := stub{"build", func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		ids = append(ids, id)
		return "broken", nil
	}}
	m := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 3 {
			return mrkl.final("enough")
		}
		return mrkl.call("build", "all")
	}}
	executor := langchain.Wrap(guard, m.executor([]tools.Tool{build}))
	for range 4 {
		_, err := chains.Run(t.Context(), executor, "the build")
		require.NoError(t, err)
	}
	require.Len(t, ids, 12)
	assert.Equal(t, ids[0], ids[2])
	assert.NotEqual(t, ids[2], ids[3])
	assert.Empty(t, seen.all, "twelve equal calls, but three in each run")
	assert.Zero(t, store.Runs(), "all are forgotten")
}

func TestRunsAreForgottenHoweverTheyEnd(t *testing.T) {
	failure := errors.New("no disk")
	ends := map[string]struct {
		tool func() (string, error)
		run  func(*testing.T, func() error)
	}{
		"error": {
			tool: func() (string, error) { return "", failure },
			run:  func(t *testing.T, run func() error) { assert.Same(t, failure, run()) },
		},
		"panic": {
			tool: func() (string, error) { panic(failure) },
			run:  func(t *testing.T, run func() error) { assert.PanicsWithValue(t, failure, func() { _ = run() }) },
		},
		"abort": {
			tool: func() (string, error) { return "broken", nil },
			run:  func(t *testing.T, run func() error) { assert.ErrorIs(t, run(), middleware.ErrLoop) },
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			runs := -1
			build := stub{"build", func(context.Context, string) (string, error) {
				runs = store.Runs()
				return end.tool()
			}}
			m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
			executor := langchain.Wrap(newGuard(t, config(), middleware.WithStore(store)), m.executor([]tools.Tool{build}))

			end.run(t, func() error {
				_, err := chains.Run(t.Context(), executor, "the build")
				return err
			})
			assert.Equal(t, 1, runs, "while it ran")
			assert.Zero(t, store.Runs(), "and after it")
		})
	}
}

func TestASubAgentHasAChildRun(t *testing.T) {
	guard := newGuard(t, config())
	var parent, child string

	inner := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	researcher := langchain.Wrap(guard, inner.executor([]tools.Tool{
		stub{"build", func(ctx context.Context, _ string) (string, error) {
			child, _ = middleware.RunID(ctx)
			return "broken", nil
		}},
	}), langchain.WithName("researcher"))

	var loop *middleware.LoopError
	outer := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 2 {
			return mrkl.final(t.read[1])
		}
		return mrkl.call("researcher", "find out why")
	}}
	boss := langchain.Wrap(guard, outer.executor([]tools.Tool{
		stub{"researcher", func(ctx context.Context, question string) (string, error) {
			parent, _ = middleware.RunID(ctx)
			answer, err := chains.Run(ctx, researcher, question)
			if errors.As(err, &loop) {
				return "the researcher was stopped", nil
			}
			return answer, err
		}},
	}), langchain.WithName("boss"))

	answer, err := chains.Run(t.Context(), boss, "why is it broken?")
	require.NoError(t, err)
	assert.Equal(t, "the researcher was stopped", answer, "twice, and that is no loop of the boss")
	assert.Regexp(t, `^boss-[A-Z2-7]+$`, parent)
	assert.Regexp(t, `^boss-[A-Z2-7]+/researcher-[A-Z2-7]+$`, child)
	assert.True(t, strings.HasPrefix(child, parent+"/"))
	require.NotNil(t, loop)
	assert.Equal(t, child, loop.Run)
}

func TestARunThatTheHostOpenedIsTheParent(t *testing.T) {
	var id string
	build := stub{"build", func(ctx context.Context, _ string) (string, error) {
		id, _ = middleware.RunID(ctx)
		return "", errors.New("enough")
	}}
	m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{build}))
	_, err := chains.Run(middleware.WithRun(t.Context(), "request-7"), executor, "the build")
	require.EqualError(t, err, "enough")
	assert.Regexp(t, `^request-7/[A-Z2-7]+$`, id)
}

func TestApplyWithSeveralWorkers(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		var seen detections
		store := middleware.NewMemoryStore()
		guard := newGuard(t, config(), seen.option(), middleware.WithStore(store))
		build := stub{"build", func(context.Context, string) (string, error) { return "broken", nil }}
		m := &model{dialect: d, script: func(t turn) *llms.ContentChoice {
			switch {
			case t.readsRefusal():
				return d.final("gave up on " + t.question)
			case len(t.read)%2 == 0:
				return d.call("build", "all")
			default:
				return d.call("search", fmt.Sprint(len(t.read)))
			}
		}}
		executor := langchain.Wrap(guard, m.executor([]tools.Tool{build}))

		_, err := chains.Run(t.Context(), executor, "the build")
		require.NoError(t, err)
		alone := seen.byRun()
		require.Len(t, alone, 1)

		seen.all = nil
		inputs := make([]map[string]any, 40)
		for i := range inputs {
			inputs[i] = input(fmt.Sprint("question ", i))
		}
		outputs, err := chains.Apply(t.Context(), executor, inputs, 8)
		require.NoError(t, err)
		for i, output := range outputs {
			assert.Equal(t, fmt.Sprint("gave up on question ", i), output["output"])
		}
		together := seen.byRun()
		assert.Len(t, together, 40)
		for _, found := range together {
			assert.Equal(t, alone[0], found, "as if the run were alone")
		}
		assert.Zero(t, store.Runs())
	})
}

// handler counts what an executor calls back.
type handler struct {
	callbacks.SimpleHandler
	calls   []string
	actions int
}

func (h *handler) HandleChainStart(context.Context, map[string]any) {
	h.calls = append(h.calls, "start")
}
func (h *handler) HandleChainEnd(context.Context, map[string]any) { h.calls = append(h.calls, "end") }
func (h *handler) HandleChainError(_ context.Context, err error) {
	h.calls = append(h.calls, fmt.Sprintf("error %t", errors.Is(err, middleware.ErrLoop)))
}
func (h *handler) HandleAgentAction(context.Context, schema.AgentAction) { h.actions++ }
func (h *handler) HandleAgentFinish(context.Context, schema.AgentFinish) {
	h.calls = append(h.calls, "finish")
}

func TestCallbacksAreStillCalled(t *testing.T) {
	var h handler
	runs := 0
	build := says("build", "broken", &runs)
	m := &model{dialect: mrkl}
	wrap := func() *langchain.Executor {
		return langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{build}, agents.WithCallbacksHandler(&h)))
	}

	m.script = untilRefused(mrkl, "build", "all")
	executor := wrap()
	assert.Same(t, &h, executor.GetCallbackHandler())
	h.calls = nil // the chain in the agent calls back too
	_, err := chains.Run(t.Context(), executor, "the build")
	require.NoError(t, err)
	assert.Equal(t, "start", h.calls[0])
	assert.Equal(t, []string{"finish", "end"}, h.calls[len(h.calls)-2:])
	assert.Equal(t, 6, h.actions, "a refused call is an action too")

	m.script = forever(mrkl, "build", "all")
	_, err = chains.Run(t.Context(), wrap(), "the build")
	require.Error(t, err)
	assert.Equal(t, "error true", h.calls[len(h.calls)-1])
}

func TestMemoryIsKept(t *testing.T) {
	m := &model{dialect: conversational, script: func(t turn) *llms.ContentChoice {
		return conversational.final("it is about " + t.question)
	}}
	executor := langchain.Wrap(newGuard(t, config()), m.executor(nil, agents.WithMemory(memory.NewConversationBuffer())))
	for _, question := range []string{"tea", "coffee"} {
		_, err := chains.Run(t.Context(), executor, question)
		require.NoError(t, err)
	}
	assert.Contains(t, m.text, "it is about tea", "which it said the first time")
}

func TestTheGivenExecutorStaysAsItIs(t *testing.T) {
	runs := 0
	m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	plain := m.executor([]tools.Tool{says("build", "broken", &runs)}, agents.WithMaxIterations(20))
	agent := plain.Agent
	guarded := langchain.Wrap(newGuard(t, config()), plain)
	assert.Same(t, agent, plain.Agent)
	assert.Same(t, agent, guarded.Agent.(interface{ Unwrap() agents.Agent }).Unwrap())

	_, err := chains.Run(t.Context(), plain, "the build")
	require.ErrorIs(t, err, agents.ErrNotFinished)
	assert.Equal(t, 20, runs)
}

func TestTheGuardAfterCompaction(t *testing.T) {
	guard := newGuard(t, policy.Config{}) // in which it is all that is on
	runs := 0
	m := &model{dialect: functions, script: func(given turn) *llms.ContentChoice {
		if len(given.read) == 7 { // too much for the model: it is compacted, and tried again
			assert.NoError(t, guard.Compacted(given.ctx))
		}
		return functions.call("build", "all")
	}}
	executor := langchain.Wrap(guard, m.executor([]tools.Tool{says("build", "broken", &runs)}))
	_, err := chains.Run(t.Context(), executor, "the build")
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
	assert.Equal(t, 7+3, runs)
}

func TestNotices(t *testing.T) {
	m := &model{dialect: mrkl}
	guard := newGuard(t, policy.Default())
	for _, test := range []struct {
		iterations int
		message    string
	}{
		{5, "is 5, so that warnings and refusals never reach the model: it reads warnings from turn 12 on and refusals from " +
			"turn 22; set it above 30, as with agents.WithMaxIterations(40), for the guard to see a loop to its end"},
		{11, "warnings and refusals"},
		{12, "so that refusals never reach the model"},
		{21, "refusals"},
		{22, ""},
	} {
		executor := langchain.Wrap(guard, m.executor(nil, agents.WithMaxIterations(test.iterations)))
		notices := executor.Notices()
		if test.message == "" {
			assert.Empty(t, notices)
			continue
		}
		require.Len(t, notices, 1)
		assert.Equal(t, "MaxIterations", notices[0].Path)
		assert.Contains(t, notices[0].Message, test.message)
	}
}
