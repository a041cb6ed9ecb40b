// Package eino puts a loop guard into agents of github.com/cloudwego/eino.
//
// With the agent kit of eino (package adk) two lines are the whole installation: [Tools] around the configuration of the
// tools, and [NewRunner] in place of adk.NewRunner.
//
//	guard, err := middleware.New(policy.Default())
//	...
//	agent, err := adk.NewChatModelAgent(ctx, &adk.ChatModelAgentConfig{
//		...
//		ToolsConfig:   adk.ToolsConfig{ToolsNodeConfig: eino.Tools(guard, compose.ToolsNodeConfig{Tools: tools})},
//		MaxIterations: 50,
//	})
//	runner := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent})
//
// [Tools] is as good for the package react and for a compose.ToolsNode in a graph. Graphs know no runs, so that the host
// opens them:
//
//	agent, err := react.NewAgent(ctx, &react.AgentConfig{..., ToolsConfig: eino.Tools(guard, conf), MaxStep: 100})
//	...
//	ctx = middleware.NewRun(ctx) // for each message of the user
//	defer guard.Forget(ctx)
//	answer, err := agent.Generate(ctx, messages)
//
// An adk.TurnLoop is given the context of a run in GenInputResult.RunCtx, and OnAgentEvents is the place to forget it.
//
// # What eino makes of it
//
// A warning is appended to what the tool returned: to a text, as a part of its own to a *schema.ToolResult, as a last chunk
// to a stream. A refusal is a result too, so that the model reads it in its next turn and the agent goes on. Both are in the
// events of the agent kit as well. An abort is an error of the tool, which ends the graph and with it the run. It comes from
// Generate and Stream, or as the Err of an event, in a wrapping of eino's:
//
//	if loop, ok := errors.AsType[*middleware.LoopError](err); ok { ... }
//
// In eino every error of a tool ends the run. Hosts that would rather have the model read it turn errors into results with a
// middleware in ToolCallMiddlewares. That is where it belongs: [Tools] takes care that the guard is told of the errors, and
// that nobody makes an answer of an abort. A tool in utils.WrapToolWithErrorHandler has returned a text by the time that
// anybody sees it, so that failures which differ in a time or an address count as different.
//
// A tool of ReturnDirectly, such as the one with which agents hand over to each other, has the last word in a run; so has
// a refusal of it.
//
// # Tools that do not exist
//
// No middleware sees a call of such a tool. It comes to the UnknownToolsHandler; where there is none eino ends the run with
// an error before any call of the turn is made. [Tools] puts a handler there that judges the call and, where the host has
// none, tells the model that there is no such tool.
//
// # Streams
//
// Every chunk goes through at once. What the tool said is known when the stream is at its end or fails, and it is told to
// the guard then, by whoever reads it; of what is longer than a mebibyte the rest is compared by a digest. Eino has read all
// streams of a turn when its model has the next one. If the guard stops the run with an outcome, as only the guard after
// compaction does, that is the error with which the stream ends.
//
// A stream that nobody reads to its end is no outcome. Its call is taken back, at once if the context of the call is
// cancelled by the time the tool returns, and else when the garbage collector has found the stream: eino has no way to hear
// that a reader is closed.
//
// # Runs, agents in agents, interrupts
//
// An agent, or a graph, that is a tool has a run of its own below the run that it is used in, and so has the sub-agent that
// the package deep makes; the guard must be the same. If such a run is stopped, the tool fails with the
// [*middleware.LoopError], and that ends the run above it too if the host does not make an answer of it.
//
// All other agents of a runner share its run, so that those are seen which only hand over to each other. Agents that work at
// the same time and know nothing of each other (adk.NewParallelAgent) are better kept apart: a handler of each can open a run
// in its BeforeAgent, with middleware.ChildRun(ctx, ""), and forget it in AfterAgent, which eino calls if all went well.
//
// A tool that interrupts (tool.Interrupt, compose.Interrupt) leaves no outcome. When the run is resumed eino makes its call
// again: it is the same call that goes on, and it counts once. [Runner.Resume] opens a new run. To keep what happened before
// the interrupt open the run yourself, use adk.Runner, and forget the run when it is over:
//
//	ctx = middleware.WithRun(ctx, checkPointID) // for Query, and again for Resume
//
// A call that is cancelled leaves nothing behind. With adk.WithCancel that goes for streams; other tools run on, and have
// their outcome.
//
// # Compaction
//
// The context of all hooks names the run, so that where the host compacts the messages it tells the guard:
//
//	summarization.Config{
//		Callback: func(ctx context.Context, before, after adk.ChatModelAgentState) error { return guard.Compacted(ctx) },
//	}
//
// In the package react the place is MessageRewriter. In the package reduction it is ClearPostProcess, if that clears now and
// then: told before every turn, the guard begins anew each time. In an agent that is a tool hooks other than those of tools
// have the run above it in their context, unless it is run by a [Runner].
//
// # What to look out for
//
// Eino gives up early: an adk.ChatModelAgent after 20 turns if MaxIterations says nothing else, and a react.Agent after 7 if
// MaxStep, which counts two steps a turn, does not. At the default thresholds a model reads warnings from turn 12 on and
// refusals from turn 22, and a run is stopped in turn 31.
//
// Handlers of an adk.ChatModelAgent stand nearer to the tools than [Tools] can. Those that put long results into a file named
// after the call make each of them a new one: see [Handler].
//
// The guard sees a tool by the name that the model wrote, also where that is an alias, and the arguments as the tool gets
// them, after ArgumentsAliases and ToolArgumentsHandler. If that adds something that is new each time, name it in ignoreArgs.
//
// Callbacks of eino are nearer to the tool than any middleware. They are not called for a call that is refused, and a span
// that one of them opens around a tool is not where detections are: that is the span around the node, or that of the host.
// [WithTracing] opens spans that have them.
//
// The Extra of a result and of its parts is not compared, and a result of a tool search gets no note, as eino wants it alone.
//
// A panic of a tool is remembered as a failure and goes on; graphs make an error of it. If it was the first call of a turn
// they do not wait for the others.
//
// Tools that a model provider runs by itself, and whatever else never comes to a compose.ToolsNode, are not seen.
//
// This version of eino has data races of its own, with and without a guard: an adk.ChatModelAgent that has tools must not
// be run several times at once (make one for each run; guard and configuration can be shared), and nor must the enhanced
// tools of one turn stream.
package eino
