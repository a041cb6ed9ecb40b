package eino_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/adk/middlewares/reduction"
	"github.com/cloudwego/eino/adk/middlewares/summarization"
	"github.com/cloudwego/eino/adk/prebuilt/deep"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
	"github.com/loopguard-go/loopguard/policy"
)

// slow is a store that takes its time to forget.
type slow struct{ *middleware.MemoryStore }

func (s slow) Forget(ctx context.Context, run string) error {
	time.Sleep(10 * time.Millisecond)
	return s.MemoryStore.Forget(ctx, run)
}

func TestEachRunIsARunOfItsOwn(t *testing.T) {
	store := slow{middleware.NewMemoryStore()}
	var seen detections
	guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
	var ids []string
	build := invokable{named{"build"}, func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		ids = append(ids, id)
		return "broken", nil
	}}
	var read []string
	agent := newChatModelAgent(t, "builder", times(3, "build", "{}", &read), eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}}))
	r := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent})
	for i := range 4 {
		start := func() *adk.AsyncIterator[*adk.AgentEvent] { return r.Query(t.Context(), "go") }
		if i%2 == 1 {
			start = func() *adk.AsyncIterator[*adk.AgentEvent] {
				return r.Run(t.Context(), []adk.Message{schema.UserMessage("go")})
			}
		}
		last, _, err := drain(start())
		require.NoError(t, err)
		assert.Equal(t, "done", last.Content)
		assert.Zero(t, store.Runs(), "it is forgotten before its events are over")
	}
	require.Len(t, ids, 12)
	assert.Regexp(t, `^builder-[A-Z2-7]+$`, ids[0])
	assert.Equal(t, ids[0], ids[2])
	assert.NotEqual(t, ids[2], ids[3])
	assert.Empty(t, seen.all, "twelve equal calls, but three in each run")

	_, _, err := drain(r.Query(middleware.WithRun(t.Context(), "request-7"), "go"))
	require.NoError(t, err)
	assert.Regexp(t, `^request-7/builder-[A-Z2-7]+$`, ids[12], "a run that the host opened is the parent")
}

// trouble is a handler of an agent that fails, or worse.
type trouble struct {
	*adk.BaseChatModelAgentMiddleware
	guard *middleware.Guard
	err   error
}

func (h trouble) BeforeAgent(ctx context.Context, c *adk.ChatModelAgentContext) (context.Context, *adk.ChatModelAgentContext, error) {
	if err := h.guard.Compacted(ctx); err != nil { // so that there is something to forget
		return ctx, c, err
	}
	if h.err == nil {
		panic("no agent")
	}
	return ctx, c, h.err
}

func TestRunsAreForgottenHoweverTheyEnd(t *testing.T) {
	failure := errors.New("no disk")
	for name, end := range map[string]struct {
		tool func() (string, error)
		want func(*testing.T, error)
	}{
		"error": {
			func() (string, error) { return "", failure },
			func(t *testing.T, err error) { require.ErrorIs(t, err, failure) },
		},
		"panic": {
			func() (string, error) { panic(failure) },
			func(t *testing.T, err error) { require.ErrorContains(t, err, "panic error: no disk") },
		},
		"abort": {
			func() (string, error) { return "broken", nil },
			func(t *testing.T, err error) { require.ErrorIs(t, err, middleware.ErrLoop) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			guard := newGuard(t, config(), middleware.WithStore(store))
			runs := 0
			build := invokable{named{"build"}, func(context.Context, string) (string, error) {
				runs = store.Runs()
				return end.tool()
			}}
			conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})
			r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", forever("build", "{}"), conf)})
			_, _, err := drain(r.Query(t.Context(), "go"))
			end.want(t, err)
			assert.Equal(t, 1, runs)
			assert.Zero(t, store.Runs())

			r.Query(t.Context(), "go") // and nobody reads what comes of it
			require.Eventually(t, func() bool { return store.Runs() == 0 }, 5*time.Second, time.Millisecond)
		})
	}
	store := middleware.NewMemoryStore()
	guard := newGuard(t, config(), middleware.WithStore(store))
	runner := func(err error) *eino.Runner[adk.Message] {
		h := trouble{guard: guard, err: err}
		return eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", forever("build", "{}"),
			eino.Tools(guard, compose.ToolsNodeConfig{}), h)})
	}
	_, _, err := drain(runner(failure).Query(t.Context(), "go"))
	require.ErrorIs(t, err, failure)
	assert.PanicsWithValue(t, "no agent", func() { runner(nil).Query(t.Context(), "go") })
	_, err = runner(nil).Resume(t.Context(), "nowhere")
	require.ErrorContains(t, err, "store is nil")
	assert.Zero(t, store.Runs())
}

func TestAgentsAreSubAgents(t *testing.T) {
	subs := map[string]func(*testing.T, *middleware.Guard, scripted, compose.ToolsNodeConfig) tool.BaseTool{
		"agent kit": func(t *testing.T, _ *middleware.Guard, m scripted, conf compose.ToolsNodeConfig) tool.BaseTool {
			return adk.NewAgentTool(t.Context(), newChatModelAgent(t, "researcher", m, conf))
		},
		"react": func(t *testing.T, _ *middleware.Guard, m scripted, conf compose.ToolsNodeConfig) tool.BaseTool {
			agent := newReact(t, m, conf)
			return invokable{named{"researcher"}, func(ctx context.Context, question string) (string, error) {
				answer, err := agent.Generate(ctx, []*schema.Message{schema.UserMessage(question)})
				if err != nil {
					return "", err
				}
				return answer.Content, nil
			}}
		},
		"runner": func(t *testing.T, guard *middleware.Guard, m scripted, conf compose.ToolsNodeConfig) tool.BaseTool {
			r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "researcher", m, conf)})
			return invokable{named{"researcher"}, func(ctx context.Context, question string) (string, error) {
				answer, _, err := drain(r.Query(ctx, question))
				if err != nil {
					return "", err
				}
				return answer.Content, nil
			}}
		},
	}
	for name, sub := range subs {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			var seen detections
			guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
			var children []string
			parents := map[string]bool{}
			var runs int
			build := invokable{named{"build"}, func(ctx context.Context, _ string) (string, error) {
				id, _ := middleware.RunID(ctx)
				children = append(children, id)
				runs = store.Runs()
				return "broken", nil
			}}
			inner := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})
			var modelRun string
			researcher := sub(t, guard, func(given turn) *schema.Message {
				modelRun, _ = middleware.RunID(given.ctx)
				return untilRefused("build", "{}")(given)
			}, inner)
			look := invokable{named{"look"}, func(ctx context.Context, _ string) (string, error) {
				id, _ := middleware.RunID(ctx)
				parents[id] = true
				return fmt.Sprint("seen ", len(children)), nil
			}}
			outer := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{researcher, look}})
			boss := newChatModelAgent(t, "boss", func(t turn) *schema.Message {
				switch {
				case len(t.read) == 4:
					return final(t.read[2])
				case len(t.read)%2 == 0:
					return call(fmt.Sprint("ask_", len(t.read)), "researcher", `{"request":"find out why"}`)
				default:
					return call(fmt.Sprint("look_", len(t.read)), "look", "{}")
				}
			}, outer)
			answer, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: boss}).Query(t.Context(), "why?"))
			require.NoError(t, err)
			assert.Contains(t, answer.Content, "gave up")
			require.Len(t, children, 10, "five in each use of the sub-agent, whose sixth is refused")
			require.Len(t, parents, 1)
			for parent := range parents {
				assert.Regexp(t, `^`+parent+`/researcher-\w+$`, children[0])
				if name == "runner" {
					assert.Equal(t, children[9], modelRun)
				} else {
					assert.Equal(t, parent, modelRun, "only tools are told")
				}
			}
			assert.Equal(t, children[0], children[4])
			assert.NotEqual(t, children[4], children[5], "each use has its own run")
			assert.Equal(t, 2, runs, "the parent's and this one's")
			assert.Zero(t, store.Runs(), "all are forgotten")
		})
	}
}

// A sub-agent that is stopped fails as a tool does: eino ends the parent as well, unless the host makes an answer of it.
func TestASubAgentThatIsStopped(t *testing.T) {
	for name, answered := range map[string]bool{"as it is": false, "as an answer": true} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, config())
			runs := 0
			inner := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})
			researcher := adk.NewAgentTool(t.Context(), newChatModelAgent(t, "researcher", forever("build", "{}"), inner))
			outer := compose.ToolsNodeConfig{Tools: []tool.BaseTool{researcher}}
			if answered {
				outer.ToolCallMiddlewares = []compose.ToolMiddleware{errorsAsAnswers}
			}
			var read []string
			boss := newChatModelAgent(t, "boss", times(1, "researcher", `{"request":"find out why"}`, &read), eino.Tools(guard, outer))
			_, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: boss}).Query(t.Context(), "why?"))
			if answered {
				require.NoError(t, err)
				assert.Contains(t, read[0], "run stopped by global_circuit_breaker")
				return
			}
			loop, ok := errors.AsType[*middleware.LoopError](err)
			require.True(t, ok, err)
			assert.Regexp(t, `^boss-\w+/researcher-call_1$`, loop.Run)
		})
	}
}

// Sub-agents that work at the same time keep to their own runs, also where a model gives its calls no ids.
func TestSubAgentsAtTheSameTime(t *testing.T) {
	for name, ids := range map[string][]string{"with ids": {"a", "b", "c"}, "without": {"", "", ""}} {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			var seen detections
			guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
			build := invokable{named{"build"}, func(context.Context, string) (string, error) { return "broken", nil }}
			inner := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})
			var mu sync.Mutex
			researcher := invokable{named{"researcher"}, func(ctx context.Context, question string) (string, error) {
				mu.Lock() // what eino makes an agent of is not all safe for concurrent use
				var read []string
				agent, err := reactAgent(times(3, "build", "{}", &read), inner)
				mu.Unlock()
				if err != nil {
					return "", err
				}
				_, err = agent.Generate(ctx, []*schema.Message{schema.UserMessage(question)})
				return question, err
			}}
			conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{researcher}})
			agent := newReact(t, func(t turn) *schema.Message {
				if len(t.read) > 0 {
					return final("done")
				}
				return together(toolCall(ids[0], "researcher", "1"), toolCall(ids[1], "researcher", "2"), toolCall(ids[2], "researcher", "3"))
			}, conf)
			_, err := generate(t, guard, agent)
			require.NoError(t, err)
			assert.Empty(t, seen.all, "nine equal calls, but three in each run")
			assert.Zero(t, store.Runs())
		})
	}
}

// The agent kit has agents that hand over to each other: that is one run, so that those who only hand over are seen.
func TestTransfersAreOneRun(t *testing.T) {
	store := middleware.NewMemoryStore()
	var seen detections
	guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
	handOver := func(to string) scripted {
		return func(t turn) *schema.Message {
			return call("transfer", adk.TransferToAgentToolName, fmt.Sprintf(`{"agent_name":%q}`, to))
		}
	}
	boss := newChatModelAgent(t, "boss", handOver("worker"), eino.Tools(guard, compose.ToolsNodeConfig{}))
	worker := newChatModelAgent(t, "worker", handOver("boss"), eino.Tools(guard, compose.ToolsNodeConfig{}))
	team, err := adk.SetSubAgents(t.Context(), boss, []adk.Agent{worker})
	require.NoError(t, err)
	last, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: team}).Query(t.Context(), "go"))
	require.NoError(t, err)
	assert.Equal(t, []string{"transfer_to_agent warn ping_pong", "transfer_to_agent block ping_pong"}, seen.words())
	assert.Contains(t, last.Content, "Call refused", "a tool that returns directly has the last word, and so has a refusal of it")
	assert.Zero(t, store.Runs())
}

// apart is a handler that gives an agent a run of its own.
type apart struct {
	*adk.BaseChatModelAgentMiddleware
	guard *middleware.Guard
}

func (h apart) BeforeAgent(ctx context.Context, c *adk.ChatModelAgentContext) (context.Context, *adk.ChatModelAgentContext, error) {
	return middleware.ChildRun(ctx, ""), c, nil
}

func (h apart) AfterAgent(ctx context.Context, _ *adk.ChatModelAgentState) (context.Context, error) {
	return ctx, h.guard.Forget(ctx)
}

// Agents that work at the same time are in one run, unless the host keeps them apart.
func TestAgentsAtTheSameTime(t *testing.T) {
	for _, separately := range []bool{false, true} {
		store := middleware.NewMemoryStore()
		var seen detections
		guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
		build := invokable{named{"build"}, func(context.Context, string) (string, error) { return "broken", nil }}
		var all []adk.Agent
		for _, name := range []string{"one", "two", "three"} {
			var handlers []adk.ChatModelAgentMiddleware
			if separately {
				handlers = append(handlers, apart{guard: guard})
			}
			var read []string
			conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})
			all = append(all, newChatModelAgent(t, name, times(2, "build", "{}", &read), conf, handlers...))
		}
		team, err := adk.NewParallelAgent(t.Context(), &adk.ParallelAgentConfig{Name: "team", SubAgents: all})
		require.NoError(t, err)
		_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: team}).Query(t.Context(), "go"))
		require.NoError(t, err)
		assert.Equal(t, separately, len(seen.all) == 0, "six equal calls, two of each agent: %v", seen.words())
		assert.Zero(t, store.Runs())
	}
}

// A prebuilt agent makes a sub-agent of its own with the same tools.
func TestDeepAgent(t *testing.T) {
	store := middleware.NewMemoryStore()
	var seen detections
	guard := newGuard(t, config(), middleware.WithStore(store), seen.option())
	runs := map[string]int{}
	list := invokable{named{"ls"}, func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		runs[id]++
		return "README.md", nil
	}}
	m := scripted(func(t turn) *schema.Message {
		inner := len(t.read) == 0 || t.read[len(t.read)-1] == "README.md"
		switch boss := t.ctx.Value(scriptKey{}).(*int); {
		case *boss == 0 || !inner && *boss < 5: // the boss, who asks the next one
			*boss++
			return call(fmt.Sprint("task_", *boss), "task", fmt.Sprintf(`{"subagent_type":"general-purpose","description":"part %d"}`, *boss))
		case !inner:
			return final("all done")
		case len(t.read) == 2:
			return final(fmt.Sprint("part done ", *boss))
		default:
			return call(fmt.Sprint("ls_", len(t.read)), "ls", "{}")
		}
	})
	agent, err := deep.New(t.Context(), &deep.Config{
		Name: "boss", Description: "works", ChatModel: m, MaxIteration: 50, WithoutWriteTodos: true,
		ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{list}})},
	})
	require.NoError(t, err)
	answer, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: agent}).Query(context.WithValue(t.Context(), scriptKey{}, new(int)), "go"))
	require.NoError(t, err)
	assert.Equal(t, "all done", answer.Content)
	assert.Len(t, runs, 5, "each use of the sub-agent has its own run")
	for id, n := range runs {
		assert.Regexp(t, `^boss-\w+/task-task_\d$`, id)
		assert.Equal(t, 2, n)
	}
	assert.Empty(t, seen.all, "ten equal calls, but two in each run")
	assert.Zero(t, store.Runs())
}

// checkPoints is a store for runs that are interrupted.
type checkPoints map[string][]byte

func (c checkPoints) Get(_ context.Context, id string) ([]byte, bool, error) {
	data, ok := c[id]
	return data, ok, nil
}

func (c checkPoints) Set(_ context.Context, id string, data []byte) error {
	c[id] = data
	return nil
}

// asking is a tool that asks a human each time, and does its work when the run is resumed.
func asking(name string, asked, ran *int) tool.BaseTool {
	return invokable{named{name}, func(ctx context.Context, _ string) (string, error) {
		if resumed, _, _ := tool.GetInterruptState[any](ctx); !resumed {
			*asked++
			return "", tool.Interrupt(ctx, "may I?")
		}
		*ran++
		return "deployed", nil
	}}
}

// An interrupted call is no outcome, and the call that is resumed is the same one: it counts once. The host names the run,
// so that it is the same as well.
func TestInterrupts(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, config(), middleware.WithStore(store))
	asked, ran := 0, 0
	var read []string
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{asking("deploy", &asked, &ran)}})
	agent := newChatModelAgent(t, "deployer", times(7, "deploy", "{}", &read), conf)
	r := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: agent, CheckPointStore: checkPoints{}})

	ctx := middleware.WithRun(t.Context(), "deployment-7")
	events := r.Query(ctx, "deploy", adk.WithCheckPointID("deployment-7"))
	for {
		_, interrupts, err := drain(events)
		require.NoError(t, err)
		if interrupts == nil {
			break
		}
		h := history{store}
		for _, record := range h.records(ctx) {
			assert.NotEqual(t, policy.Open, record.Status)
			assert.False(t, record.Failure)
		}
		events, err = r.Resume(ctx, "deployment-7")
		require.NoError(t, err)
	}
	require.NoError(t, guard.Forget(ctx))
	assert.Equal(t, 5, ran)
	assert.Equal(t, 5, asked)
	require.Len(t, read, 7)
	assert.Equal(t, "deployed", read[2])
	assert.Contains(t, read[3], "deployed\n\n[loopguard] Warning")
	assert.Contains(t, read[5], "Call refused")
	assert.Zero(t, store.Runs())
}

// The run of a sub-agent is named after the call, and outlives an interrupt as well.
func TestInterruptsOfSubAgents(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, config(), middleware.WithStore(store))
	asked, ran := 0, 0
	var read []string
	inner := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{asking("deploy", &asked, &ran)}})
	deployer := adk.NewAgentTool(t.Context(), newChatModelAgent(t, "deployer", times(6, "deploy", "{}", &read), inner))
	var outer []string
	boss := newChatModelAgent(t, "boss", times(1, "deployer", `{"request":"deploy"}`, &outer), eino.Tools(guard, compose.ToolsNodeConfig{
		Tools: []tool.BaseTool{deployer}}))
	r := adk.NewRunner(t.Context(), adk.RunnerConfig{Agent: boss, CheckPointStore: checkPoints{}})
	ctx := middleware.WithRun(t.Context(), "deployment-7")
	events := r.Query(ctx, "deploy", adk.WithCheckPointID("deployment-7"))
	for {
		_, interrupts, err := drain(events)
		require.NoError(t, err)
		if interrupts == nil {
			break
		}
		events, err = r.Resume(ctx, "deployment-7")
		require.NoError(t, err)
	}
	require.Len(t, read, 6)
	assert.Contains(t, read[5], "Call refused")
	assert.Equal(t, 5, ran)
	assert.Equal(t, []string{"done"}, outer)
	require.NoError(t, guard.Forget(ctx))
	assert.Zero(t, store.Runs())
}

// With a Runner of this package what is resumed is a new run.
func TestResumingIsANewRun(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, config(), middleware.WithStore(store))
	asked, ran := 0, 0
	var read []string
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{asking("deploy", &asked, &ran)}})
	r := eino.NewRunner(guard, adk.RunnerConfig{
		Agent: newChatModelAgent(t, "deployer", times(7, "deploy", "{}", &read), conf), CheckPointStore: checkPoints{},
	})
	events := r.Query(t.Context(), "deploy", adk.WithCheckPointID("7"))
	for i := 0; ; i++ {
		_, interrupts, err := drain(events)
		require.NoError(t, err)
		assert.Zero(t, store.Runs())
		if interrupts == nil {
			break
		}
		if i%2 == 0 {
			events, err = r.Resume(t.Context(), "7")
		} else {
			events, err = r.ResumeWithParams(t.Context(), "7", &adk.ResumeParams{Targets: map[string]any{interrupts[0].ID: "yes"}})
		}
		require.NoError(t, err)
	}
	assert.Equal(t, 7, ran)
	assert.NotContains(t, fmt.Sprint(read), "loopguard")
}

// Interrupts of the graphs of eino, in a graph that is a tool.
func TestInterruptsOfGraphs(t *testing.T) {
	store := newHistory()
	guard := newGuard(t, config(), middleware.WithStore(store))
	ctx := middleware.NewRun(t.Context())
	chain := compose.NewChain[string, string]()
	chain.AppendLambda(compose.InvokableLambda(func(ctx context.Context, in string) (string, error) {
		return "", compose.Interrupt(ctx, "may I?")
	}))
	graph, err := chain.Compile(ctx)
	require.NoError(t, err)
	n := node(t, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
		invokable{named{"deploy"}, func(ctx context.Context, in string) (string, error) { return graph.Invoke(ctx, in) }},
	}}))
	_, err = invoke(ctx, n, "1", "deploy", "{}")
	require.Error(t, err)
	_, ok := compose.ExtractInterruptInfo(err)
	require.True(t, ok)
	assert.Empty(t, store.records(ctx))
}

// Cancelling is not failing, in whatever way it is done.
func TestCancellingWithTheAgentKit(t *testing.T) {
	for _, k := range kinds[:2] {
		t.Run(k.name, func(t *testing.T) {
			store := newHistory()
			guard := newGuard(t, config(), middleware.WithStore(store))
			started := make(chan struct{})
			done := make(chan struct{})
			var wait tool.BaseTool = invokable{named{"wait"}, func(ctx context.Context, _ string) (string, error) {
				close(started)
				<-done
				return "", ctx.Err()
			}}
			if k.name == "streamable" {
				wait = feed{named{"wait"}, func(context.Context) *schema.StreamReader[string] {
					close(started)
					reader, _ := schema.Pipe[string](0)
					return reader
				}}
			}
			conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{wait}})
			r := adk.NewRunner(t.Context(), adk.RunnerConfig{
				Agent: newChatModelAgent(t, "waiter", forever("wait", "{}"), conf), EnableStreaming: true,
			})
			option, cancel := adk.WithCancel()
			ctx := middleware.NewRun(t.Context())
			events := r.Query(ctx, "go", option)
			<-started
			_, contributed := cancel(adk.WithAgentCancelMode(adk.CancelImmediate))
			require.True(t, contributed)
			_, _, err := drain(events)
			_, ok := errors.AsType[*adk.CancelError](err)
			require.True(t, ok, err)
			close(done)
			require.Eventually(t, func() bool {
				runtime.GC() // by which a stream is found that was cancelled before anybody could read it
				records := store.records(ctx)
				return len(records) == 0 || records[0].Status != policy.Open
			}, 30*time.Second, time.Millisecond)
			if k.name == "streamable" {
				assert.Empty(t, store.records(ctx), "the stream was cancelled by the kit")
			} else {
				assert.Len(t, store.records(ctx), 1, "the tool ran on")
			}
		})
	}
}

// Compaction is told where it is done.
func TestCompaction(t *testing.T) {
	guard := newGuard(t, policy.Config{}) // in which the guard after compaction is all that is on
	runs, turns := 0, 0
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})
	m := scripted(func(t turn) *schema.Message {
		turns++
		return call(fmt.Sprint("call_", turns), "build", "{}")
	})
	once := true
	handler, err := summarization.New(t.Context(), &summarization.Config{
		Model: scripted(func(turn) *schema.Message { return final("it is broken") }),
		TokenCounter: func(_ context.Context, in *summarization.TokenCounterInput) (int, error) {
			if len(in.Messages) > 10 && once {
				once = false
				return 1 << 20, nil
			}
			return 1, nil
		},
		Callback: func(ctx context.Context, _, _ adk.ChatModelAgentState) error { return guard.Compacted(ctx) },
	})
	require.NoError(t, err)
	_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", m, conf, handler)}).Query(t.Context(), "go"))
	loop, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok, err)
	assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
	assert.Equal(t, 5+3, runs)

	// And where old results are cleared. Told before every turn, the guard begins anew each time.
	for _, always := range []bool{false, true} {
		runs, turns = 0, 0
		told := 0
		clear, err := reduction.New(t.Context(), &reduction.Config{
			SkipTruncation: true, MaxTokensForClear: 1, ClearRetentionSuffixLimit: 1,
			TokenCounter: func(_ context.Context, messages []adk.Message, _ []*schema.ToolInfo) (int64, error) {
				return int64(len(messages)), nil
			},
			ClearPostProcess: func(ctx context.Context, _ *adk.ChatModelAgentState) context.Context {
				if told == 0 || always {
					assert.NoError(t, guard.Compacted(ctx))
				}
				told++
				return ctx
			},
		})
		require.NoError(t, err)
		m := scripted(func(given turn) *schema.Message {
			if turns == 12 {
				return final("done")
			}
			return m(given)
		})
		_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", m, conf, clear)}).Query(t.Context(), "go"))
		assert.Equal(t, !always, errors.Is(err, middleware.ErrLoop), "%v", err)
		assert.Greater(t, told, 1)
	}

	// And in the package react.
	runs, turns = 0, 0
	agent, err := react.NewAgent(t.Context(), &react.AgentConfig{
		ToolCallingModel: m, ToolsConfig: conf, MaxStep: 100,
		MessageRewriter: func(ctx context.Context, messages []*schema.Message) []*schema.Message {
			if len(messages) != 11 {
				return messages
			}
			assert.NoError(t, guard.Compacted(ctx))
			return messages[:1]
		},
	})
	require.NoError(t, err)
	_, err = generate(t, guard, agent)
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Equal(t, 5+3, runs)
}

// A panic of a tool goes on to whoever takes it, eino for one, and is remembered.
func TestPanics(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		store := newHistory()
		guard := newGuard(t, config(), middleware.WithStore(store))
		conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
			k.tool("crash", func(context.Context, string) (string, error) { panic("out of paper") }),
		}})
		n := node(t, conf)
		ctx := middleware.NewRun(t.Context())
		assert.PanicsWithValue(t, "out of paper", func() { _, _ = invoke(ctx, n, "1", "crash", "{}") })
		records := store.records(ctx)
		require.Len(t, records, 1)
		assert.True(t, records[0].Failure)

		ctx = middleware.NewRun(t.Context())
		_, err := newReact(t, func(turn) *schema.Message {
			return together(toolCall("1", "crash", "{}"), toolCall("2", "crash", "{}"), toolCall("3", "crash", "{}"))
		}, conf).Generate(ctx, []*schema.Message{schema.UserMessage("go")})
		require.ErrorContains(t, err, "panic error: out of paper")
		// eino does not wait for the others if it was the first of a turn that panicked.
		require.Eventually(t, func() bool {
			return !slices.ContainsFunc(store.records(ctx), func(r policy.Record) bool { return !r.Failure })
		}, 5*time.Second, time.Millisecond)
	})
}

// A loop of turns gets the context of each from the host.
func TestTurnLoop(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, config(), middleware.WithStore(store))
	var ids []string
	build := invokable{named{"build"}, func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		ids = append(ids, id)
		return "broken", nil
	}}
	var read []string
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})
	loop := adk.NewTurnLoop(adk.TurnLoopConfig[string, adk.Message]{
		GenInput: func(ctx context.Context, _ *adk.TurnLoop[string, adk.Message], items []string) (*adk.GenInputResult[string, adk.Message], error) {
			return &adk.GenInputResult[string, adk.Message]{
				RunCtx:   middleware.WithRun(ctx, items[0]),
				Input:    &adk.AgentInput{Messages: []adk.Message{schema.UserMessage(items[0])}},
				Consumed: items[:1], Remaining: items[1:],
			}, nil
		},
		PrepareAgent: func(context.Context, *adk.TurnLoop[string, adk.Message], []string) (adk.Agent, error) {
			return newChatModelAgent(t, "builder", times(2, "build", "{}", &read), conf), nil
		},
		OnAgentEvents: func(ctx context.Context, tc *adk.TurnContext[string, adk.Message], events *adk.AsyncIterator[*adk.AgentEvent]) error {
			_, _, err := drain(events)
			if len(ids) == 4 {
				tc.Loop.Stop()
			}
			return errors.Join(err, guard.Forget(ctx))
		},
	})
	loop.Push("one")
	loop.Push("two")
	loop.Run(t.Context())
	require.NoError(t, loop.Wait().ExitReason)
	assert.Equal(t, []string{"one", "one", "two", "two"}, ids)
	assert.Zero(t, store.Runs())
}
