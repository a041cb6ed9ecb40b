package replay

import "github.com/loopguard-go/loopguard/middleware"

// Line is one line of a transcript: a call, perhaps with its outcome, or the outcome of an earlier call, or a compaction.
type Line struct {
	// Number counts the lines of the input from 1, blank ones too.
	Number int
	// Run is the id of the run, empty if the line names none.
	Run string
	// ID is the id of the call, empty if the line names none.
	ID string

	// Call is the call that the line makes, nil if it makes none.
	Call *middleware.Call
	// Outcome is how the call ended, or the open call with the ID; nil if the line does not say.
	Outcome *Outcome
	// Compaction says that the context of the run was compacted.
	Compaction bool
}

// Outcome is how a call ended: with a result, or with an error if Err is not nil.
type Outcome struct {
	Result middleware.Result
	Err    error
}
