// Package langchain puts a loop guard into agents of github.com/tmc/langchaingo.
//
// [Wrap] is the whole installation: the executor that it returns takes the place of the one that it was given.
//
//	guard, err := middleware.New(policy.Default())
//	...
//	executor := langchain.Wrap(guard, agents.NewExecutor(agent, agents.WithMaxIterations(40)))
//	answer, err := chains.Run(ctx, executor, question)
//
// [Agent], [Tool] and [Tools] are the parts that it is made of, for hosts that run agents in some other way and open runs
// themselves.
//
// # What langchaingo makes of it
//
// A warning or a refusal is part of an observation, so that the model reads it in its next turn and the agent goes on. An
// abort is an error of the tool or of the plan. It ends the run, and chains.Run returns it as it is:
//
//	if loop, ok := errors.AsType[*middleware.LoopError](err); ok { ... }
//
// The intermediate steps are lost there, as always when langchaingo fails; the error carries the last calls itself. A
// guard that was made with [middleware.WithBlocksAsErrors] ends the run with the first refusal.
//
// agents.Executor gives up after MaxIterations turns, and its default of 5 is below every sensible threshold: see
// [Executor.Notices].
//
// A tool that the model invents never reaches any tool; the executor answers in its place. The guarded agent sees such
// calls where they are planned, and changes what the model reads of them, in a copy: the intermediate steps, and the
// callbacks, keep what happened. In a turn with several calls those are judged before the others, which are judged when
// they run.
//
// An answer that cannot be parsed is no tool call. What agents.ParserErrorHandler makes of it is not seen here, and only
// MaxIterations ends an agent that goes on like that.
//
// OpenAIFunctionsAgent shows the model calls in a row that are equal as one turn of parallel calls, so that only the
// observations tell them apart. All that the guard says names a count, and thereby differs from call to call.
//
// The context of a run is the one that models, tools and callbacks are given. [middleware.RunID] reads the run from it,
// and a model that compacts its messages and tries again tells the guard with [middleware.Guard.Compacted].
package langchain
