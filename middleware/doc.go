// Package middleware puts a loop detector around the tool executor of an agent.
//
// A [Guard] judges every tool call of a run. [Guard.Interceptor] and [Guard.Do] wrap a function that runs a tool;
// [Guard.Begin] and [Ticket.End] are the same in two steps, for loops that have no such function. Calls belong to runs:
// the context says to which, see [WithRun].
//
// What happens to a call depends on the verdict. Most calls run. With a warning the call runs, and a note is added to what
// the model reads. A block is an answer: the tool is not run, and the model reads why. An abort is an error, a
// [*LoopError]: the run is over. Every detection is reported as an event on the span in the context.
//
// A Guard is safe for concurrent use, by many runs and by many calls of one run. It starts no goroutines and needs no
// closing.
package middleware
