package canonical

import (
	"unicode"
	"unicode/utf8"
)

// maskDelivery masks the words that look like ids: five or more letters, digits and _ . : @ - of which one is a digit.
func maskDelivery(s string) string {
	r := rewriter{s: s}
	for i := 0; i < len(s); i++ {
		begin, length, digits := i, 0, 0
		for {
			size, isDigit := idRune(s, i)
			if size == 0 {
				break
			}
			i += size
			length++
			if isDigit {
				digits++
			}
		}
		if length >= 5 && digits > 0 {
			r.replace(begin, i)
		}
	}
	return r.result()
}

// idRune returns the size of the character of an id that begins at i, which is 0 if there is none, and whether it is a
// digit. Letters and digits are those of Unicode.
func idRune(s string, i int) (size int, isDigit bool) {
	if is(s, i, aWordByte|aPoint|aColon|anAtSign|aHyphen) {
		return 1, is(s, i, aDigit)
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	if isDigit = unicode.IsDigit(r); isDigit || unicode.IsLetter(r) {
		return size, isDigit
	}
	return 0, false
}
