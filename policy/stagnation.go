package policy

import "fmt"

// Stagnation is the detector of an agent that makes known calls only and learns nothing from them, in whatever order: it
// sees cycles of any length and irregular hopping.
const Stagnation = "stagnation"

var stagnation = detector{
	name:    Stagnation,
	enabled: func(d *Detectors) *bool { return d.Stagnation },
	judge: func(v view) finding {
		if !v.known || v.poll {
			return finding{}
		}
		return v.grade(v.stale, v.stale)
	},
	sameWarning: sameRun,
	reason: func(f finding) string {
		return fmt.Sprintf("The last %d calls in a row told nothing that was not known before.", f.count)
	},
	advice: "You are going in circles. Stop repeating earlier calls, decide with what you know, or try something that " +
		"you have not tried yet.",
}
