package replay

import "github.com/loopguard-go/loopguard/policy"

// Judgement is what the guard says of one line.
type Judgement struct {
	policy.Verdict

	// Line is the number of the line.
	Line int
	// Run is the id of the run and Tool the name of the tool, both as the transcript gives them.
	Run, Tool string

	// Made says that the line makes the call. It is false for an outcome that came by itself and stopped the run.
	Made bool
	// Refused says that the call itself was refused, or would have been but for observe mode. It is false where the run
	// was stopped by the outcome of the call.
	Refused bool
}

// Writer writes judgements down.
type Writer interface {
	// Write takes the next judgement, in the order of the transcript.
	Write(Judgement) error
	// End ends what is written. Nothing can be written after it. It is told whether the transcript was judged as a whole,
	// or only up to a line that is wrong.
	End(whole bool) error
}
