package policy

import "fmt"

// Action is what a verdict asks for.
type Action uint8

const (
	// Allow lets the call run.
	Allow Action = iota
	// Warn lets the call run and adds a note to what the model reads.
	Warn
	// Block refuses the call: the tool is not run and the model reads why.
	Block
	// Abort stops the run: this call and all later ones of the run are refused.
	Abort
)

// String returns the action as a word: "allow", "warn", "block" or "abort".
func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Warn:
		return "warn"
	case Block:
		return "block"
	case Abort:
		return "abort"
	}
	return fmt.Sprintf("Action(%d)", uint8(a))
}

// MarshalText makes an action a word in JSON.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Verdict is what a policy says of a call.
type Verdict struct {
	// Action is what to do.
	Action Action
	// Detector is the name of the detector that found something, empty for [Allow].
	Detector string
	// Count is what the detector counted, in calls, and Threshold the number from which it acts.
	Count, Threshold int
	// PairedTool is, for ping_pong, the name of the tool on the other side.
	PairedTool string
	// Reason says in a sentence what was found, with the count and without names, arguments or results.
	Reason string
	// Enforced says whether the action takes effect; it is false in observe mode only.
	Enforced bool
}

// Refused reports whether the call must not run.
func (v Verdict) Refused() bool { return v.Enforced && v.Action >= Block }

// Stops reports whether the run is stopped.
func (v Verdict) Stops() bool { return v.Enforced && v.Action == Abort }

// Advice returns what a model should do instead of what the verdict is about, or nothing for [Allow].
func (v Verdict) Advice() string {
	for i := range detectors {
		if detectors[i].name == v.Detector {
			return detectors[i].advice
		}
	}
	return ""
}
