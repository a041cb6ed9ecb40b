package canonical

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// namesUnknownTool reports whether a failure says of a tool that it does not exist, in one of the wordings
//
//	unknown tool[:\s]+X
//	tool\s+X\s+(not found|is not available)
//	X\s+is not a valid tool
//
// where X is the name of the tool, perhaps quoted, and case does not matter. Another name is some other trouble: a tool
// that runs commands may well say that a command was not found.
func namesUnknownTool(said, tool string) bool {
	name := FoldTool(tool)
	if name == "" {
		return false
	}
	said = strings.ToLower(said)
	// Occurrences are taken without overlaps, and none is looked at from before the one before it (but for the words that
	// may stand there), so that the cost is linear whatever name and text are.
	const words = len("x unknown tool")
	for from := 0; ; {
		i := strings.Index(said[from:], name)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(name)
		if standsAlone(said, start, end) && saysUnknown(unquote(said[max(from-words, 0):start], said[end:])) {
			return true
		}
		from = end
	}
}

// saysUnknown reports whether what stands before and after a name says that there is no such tool.
func saysUnknown(before, after string) bool {
	const space = " \t\n\f\r"
	if rest := strings.TrimRight(before, space+":"); len(rest) < len(before) && endsWithWord(rest, "unknown tool") {
		return true
	}
	tail := strings.TrimLeft(after, space)
	if len(tail) == len(after) {
		return false
	}
	if strings.HasPrefix(tail, "is not a valid tool") {
		return true
	}
	rest := strings.TrimRight(before, space)
	return len(rest) < len(before) && endsWithWord(rest, "tool") &&
		(strings.HasPrefix(tail, "not found") || strings.HasPrefix(tail, "is not available"))
}

func endsWithWord(s, word string) bool {
	if !strings.HasSuffix(s, word) {
		return false
	}
	last, _ := utf8.DecodeLastRuneInString(s[:len(s)-len(word)])
	return !isNameRune(last)
}

// standsAlone reports whether said[start:end] is not part of a longer name. A point or colon belongs to a name only
// between two of its characters: it may as well end a sentence.
func standsAlone(said string, start, end int) bool {
	before, size := utf8.DecodeLastRuneInString(said[:start])
	if isNameRune(before) {
		return false
	}
	if before == '.' || before == '/' {
		if before, _ = utf8.DecodeLastRuneInString(said[:start-size]); isNameRune(before) {
			return false
		}
	}
	after, size := utf8.DecodeRuneInString(said[end:])
	if isNameRune(after) {
		return false
	}
	if after == '.' || after == ':' || after == '/' {
		after, _ = utf8.DecodeRuneInString(said[end+size:])
		return !isNameRune(after)
	}
	return true
}

func isNameRune(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || r == '-')
}

// unquote removes one pair of quotation marks that stands around a name.
func unquote(before, after string) (string, string) {
	for _, pair := range [][2]string{{`"`, `"`}, {"'", "'"}, {"`", "`"}, {"“", "”"}, {"‘", "’"}, {"«", "»"}, {`\"`, `\"`}} {
		b, ok := strings.CutSuffix(before, pair[0])
		if !ok {
			continue
		}
		if a, ok := strings.CutPrefix(after, pair[1]); ok {
			return b, a
		}
	}
	return before, after
}
