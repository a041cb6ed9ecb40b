package policy

// view is all that a detector sees: the history, the call, the limits, and a few counts that several detectors use.
// Records are looked at from the newest to the oldest.
type view struct {
	records []record
	names   names // of the tools in records
	call    Call
	tool    nameID // of the call; none if no record has it
	poll    bool
	limits  limits
	unknown int // the threshold of unknown_tool_repeat

	streak int  // how often in a row the call came to the same outcome, or was refused
	recent int  // how often the call was made at all
	stale  int  // how many calls in a row, of whatever kind, told the agent nothing new
	known  bool // the call was made before and ended
}

// look makes the view of a call.
func look(s *State, c Call, poll bool, l limits, unknown int) view {
	v := view{
		records: s.records, names: s.names, call: c, tool: s.names.find(c.Tool), poll: poll, limits: l, unknown: unknown,
	}
	v.countCall()
	v.countStale()
	return v
}

// countCall counts the records of the call. A streak starts at its newest outcome and goes back until an outcome differs.
// Refusals belong to it where they are newer or stand between two counted records, so that a loop goes on to count while
// it is refused; if all outcomes were forgotten, the refusals alone make the streak.
func (v *view) countCall() {
	var counted *record // the last one that was counted
	refusals, broken := 0, false
	for i := len(v.records) - 1; i >= 0; i-- {
		r := &v.records[i]
		if r.signature != v.call.Signature {
			continue
		}
		v.recent++
		if r.status == Open {
			continue
		}
		v.known = true
		switch {
		case broken:
		case r.status == Refused:
			refusals++
		case counted == nil || r.outcome == counted.outcome:
			counted = r
			v.streak += refusals + 1
			refusals = 0
		default:
			broken = true
		}
	}
	if counted == nil {
		v.streak = refusals
	}
}

// countStale counts how many records in a row are repeats, refusals or failures for want of the tool. Calls that wait by
// asking again play no part: asking again is what they are for.
func (v *view) countStale() {
	for i := len(v.records) - 1; i >= 0; i-- {
		r := &v.records[i]
		if r.status == Open || r.poll {
			continue
		}
		if r.status == Done && !r.repeat && !r.unknown {
			return
		}
		v.stale++
	}
}

// grade makes a count a finding: critical if one count reaches the critical threshold, else a warning if another reaches
// the warning threshold.
func (v view) grade(criticalCount, warningCount int) finding {
	switch l := v.limits; {
	case criticalCount >= l.critical:
		return finding{action: Block, count: criticalCount, threshold: l.critical}
	case warningCount >= l.warning:
		return finding{action: Warn, count: warningCount, threshold: l.warning}
	}
	return finding{}
}

// warned reports whether the history holds a warning about the same as a finding, at the same or a higher multiple of
// the threshold.
func (v view) warned(f finding) bool {
	multiple := int32(f.count / f.threshold)
	same := detectors[f.by].sameWarning
	for i := range v.records {
		if r := &v.records[i]; r.warnedBy == f.by && r.warnedAt >= multiple && same(v, r, f) {
			return true
		}
	}
	return false
}

// The keys of warnings.

func sameCall(v view, r *record, _ finding) bool { return r.signature == v.call.Signature }

func sameTool(v view, r *record, _ finding) bool { return r.tool == v.tool }

func samePair(v view, r *record, f finding) bool {
	return r.signature == v.call.Signature && r.warnedOf == f.pairedWith ||
		r.signature == f.pairedWith && r.warnedOf == v.call.Signature
}

func sameRun(view, *record, finding) bool { return true }
