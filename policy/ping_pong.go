package policy

import (
	"fmt"

	"github.com/loopguard-go/loopguard/canonical"
)

// PingPong is the detector of an agent that alternates between two calls.
const PingPong = "ping_pong"

var pingPong = detector{
	name:    PingPong,
	enabled: func(d *Detectors) *bool { return d.PingPong },
	judge: func(v view) finding {
		length, evidence := v.alternation()
		if length == 0 {
			return finding{}
		}
		count := length + 1 // the call continues it
		proven := 0
		if evidence {
			proven = count
		}
		f := v.grade(proven, count)
		other := &v.records[len(v.records)-1]
		f.pairedTool, f.pairedWith = v.names.of(other.name), other.signature
		return f
	},
	sameWarning: samePair,
	reason: func(f finding) string {
		if f.action == Warn {
			return fmt.Sprintf("The last %d calls alternate between the same two calls.", f.count)
		}
		return fmt.Sprintf("The last %d calls alternate between the same two calls, and neither brings anything new.", f.count)
	},
	advice: "Going back and forth will not change either result. Decide with what both have told you, or do something " +
		"that changes the situation.",
}

// alternation returns the length of the strict alternation of two calls that the history ends in and that the call
// continues. There is evidence that it leads nowhere if all of it has ended and each side has outcomes and only one.
func (v view) alternation() (length int, evidence bool) {
	n := len(v.records)
	if n < 2 {
		return 0, false
	}
	other, own := v.records[n-1].signature, v.call.Signature
	if own == other || v.records[n-2].signature != own {
		return 0, false
	}
	sides := [2]struct {
		signature canonical.Digest
		last      *record // that has an outcome
	}{{signature: other}, {signature: own}}
	evidence = true
	for length < n {
		r, side := &v.records[n-1-length], &sides[length%2]
		if r.signature != side.signature {
			break
		}
		length++
		switch {
		case r.status == Refused:
		case r.status == Open, side.last != nil && side.last.outcome != r.outcome:
			evidence = false
		default:
			side.last = r
		}
	}
	return length, evidence && sides[0].last != nil && sides[1].last != nil
}
