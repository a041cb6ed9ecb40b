package policy

import "github.com/loopguard-go/loopguard/canonical"

// detector finds one kind of loop. Each has a file of its own.
type detector struct {
	// name is what it is called in verdicts, on traces and in the documentation.
	name string
	// enabled is its switch in a configuration, nil for a detector that has none.
	enabled func(*Detectors) *bool
	// judge says what it finds: a pure function of what it sees. The guard after compaction has none: it judges outcomes.
	judge func(v view) finding
	// sameWarning reports whether a record that this detector warned of is about the same as a finding; nil for a
	// detector that never warns.
	sameWarning func(v view, r *record, f finding) bool
	// reason says in a sentence what was found, for people and models.
	reason func(f finding) string
	// advice says what a model should do instead.
	advice string
}

// detectorID is the place of a detector in the list of all. It is what a record remembers of it.
type detectorID uint8

const (
	nobody detectorID = iota
	unknownToolID
	breakerID
	knownPollID
	pingPongID
	genericRepeatID
	errorStreakID
	stagnationID
	compactionID
)

// detectors lists all detectors. Those from unknownToolID to stagnationID judge calls when they begin, and at one level
// the first that found something decides.
var detectors = [...]detector{
	nobody:          {},
	unknownToolID:   unknownToolRepeat,
	breakerID:       globalCircuitBreaker,
	knownPollID:     knownPollNoProgress,
	pingPongID:      pingPong,
	genericRepeatID: genericRepeat,
	errorStreakID:   errorStreak,
	stagnationID:    stagnation,
	compactionID:    compactionLoopPersisted,
}

func (id detectorID) name() string { return detectors[id].name }

// finding is what a detector found. The zero finding is nothing.
type finding struct {
	action    Action
	by        detectorID
	count     int
	threshold int

	pairedTool string           // ping_pong: the tool on the other side
	pairedWith canonical.Digest // ping_pong: the signature of the other side
}

// verdict makes a finding a verdict.
func (f finding) verdict(enforced bool) Verdict {
	v := Verdict{Enforced: enforced}
	if f.action == Allow {
		return v
	}
	v.Action = f.action
	v.Detector = f.by.name()
	v.Count, v.Threshold = f.count, f.threshold
	v.PairedTool = f.pairedTool
	v.Reason = detectors[f.by].reason(f)
	return v
}
