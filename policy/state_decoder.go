package policy

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/loopguard-go/loopguard/canonical"
)

// UnmarshalBinary makes s the state that data is the binary form of. The error says what is wrong with data and where, and
// s is then as it was; it matches [ErrNewerState] if data is not for this version. Of a state with older identity rules,
// whose digests no call matches any more, only what stopped the run is left.
func (s *State) UnmarshalBinary(data []byte) error {
	d := decoder{rest: data}
	read := d.state()
	if d.err != nil {
		return fmt.Errorf("policy: state: %w", d.err)
	}
	*s = read
	return nil
}

// decoder reads the binary form of a state. After the first error, which it keeps, there is nothing more to read.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) state() (s State) {
	if string(d.bytes("magic word", len(stateMagic))) != stateMagic {
		d.fail("magic word", "is not %q", stateMagic)
	}
	version, identity := d.byte("version"), d.byte("version of the identity rules")
	switch {
	case d.err != nil:
		return s
	case version > stateVersion || identity > canonical.IdentityVersion:
		d.err = fmt.Errorf("form %d with identity rules %d, this version reads up to %d with %d: %w",
			version, identity, stateVersion, canonical.IdentityVersion, ErrNewerState)
		return s
	case version != stateVersion:
		d.fail("version", "%d never was one", version)
	}
	has := d.byte("what is there")
	if has&^hasAll != 0 {
		d.fail("what is there", "%#x has bits that mean nothing", has)
	}
	s.names = d.names()
	if has&hasStop != 0 {
		s.stopped = d.stop()
	}
	if has&hasWindow != 0 {
		s.window = d.window()
	}
	s.records = make([]record, d.count("records", minRecord))
	for i := range s.records {
		s.records[i] = d.record(s.names)
		if d.err != nil {
			d.err = fmt.Errorf("record %d: %w", i, d.err)
			return s
		}
	}
	if d.err == nil && len(d.rest) > 0 {
		d.fail("end", "is followed by %d bytes", len(d.rest))
	}
	if identity < canonical.IdentityVersion {
		s.records, s.names, s.window = nil, nil, window{}
	}
	return s
}

// minRecord is the least number of bytes that a record takes: bits, two names, id and signature.
const minRecord = 1 + 1 + 1 + 8 + 16

func (d *decoder) names() names {
	all := make(names, d.count("names", 1))
	places := make(map[string]int, len(all))
	for i := range all {
		all[i] = d.name("name")
		if first, ok := places[all[i]]; ok {
			d.fail("names", "number %d is number %d again", i, first)
		}
		places[all[i]] = i
	}
	return all
}

func (d *decoder) stop() *Verdict {
	v := Verdict{
		Action:     Action(d.byte("action of the stop")),
		Enforced:   d.bool("enforcement of the stop"),
		Detector:   d.text("detector of the stop"),
		Count:      d.int("count of the stop"),
		Threshold:  d.int("threshold of the stop"),
		PairedTool: d.text("paired tool of the stop"),
		Reason:     d.text("reason of the stop"),
	}
	if v.Action != Abort {
		d.fail("action of the stop", "%s stops nothing", v.Action)
	}
	return &v
}

func (d *decoder) window() window {
	w := window{id: d.uint64("id of the window"), armed: d.bool("arming of the window")}
	w.seen = int(d.uvarint("size of the window", math.MaxInt32))
	if w.seen > 0 {
		w.signature, w.outcome = d.digest("signature of the window"), d.digest("outcome of the window")
	}
	if w == (window{}) {
		d.fail("window", "is there and empty")
	}
	return w
}

func (d *decoder) record(names names) record {
	bits := d.byte("bits")
	r := record{
		status:  Status(bits & statusBits),
		poll:    bits&pollBit != 0,
		failure: bits&failureBit != 0,
		unknown: bits&unknownBit != 0,
		repeat:  bits&repeatBit != 0,
		tool:    d.nameOf("tool", names),
		name:    d.nameOf("name", names),
		id:      d.uint64("id"),
	}
	r.signature = d.digest("signature")
	isWarned := bits&warnedBit != 0
	switch {
	case bits&^recordBits != 0:
		d.fail("bits", "%#x has some that mean nothing", bits)
	case r.status > Refused:
		d.fail("bits", "%#x has no status", bits)
	case r.status != Done && bits&outcomeBits != 0:
		d.fail("bits", "%#x tell of an outcome, and the call is %s", bits, r.status)
	case r.status == Refused && isWarned:
		d.fail("bits", "%#x tell of a warning, and the call is refused", bits)
	}
	switch r.status {
	case Done:
		r.outcome = d.digest("outcome")
	case Refused:
		r.refusedBy = d.detector("who refused", func(by detector) bool { return by.judge != nil })
	}
	if isWarned {
		r.warnedBy = d.detector("who warned", func(by detector) bool { return by.sameWarning != nil })
		r.warnedAt = int32(d.uvarint("multiple of the warning", math.MaxInt32))
		if r.warnedAt == 0 {
			d.fail("multiple of the warning", "is 0")
		}
		if r.warnedBy == pingPongID {
			r.warnedOf = d.digest("other side of the warning")
		}
	}
	return r
}

// fail keeps the first error.
func (d *decoder) fail(what, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(what+" "+format, args...)
	}
}

// bytes takes n bytes, or none if there are not so many.
func (d *decoder) bytes(what string, n int) (taken []byte) {
	if d.err == nil && n > len(d.rest) {
		d.fail(what, "takes %d bytes and there are %d", n, len(d.rest))
	}
	if d.err != nil {
		return nil
	}
	taken, d.rest = d.rest[:n], d.rest[n:]
	return taken
}

func (d *decoder) byte(what string) byte {
	if b := d.bytes(what, 1); d.err == nil {
		return b[0]
	}
	return 0
}

func (d *decoder) bool(what string) bool {
	b := d.byte(what)
	if b > 1 {
		d.fail(what, "is %d, must be 0 or 1", b)
	}
	return b == 1
}

func (d *decoder) uint64(what string) uint64 {
	if b := d.bytes(what, 8); d.err == nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) digest(what string) (digest canonical.Digest) {
	copy(digest[:], d.bytes(what, len(digest)))
	return digest
}

// uvarint takes a number that is not above a limit.
func (d *decoder) uvarint(what string, most uint64) uint64 {
	if d.err != nil {
		return 0
	}
	x, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(what, "is no number")
		return 0
	}
	if x > most {
		d.fail(what, "is %d, must not be above %d", x, most)
		return 0
	}
	d.rest = d.rest[n:]
	return x
}

func (d *decoder) int(what string) int {
	if d.err != nil {
		return 0
	}
	x, n := binary.Varint(d.rest)
	if n <= 0 || int64(int(x)) != x {
		d.fail(what, "is no number")
		return 0
	}
	d.rest = d.rest[n:]
	return int(x)
}

// count takes the length of a list each of whose elements takes a number of bytes at least, so that it is never longer than
// the data can bear.
func (d *decoder) count(what string, least int) int {
	return int(d.uvarint("number of "+what, uint64(len(d.rest)/least)))
}

func (d *decoder) text(what string) string {
	return string(d.bytes(what, d.count("bytes of "+what, 1)))
}

// name takes the name of a tool, which is never longer than names are kept.
func (d *decoder) name(what string) string {
	name := d.text(what)
	if canonical.Bound(name) != name {
		d.fail(what, "has %d bytes, too many for a name", len(name))
	}
	return name
}

// nameOf takes the place of a name in the list of all.
func (d *decoder) nameOf(what string, names names) nameID {
	i := d.uvarint(what, math.MaxInt32)
	if d.err == nil && i >= uint64(len(names)) {
		d.fail(what, "is number %d of %d names", i, len(names))
	}
	return nameID(i + 1)
}

// detector takes the number of a detector that can do what is said of it.
func (d *decoder) detector(what string, can func(detector) bool) detectorID {
	n := d.byte(what)
	if d.err != nil {
		return nobody
	}
	if int(n) >= len(storedDetectors) || !can(detectors[storedDetectors[n]]) {
		d.fail(what, "is %d, which is no such detector", n)
		return nobody
	}
	return storedDetectors[n]
}
