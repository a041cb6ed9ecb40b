package canonical

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxToolName is the length in bytes up to which the name of a tool is kept as it is.
const maxToolName = 128

// FoldTool returns the form in which names of tools are compared: trimmed and lower-cased.
func FoldTool(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// BoundTool returns a name as it is kept: one longer than 128 bytes is replaced by its digest. Names are the model's words
// and may be megabytes.
func BoundTool(name string) string {
	if len(name) <= maxToolName {
		return name
	}
	w := borrow()
	defer w.release()
	w.encoder.begin("tool")
	w.encoder.text(name)
	return w.encoder.sum().String()
}

// foldField returns the form in which the names of a result's fields are compared: lower-cased, without '_' and '-'.
func foldField(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// foldsTo reports whether foldField(name) is folded, without building it.
func foldsTo(name, folded string) bool {
	for _, r := range name {
		if r == '_' || r == '-' {
			continue
		}
		want, size := utf8.DecodeRuneInString(folded)
		if size == 0 || unicode.ToLower(r) != want {
			return false
		}
		folded = folded[size:]
	}
	return folded == ""
}
