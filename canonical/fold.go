package canonical

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the length in bytes up to which a name is kept as it is.
const maxName = 128

// FoldTool returns the form in which names of tools are compared: trimmed and lower-cased.
func FoldTool(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Bound returns a name, or an id, as it is kept and reported: one longer than 128 bytes is replaced by its digest. They are
// the model's words and may be megabytes.
func Bound(name string) string {
	if len(name) <= maxName {
		return name
	}
	w := borrow()
	defer w.release()
	w.encoder.begin("name")
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
