package policy

import (
	"fmt"

	"github.com/loopguard-go/loopguard/canonical"
)

// Status says how far a call came.
type Status uint8

const (
	// Open calls have begun and have no outcome yet.
	Open Status = iota
	// Done calls have an outcome.
	Done
	// Refused calls were blocked: the tool was not run.
	Refused
)

// String returns the status as a word.
func (s Status) String() string {
	switch s {
	case Open:
		return "open"
	case Done:
		return "done"
	case Refused:
		return "refused"
	}
	return fmt.Sprintf("Status(%d)", uint8(s))
}

// MarshalText makes a status a word in JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// record is one call in the history of a run.
type record struct {
	id        uint64 // by which the outcome finds its call
	signature canonical.Digest
	outcome   canonical.Digest // of a done record
	tool      nameID           // folded: what is compared
	name      nameID           // as the model wrote it: what is reported
	status    Status

	poll    bool // the call waits for something by asking again
	failure bool // done: the outcome is a failure
	unknown bool // done: the failure is that there is no such tool
	repeat  bool // done: the history held the same call with the same outcome before

	refusedBy detectorID // refused: who did it

	// What was reported when the call began: a warning is not repeated while the history holds it.
	warnedBy detectorID
	warnedAt int32            // the count of the warning as a multiple of the threshold, rounded down
	warnedOf canonical.Digest // ping_pong: the signature of the other side
}

// Record tells of one call in the history of a run, for people to read. It holds digests, no arguments and no results.
type Record struct {
	// Tool is the name that the model wrote; one longer than 128 bytes is replaced by its digest.
	Tool string
	// Signature is the digest of the call: tool and arguments.
	Signature canonical.Digest
	// Outcome is the digest of what came of the call, zero if there is no outcome.
	Outcome canonical.Digest
	// Status says how far the call came.
	Status Status
	// Failure says that the outcome is a failure.
	Failure bool
	// Detector is the name of the detector that refused the call, or that warned of it, or empty.
	Detector string
}

// String returns the record as one line: tool, call, how far it came, and what came of it.
func (r Record) String() string {
	line := fmt.Sprintf("%q %s %s", r.Tool, r.Signature, r.Status)
	switch {
	case r.Status == Refused:
		return line + " by " + r.Detector
	case r.Failure:
		line += " with failure " + r.Outcome.String()
	case r.Status == Done:
		line += " with result " + r.Outcome.String()
	}
	if r.Detector != "" {
		line += ", warned of by " + r.Detector
	}
	return line
}

func (r *record) public(names names) Record {
	by := r.refusedBy
	if by == nobody {
		by = r.warnedBy
	}
	return Record{
		Tool:      names.of(r.name),
		Signature: r.signature,
		Outcome:   r.outcome,
		Status:    r.status,
		Failure:   r.failure,
		Detector:  by.name(),
	}
}
