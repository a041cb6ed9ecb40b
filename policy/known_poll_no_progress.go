package policy

import "fmt"

// KnownPollNoProgress is the detector of a poll whose answer does not change.
const KnownPollNoProgress = "known_poll_no_progress"

var knownPollNoProgress = detector{
	name:    KnownPollNoProgress,
	enabled: func(d *Detectors) *bool { return d.KnownPollNoProgress },
	judge: func(v view) finding {
		if !v.poll {
			return finding{}
		}
		return v.grade(v.streak, v.streak)
	},
	sameWarning: sameCall,
	reason: func(f finding) string {
		return fmt.Sprintf("This poll was made %d times without a new answer.", f.count)
	},
	advice: "Wait much longer before asking again, look for the reason why it does not move, or report that it is " +
		"stuck.",
}
