package policy

import "fmt"

// GenericRepeat is the detector of one call that is made again and again.
const GenericRepeat = "generic_repeat"

var genericRepeat = detector{
	name:    GenericRepeat,
	enabled: func(d *Detectors) *bool { return d.GenericRepeat },
	judge: func(v view) finding {
		if v.poll {
			return finding{}
		}
		return v.grade(v.streak, v.recent)
	},
	sameWarning: sameCall,
	reason: func(f finding) string {
		if f.action == Warn {
			return fmt.Sprintf("This very call was already made %d times.", f.count)
		}
		return fmt.Sprintf("This very call was already made %d times, and nothing new came of it.", f.count)
	},
	advice: "Do not repeat it as it is. Use what it brought, take another way or another tool; if you cannot go on, say " +
		"what is missing.",
}
