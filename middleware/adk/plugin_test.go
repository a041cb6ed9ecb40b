package adk_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/policy"
)

func TestTheModelIsWarnedAndRefused(t *testing.T) {
	runs := 0
	var read []string
	m := reading(&read, untilRefused("build", `{"target":"all"}`))
	r := guarded(t, newGuard(t, config()), llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs)}))

	events, err := run(t.Context(), r, "s", message("build it"))
	require.NoError(t, err)
	assert.Equal(t, "gave up", events[len(events)-1].Content.Parts[0].Text)
	assert.Equal(t, 5, runs, "the sixth call is refused")

	require.Len(t, read, 6)
	for _, i := range []int{0, 1, 2, 4} {
		assert.Equal(t, "broken", read[i])
	}
	assert.Regexp(t, `^broken\n\n\[loopguard\] Warning: .* 3 times`, read[3])
	assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\. .* 5 times`, read[5])

	// In the events, and so in the session, it is what the model reads.
	kept := responsesIn(events)
	require.Len(t, kept, 6)
	assert.Equal(t, map[string]any{"result": "broken"}, kept[2].Response)
	assert.Len(t, kept[3].Response, 2)
	assert.Equal(t, "broken", kept[3].Response["result"], "the result stays what it was")
	assert.Regexp(t, `^\[loopguard\] Warning`, kept[3].Response[adk.NoteKey])
	assert.Len(t, kept[5].Response, 1)
	assert.Regexp(t, `^\[loopguard\] Call refused`, kept[5].Response["error"])
}

func TestAnAbortEndsTheInvocation(t *testing.T) {
	runs := 0
	guard := newGuard(t, config())
	turns := 0
	m := scripted(func(t turn) *genai.Content {
		turns++
		if strings.Contains(fmt.Sprint(t.said[len(t.said)-1].Parts[0].Text), "again") {
			return say(strings.Join(t.read, "|"))
		}
		return call("build", `{}`)
	})
	r := guarded(t, guard, llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs)}))
	_, err := run(t.Context(), r, "s", message("build it"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Same(t, loop, err, "nothing is wrapped around it")
	assert.Equal(t, policy.Abort, loop.Action)
	assert.Equal(t, policy.GlobalCircuitBreaker, loop.Detector)
	assert.Equal(t, "build", loop.Tool)
	assert.Regexp(t, `^e-[0-9a-f-]{36}$`, loop.Run, "the id of the invocation")
	assert.Equal(t, 5, runs)
	assert.Equal(t, 9, turns, "the ninth call stops the run")

	// The session can go on, in a new run. The model reads in it why the last call brought nothing.
	events, err := run(t.Context(), r, "s", message("again"))
	require.NoError(t, err)
	said := strings.Split(events[len(events)-1].Content.Parts[0].Text, "|")
	require.Len(t, said, 9)
	assert.Regexp(t, `^\[loopguard\] The run was stopped and the tool was not run\. 8 calls `, said[8])
	assert.NotContains(t, said[8], loop.Run)
}

func TestPluginNeedsAGuard(t *testing.T) {
	_, err := adk.Plugin(nil)
	require.EqualError(t, err, "adk: the guard is nil")
}

func TestARunnerTakesItOnce(t *testing.T) {
	guard := newGuard(t, config())
	one, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	two, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	_, err = runner.New(runner.Config{
		Agent: llm(t, "worker", times(0, "", ""), nil), SessionService: session.InMemoryService(),
		PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{one, two}},
	})
	require.ErrorContains(t, err, "'loopguard' already registered")
}

// roots are the two ways in which a runner runs an agent: as a node of a workflow, and by itself.
func roots(t *testing.T, test func(t *testing.T, root func(agent.Agent) agent.Agent)) {
	t.Run("node", func(t *testing.T) { test(t, func(a agent.Agent) agent.Agent { return a }) })
	t.Run("agent", func(t *testing.T) {
		test(t, func(a agent.Agent) agent.Agent {
			root, err := sequentialagent.New(sequentialagent.Config{
				AgentConfig: agent.Config{Name: "root", SubAgents: []agent.Agent{a}},
			})
			require.NoError(t, err)
			return root
		})
	})
}

func TestRunsAreForgottenHoweverTheyEnd(t *testing.T) {
	failure := errors.New("no disk")
	ends := map[string]func(*testing.T, *runner.Runner, *int){
		"answer": func(t *testing.T, r *runner.Runner, _ *int) {
			_, err := run(t.Context(), r, "s", message("3"))
			require.NoError(t, err)
		},
		"abort": func(t *testing.T, r *runner.Runner, _ *int) {
			_, err := run(t.Context(), r, "s", message("99"))
			require.ErrorIs(t, err, middleware.ErrLoop)
		},
		"failing model": func(t *testing.T, r *runner.Runner, _ *int) {
			_, err := run(t.Context(), r, "s", message("fail"))
			require.ErrorIs(t, err, failure)
		},
		"nobody reads on": func(t *testing.T, r *runner.Runner, runs *int) {
			for range r.Run(t.Context(), "user", "s", message("99"), agent.RunConfig{}) {
				if *runs == 2 {
					break
				}
			}
		},
		"cancelled": func(t *testing.T, r *runner.Runner, runs *int) {
			ctx, cancel := context.WithCancel(t.Context())
			for _, err := range r.Run(ctx, "user", "s", message("99"), agent.RunConfig{}) {
				if err != nil { // of one or another kind: as a node, the agent panics and that is caught
					break
				}
				if *runs == 2 {
					cancel()
				}
			}
			cancel()
		},
		"a reader that panics": func(t *testing.T, r *runner.Runner, runs *int) {
			assert.Panics(t, func() {
				for range r.Run(t.Context(), "user", "s", message("99"), agent.RunConfig{}) {
					if *runs == 2 {
						panic("no more")
					}
				}
			})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			roots(t, func(t *testing.T, root func(agent.Agent) agent.Agent) {
				runs := 0
				m := &failing{scripted: func(t turn) *genai.Content {
					n := 0
					_, _ = fmt.Sscan(t.said[0].Parts[0].Text, &n)
					return times(n, "build", `{}`)(t)
				}, failure: failure}
				guard := newGuard(t, config())
				end(t, guarded(t, guard, root(llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs)}))), &runs)
				assert.Zero(t, guard.store.Runs())
				if name != "failing model" {
					assert.NotZero(t, runs)
				}
			})
		})
	}
}

// failing is a model that fails if it is asked to.
type failing struct {
	scripted
	failure error
}

func (m *failing) GenerateContent(ctx context.Context, req *model.LLMRequest, stream bool) iter.Seq2[*model.LLMResponse, error] {
	if req.Contents[0].Parts[0].Text == "fail" {
		return func(yield func(*model.LLMResponse, error) bool) { yield(nil, m.failure) }
	}
	return m.scripted.GenerateContent(ctx, req, stream)
}

// A run can be stopped in a turn after which the model is not called: another call of it may have ended the work.
func TestAbortInTheLastTurn(t *testing.T) {
	roots(t, func(t *testing.T, root func(agent.Agent) agent.Agent) {
		runs := 0
		leave := function(t, functiontool.Config{Name: "leave"}, func(ctx agent.Context, _ string) (string, error) {
			ctx.Actions().SkipSummarization = true
			return "bye", nil
		})
		m := scripted(func(t turn) *genai.Content {
			if len(t.read) < 8 {
				return call("build", `{}`)
			}
			return together(functionCall("", "build", `{}`), functionCall("", "leave", `{}`))
		})
		guard := newGuard(t, config())
		r := guarded(t, guard, root(llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs), leave})))
		_, err := run(t.Context(), r, "s", message("build it"))
		require.ErrorIs(t, err, middleware.ErrLoop)
		assert.Equal(t, 5, runs)
		assert.Zero(t, guard.store.Runs())
	})
}

// An agent of the host's own may take the error of another and end in its own way: it was told.
func TestAnAbortThatIsTaken(t *testing.T) {
	worker := llm(t, "worker", forever("build", `{}`), []tool.Tool{text(t, "build", "broken")})
	root, err := agent.New(agent.Config{
		Name: "root", SubAgents: []agent.Agent{worker},
		Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				for event, err := range worker.Run(ctx) {
					if errors.Is(err, middleware.ErrLoop) {
						event, err = session.NewEvent(ctx, ctx.InvocationID()), nil
						event.Content = say("sorry")
						yield(event, nil)
						return
					}
					if !yield(event, err) {
						return
					}
				}
			}
		},
	})
	require.NoError(t, err)
	guard := newGuard(t, config())
	events, err := run(t.Context(), guarded(t, guard, root), "s", message("build it"))
	require.NoError(t, err)
	assert.Equal(t, "sorry", events[len(events)-1].Content.Parts[0].Text)
	assert.Zero(t, guard.store.Runs())
}

// A tool may make something else of it that its caller gave up.
func TestAToolThatHidesACancellation(t *testing.T) {
	for name, end := range map[string]func() (string, error){
		"error":  func() (string, error) { return "", errors.New("interrupted") },
		"result": func() (string, error) { return "interrupted", nil },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wait := function(t, functiontool.Config{Name: "wait"}, func(ctx agent.Context, _ string) (string, error) {
				cancel()
				<-ctx.Done()
				return end()
			})
			store := &historian{Store: middleware.NewMemoryStore(), runs: map[string][]policy.Record{}}
			guard := newGuard(t, config(), middleware.WithStore(store))
			_, err := run(ctx, guarded(t, guard, llm(t, "worker", forever("wait", `{}`), []tool.Tool{wait})), "s", message("wait"))
			require.Error(t, err)
			assert.Zero(t, store.records())
			assert.Equal(t, 1, store.forgotten)
		})
	}
}

func TestBlocksAsErrorsEndTheInvocation(t *testing.T) {
	runs := 0
	guard := newGuard(t, config(), middleware.WithBlocksAsErrors())
	r := guarded(t, guard, llm(t, "worker", forever("build", `{}`), []tool.Tool{says(t, "build", "broken", &runs)}))
	_, err := run(t.Context(), r, "s", message("build it"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Equal(t, policy.Block, loop.Action)
	assert.Equal(t, 5, runs)
}

type brokenStore struct{ middleware.Store }

var errBroken = errors.New("password wrong: hunter2")

func (brokenStore) Update(context.Context, string, func(*policy.State) error) error { return errBroken }

func TestAFailingStoreEndsTheInvocationIfTheGuardFailsClosed(t *testing.T) {
	runs := 0
	guard, err := middleware.New(config(), middleware.WithStore(brokenStore{middleware.NewMemoryStore()}), middleware.WithFailClosed())
	require.NoError(t, err)
	build := says(t, "build", "broken", &runs)
	r := guarded(t, &watched{Guard: guard}, llm(t, "worker", forever("build", `{}`), []tool.Tool{build}))
	events, err := run(t.Context(), r, "s", message("build it"))
	require.ErrorIs(t, err, middleware.ErrStore)
	assert.Zero(t, runs)
	require.Len(t, responsesIn(events), 1)
	assert.NotContains(t, fmt.Sprint(responsesIn(events)[0].Response), "hunter2", "what is wrong with it is not the model's business")
}

// The framework compacts nothing, but a callback of the host may.
func TestCompaction(t *testing.T) {
	runs, turns := 0, 0
	guard := newGuard(t, policy.Default())
	m := scripted(func(turn) *genai.Content {
		turns++
		return call("build", `{}`)
	})
	compact := func(c *llmagent.Config) {
		c.BeforeModelCallbacks = []llmagent.BeforeModelCallback{
			func(ctx agent.Context, req *model.LLMRequest) (*model.LLMResponse, error) {
				if len(req.Contents) == 9 { // four calls and their results
					return nil, guard.Compacted(adk.Context(ctx))
				}
				return nil, nil
			},
		}
	}
	r := guarded(t, guard, llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs)}, compact))
	_, err := run(t.Context(), r, "s", message("build it"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
	assert.Equal(t, 4+3, runs)
	assert.Equal(t, 4+3, turns, "the outcome of the last call stops the run")
	assert.Zero(t, guard.store.Runs())
}

// A compaction can be all that the guard was told of a run.
func TestCompactionWithoutCallsIsForgotten(t *testing.T) {
	guard := newGuard(t, config())
	root := llm(t, "worker", times(0, "", ""), nil, func(c *llmagent.Config) {
		c.BeforeModelCallbacks = []llmagent.BeforeModelCallback{
			func(ctx agent.Context, _ *model.LLMRequest) (*model.LLMResponse, error) {
				return nil, guard.Compacted(adk.Context(ctx))
			},
		}
	})
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("hello"))
	require.NoError(t, err)
	assert.Zero(t, guard.store.Runs())
}

// The host's run is above that of the invocation.
func TestTheRunOfTheHost(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	r := guarded(t, guard, llm(t, "worker", forever("build", `{}`), []tool.Tool{says(t, "build", "broken", &runs)}))
	ctx := middleware.WithRun(t.Context(), "ticket-7")
	_, err := run(ctx, r, "s", message("build it"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Regexp(t, `^ticket-7/e-[0-9a-f-]{36}$`, loop.Run)
	assert.Zero(t, guard.store.Runs())
}

func TestManyRunsAtATime(t *testing.T) {
	guard := newGuard(t, config())
	build := function(t, functiontool.Config{Name: "build"}, func(agent.Context, string) (string, error) { return "broken", nil })
	root := llm(t, "worker", untilRefused("build", `{}`), []tool.Tool{build}, func(c *llmagent.Config) { c.Mode = llmagent.ModeChat })
	r := guarded(t, guard, root)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			events, err := run(t.Context(), r, fmt.Sprint("s", i), message("build it"))
			assert.NoError(t, err)
			assert.Len(t, responsesIn(events), 6)
		})
	}
	all.Wait()
	assert.Zero(t, guard.store.Runs())
	found := guard.found()
	slices.Sort(found)
	assert.Equal(t, slices.Concat(slices.Repeat([]string{"block build"}, 20), slices.Repeat([]string{"warn build"}, 20)), found)
}
