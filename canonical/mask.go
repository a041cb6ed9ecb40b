package canonical

import (
	"encoding/binary"
	"math/bits"
	"strings"
)

// masked stands in place of whatever was masked. Valid UTF-8 never contains this byte, so proper text cannot pass for
// masked text. To a pattern it is what any broken character is to RE2: no part of a word, so that \b holds where it
// touches one, and nothing that could be matched. And it is a single byte, so that masking makes no text longer.
const masked = "\xff"

// A mask is a pattern, written as a scanner: apply does exactly what regexp.ReplaceAll would do.
//
// Every match of a pattern has a part that is quick to find and on which all the rest hangs, such as the first colon
// of a clock time. That is its hinge: a run of one kind of character. A mask jumps from hinge to hinge and looks at the
// text around each, so that text without hinges costs next to nothing. A byte may be looked at for a few hinges that
// are near, but never for all of them; so the cost is linear, whatever the text is.
type mask struct {
	hinge hinge
	// find returns the match that hangs on s[at:end]. There is one at most; later hinges have later matches.
	find func(s string, at, end int) match
}

// match is what a pattern matched. The zero match is none.
type match struct {
	begin    int // where the whole match begins
	from, to int // what is replaced: the end of the match, or all of it
}

// whole is a match that is replaced as a whole.
func whole(begin, end int) match { return match{begin, begin, end} }

// apply replaces what matches, from left to right and without overlaps.
func (m *mask) apply(s string) string {
	r := rewriter{s: s}
	for at := m.hinge.next(s, 0); at < len(s); {
		end := m.hinge.end(s, at)
		if found := m.find(s, at, end); found.to > 0 && found.begin >= r.done {
			r.replace(found.from, found.to)
			end = found.to
		}
		at = m.hinge.next(s, end)
	}
	return r.result()
}

// rewriter makes a masked copy of s, or none if nothing is replaced.
type rewriter struct {
	s    string
	done int // how much of s is copied or replaced
	out  strings.Builder
}

// replace replaces s[from:to], which is not empty and lies behind all that was replaced before.
func (r *rewriter) replace(from, to int) {
	if r.done == 0 {
		r.out.Grow(len(r.s))
	}
	r.out.WriteString(r.s[r.done:from])
	r.out.WriteByte(masked[0])
	r.done = to
}

func (r *rewriter) result() string {
	if r.done == 0 {
		return r.s
	}
	r.out.WriteString(r.s[r.done:])
	return r.out.String()
}

// hinge is the kind of character that hinges are made of: count characters of ASCII from first on. They must be those
// which give less than count when xor-ed with first; ten digits from '0' on do, and so does any single character.
type hinge struct {
	first, count byte
	fold         byte // is set in each byte before it is compared: 0x20 makes a letter lower-case
}

var (
	onDigits = hinge{first: '0', count: 10}
	onZero   = hinge{first: '0', count: 1}
	onHyphen = hinge{first: '-', count: 1}
	onColon  = hinge{first: ':', count: 1}
	onO      = hinge{first: 'o', count: 1, fold: 0x20}
)

// next returns where the next hinge begins in s[i:], or len(s).
func (h hinge) next(s string, i int) int {
	if h.count == 1 && h.fold == 0 {
		if n := strings.IndexByte(s[i:], h.first); n >= 0 {
			return i + n
		}
		return len(s)
	}
	// Eight bytes at a time: count is subtracted from each, and where that sets the top bit, the byte was less. A byte
	// that was less borrows from the next and may make it a false hit, but the first hit is always a true one.
	const each, top = 0x0101010101010101, 0x8080808080808080
	first, count, fold := each*uint64(h.first), each*uint64(h.count), each*uint64(h.fold)
	for ; i+8 <= len(s); i += 8 {
		eight := (binary.LittleEndian.Uint64([]byte(s[i:i+8])) | fold) ^ first
		if hits := (eight - count) &^ eight & top; hits != 0 {
			return i + bits.TrailingZeros64(hits)/8
		}
	}
	for i < len(s) && !h.has(s[i]) {
		i++
	}
	return i
}

// end returns the end of the hinge that begins at i.
func (h hinge) end(s string, i int) int {
	for i++; i < len(s) && h.has(s[i]); i++ {
	}
	return i
}

func (h hinge) has(c byte) bool { return (c|h.fold)^h.first < h.count }
