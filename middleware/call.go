package middleware

import "github.com/loopguard-go/loopguard/canonical"

// Call is one tool call, as the model asked for it.
type Call struct {
	// ID is the id that the model gave the call, if any. It is reported, and plays no part in any verdict: models use ids
	// again.
	ID string

	// Tool is the name of the tool as the model wrote it.
	Tool string

	// Args are the arguments, as JSON or as text.
	Args string

	// ArgsJSON says that Args is one JSON value of whatever type. It is for recordings, where arguments may be a number
	// or null; without it, text that starts with '{' or '[' is tried as JSON and all else is text.
	ArgsJSON bool

	// Unknown says that the host has no tool of this name.
	Unknown bool
}

func (c Call) canonical() canonical.Call {
	return canonical.Call{Tool: c.Tool, Args: c.Args, ArgsJSON: c.ArgsJSON, Unregistered: c.Unknown}
}

// Result is what a call came to.
type Result struct {
	canonical.Result

	// Refusal is set if the call was blocked: the tool was not run, and the result is what the model is to read instead.
	Refusal *LoopError

	note string // what the guard appended to Text
}

// Note returns the note for the model that [Guard.Do] appended to Text, or nothing: for hosts that show the model something
// else than that text.
func (r Result) Note() string { return r.note }

// Text is the result of a tool that returned a text; text that is JSON is taken as such.
func Text(s string) Result { return Result{Result: canonical.Result{Text: s}} }
