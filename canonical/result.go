package canonical

import (
	"encoding/json"
	"strings"
)

// Result is what a tool returned. If only Text or only Details is set, it is what the tool returned as a whole and may
// itself be a tool result in the shape of the Model Context Protocol (an object with a content list); with more than one
// of them set it is such a result, already taken apart.
type Result struct {
	// Text is the text of the result; text that is a JSON object is taken as Details.
	Text string
	// Details is the structured part: a map or [encoding/json.RawMessage], or anything that [encoding/json.Marshal]
	// accepts. It is read, never changed, and must not be changed while it is read.
	Details any
	// Parts are the parts that are neither: images, resources, links.
	Parts []any
	// IsError says that the tool ran and reports a failure.
	IsError bool
}

// shape is a result taken apart on a tape.
type shape struct {
	*tape
	text    string // trimmed
	scalar  int    // a JSON value that is no object and stands in place of the text
	details int    // an object
	parts   int    // an array: the other parts
	rest    int    // an object: the remaining keys
	isError bool
}

// shape takes a result apart.
func (t *tape) shape(r Result) shape {
	if isAbsent(r.Details) {
		r.Details = nil
	}
	switch {
	case r.Details == nil && len(r.Parts) == 0:
		s := t.shapeOfText(r.Text)
		s.isError = s.isError || r.IsError
		return s
	case r.Text == "" && len(r.Parts) == 0:
		s := t.shapeOfValue(t.add(r.Details))
		s.isError = s.isError || r.IsError
		return s
	}
	s := shape{tape: t, scalar: none, details: none, parts: none, rest: none, isError: r.IsError}
	if len(r.Parts) > 0 {
		s.parts = t.add(r.Parts)
	}
	if r.Details != nil {
		if s.details = t.add(r.Details); !t.is(s.details, objectNode) {
			s.rest, s.details = s.details, none
		}
	}
	s.setText(strings.TrimSpace(r.Text))
	return s
}

// isAbsent reports whether details are not set, which in Go may be a nil of some type.
func isAbsent(details any) bool {
	switch d := details.(type) {
	case nil:
		return true
	case map[string]any:
		return d == nil
	case json.RawMessage:
		return len(d) == 0
	}
	return false
}

// shapeOfText takes the result of a tool apart that returned one text.
func (t *tape) shapeOfText(s string) shape {
	s = strings.TrimSpace(s)
	if looksLikeJSON(s) {
		if at, ok := t.parse(s); ok {
			return t.shapeOfValue(at)
		}
	}
	return shape{tape: t, text: s, scalar: none, details: none, parts: none, rest: none}
}

// shapeOfValue takes the result of a tool apart that returned one JSON value.
func (t *tape) shapeOfValue(at int) shape {
	s := shape{tape: t, scalar: none, details: none, parts: none, rest: none}
	content := t.get(at, "content")
	switch said, isText := t.isText(at); {
	case isText:
		return t.shapeOfText(said)
	case !t.is(at, objectNode):
		s.scalar = at
	case !t.isContent(content):
		s.details = at
	default:
		s.takeApart(at, content)
	}
	return s
}

// isContent reports whether a value is the content list of a tool result: every element an object with a string "type".
func (t *tape) isContent(at int) bool {
	if !t.is(at, arrayNode) {
		return false
	}
	for part := range t.elements(at) {
		if _, ok := t.isText(t.get(part, "type")); !ok {
			return false
		}
	}
	return true
}

// takeApart fills the shape from a tool result. What is used is struck, so that parts and rest are what is left over.
func (s *shape) takeApart(at, content int) {
	var texts []string
	for part := range s.elements(content) {
		if kind, _ := s.isText(s.get(part, "type")); kind == "text" {
			if said, ok := s.isText(s.get(part, "text")); ok {
				texts = append(texts, said)
				s.strike(part)
			}
		}
	}
	s.parts, s.rest = content, at
	s.isError = s.is(s.get(at, "isError"), trueNode)
	s.details = s.get(at, "details")
	if !s.is(s.details, objectNode) {
		s.details = s.get(at, "structuredContent")
	}
	if !s.is(s.details, objectNode) {
		s.details = none
	}
	for name, value := range s.fields(at) {
		switch s.nodes[name].text {
		case "content", "isError", "_meta":
			s.strike(name)
		default:
			if value == s.details {
				s.strike(name)
			}
		}
	}
	s.setText(strings.TrimSpace(strings.Join(texts, "\n")))
}

// setText sets the text, unless it is the details, or only repeats them.
func (s *shape) setText(said string) {
	s.text = said
	if said == "" || said[0] != '{' {
		return
	}
	at, ok := s.parse(said)
	if !ok {
		return
	}
	if s.details == none {
		s.details, s.text = at, ""
	} else if s.equal(at, s.details) {
		s.text = ""
	}
}

// equal reports whether two values are the same.
func (t *tape) equal(a, b int) bool {
	w := borrow()
	defer w.release()
	digest := func(at int) Digest {
		w.encoder.begin("value")
		w.encoder.value(t, at)
		return w.encoder.sum()
	}
	return digest(a) == digest(b)
}

// hasParts reports whether anything is left of the other parts.
func (s *shape) hasParts() bool {
	for range s.elements(s.parts) {
		return true
	}
	return false
}

// hasRest reports whether any key is left over.
func (s *shape) hasRest() bool { return s.rest != none && !s.isEmpty(s.rest) }
