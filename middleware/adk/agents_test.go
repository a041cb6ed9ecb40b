package adk_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/agent/workflowagent"
	"google.golang.org/adk/v2/agent/workflowagents/loopagent"
	"google.golang.org/adk/v2/agent/workflowagents/parallelagent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/agenttool"
	"google.golang.org/adk/v2/tool/exitlooptool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/workflow"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/adk"
)

// text is a tool that always says the same and can be called at any time.
func text(t *testing.T, name, said string) tool.Tool {
	return function(t, functiontool.Config{Name: name}, func(agent.Context, string) (string, error) { return said, nil })
}

// mentions reports whether a word is in what was said.
func (t turn) mentions(word string) bool {
	for _, c := range t.said {
		for _, p := range c.Parts {
			if strings.Contains(p.Text, word) {
				return true
			}
		}
	}
	return false
}

// An agent that is made to go on and on by a LoopAgent is one that goes on and on.
func TestALoopAgent(t *testing.T) {
	var turns int
	poll := scripted(func(t turn) *genai.Content {
		turns++
		if turns%2 == 0 {
			return say("not yet")
		}
		return call("status", `{}`)
	})
	guard := newGuard(t, config())
	root, err := loopagent.New(loopagent.Config{AgentConfig: agent.Config{
		Name: "again", SubAgents: []agent.Agent{llm(t, "poller", poll, []tool.Tool{text(t, "status", "pending")})},
	}})
	require.NoError(t, err)
	_, err = run(t.Context(), guarded(t, guard, root), "s", message("wait for it"))
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Equal(t, []string{"warn status", "block status", "block status", "block status", "abort status"}, guard.found())
	assert.Zero(t, guard.store.Runs())
}

// A LoopAgent takes errors for results and goes on, as long as its reader does.
func TestALoopAgentWhoseReaderGoesOn(t *testing.T) {
	guard := newGuard(t, config())
	root, err := loopagent.New(loopagent.Config{AgentConfig: agent.Config{
		Name: "again", SubAgents: []agent.Agent{llm(t, "worker", forever("status", `{}`), []tool.Tool{text(t, "status", "pending")})},
	}})
	require.NoError(t, err)
	stops := 0
	for _, err := range guarded(t, guard, root).Run(t.Context(), "user", "s", message("go"), agent.RunConfig{}) {
		if err != nil {
			require.ErrorIs(t, err, middleware.ErrLoop)
			if stops++; stops == 5 {
				break
			}
		}
	}
	assert.Equal(t, 5, stops)
	assert.Len(t, guard.found(), 5, "no call is made any more")
	assert.Zero(t, guard.store.Runs())
}

// To leave is no step of a loop.
func TestTheEndOfWorkIsNoLoop(t *testing.T) {
	exit, err := exitlooptool.New()
	require.NoError(t, err)
	worker := llm(t, "worker", forever("exit_loop", `{}`), []tool.Tool{exit})
	root, err := agent.New(agent.Config{
		Name: "again", SubAgents: []agent.Agent{worker},
		Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				for range 12 {
					for event, err := range worker.Run(ctx) {
						if !yield(event, err) {
							return
						}
					}
				}
			}
		},
	})
	require.NoError(t, err)
	guard := newGuard(t, config())
	events, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.Empty(t, guard.found())
	require.Len(t, responsesIn(events), 12)
	for _, r := range responsesIn(events) {
		assert.Empty(t, r.Response)
	}
}

// gemini is a model with the name of one for which the framework asks for structured output in a call.
type gemini struct{ scripted }

func (gemini) Name() string { return "gemini-2.0-flash" }

func TestStructuredOutputIsNoLoop(t *testing.T) {
	schema := &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"done": {Type: genai.TypeBoolean}}}
	m := gemini{scripted(func(t turn) *genai.Content { return call("set_model_response", `{"done":false}`) })}
	worker := llm(t, "worker", m, []tool.Tool{text(t, "status", "pending")}, func(c *llmagent.Config) { c.OutputSchema = schema })
	root, err := loopagent.New(loopagent.Config{
		AgentConfig: agent.Config{Name: "again", SubAgents: []agent.Agent{worker}}, MaxIterations: 12,
	})
	require.NoError(t, err)
	guard := newGuard(t, config())
	events, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.Empty(t, guard.found())
	answers := 0
	for _, e := range events {
		if said := e.Content.Parts[0].Text; said != "" {
			assert.JSONEq(t, `{"done":false}`, said)
			answers++
		}
	}
	assert.Equal(t, 12, answers)
}

// The agents of a ParallelAgent do not see what the others did: each has to find out for itself.
func TestAParallelAgent(t *testing.T) {
	var agents []agent.Agent
	for i := range 12 {
		n := 1
		if i == 7 {
			n = 4
		}
		agents = append(agents, llm(t, fmt.Sprint("worker_", i), times(n, "schema", `{}`), []tool.Tool{text(t, "schema", "a, b")}))
	}
	root, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "all", SubAgents: agents}})
	require.NoError(t, err)
	guard := newGuard(t, config())
	events, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, []string{"warn schema all.worker_7"}, guard.found(), "with the branch of the one that repeats itself")
	noted := 0
	for _, r := range responsesIn(events) {
		if r.Response[adk.NoteKey] != nil {
			noted++
		}
	}
	assert.Equal(t, 1, noted)
	assert.Zero(t, guard.store.Runs())
}

func TestAnAbortInAParallelAgent(t *testing.T) {
	stuck := llm(t, "stuck", forever("status", `{}`), []tool.Tool{text(t, "status", "pending")})
	fine := llm(t, "fine", times(2, "status", `{}`), []tool.Tool{text(t, "status", "pending")})
	root, err := parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "all", SubAgents: []agent.Agent{stuck, fine}}})
	require.NoError(t, err)
	guard := newGuard(t, config())
	_, err = run(t.Context(), guarded(t, guard, root), "s", message("go"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.True(t, strings.HasSuffix(loop.Run, "/all.stuck"), loop.Run)
	assert.Zero(t, guard.store.Runs())
}

// Agents that hand a question back and forth go round in circles, in one run.
func TestTransfersAreCalls(t *testing.T) {
	to := func(name string) scripted {
		return func(turn) *genai.Content { return call("transfer_to_agent", fmt.Sprintf(`{"agent_name":%q}`, name)) }
	}
	sub := llm(t, "clerk", to("boss"), nil)
	root := llm(t, "boss", to("clerk"), nil, func(c *llmagent.Config) { c.SubAgents = []agent.Agent{sub} })
	guard := newGuard(t, config())
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Contains(t, guard.found(), "block transfer_to_agent")
	assert.Zero(t, guard.store.Runs())
}

// A sub-agent that answers in a single turn is a tool of its parent. Each use of it has a branch, and so a run, of its own.
// Parent and child are both guarded.
func TestASingleTurnAgent(t *testing.T) {
	sub := llm(t, "researcher", scripted(func(t turn) *genai.Content {
		if t.mentions("hard") {
			return call("search", `{}`)
		}
		if len(t.read) < 4 {
			return call("search", `{}`)
		}
		return say(strings.Join(t.read, "|"))
	}), []tool.Tool{text(t, "search", "nothing")}, func(c *llmagent.Config) { c.Mode = llmagent.ModeSingleTurn })
	root := func(question string, read *[]string) agent.Agent {
		return llm(t, "boss", reading(read, scripted(func(t turn) *genai.Content {
			if strings.Contains(strings.Join(t.read, "\n"), "Call refused") {
				return say("gave up")
			}
			return call("researcher", fmt.Sprintf(`{"request":%q}`, question))
		})), nil, func(c *llmagent.Config) { c.SubAgents = []agent.Agent{sub} })
	}

	t.Run("that repeats itself", func(t *testing.T) {
		guard := newGuard(t, config())
		var read []string
		_, err := run(t.Context(), guarded(t, guard, root("easy", &read)), "s", message("go"))
		require.NoError(t, err)
		assert.Equal(t, []string{
			"warn search researcher@1", "warn search researcher@2", "warn search researcher@3",
			"warn researcher", "warn search researcher@4", "warn search researcher@5", "block researcher",
		}, guard.found())
		require.Len(t, read, 6)
		assert.Regexp(t, `^nothing\|nothing\|nothing\|nothing\n\n\[loopguard\] Warning`, read[0], "the child read the note")
		assert.Contains(t, read[5], "Call refused")
		assert.Zero(t, guard.store.Runs())
	})
	t.Run("that is stopped", func(t *testing.T) {
		guard := newGuard(t, config())
		var read []string
		_, err := run(t.Context(), guarded(t, guard, root("hard", &read)), "s", message("go"))
		require.NoError(t, err, "to the parent it is a tool that fails")
		require.Len(t, read, 6)
		assert.Contains(t, read[0], "run stopped by global_circuit_breaker")
		assert.Contains(t, read[3], "[loopguard] Warning")
		assert.Contains(t, read[5], "Call refused")
		assert.NotEqual(t, read[0], read[1], "with the run in it, and the same failure all the same")
		assert.Zero(t, guard.store.Runs())
	})
}

// The framework takes a delegation to an agent in task mode out of the turn before any tool is called. That agent's own
// calls are seen, and that it finishes is no loop.
func TestATaskAgent(t *testing.T) {
	sub := llm(t, "clerk", scripted(func(t turn) *genai.Content {
		if len(t.last()) == 0 {
			return call("file", `{}`)
		}
		return call("finish_task", `{"result":"filed"}`)
	}), []tool.Tool{text(t, "file", "ok")}, func(c *llmagent.Config) { c.Mode = llmagent.ModeTask })
	n := 0
	root := llm(t, "boss", scripted(func(t turn) *genai.Content {
		if n++; n > 7 {
			return say("done")
		}
		return call("clerk", `{"request":"file it"}`)
	}), nil, func(c *llmagent.Config) { c.SubAgents = []agent.Agent{sub} })
	guard := newGuard(t, config())
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, []string{"warn file", "block file", "block file"}, guard.found())
}

func TestATaskThatCannotBeFinished(t *testing.T) {
	sub := llm(t, "clerk", forever("finish_task", `{"outcome":"filed"}`), nil, func(c *llmagent.Config) { c.Mode = llmagent.ModeTask })
	root := llm(t, "boss", forever("clerk", `{"request":"file it"}`), nil,
		func(c *llmagent.Config) { c.SubAgents = []agent.Agent{sub} })
	guard := newGuard(t, config())
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.Error(t, err)
	assert.Contains(t, err.Error(), "run stopped by global_circuit_breaker", "the error came through a node and is a text now")
	assert.Contains(t, guard.found(), "abort finish_task")
	assert.Zero(t, guard.store.Runs())
}

// agenttool runs its agent in a runner that has no plugins, so that only the call of the tool is seen.
func TestAgentToolHidesItsAgent(t *testing.T) {
	var searches atomic.Int32
	search := function(t, functiontool.Config{Name: "search"}, func(agent.Context, string) (string, error) {
		searches.Add(1)
		return "nothing", nil
	})
	sub := llm(t, "researcher", times(12, "search", `{}`), []tool.Tool{search})
	guard := newGuard(t, config())
	root := llm(t, "boss", untilRefused("researcher", `{"request":"it"}`), []tool.Tool{agenttool.New(sub, nil)})
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.EqualValues(t, 5*12, searches.Load())
	assert.Equal(t, []string{"warn researcher", "block researcher"}, guard.found())
}

// A tool that has a runner of its own gives it the plugin, and the run that it is in.
func TestARunnerInATool(t *testing.T) {
	guard := newGuard(t, config())
	loops, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	sub := newRunner(t, llm(t, "researcher", forever("search", `{}`), []tool.Tool{text(t, "search", "nothing")}), loops)
	research := function(t, functiontool.Config{Name: "research"}, func(ctx agent.Context, _ string) (string, error) {
		_, err := run(adk.Context(ctx), sub, "inner", message("it"))
		return "", err
	})
	var read []string
	m := reading(&read, untilRefused("research", `{}`))
	_, err = run(t.Context(), newRunner(t, llm(t, "boss", m, []tool.Tool{research}), loops), "s", message("go"))
	require.NoError(t, err, "to the boss it is a tool that fails")
	require.Len(t, read, 6)
	assert.Contains(t, read[0], "run stopped")
	assert.Contains(t, read[3], "[loopguard] Warning")
	assert.Zero(t, guard.store.Runs())
	for _, d := range guard.all {
		depth := strings.Count(d.Run, "/")
		assert.Equal(t, d.Tool == "search", depth == 1, d.Run)
	}
}

// workflowOf is a workflow with one node in it.
func workflowOf(t *testing.T, node workflow.Node) agent.Agent {
	t.Helper()
	a, err := workflowagent.New(workflowagent.Config{Name: "flow", Edges: workflow.Chain(workflow.Start, node)})
	require.NoError(t, err)
	return a
}

func TestAnAgentInAWorkflow(t *testing.T) {
	guard := newGuard(t, config())
	var read []string
	worker := llm(t, "worker", reading(&read, forever("status", `{}`)), []tool.Tool{text(t, "status", "pending")})
	node, err := workflow.NewAgentNode(worker, workflow.NodeConfig{})
	require.NoError(t, err)
	_, err = run(t.Context(), guarded(t, guard, workflowOf(t, node)), "s", message("go"))
	require.ErrorIs(t, err, middleware.ErrLoop)
	require.Len(t, read, 8)
	assert.Contains(t, read[3], "[loopguard] Warning")
	assert.Zero(t, guard.store.Runs())
}

// Where a workflow fans out, each successor has a branch of its own. (What their models read of their own calls depends on
// when the others make theirs, so that these count for themselves.)
func TestAWorkflowThatFansOut(t *testing.T) {
	guard := newGuard(t, config())
	start := workflow.NewFunctionNode("begin", func(agent.Context, any) (string, error) { return "go", nil }, workflow.NodeConfig{})
	var next []workflow.Node
	for i := range 3 {
		turns := 0
		worker := llm(t, fmt.Sprint("worker_", i), scripted(func(turn) *genai.Content {
			if turns++; turns > 2+i {
				return say("enough")
			}
			return call("status", `{}`)
		}), []tool.Tool{text(t, "status", "pending")})
		node, err := workflow.NewAgentNode(worker, workflow.NodeConfig{})
		require.NoError(t, err)
		next = append(next, node)
	}
	join := workflow.NewJoinNode("join")
	edges := workflow.NewEdgeBuilder().Add(workflow.Start, start).AddFanOut(start, next...).AddFanIn(join, next...).Build()
	root, err := workflowagent.New(workflowagent.Config{Name: "flow", Edges: edges})
	require.NoError(t, err)
	_, err = run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, []string{"warn status worker_2@1"}, guard.found())
	assert.Zero(t, guard.store.Runs())
}

// A node that runs others makes a text of their errors.
func TestAnAgentThatANodeRuns(t *testing.T) {
	guard := newGuard(t, config())
	worker := llm(t, "worker", forever("status", `{}`), []tool.Tool{text(t, "status", "pending")})
	node, err := workflow.NewAgentNode(worker, workflow.NodeConfig{})
	require.NoError(t, err)
	orchestrator := workflow.NewDynamicNode("orchestrator", func(ctx agent.Context, in any, _ func(*session.Event) error) (any, error) {
		return workflow.RunNode[any](ctx, node, in)
	}, workflow.NodeConfig{})
	_, err = run(t.Context(), guarded(t, guard, workflowOf(t, orchestrator)), "s", message("go"))
	require.ErrorIs(t, err, workflow.ErrNodeFailed)
	assert.NotErrorIs(t, err, middleware.ErrLoop)
	assert.Contains(t, err.Error(), "run stopped by global_circuit_breaker")
	assert.Zero(t, guard.store.Runs())
}

// A ParallelWorker drops the events of its workers, so that no model in it ever reads the result of a tool. It is a loop of
// the framework's own making, and is stopped like any other.
func TestAnAgentInAParallelWorker(t *testing.T) {
	guard := newGuard(t, config())
	var most atomic.Int32
	worker := llm(t, "worker", scripted(func(t turn) *genai.Content {
		most.Store(max(most.Load(), int32(len(t.read))))
		return call("status", `{}`)
	}), []tool.Tool{text(t, "status", "pending")})
	node, err := workflow.NewAgentNode(worker, workflow.NodeConfig{})
	require.NoError(t, err)
	list := workflow.NewFunctionNode("list", func(agent.Context, any) ([]string, error) { return []string{"a"}, nil }, workflow.NodeConfig{})
	workers, err := workflow.NewParallelWorker("workers", node, 1, workflow.NodeConfig{})
	require.NoError(t, err)
	root, err := workflowagent.New(workflowagent.Config{Name: "flow", Edges: workflow.Chain(workflow.Start, list, workers)})
	require.NoError(t, err)
	_, err = run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Zero(t, most.Load())
	assert.Contains(t, guard.found(), "abort status worker@1")
	assert.Zero(t, guard.store.Runs())
}

// A node that calls a tool has no callbacks. A node of the host's own can ask the guard itself.
func TestToolNodesAreNotSeen(t *testing.T) {
	guard := newGuard(t, config())
	n := 0
	status := says(t, "status", "pending", &n)
	node, err := workflow.NewToolNode(status, workflow.NodeConfig{})
	require.NoError(t, err)
	again := workflow.NewDynamicNode("again", func(ctx agent.Context, _ any, _ func(*session.Event) error) (any, error) {
		for range 12 {
			if _, err := workflow.RunNode[any](ctx, node, map[string]any{}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, workflow.NodeConfig{})
	_, err = run(t.Context(), guarded(t, guard, workflowOf(t, again)), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, 12, n)
	assert.Empty(t, guard.found())

	own := workflow.NewFunctionNode("own", func(ctx agent.Context, _ any) (string, error) {
		for {
			result, err := guard.Do(adk.Context(ctx), middleware.Call{Tool: "status"},
				func(context.Context, middleware.Call) (middleware.Result, error) {
					return middleware.Text("pending"), nil
				})
			if err != nil || result.Refusal != nil {
				return result.Text, err
			}
		}
	}, workflow.NodeConfig{})
	_, err = run(t.Context(), guarded(t, guard, workflowOf(t, own)), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, []string{"warn status", "block status"}, guard.found())
	assert.Zero(t, guard.store.Runs())
}
