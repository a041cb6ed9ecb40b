package canonical

import (
	"strings"
	"unicode/utf8"
)

// parser reads one JSON text onto a tape. It is strict: duplicate names, invalid UTF-8, unpaired surrogates and values
// that are nested too deep are errors, and nothing is repaired. Its methods report whether they found what they read.
type parser struct {
	*tape
	s string
	i int // how much of s was read
}

// maxDepth is how deep values may be nested. It bounds recursion, and is there for Go values that contain themselves.
const maxDepth = 10_000

// looksLikeJSON reports whether a text would be tried as JSON: trimmed, it starts like an object or an array.
func looksLikeJSON(trimmed string) bool {
	return trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[')
}

// parse adds the one JSON value that a text consists of. If there is not exactly one, the tape is left as it was.
func (t *tape) parse(s string) (at int, ok bool) {
	at = len(t.nodes)
	p := parser{tape: t, s: s}
	if !p.value(0) || !p.end() || !utf8.ValidString(s) {
		t.truncate(at)
		return none, false
	}
	return at, true
}

// value reads a value that stands within a number of containers.
func (p *parser) value(depth int) bool {
	switch p.next() {
	case '{':
		return depth < maxDepth && p.object(depth+1)
	case '[':
		return depth < maxDepth && p.array(depth+1)
	case '"':
		return p.text()
	case 'n':
		return p.word("null", nullNode)
	case 'f':
		return p.word("false", falseNode)
	case 't':
		return p.word("true", trueNode)
	default:
		return p.number()
	}
}

func (p *parser) object(depth int) bool {
	at := p.open(objectNode)
	p.i++
	if !p.take('}') {
		for more := true; more; more = p.take(',') {
			if p.next() != '"' || !p.text() || !p.take(':') || !p.value(depth) {
				return false
			}
		}
		if !p.take('}') {
			return false
		}
	}
	p.close(at)
	return !p.repeatsName(at)
}

func (p *parser) array(depth int) bool {
	at := p.open(arrayNode)
	p.i++
	if !p.take(']') {
		for more := true; more; more = p.take(',') {
			if !p.value(depth) {
				return false
			}
		}
		if !p.take(']') {
			return false
		}
	}
	p.close(at)
	return true
}

// next passes over white space and returns the byte behind it, 0 at the end.
func (p *parser) next() byte {
	for ; p.i < len(p.s); p.i++ {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take reads a byte that comes next.
func (p *parser) take(c byte) bool {
	if p.next() != c {
		return false
	}
	p.i++
	return true
}

// end passes over white space up to the end.
func (p *parser) end() bool { return p.next() == 0 && p.i == len(p.s) }

func (p *parser) word(word string, k nodeKind) bool {
	if !strings.HasPrefix(p.s[p.i:], word) {
		return false
	}
	p.i += len(word)
	p.scalar(k, "")
	return true
}
