package canonical

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
)

// encoder writes values into SHA-256 in a form in which no two different values are alike: every value starts with a
// byte for its kind, strings carry their length, and containers are closed.
type encoder struct {
	hash     hash.Hash
	buffer   []byte // what was not handed to hash yet
	digits   []byte // scratch space for one number
	mask     mask   // how strings are changed before they are written, nil for not at all
	rewriter rewriter
}

// The bytes that the encodings of values start with, and the one that ends a container or a number.
const (
	tagNull   = 'n'
	tagFalse  = 'f'
	tagTrue   = 't'
	tagNumber = 'd'
	tagText   = 's'
	tagArray  = '['
	tagObject = '{'
	tagOpaque = 'o'
	tagEnd    = ';'
	tagAbsent = '-'
)

const bufferSize = 4 << 10

func newEncoder() encoder {
	return encoder{hash: sha256.New(), buffer: make([]byte, 0, bufferSize)}
}

// begin starts a new digest in a domain: encodings of different domains never have the same digest.
func (e *encoder) begin(domain string) {
	e.hash.Reset()
	e.buffer = e.buffer[:0]
	e.mask = nil
	e.raw(tagText, domain)
}

// sum ends the digest.
func (e *encoder) sum() Digest {
	e.flush()
	var sum [sha256.Size]byte
	e.buffer = e.hash.Sum(e.buffer)
	copy(sum[:], e.buffer)
	e.buffer = e.buffer[:0]
	return Digest(sum[:len(Digest{})])
}

func (e *encoder) flush() {
	e.hash.Write(e.buffer)
	e.buffer = e.buffer[:0]
}

func (e *encoder) tag(b byte) {
	e.room(1)
	e.buffer = append(e.buffer, b)
}

func (e *encoder) flag(b bool) {
	if b {
		e.tag(tagTrue)
	} else {
		e.tag(tagFalse)
	}
}

// text writes a string, masked if a mask is set.
func (e *encoder) text(s string) {
	if e.mask == nil {
		e.raw(tagText, s)
		return
	}
	r := &e.rewriter
	r.start(s)
	e.mask(r)
	e.header(tagText, len(r.out)+len(r.rest()))
	write(e, r.out)
	write(e, r.rest())
}

// raw writes a tagged string as it is.
func (e *encoder) raw(tag byte, s string) {
	e.header(tag, len(s))
	write(e, s)
}

// header writes what stands before a string of a size.
func (e *encoder) header(tag byte, size int) {
	e.room(1 + binary.MaxVarintLen64)
	e.tag(tag)
	e.buffer = binary.AppendUvarint(e.buffer, uint64(size))
}

// write writes bytes in pieces that fit the buffer, so that a large string is not copied as a whole.
func write[T string | []byte](e *encoder, s T) {
	for len(s) > 0 {
		e.room(1)
		n := min(len(s), cap(e.buffer)-len(e.buffer))
		e.buffer = append(e.buffer, s[:n]...)
		s = s[n:]
	}
}

// room makes room for n bytes.
func (e *encoder) room(n int) {
	if cap(e.buffer)-len(e.buffer) < n {
		e.flush()
	}
}

// value writes the value at an index of a tape without what is struck; none is written as absent.
func (e *encoder) value(t *tape, at int) {
	if at == none {
		e.tag(tagAbsent)
		return
	}
	switch n := &t.nodes[at]; n.kind {
	case nullNode:
		e.tag(tagNull)
	case falseNode:
		e.tag(tagFalse)
	case trueNode:
		e.tag(tagTrue)
	case numberNode:
		e.number(n.text)
	case textNode:
		e.text(n.text)
	case opaqueNode:
		e.raw(tagOpaque, n.text)
	case arrayNode:
		e.tag(tagArray)
		for i := range t.elements(at) {
			e.value(t, i)
		}
		e.tag(tagEnd)
	case objectNode:
		e.tag(tagObject)
		e.object(t, at)
		e.tag(tagEnd)
	}
}

// object writes the members of an object in the order of their names. Names are never masked.
func (e *encoder) object(t *tape, at int) {
	from := t.sortNames(at)
	for i, to := from, len(t.members); i < to; i++ {
		name := t.members[i]
		e.raw(tagText, t.nodes[name].text)
		e.value(t, name+1)
	}
	t.members = t.members[:from]
}

func (e *encoder) number(literal string) {
	var ok bool
	if e.digits, ok = appendNumber(e.digits[:0], literal); !ok {
		e.raw(tagOpaque, literal)
		return
	}
	e.tag(tagNumber)
	write(e, e.digits)
	e.tag(tagEnd)
}

// workspace is what one digest is made with. Workspaces are used again.
type workspace struct {
	tape
	encoder encoder
}

var workspaces = sync.Pool{New: func() any { return &workspace{encoder: newEncoder()} }}

func borrow() *workspace { return workspaces.Get().(*workspace) }

func (w *workspace) release() {
	w.tape.reset()
	w.encoder.mask = nil
	w.encoder.rewriter.reset()
	workspaces.Put(w)
}

// emptied returns a buffer to be used again, or none if it grew very large.
func emptied(buffer []byte) []byte {
	const keep = 1 << 20
	if cap(buffer) > keep {
		return nil
	}
	return buffer[:0]
}
