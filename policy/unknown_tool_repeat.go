package policy

import "fmt"

// UnknownToolRepeat is the detector of an agent that hunts for a tool that does not exist.
const UnknownToolRepeat = "unknown_tool_repeat"

var unknownToolRepeat = detector{
	name: UnknownToolRepeat,
	judge: func(v view) finding {
		count := v.countUnknown()
		if v.call.Unregistered {
			count = max(count, v.countUnregistered())
		}
		if count < v.unknown {
			return finding{}
		}
		return finding{action: Block, count: count, threshold: v.unknown}
	},
	reason: func(f finding) string {
		return fmt.Sprintf("%d calls failed or were refused because there is no such tool.", f.count)
	},
	advice: "The tool does not exist and will not appear. Use only the tools that you were given, with their exact " +
		"names; if none of them can do it, say so.",
}

// countUnknown counts the failures of this tool for want of it, with no other outcome of it since. Calls of other tools
// in between do not matter.
func (v view) countUnknown() int {
	count := 0
	for i := len(v.records) - 1; i >= 0; i-- {
		r := &v.records[i]
		if r.tool != v.tool {
			continue
		}
		switch {
		case r.status == Refused && r.refusedBy == unknownToolID, r.status == Done && r.unknown:
			count++
		case r.status == Done:
			return count
		}
	}
	return count
}

// countUnregistered counts the newest calls in a row, under whatever names, that failed for want of the tool.
func (v view) countUnregistered() int {
	count := 0
	for i := len(v.records) - 1; i >= 0; i-- {
		switch r := &v.records[i]; {
		case r.status == Open:
		case r.status == Refused && r.refusedBy == unknownToolID, r.status == Done && r.unknown:
			count++
		default:
			return count
		}
	}
	return count
}
