package policy

import "fmt"

// ErrorStreak is the detector of a tool that fails in the same way whatever its arguments are.
const ErrorStreak = "error_streak"

var errorStreak = detector{
	name:    ErrorStreak,
	enabled: func(d *Detectors) *bool { return d.ErrorStreak },
	judge: func(v view) finding {
		length := v.countFailures()
		return v.grade(length, length)
	},
	sameWarning: sameTool,
	reason: func(f finding) string {
		return fmt.Sprintf("This tool failed or was refused %d times in a row with the same failure, whatever its arguments.", f.count)
	},
	advice: "This tool is of no use as things are. Read the failure, mend what causes it by other means, or use another " +
		"tool; if you cannot, report the failure.",
}

// countFailures counts the newest outcomes of this tool as long as they are one and the same failure. Calls of other
// tools in between do not matter.
func (v view) countFailures() int {
	var counted *record // the last one that was counted
	count := 0
	for i := len(v.records) - 1; i >= 0; i-- {
		r := &v.records[i]
		if r.tool != v.tool {
			continue
		}
		switch {
		case r.status == Open:
		case r.status == Refused:
			if r.refusedBy == errorStreakID {
				count++
			}
		case !r.failure, r.unknown, counted != nil && r.outcome != counted.outcome:
			return count
		default:
			counted = r
			count++
		}
	}
	return count
}
