package replay

import (
	"fmt"
	"strconv"
)

// Fault is what is wrong with a transcript. Everything before its line was judged.
type Fault struct {
	// Line is the number of the line that is wrong, from 1.
	Line int
	// Message says what was found and what would be right.
	Message string
}

// Error returns the line and the message.
func (f *Fault) Error() string { return fmt.Sprintf("line %d: %s", f.Line, f.Message) }

// quote quotes a word of the transcript for a message.
func quote(word string) string { return strconv.Quote(shorten(word, 60)) }

// shorten cuts the middle out of a text that is too long for people to read. Names often differ only at their ends.
func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	tail := most / 3
	return string(runes[:most-1-tail]) + "…" + string(runes[len(runes)-tail:])
}
