package canonical

import (
	"bytes"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// parser reads JSON text onto a tape. It is strict: duplicate names, invalid UTF-8, unpaired surrogates and nesting
// beyond 10,000 levels are errors, and nothing is repaired.
type parser struct {
	decoder jsontext.Decoder
	source  bytes.Buffer
	open    []int // the containers that are not closed yet
}

// reset lets go of a source that was large.
func (p *parser) reset() {
	const keep = 1 << 16
	if p.source.Cap() > keep {
		*p = parser{}
	}
}

// looksLikeJSON reports whether a text would be tried as JSON: trimmed, it starts like an object or an array.
func looksLikeJSON(trimmed string) bool {
	return trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[')
}

// parse adds the one JSON value that a text consists of. If there is not exactly one, the tape is left as it was.
func (t *tape) parse(s string) (at int, ok bool) {
	at = len(t.nodes)
	p := &t.parser
	p.source.Reset()
	p.source.WriteString(s)
	p.decoder.Reset(&p.source)
	p.open = p.open[:0]
	for done := false; !done; done = len(p.open) == 0 {
		if !t.parseNext(s) {
			t.truncate(at)
			return none, false
		}
	}
	if _, err := p.decoder.ReadToken(); err != io.EOF {
		t.truncate(at)
		return none, false
	}
	return at, true
}

// parseNext adds the next scalar, or opens or closes a container.
func (t *tape) parseNext(s string) bool {
	p := &t.parser
	switch p.decoder.PeekKind() {
	case '"':
		raw, err := p.decoder.ReadValue()
		if err != nil {
			return false
		}
		if bytes.IndexByte(raw, '\\') < 0 { // no copy: what was read is a piece of the text
			end := int(p.decoder.InputOffset()) - 1
			t.scalar(textNode, s[end-(len(raw)-2):end])
			return true
		}
		unquoted, err := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw)
		t.scalar(textNode, string(unquoted))
		return err == nil
	case '0':
		raw, err := p.decoder.ReadValue()
		if err != nil {
			return false
		}
		end := int(p.decoder.InputOffset())
		t.scalar(numberNode, s[end-len(raw):end])
		return true
	}
	token, err := p.decoder.ReadToken()
	if err != nil {
		return false
	}
	switch token.Kind() {
	case 'n':
		t.scalar(nullNode, "")
	case 'f':
		t.scalar(falseNode, "")
	case 't':
		t.scalar(trueNode, "")
	case '[':
		p.open = append(p.open, t.open(arrayNode))
	case '{':
		p.open = append(p.open, t.open(objectNode))
	default: // ']' or '}'
		last := len(p.open) - 1
		t.close(p.open[last])
		p.open = p.open[:last]
	}
	return true
}
