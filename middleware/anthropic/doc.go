// Package anthropic puts a loop guard into agents on github.com/anthropics/anthropic-sdk-go/v2.
//
// [NewToolRunner] and [NewToolRunnerStreaming] take the place of the SDK's functions of the same names. What they return is
// used like the runner of the SDK, and that is the whole installation:
//
//	guard, err := middleware.New(policy.Default())
//	...
//	runner := anthropic.NewToolRunner(guard, &client.Beta.Messages, tools, params)
//	message, err := runner.RunToCompletion(ctx)
//
// [NewThreadToolRunner] and [NewThreadToolRunnerStreaming] are for runners over a message thread of the host's own. For
// loops that are written by hand, [ToolResults] and [BetaToolResults] turn the tool_use blocks of a message into the
// tool_result blocks of the next one. [Tool] and [Tools] are the parts, for hosts that run tools in some other way.
//
// # What the SDK makes of it
//
// A warning is one more text block of the result, after those of the tool, or is appended to the error of the tool. A
// refusal is a result with is_error, which the model reads in place of one of the tool, and the agent goes on. An abort ends
// the run: no further request is made, and the runner returns the error as it is, now and from then on.
//
//	if loop, ok := errors.AsType[*middleware.LoopError](err); ok { ... }
//
// A guard that was made with [middleware.WithBlocksAsErrors] ends the run with the first refusal. Both are so in loops, too,
// where the results are complete even if the run is over, so that the messages can be kept.
//
// # Runs
//
// A runner is one run: its first step opens it, and its end, an error or the end of an iteration has it forgotten. If the
// context names a run the new one is its child, so that a runner in a tool of another one is a sub-agent of it. A host that
// steps with NextMessage and gives up in between leaves the run to the store, which forgets it by its age. Hosts of loops
// open and forget runs themselves.
//
// # Unknown tools
//
// A runner answers calls of tools that it does not have itself, and also those of tools that were removed; nothing of the
// host is asked. They are judged on the way to the API, where the result that was made of them is seen, and what the guard
// has to say is put into the request. The history of the runner keeps what happened: a host that goes on with Messages() in
// another runner goes on without the refusals. Behind a client that signs its requests (aws.NewClient, with no API key) a
// runner over a thread of the host's own cannot do that, as it comes after the signature; such calls are counted and end in
// an abort all the same.
//
// # Compaction
//
// A message that holds a summary tells the guard that the context was compacted, be it that the API did that or that
// CompactBeforeNextTurn asked for it. [BetaToolResults] looks for it too: give it every message. The stable API has no
// compaction; a host that shortens the messages itself calls [middleware.Guard.Compacted].
//
// # Traps of the SDK
//
// All errors of tools are answers to a runner. With [Tools] in a runner that the SDK made, an abort is therefore one more
// answer and the requests go on, and the same holds for the session runner of managed agents, whose model is on the other
// side.
//
// A runner gives its tools no call ids, and arguments with all numbers as float64, so that 9007199254740993 is rounded. A
// guarded tool in a [ToolRunner] has both from the message: its input is what the model wrote. Two calls of one message that
// are equal may have each other's ids, and if it is only rounding that made them equal, they have the rounded input. (What the
// SDK sends back as the model's own words is rounded all the same.)
//
// The calls of one message run in goroutines of the SDK. A runner starts them in no particular order, and they are judged
// as they begin; in loops they are judged in their order. A panic in a runner's tool ends the process. In loops it goes on
// in the goroutine of the caller, with its own stack only if the call was the last one of its message.
//
// A runner of the SDK that is streaming and has failed is not completed: a host that ranges over AllStreaming and does not
// look at the errors in it never comes to an end. One that was stopped by the guard is.
//
// Spans of a runner are those of the SDK. A detection is on the one around the call of the tool, or, where there was no
// tool, around the request with the result; option.WithoutOpenTelemetry leaves it to the span of the host. The tools that
// package mcp makes are traced as anthropic.custom_tool_use when they are guarded.
//
// A client that has no credentials says so before the first request, but not where there is middleware, as there is in a
// guarded runner: then it is the API that says so.
//
// Not seen are tools that the API runs itself, such as web search or those of MCP connectors, and calls in a message that did
// not stop for them ("max_tokens", "refusal"), which nobody runs.
package anthropic
