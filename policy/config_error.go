package policy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ConfigError is one thing that is wrong with a configuration. Where several are, they are joined as by [errors.Join].
type ConfigError struct {
	// Path is the place, in the names of the document, such as "historySize" or `tools["job_*"].kind`. [ParseConfig]
	// gives it from the root of the document: "tools.loopDetection.historySize". It is empty where the document as a
	// whole is wrong.
	Path string

	// Line and Column are the place of an error in the syntax of a document. Both count from 1, columns in characters;
	// both are 0 for all other errors.
	Line, Column int

	// Message says what was found and what would be right.
	Message string
}

// Error returns the place and the message.
func (e *ConfigError) Error() string {
	switch {
	case e.Line > 0:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message)
	case e.Path != "":
		return e.Path + ": " + e.Message
	default:
		return e.Message
	}
}

// problems gathers what is wrong with a configuration, so that all of it can be mended in one go.
type problems []error

func (p *problems) add(path, format string, args ...any) {
	*p = append(*p, &ConfigError{Path: path, Message: fmt.Sprintf(format, args...)})
}

// err returns the problems as one error, or nil if there are none.
func (p problems) err() error { return errors.Join(p...) }

// identifier matches the keys that stand in a path as they are.
var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// keyPath returns the path of a key of the object at a path.
func keyPath(path, key string) string {
	switch {
	case !identifier.MatchString(key):
		return entryPath(path, key)
	case path == "":
		return key
	default:
		return path + "." + shorten(key)
	}
}

// entryPath returns the path of an entry of the table at a path. Its keys are not ours, so that it always quotes them.
func entryPath(path, key string) string { return path + "[" + quote(key) + "]" }

// indexPath returns the path of an element of the list at a path.
func indexPath(path string, index int) string { return path + "[" + strconv.Itoa(index) + "]" }

// quote quotes a text for a message.
func quote(text string) string { return strconv.Quote(shorten(text)) }

// shorten cuts a text that is too long for a message.
func shorten(text string) string {
	const most = 60 // characters
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most]) + "…"
}

// choice lists the words that are right, and asks about the one that was probably meant.
func choice[W ~string](found string, words []W) string {
	var list, question strings.Builder
	for i, word := range words {
		switch i {
		case 0:
		case len(words) - 1:
			list.WriteString(" or ")
		default:
			list.WriteString(", ")
		}
		list.WriteString(quote(string(word)))
		if question.Len() == 0 && isSlip(found, string(word)) {
			question.WriteString("; did you mean " + quote(string(word)) + "?")
		}
	}
	return list.String() + question.String()
}

// isSlip reports whether two words are the same but for case, '_' and '-', and one letter that is missing, added, wrong
// or in its neighbour's place.
func isSlip(a, b string) bool {
	plain := strings.NewReplacer("_", "", "-", "")
	a, b = strings.ToLower(plain.Replace(a)), strings.ToLower(plain.Replace(b))
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 2 && len(b) == 2 {
		return a[0] == b[1] && a[1] == b[0]
	}
	return len(a) <= 1 && len(b) <= 1
}
