package policy

import (
	"strings"
	"unicode/utf8"
)

// isGlob reports whether the name of a rule stands for many names.
func isGlob(name string) bool { return strings.ContainsAny(name, "*?") }

// matchGlob reports whether a glob matches a whole name. A '*' stands for any characters, a '?' for one, and all others
// for themselves: there are no classes, no escapes, and '/' is like any other.
func matchGlob(glob, name string) bool {
	// Where a match fails, the newest '*' takes one character more and all after it is tried again. Older ones need no
	// such thing: whatever they could take more, the newest can take instead.
	afterStar, taken := -1, 0 // in glob, in name
	g, n := 0, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == '*':
			g++
			afterStar, taken = g, n
		case g < len(glob) && glob[g] == '?':
			g++
			n = nextRune(name, n)
		case g < len(glob) && glob[g] == name[n]:
			g++
			n++
		case afterStar >= 0:
			taken = nextRune(name, taken)
			g, n = afterStar, taken
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// nextRune returns where the character after the one at i begins.
func nextRune(text string, i int) int {
	_, size := utf8.DecodeRuneInString(text[i:])
	return i + size
}
