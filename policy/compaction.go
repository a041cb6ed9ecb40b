package policy

import (
	"fmt"

	"github.com/loopguard-go/loopguard/canonical"
)

// CompactionLoopPersisted is the guard after compaction: an agent that starts the same loop again right after its context
// was compacted, having forgotten the first time.
const CompactionLoopPersisted = "compaction_loop_persisted"

var compactionLoopPersisted = detector{
	name: CompactionLoopPersisted,
	reason: func(f finding) string {
		return fmt.Sprintf("After the context was compacted the agent made the same call %d times with the same result.", f.count)
	},
	advice: "The run was stopped. Report what was done and what is missing.",
}

// window is what the guard after compaction remembers: the outcomes that came since the run was compacted, as long as
// they are all one and the same.
type window struct {
	id        uint64 // of the compaction; calls that began before it have another
	armed     bool
	seen      int
	signature canonical.Digest
	outcome   canonical.Digest
}

// fill looks at the outcome of a call and reports whether it is the one that makes the window full. The guard stands down
// then, and also at the first outcome that differs.
func (w *window) fill(t Ticket, outcome canonical.Digest, size int) (full bool) {
	if !w.armed || t.window != w.id {
		return false
	}
	if w.seen == 0 {
		w.signature, w.outcome = t.signature, outcome
	}
	if t.signature != w.signature || outcome != w.outcome {
		w.armed = false
		return false
	}
	w.seen++
	w.armed = w.seen < size
	return !w.armed
}
