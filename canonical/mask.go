package canonical

import "slices"

// masked stands in place of whatever was masked. Valid UTF-8 never contains this byte, so proper text cannot pass for
// masked text. To a pattern it is what any broken character is to RE2: no part of a word, so that \b holds where it
// touches one, and nothing that could be matched. And it is a single byte, so that masking makes no text longer.
const masked = "\xff"

// A mask replaces what matches some patterns. These are written as scanners, which do exactly what regexp.ReplaceAll would
// do with one pattern after the other.
//
// Every match has a part that is quick to find and on which all the rest hangs, such as a digit, or two letters of a word.
// That is its hinge. A mask jumps from hinge to hinge and looks at the text around each, so that text without hinges costs
// next to nothing. A byte may be looked at for a few hinges that are near, but never for all of them; so the cost is
// linear, whatever the text is.
type mask func(*rewriter)

// rewriter makes a masked copy of a text, but for the end, in which nothing is replaced.
type rewriter struct {
	s    string
	out  []byte // the copy
	done int    // how much of s it stands for
}

// start takes on a text.
func (r *rewriter) start(s string) { r.s, r.out, r.done = s, r.out[:0], 0 }

// replace replaces s[from:to], which is not empty and lies behind all that was replaced before.
func (r *rewriter) replace(from, to int) {
	if r.done == 0 {
		r.out = slices.Grow(r.out, len(r.s))
	}
	r.out = append(r.out, r.s[r.done:from]...)
	r.out = append(r.out, masked[0])
	r.done = to
}

// rest is the end that is not copied.
func (r *rewriter) rest() string { return r.s[r.done:] }

// again takes on what has become of the text, for the next pattern.
func (r *rewriter) again() {
	if r.done > 0 {
		r.start(string(r.out) + r.rest())
	}
}

// reset lets go of the text.
func (r *rewriter) reset() {
	r.start("")
	r.out = emptied(r.out)
}
