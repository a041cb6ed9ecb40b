package canonical

import (
	"unicode"
	"unicode/utf8"
)

// maskDelivery masks the words that look like ids: five or more letters, digits and _ . : @ - of which one is a digit.
// Letters and digits are those of Unicode.
func maskDelivery(r *rewriter) {
	const shortest = 5 // characters
	for i := nextDigit(r.s, 0); i < len(r.s); i = nextDigit(r.s, i) {
		if c, size := utf8.DecodeRuneInString(r.s[i:]); !unicode.IsDigit(c) {
			i += size
			continue
		}
		begin, end := skipIDBack(r.s, i), skipID(r.s, i)
		if utf8.RuneCountInString(r.s[begin:end]) >= shortest {
			r.replace(begin, end)
		}
		i = end
	}
}

// nextDigit returns where the next digit stands from i on, or a character beyond ASCII, which may be one, or len(s).
func nextDigit(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		e := eightAt(s, i)
		if hits := e.hits(e.digit()) | e&tops; hits != 0 {
			return i + hits.first()
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf && !is(s, i, aDigit) {
		i++
	}
	return i
}

const anIDByte = aWordByte | aPoint | aColon | anAtSign | aHyphen

// skipID returns the end of the word around i.
func skipID(s string, i int) int {
	for {
		i = skip(s, i, anIDByte)
		c, size := utf8.DecodeRuneInString(s[i:])
		if c < utf8.RuneSelf || !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return i
		}
		i += size
	}
}

// skipIDBack returns the beginning of the word around i.
func skipIDBack(s string, i int) int {
	for {
		i = skipBack(s, i, anIDByte)
		c, size := utf8.DecodeLastRuneInString(s[:i])
		if c < utf8.RuneSelf || !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return i
		}
		i -= size
	}
}
