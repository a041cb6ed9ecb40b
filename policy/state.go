package policy

import "slices"

// State is what is remembered of one run: its newest calls, whether it was stopped, and the window of the guard after
// compaction. The zero value is a new run. A State is changed only by the methods of [Policy] and is not safe for
// concurrent use: whoever keeps it lets one caller at a time work on it.
type State struct {
	records []record // the newest calls, oldest first
	names   names    // of the tools in records
	stopped *Verdict // what stopped the run; never changed once it is set
	window  window
}

// Stopped returns the verdict that stopped the run, if one did.
func (s *State) Stopped() (v Verdict, stopped bool) {
	if s.stopped == nil {
		return Verdict{}, false
	}
	return *s.stopped, true
}

// IsZero reports whether a state is that of a new run.
func (s *State) IsZero() bool { return len(s.records) == 0 && s.stopped == nil && s.window == window{} }

// Awaits reports whether the outcome of a call would still be kept: not if the call was forgotten since it began, or the
// whole run was.
func (s *State) Awaits(t Ticket) bool {
	if i := s.find(t.id); i >= 0 {
		return t.valid && s.records[i].status == Open
	}
	return t.valid && s.window.armed && s.window.id == t.window
}

// Last returns the newest calls, n at the most, oldest first.
func (s *State) Last(n int) []Record {
	newest := s.records[max(0, len(s.records)-max(0, n)):]
	last := make([]Record, len(newest))
	for i := range newest {
		last[i] = newest[i].public(s.names)
	}
	return last
}

// CopyFrom makes s a copy of another state. It uses the memory that s already has, so that a store can work on a copy
// and keep it only if all went well.
func (s *State) CopyFrom(other *State) {
	records := s.records
	if cap(records) < len(other.records) {
		records = make([]record, 0, cap(other.records))
	}
	*s = *other
	s.records = append(records[:0], other.records...)
}

// stop stops the run.
func (s *State) stop(v Verdict) { s.stopped = &v }

// append adds the record of a call. The history holds no more than size records, so the oldest have to go, and it takes no
// more memory than for so many.
func (s *State) append(r record, c Call, size int) {
	if surplus := len(s.records) + 1 - size; surplus > 0 {
		s.records = slices.Delete(s.records, 0, surplus)
	}
	if n := len(s.records); n == cap(s.records) {
		s.records = append(make([]record, 0, min(2*n+4, size)), s.records...)
	}
	s.sweepNames()
	r.tool, r.name = s.names.number(c.Tool), s.names.number(c.Name)
	s.records = append(s.records, r)
}

// find finds the record with an id, the newest first: outcomes come soon after their calls.
func (s *State) find(id uint64) int {
	for i := len(s.records) - 1; i >= 0; i-- {
		if s.records[i].id == id {
			return i
		}
	}
	return -1
}
