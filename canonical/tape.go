package canonical

import (
	"slices"
	"strings"
	"unsafe"
)

// A tape holds JSON values as a flat list of nodes in document order: a container is followed by all that it contains,
// and in an object each value by its name. A flat list costs one allocation, or none where it is used again, and makes
// a rule a walk over it: the rules strike out what plays no part, and the encoder passes over what is struck.
//
// The texts of nodes are not copied if that can be helped: some stand in memory that is used again, or that the caller may
// change when it has its answer. What is to outlive the tape must be cloned.
type tape struct {
	nodes   []node
	said    []byte // what strings say that were written with escapes
	members []int  // scratch space of sortNames
}

// node is one value on a tape, or the name of an object's member.
type node struct {
	text   string // what a string says, or how a number was written
	end    int    // the index behind the last node of this value
	kind   nodeKind
	struck bool // of a name or an element: it plays no part
}

type nodeKind uint8

const (
	nullNode nodeKind = iota
	falseNode
	trueNode
	numberNode
	textNode
	arrayNode
	objectNode
	opaqueNode // a Go value that JSON cannot express; text is its type
)

// none stands for a value that is not there.
const none = -1

// reset makes a tape empty. What it pointed to may be large and is let go; a tape that grew large is let go itself.
func (t *tape) reset() {
	const keep = 1 << 12
	t.truncate(0)
	if cap(t.nodes) > keep {
		t.nodes, t.members = nil, nil
	}
	t.said = emptied(t.said)
}

// view returns bytes as a text, without a copy. They must not change as long as it is used.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// truncate takes all nodes from an index on away.
func (t *tape) truncate(at int) {
	clear(t.nodes[at:])
	t.nodes = t.nodes[:at]
}

// scalar adds a value that holds no other.
func (t *tape) scalar(k nodeKind, s string) int {
	at := len(t.nodes)
	t.nodes = append(t.nodes, node{kind: k, text: s, end: at + 1})
	return at
}

// open adds a container, to be closed when all that it contains was added.
func (t *tape) open(k nodeKind) int { return t.scalar(k, "") }

func (t *tape) close(at int) { t.nodes[at].end = len(t.nodes) }

func (t *tape) is(at int, k nodeKind) bool { return at != none && t.nodes[at].kind == k }

// isText reports whether a string stands at an index, and what it says.
func (t *tape) isText(at int) (string, bool) {
	if !t.is(at, textNode) {
		return "", false
	}
	return t.nodes[at].text, true
}

// elements iterates over an array: the index of each element that is not struck.
func (t *tape) elements(at int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if !t.is(at, arrayNode) {
			return
		}
		for i, end := at+1, t.nodes[at].end; i < end; i = t.nodes[i].end {
			if !t.nodes[i].struck && !yield(i) {
				return
			}
		}
	}
}

// fields iterates over an object: the indices of name and value of each member that is not struck.
func (t *tape) fields(at int) func(yield func(name, value int) bool) {
	return func(yield func(name, value int) bool) {
		if !t.is(at, objectNode) {
			return
		}
		for i, end := at+1, t.nodes[at].end; i < end; i = t.nodes[i+1].end {
			if !t.nodes[i].struck && !yield(i, i+1) {
				return
			}
		}
	}
}

// get finds a member by its exact name.
func (t *tape) get(at int, name string) int {
	for n, value := range t.fields(at) {
		if t.nodes[n].text == name {
			return value
		}
	}
	return none
}

// field finds a member by a folded name: of several that fold to it the first in byte order, and none that is null.
func (t *tape) field(at int, folded string) int {
	found, best := none, ""
	for n, value := range t.fields(at) {
		name := t.nodes[n].text
		if foldsTo(name, folded) && !t.is(value, nullNode) && (found == none || name < best) {
			found, best = value, name
		}
	}
	return found
}

// sortNames appends the names of an object's fields to the members, in byte order, and returns from where on. Who calls it
// takes them away again.
func (t *tape) sortNames(at int) (from int) {
	from = len(t.members)
	for name := range t.fields(at) {
		t.members = append(t.members, name)
	}
	slices.SortFunc(t.members[from:], func(a, b int) int { return strings.Compare(t.nodes[a].text, t.nodes[b].text) })
	return from
}

// repeatsName reports whether two fields of an object have one name.
func (t *tape) repeatsName(at int) bool {
	from := t.sortNames(at)
	names := t.members[from:]
	t.members = t.members[:from]
	for i := 1; i < len(names); i++ {
		if t.nodes[names[i-1]].text == t.nodes[names[i]].text {
			return true
		}
	}
	return false
}

// strike takes a member (by the index of its name) or an element out.
func (t *tape) strike(at int) { t.nodes[at].struck = true }

// strikeFields strikes the members at any depth below a value whose names a function chooses.
func (t *tape) strikeFields(at int, chosen func(name string) bool) {
	for i := at; i < t.nodes[at].end; i++ {
		for name := range t.fields(i) {
			if chosen(t.nodes[name].text) {
				t.strike(name)
			}
		}
	}
}
