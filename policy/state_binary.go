package policy

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/loopguard-go/loopguard/canonical"
)

// The binary form of a state, for stores outside the process: a magic word, the version of the form and that of the identity
// rules, one byte each; a byte that says what is there; the names of tools; what stopped the run; the window of the guard
// after compaction; and the records, oldest first. Lists and texts begin with their length, numbers are varints, and ids of
// calls and compactions, which are random, take eight bytes. There are digests in it, no arguments and no results.

// ErrNewerState matches the error of [State.UnmarshalBinary] for a state that a newer version of this package wrote, or one
// with newer identity rules. Whoever keeps states leaves such a one as it is.
var ErrNewerState = errors.New("written by a newer version of loopguard")

const (
	stateMagic = "lgs"

	// stateVersion is the version of the form. Raise it when the form changes, and when there is a new detector: readers of
	// before understand neither, and are to know that it is not for them. What was written before must still be read.
	stateVersion = 1
)

// What is there in a state.
const (
	hasStop byte = 1 << iota
	hasWindow
	hasAll = hasStop | hasWindow
)

// The bits of a record.
const (
	statusBits byte = 1<<0 | 1<<1
	pollBit    byte = 1 << 2
	failureBit byte = 1 << 3
	unknownBit byte = 1 << 4
	repeatBit  byte = 1 << 5
	warnedBit  byte = 1 << 6

	outcomeBits = failureBit | unknownBit | repeatBit // which only a done call has
	recordBits  = statusBits | pollBit | outcomeBits | warnedBit
)

// storedDetectors are the detectors by the numbers that stand for them in the binary form. A number is never given to
// another detector, and a new detector takes the next.
var storedDetectors = [...]detectorID{
	0: nobody,
	1: unknownToolID,
	2: breakerID,
	3: knownPollID,
	4: pingPongID,
	5: genericRepeatID,
	6: errorStreakID,
	7: stagnationID,
	8: compactionID,
}

func (id detectorID) stored() byte { return byte(slices.Index(storedDetectors[:], id)) }

// MarshalBinary returns the state in its binary form, which is the same for equal states. It takes 45 bytes for a record,
// as a rule, and the name of each tool once. The error is always nil.
func (s *State) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// AppendBinary appends the binary form of the state, see [State.MarshalBinary].
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	isStopped, hasCompacted := s.stopped != nil, s.window != window{}
	names, places := s.namesInOrder()

	b = append(b, stateMagic...)
	b = append(b, stateVersion, canonical.IdentityVersion, bit(isStopped, hasStop)|bit(hasCompacted, hasWindow))
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendText(b, name)
	}
	if isStopped {
		b = s.stopped.append(b)
	}
	if hasCompacted {
		b = s.window.append(b)
	}
	b = binary.AppendUvarint(b, uint64(len(s.records)))
	for i := range s.records {
		b = s.records[i].append(b, places)
	}
	return b, nil
}

// namesInOrder returns the names that records need in the order in which they come, and their places in that list by their
// numbers.
func (s *State) namesInOrder() (ordered names, places []uint64) {
	places = make([]uint64, len(s.names)+1)
	isThere := make([]bool, len(s.names)+1)
	add := func(id nameID) {
		if !isThere[id] {
			isThere[id], places[id] = true, uint64(len(ordered))
			ordered = append(ordered, s.names.of(id))
		}
	}
	for i := range s.records {
		add(s.records[i].tool)
		add(s.records[i].name)
	}
	return ordered, places
}

func (v *Verdict) append(b []byte) []byte {
	b = append(b, byte(v.Action), bit(v.Enforced, 1))
	b = appendText(b, v.Detector)
	b = binary.AppendVarint(b, int64(v.Count))
	b = binary.AppendVarint(b, int64(v.Threshold))
	b = appendText(b, v.PairedTool)
	return appendText(b, v.Reason)
}

func (w *window) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, w.id)
	b = append(b, bit(w.armed, 1))
	b = binary.AppendUvarint(b, uint64(w.seen))
	if w.seen > 0 {
		b = append(b, w.signature[:]...)
		b = append(b, w.outcome[:]...)
	}
	return b
}

func (r *record) append(b []byte, places []uint64) []byte {
	isWarned := r.warnedBy != nobody
	b = append(b, byte(r.status)|bit(r.poll, pollBit)|bit(r.failure, failureBit)|bit(r.unknown, unknownBit)|
		bit(r.repeat, repeatBit)|bit(isWarned, warnedBit))
	b = binary.AppendUvarint(b, places[r.tool])
	b = binary.AppendUvarint(b, places[r.name])
	b = binary.LittleEndian.AppendUint64(b, r.id)
	b = append(b, r.signature[:]...)
	switch r.status {
	case Done:
		b = append(b, r.outcome[:]...)
	case Refused:
		b = append(b, r.refusedBy.stored())
	}
	if isWarned {
		b = append(b, r.warnedBy.stored())
		b = binary.AppendUvarint(b, uint64(r.warnedAt))
		if r.warnedBy == pingPongID {
			b = append(b, r.warnedOf[:]...)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// bit returns a bit if something is so.
func bit(is bool, b byte) byte {
	if is {
		return b
	}
	return 0
}
