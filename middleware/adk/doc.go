// Package adk puts a loop guard into agents of google.golang.org/adk/v2, the Agent Development Kit.
//
// A plugin is the whole installation. It guards all agents that a runner runs:
//
//	guard, err := middleware.New(policy.Default())
//	...
//	loops, err := adk.Plugin(guard)
//	...
//	r, err := runner.New(runner.Config{..., PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{loops}}})
//
// # What the framework makes of it
//
// Each invocation, which is what a runner does for one message, is a run with the id of the invocation. It is forgotten when
// the invocation is over, also if it failed, was cancelled, or nobody reads its events to the end. Agents that hand over to
// one another share the run. Those that the framework gives a branch of their own, so that they do not see what the others
// did, have a run of their own below it: the agents of a ParallelAgent, the successors that a workflow fans out to, and each
// use of a sub-agent in single-turn mode. [Context] names the run, for a host that guards calls of its own or tells the
// guard of a compaction, which the framework itself does not do.
//
// A warning stands in the function response beside what the tool returned, under [NoteKey]. A refusal is a function response
// with the text under "error", as the framework has the errors of tools; on its span "execute_tool" it looks like one.
//
// An abort is such a response, too, as errors of tools never end anything there. The next call of the model then returns the
// error, and the runner yields it: errors.As finds the [*middleware.LoopError]. Stop reading the events at the first error; a
// LoopAgent whose reader goes on starts its agents again, for ever. A guard that was made with
// [middleware.WithBlocksAsErrors] ends the invocation with the first refusal, and one that fails closed with the first
// failure of its store.
//
// Detections are on the span that the framework opens for each tool call, with the global tracer provider. It puts the
// arguments and the results of all calls on these spans, which the guard never does.
//
// # Where it belongs
//
// Put the plugin first in the list. A callback that returns something keeps those of later plugins and of the agent from
// being called. This plugin returns nothing but refusals: warnings are added when the event with the response comes by, so
// that a callback that blots out secrets, for example, is never passed over. Of what a plugin before it returns after a
// tool, or after an error of a tool, it is not told, and such calls look as if they had no outcome. An answer that another
// plugin or a callback of the agent gives in place of the tool is the outcome, in any order.
//
// # What is not seen
//
//   - Tools that stream (functiontool.NewStreaming): the framework calls them without callbacks.
//   - Live sessions (Runner.RunLive). One is a single invocation for all that the user says in it, and nothing ends it: it
//     is not judged.
//   - Agents in an agenttool, which runs them in a runner without plugins; the call of the tool is seen. A sub-agent with
//     Mode: llmagent.ModeSingleTurn is one that is seen, and so is one in a runner that a tool of your own runs with the
//     plugin, see [Context].
//   - Tools that nodes of a workflow call (workflow.NewToolNode), and functions in nodes; agents in nodes are seen. A function
//     can use [middleware.Guard.Do] with [Context].
//   - Delegations to a sub-agent in task mode, which the framework takes out of the turn before it calls any tool. What
//     that agent itself does is seen.
//   - Images and other parts of a result of an MCP server: the framework keeps the text, or the structured content alone.
//   - Tools that run on the model's side, and agents that run elsewhere.
//
// # What else there is to know
//
// Version 2.2.0 of the framework does not compile with go.opentelemetry.io/otel v1.47.0, nor with otel/log v0.21.0 or later.
//
// Numbers above 2^53: functiontool sends results through JSON and floating point, and so do clients of models with
// arguments. What they merge is the same to the guard.
//
// A panic in a tool of functiontool is an error to the framework, with a stack; to the guard all panics of a tool are one
// failure. In a tool of another make it ends the process: the framework runs tools in goroutines of its own.
//
// The framework answers for a tool that does not exist with a list of those that do, in an order that changes. The guard
// takes these answers for one, and so does it with tools that run on the model's side and are called by name.
//
// The first result of a long-running tool is its outcome. A call that waits for the leave of the user has none, and leaves
// no trace; with his answer it is made again, in a run that starts afresh.
//
// Handing over to another agent (transfer_to_agent) is a call like any other: agents that hand a question back and forth
// are a loop. To end one's work (exit_loop, finish_task, set_model_response) is none, however often, unless it fails.
//
// A sub-agent in single-turn mode that is stopped is to its parent a tool that fails. Elsewhere in a workflow an error ends
// what is above it; where a node runs another one (workflow.RunNode), which is how agents in task mode are run, the
// framework makes a text of it in which errors.As finds nothing. A workflow.ParallelWorker drops the events of its agents,
// so that their models read no result of any tool, nor what the guard says: only an abort gets through.
//
// What the model read stays in the session, warnings and refusals included, and is read again at the user's next message.
package adk
