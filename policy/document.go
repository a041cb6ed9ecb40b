package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/titanous/json5"
)

// maxDocument is the size in bytes up to which a document is read. Real ones have a few KiB.
const maxDocument = 1 << 20

// ParseConfig reads the configuration of one agent from a JSON5 document: the block tools.loopDetection, with the block
// of the agent laid over it field by field. The agent's block is tools.loopDetection in the entry of agents.list whose
// id is agentID; an agent that the document does not name has the global block, and so has the empty agentID. A document
// without any of this gives the zero Config. All other keys of the document belong to someone else and are left alone.
//
// The names in Tools come folded: trimmed and lower-cased. A list that is written as [] is empty but not nil, so that an
// agent can take a global list away.
//
// Every block is checked, also those of other agents, and all that is wrong is reported at once: the error joins a
// [*ConfigError] for each thing. Other errors are those of r.
func ParseConfig(r io.Reader, agentID string) (Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w", err)
	}
	root, err := parseDocument(text)
	if err != nil {
		return Config{}, err
	}
	var p problems
	config := chooseConfig(&p, root, agentID)
	if err := p.err(); err != nil {
		return Config{}, err
	}
	return config, nil
}

// chooseConfig decodes all blocks of a document and returns what one agent has.
func chooseConfig(p *problems, root node, agentID string) Config {
	var global, agent Config
	if block, ok := root.find(p, "tools", "loopDetection"); ok {
		global = configBlock.decode(p, block)
	}
	owners := map[string]string{} // by id, the place of the entry that has a block
	list, _ := root.find(p, "agents", "list")
	for _, entry := range list.elements(p) {
		block, ok := entry.find(p, "tools", "loopDetection")
		if !ok {
			continue
		}
		config := configBlock.decode(p, block)

		name := entry.members(p)["id"]
		if name.repeated(p) {
			continue
		}
		id, _ := name.str()
		switch owner := owners[id]; {
		case id == "": // an error only because the entry has a block, which nobody could ever choose
			p.add(keyPath(entry.path, "id"), "found %s, must be a string, the id of the agent that tools.loopDetection is for",
				name.describe())
		case owner != "":
			p.add(keyPath(entry.path, "id"), "found %s, which is the id of %s too, and both have tools.loopDetection",
				quote(id), owner)
		case id == agentID:
			agent = config
		}
		owners[id] = entry.path
	}
	return global.overlay(agent)
}

// node is a value of the document, as it is written, and the place where it stands. The zero node is a value that is not
// there. Values are decoded only when they are asked for: what is someone else's may be anything, numbers keep all their
// digits, and nesting costs no stack.
type node struct {
	path  string
	text  string
	twice bool // the object gives this key more than once, and text is any one of its values
}

// find follows keys from object to object. It reports whether the value at their end is there; objects on the way that
// are no objects are problems.
func (n node) find(p *problems, keys ...string) (found node, ok bool) {
	for _, key := range keys {
		next, ok := n.members(p)[key]
		if !ok || next.repeated(p) {
			return node{}, false
		}
		n = next
	}
	return n, true
}

// repeated reports whether the key of a member is given more than once, which is a problem.
func (n node) repeated(p *problems) bool {
	if n.twice {
		p.add(n.path, "is given more than once")
	}
	return n.twice
}

// memberName is the key of a member. It is decoded to a new pointer each time, so that a map of members keeps also those
// whose key came before. It is nil for the empty key, which json5 does not hand on.
type memberName struct{ text *string }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memberName) UnmarshalText(text []byte) error {
	m.text = new(string(text))
	return nil
}

func (n node) isObject() bool { return strings.HasPrefix(n.text, "{") }

// members returns the members of an object by key. Anything else is a problem and has no members.
func (n node) members(p *problems) map[string]node {
	if !n.isObject() {
		p.add(n.path, "found %s, must be an object", n.describe())
		return nil
	}
	var parsed map[memberName]json5.RawMessage
	// The syntax is known to be right. The one error that json5 has left is about an empty key; it reads on after it.
	_ = json5.Unmarshal([]byte(n.text), &parsed)
	members := make(map[string]node, len(parsed))
	for name, value := range parsed {
		var key string
		if name.text != nil {
			key = *name.text
		}
		_, twice := members[key]
		members[key] = node{path: keyPath(n.path, key), text: string(value), twice: twice}
	}
	return members
}

// elements returns the elements of a list. Anything else is a problem and has no elements; a value that is not there is
// no problem.
func (n node) elements(p *problems) []node {
	if n.text == "" {
		return nil
	}
	if !strings.HasPrefix(n.text, "[") {
		p.add(n.path, "found %s, must be a list", n.describe())
		return nil
	}
	var parsed []json5.RawMessage
	_ = json5.Unmarshal([]byte(n.text), &parsed) // cannot fail: the syntax is known to be right
	elements := make([]node, len(parsed))
	for i, value := range parsed {
		elements[i] = node{path: indexPath(n.path, i), text: string(value)}
	}
	return elements
}

// str returns the value of a string.
func (n node) str() (value string, ok bool) {
	if !strings.HasPrefix(n.text, `"`) && !strings.HasPrefix(n.text, "'") {
		return "", false
	}
	return value, json5.Unmarshal([]byte(n.text), &value) == nil
}

// describe says what was found, for a message.
func (n node) describe() string {
	switch value, isString := n.str(); {
	case isString:
		return quote(value)
	case n.text == "":
		return "nothing"
	case n.isObject():
		return "an object"
	case n.text[0] == '[':
		return "a list"
	default:
		return shorten(n.text) // a number, true, false or null
	}
}

// parseDocument checks the syntax of a document and returns its root, which is an object.
func parseDocument(text []byte) (node, error) {
	if len(text) > maxDocument {
		return node{}, &ConfigError{Message: fmt.Sprintf("the document is longer than %d bytes", maxDocument)}
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF")) // the byte order mark that some editors write
	if valid := validPrefix(text); len(valid) < len(text) {
		return node{}, syntaxError(valid, "found a byte that is not UTF-8")
	}
	code := blankComments(text)
	if len(bytes.TrimSpace(code)) == 0 {
		return node{}, &ConfigError{Message: "the document is empty"}
	}
	var parsed json5.RawMessage
	// The line break ends whatever is open, so that what is missing at the end is found there and not one byte earlier.
	if err := json5.Unmarshal(append(code, '\n'), &parsed); err != nil {
		return node{}, explainSyntax(text, err)
	}
	root := node{text: string(parsed)}
	if !root.isObject() {
		return node{}, &ConfigError{Message: "the document is " + root.describe() + ", must be an object"}
	}
	return root, nil
}

// validPrefix returns the part of a text before the first byte that is not UTF-8.
func validPrefix(text []byte) []byte {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return text[:at]
		}
		at += size
	}
	return text
}

// commentOrString matches comments, and strings, in which what looks like a comment is none. Both may lack their end.
var commentOrString = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"?|'(?:\\.|[^'\\])*'?|//[^\r\n]*|/\*(?:.*?\*/|.*)`)

// blankComments returns a copy of a document in which comments are spaces, so that every offset stays what it is. The
// json5 package has trouble with comments: it takes any '/' after a '*' for their end, and wants none next to a key.
func blankComments(text []byte) []byte {
	return commentOrString.ReplaceAllFunc(text, func(token []byte) []byte {
		switch {
		case token[0] != '/':
			return token
		case token[1] == '*' && !bytes.HasSuffix(token[2:], []byte("*/")):
			return []byte("/") // has no end, and a slash alone is the syntax error that says so
		default:
			return bytes.Repeat([]byte(" "), len(token))
		}
	})
}

// expected says what would be right where json5 found a character wrong, by the words it has for the place.
var expected = map[string]string{
	"looking for beginning of value":      "a value; text needs quotes",
	"looking for beginning of object key": "a key or }; a key needs quotes if it has more than A-Z, a-z, 0-9, _ and $",
	"in key literal":                      "a colon; a key needs quotes if it has more than A-Z, a-z, 0-9, _ and $",
	"after object key":                    "a colon",
	"after object key:value pair":         "a comma or }",
	"after array element":                 "a comma or ]",
	"after top-level value":               "the end of the document",
	"in string literal":                   "the closing quote; line breaks and control characters must be escaped",
	"in string escape code":               `one of b f n r t u / \ " '`,
	"potentially starting comment":        "a comment, // to the end of its line or /* to */",
}

// explainSyntax turns an error of json5 into ours. What json5 says is of no use for characters of several bytes, as it
// names their first byte.
func explainSyntax(text []byte, err error) error {
	cause, ok := errors.AsType[*json5.SyntaxError](err)
	if !ok {
		return &ConfigError{Message: err.Error()}
	}
	at := int(cause.Offset) - 1
	if at >= len(text) {
		return syntaxError(bytes.TrimRight(text, " \t\r\n"), "the document ends before it is complete")
	}
	found, _ := utf8.DecodeRune(text[at:])
	_, place, _ := strings.Cut(strings.TrimPrefix(cause.Error(), "invalid character '"), "' ")
	if right, ok := expected[place]; ok {
		return syntaxError(text[:at], fmt.Sprintf("found %q, expected %s", found, right))
	}
	return syntaxError(text[:at], fmt.Sprintf("found %q %s", found, place))
}

// syntaxError returns an error for the place that comes after the given part of a document.
func syntaxError(before []byte, message string) error {
	before = bytes.ReplaceAll(before, []byte("\r\n"), []byte("\n"))
	line := before[1+bytes.LastIndexAny(before, "\r\n"):]
	return &ConfigError{
		Line:    1 + bytes.Count(before, []byte("\n")) + bytes.Count(before, []byte("\r")),
		Column:  1 + utf8.RuneCount(line),
		Message: message,
	}
}
