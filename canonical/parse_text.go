package canonical

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string. What it says is a piece of the source, without a copy, unless there are escapes in it.
func (p *parser) text() bool {
	begin, escaped := p.i+1, false
	for i := skipPlain(p.s, begin); i < len(p.s); i = skipPlain(p.s, i) {
		switch p.s[i] {
		case '"':
			said, ok := p.s[begin:i], true
			if escaped {
				said, ok = p.unescape(said)
			}
			p.scalar(textNode, said)
			p.i = i + 1
			return ok
		case '\\': // what is escaped, a quotation mark or the like, is looked at later
			escaped = true
			i = min(i+2, len(p.s))
		default:
			return false
		}
	}
	return false
}

// skipPlain returns where the next quotation mark, backslash or control character stands from i on, or len(s).
func skipPlain(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		e := eightAt(s, i)
		if hits := e.hits(e.equal('"') | e.equal('\\') | e.below(' ')); hits != 0 {
			return i + hits.first()
		}
	}
	for i < len(s) && s[i] != '"' && s[i] != '\\' && s[i] >= ' ' {
		i++
	}
	return i
}

// unescape returns what a string says that was written with escapes.
func (p *parser) unescape(raw string) (said string, ok bool) {
	// What is said is never longer than what is written. So this is room enough, and no more than all that is left may need.
	if cap(p.said)-len(p.said) < len(raw) {
		p.said = make([]byte, 0, max(len(raw), min(2*cap(p.said), len(p.s)-p.i)))
	}
	begin := len(p.said)
	for {
		plain, escape, found := strings.Cut(raw, `\`)
		p.said = append(p.said, plain...)
		if !found {
			return view(p.said[begin:]), true
		}
		if raw, ok = p.unescapeNext(escape); !ok {
			return "", false
		}
	}
}

// unescapeNext adds the character that an escape stands for, given without its backslash, and returns what comes behind.
func (p *parser) unescapeNext(escape string) (rest string, ok bool) {
	if escape[0] != 'u' {
		const letters, meanings = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		i := strings.IndexByte(letters, escape[0])
		if i < 0 {
			return "", false
		}
		p.said = append(p.said, meanings[i])
		return escape[1:], true
	}
	r, rest, ok := cutUnit(escape)
	if utf16.IsSurrogate(r) {
		var low rune
		if rest, ok = strings.CutPrefix(rest, `\`); ok {
			low, rest, ok = cutUnit(rest)
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError { // no pair
			return "", false
		}
	}
	p.said = utf8.AppendRune(p.said, r)
	return rest, ok
}

// cutUnit cuts a code unit of UTF-16 off: the letter u and four hexadecimal digits.
func cutUnit(escape string) (unit rune, rest string, ok bool) {
	const size = len("u0000")
	if len(escape) < size || escape[0] != 'u' {
		return 0, "", false
	}
	n, err := strconv.ParseUint(escape[1:size], 16, 16)
	return rune(n), escape[size:], err == nil
}
