package canonical

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
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

// class is a set of bytes: one of these, or several put together.
type class uint16

const (
	aDigit class = 1 << iota // \d
	aHexDigit
	aWordByte // \w as \b understands it: letters of ASCII only
	aSpace    // \s, to which a vertical tab does not belong
	aBlank
	aHyphen
	aPlus
	aPoint
	aColon
	anEqualsSign
	aNumberSign
	anUnderscore
	anAtSign
	aT
	anX
	aZ
)

// classes has the classes that each byte belongs to.
var classes = func() (of [256]class) {
	for members, c := range map[string]class{
		"0123456789":   aDigit | aHexDigit | aWordByte,
		"abcdefABCDEF": aHexDigit | aWordByte,
		"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ_": aWordByte,
		" \t\n\f\r": aSpace,
		" ":         aBlank,
		"-":         aHyphen,
		"+":         aPlus,
		".":         aPoint,
		":":         aColon,
		"=":         anEqualsSign,
		"#":         aNumberSign,
		"_":         anUnderscore,
		"@":         anAtSign,
		"tT":        aT,
		"xX":        anX,
		"zZ":        aZ,
	} {
		for _, b := range []byte(members) {
			of[b] |= c
		}
	}
	return of
}()

// is reports whether there is a byte at i, of a certain class.
func is(s string, i int, c class) bool { return 0 <= i && i < len(s) && classes[s[i]]&c != 0 }

// boundary is \b: it reports whether just one of the bytes on both sides of i belongs to a word.
func boundary(s string, i int) bool { return is(s, i-1, aWordByte) != is(s, i, aWordByte) }

// skip returns the end of the bytes of a class that begin at i.
func skip(s string, i int, c class) int {
	for is(s, i, c) {
		i++
	}
	return i
}

// skipBack returns the beginning of the bytes of a class that end at i.
func skipBack(s string, i int, c class) int {
	for is(s, i-1, c) {
		i--
	}
	return i
}

// skipFraction is (\.\d+)?
func skipFraction(s string, i int) int {
	if is(s, i, aPoint) && is(s, i+1, aDigit) {
		return skip(s, i+1, aDigit)
	}
	return i
}

// layout is a text of fixed length of which each byte is known by its class.
type layout []class

// newLayout reads a layout: 0 is any digit, f any hexadecimal digit, + either sign, and T may be a blank.
func newLayout(example string) (l layout) {
	of := map[rune]class{
		'0': aDigit, 'f': aHexDigit, '-': aHyphen, ':': aColon, 'T': aT | aBlank, '+': aPlus | aHyphen, 'Z': aZ,
	}
	for _, c := range example {
		l = append(l, of[c])
	}
	return l
}

// at reports whether a text of this layout begins at i, and where it ends.
func (l layout) at(s string, i int) (end int, ok bool) {
	if i < 0 || len(l) > len(s)-i {
		return 0, false
	}
	for k, c := range l {
		if !is(s, i+k, c) {
			return 0, false
		}
	}
	return i + len(l), true
}

// words are words in lower case, filed under the bytes with which they begin, or end, in whatever case.
type words [256][]string

// byFirst files words under their first bytes.
func byFirst(list ...string) *words {
	var w words
	for _, word := range list {
		for _, letter := range spellings([]rune(word)[0]) {
			w[letter[0]] = append(w[letter[0]], word)
		}
	}
	return &w
}

// byLast files words, in ASCII, under their last bytes.
func byLast(list ...string) *words {
	var w words
	for _, word := range list {
		for _, letter := range spellings(rune(word[len(word)-1])) {
			last := letter[len(letter)-1]
			w[last] = append(w[last], word)
		}
	}
	return &w
}

// at finds the first of the words, filed by first byte, that begins at i and has \b at its end, which is returned.
func (w *words) at(s string, i int) (end int, ok bool) {
	if i == len(s) {
		return 0, false
	}
	for _, word := range w[s[i]] {
		if end, ok := wordAt(s, i, word); ok && boundary(s, end) {
			return end, true
		}
	}
	return 0, false
}

// before finds the first of the words, filed by last byte, that ends at i and has \b at its beginning, which is
// returned.
func (w *words) before(s string, i int) (begin int, ok bool) {
	if i == 0 {
		return 0, false
	}
	for _, word := range w[s[i-1]] {
		if begin, ok := wordBefore(s, i, word); ok && boundary(s, begin) {
			return begin, true
		}
	}
	return 0, false
}

// wordAt reports whether a word begins at i, in whatever case, and where it ends.
func wordAt(s string, i int, word string) (end int, ok bool) {
	for _, letter := range word {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !isLetter(r, letter) {
			return 0, false
		}
		i += size
	}
	return i, true
}

// wordBefore reports whether a word, in ASCII, ends at i, in whatever case, and where it begins.
func wordBefore(s string, i int, word string) (begin int, ok bool) {
	for k := len(word) - 1; k >= 0; k-- {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if !isLetter(r, rune(word[k])) {
			return 0, false
		}
		i -= size
	}
	return i, true
}

// isLetter reports whether r is a letter, given in lower case, in whatever case. RE2 goes by Unicode's simple folding,
// by which ſ is an s, the Kelvin sign a k, and the Greek mu the micro sign.
func isLetter(r, letter rune) bool {
	if r < utf8.RuneSelf {
		return r|0x20 == letter
	}
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		if other == letter {
			return true
		}
	}
	return r == letter
}

// spellings returns a letter in each case.
func spellings(letter rune) []string {
	all := []string{string(letter)}
	for r := unicode.SimpleFold(letter); r != letter; r = unicode.SimpleFold(r) {
		all = append(all, string(r))
	}
	return all
}
