// Package genkit puts a loop guard into agents of github.com/firebase/genkit/go.
//
// [New] makes a middleware of a guard, once, and each generation takes it. This package is imported as loopguard below, since
// genkit has its name as well:
//
//	guarded := loopguard.New(guard)
//	...
//	response, err := genkit.Generate(ctx, g, ai.WithPrompt(question), ai.WithTools(tools...),
//		ai.WithMaxTurns(40), ai.WithUse(guarded))
//
// The same goes for GenerateText, GenerateData, GenerateStream and the Execute of a prompt. There is no way to give it to all
// generations at once. The middleware of a prompt's definition is never used: give it to Execute. With
// genkit.DefineMiddleware it can be used by its name, "loopguard", in the Dev UI for example.
//
// # What genkit makes of it
//
// Each generation is a run of its own, from its first turn to its last, whatever the end is. A generation within a tool is a
// sub-agent, with a run below the one of the tool. [WithHostRun] is for messages of the user that take several generations.
//
// A warning is part of the output of the tool, so that the model reads it in its next turn: it follows a text, is the field
// "loopguard" of an object, and stands alone where there is no output. Output of another kind, or an object that has such a
// field, becomes the field "output" of an object beside it. No other output is changed. The note is no part of the content of
// a multipart response, as most models are not shown that.
//
// A refusal is a text in place of the output. Tools in genkit have no results that are errors.
//
// An abort ends the generation, and its error is the [*middleware.LoopError] itself:
//
//	if loop, ok := errors.AsType[*middleware.LoopError](err); ok { ... }
//
// It comes when the other calls of the turn have ended, unless one of them failed first. The call that stopped the run has a
// result until then, in a stream for example, that no model reads. No other middleware can take it for a failure of a tool and
// go on. A guard that was made with [middleware.WithBlocksAsErrors] ends the generation with the first refusal.
//
// The guard belongs behind all other middleware with hooks for tools, as in ai.WithUse(&middleware.ToolApproval{}, guarded):
// there it sees what tools say and not what others make of that. A middleware that lets the model read the errors of tools
// may be on either side. A middleware has to pass on its context, or the generation ends with [middleware.ErrNoRun].
//
// The context of the run is the one that models, tools and hooks are given. [middleware.RunID] reads the run from it, and a
// middleware that compacts the messages tells the guard with [middleware.Guard.Compacted].
//
// # What genkit does by itself
//
// It gives up after five turns with tool calls, below every sensible threshold: set ai.WithMaxTurns. The guard logs a notice
// about it.
//
// A tool that does not exist, and one that fails, ends the generation. So an agent cannot hunt for a tool within one; and of a
// tool that does not exist no hook can say which it was, so that the guard never sees it. A tool that exists is run, whether
// it was offered to the model or not, and is seen.
//
// Tools run in goroutines of their own which recover no panic: one ends the process. When a tool fails the generation does not
// wait for the other calls of its turn; they go on, with nobody to take their results. The guard leaves nothing behind
// of those, either.
//
// Tools may interrupt a generation. Such a call has no outcome; it has one when it is restarted, in another generation. One
// that the host responds to itself is never seen.
//
// With ai.WithReturnToolRequests the host runs the tools, and no middleware sees that: take each call through
// [middleware.Guard.Do], as in the example.
//
// Numbers in arguments and in structured output are floating point before hooks, tools and models have them: above 2^53 they are
// rounded, and what is equal then is equal to the guard. Text is left as it is.
//
// Tools of genkit's plugin for the Model Context Protocol are called SERVER_TOOL, so that "exec" of a server is no command to
// the rules unless one gives it the kind "exec". Their results are known for what they are.
//
// Its spans carry all arguments and results. Those of the guard never do; see [WithTracing].
//
// Whoever leaves the loop over GenerateStream early gets a panic of the range statement, guard or not. The run is over by then.
package genkit
