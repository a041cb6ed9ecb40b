package canonical

import (
	"unicode"
	"unicode/utf8"
)

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

// mayBegin reports whether one of the words, filed by first byte, may begin at i.
func (w *words) mayBegin(s string, i int) bool { return i < len(s) && w[s[i]] != nil }

// at finds the first of the words, filed by first byte, that begins at i and has \b at its end, which is returned.
func (w *words) at(s string, i int) (end int, ok bool) {
	if !w.mayBegin(s, i) {
		return 0, false
	}
	for _, word := range w[s[i]] {
		if end, ok := wordAt(s, i, word); ok && boundary(s, end) {
			return end, true
		}
	}
	return 0, false
}

// end reports whether s ends with one of the words, filed by last byte, that has \b at its beginning.
func (w *words) end(s string) bool {
	if s == "" {
		return false
	}
	for _, word := range w[s[len(s)-1]] {
		if begin, ok := wordBefore(s, len(s), word); ok && boundary(s, begin) {
			return true
		}
	}
	return false
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
		if i > 0 && s[i-1]|0x20 == word[k] { // as it nearly always is, and to decode it takes longer
			i--
			continue
		}
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
