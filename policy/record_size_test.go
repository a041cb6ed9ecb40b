package policy

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/loopguard-go/loopguard/canonical"
)

// A live run is to hold a few KiB ("Speed" in the specification). At the defaults its records are to fit in 4 KiB, so
// that ten thousand live runs take 40 MB at the most. A record that grows by 8 bytes costs each of them a quarter of a
// KiB: whoever makes it larger should have meant to, and whoever makes it smaller changes the number here.
func TestSizeOfARun(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		t.Skip("the figures are those of 64 bits")
	}
	const perRun = 4 << 10
	assert.EqualValues(t, 80, unsafe.Sizeof(record{}))

	p, _, err := New(Default())
	assert.NoError(t, err)
	var s State
	for i := range uint64(100) {
		// Names are the same as of old, so that the history shares them; what varies are the calls.
		_, ticket := p.Begin(&s, Call{ID: i, Tool: "read", Name: "Read", Signature: canonical.Digest{byte(i)}})
		p.End(&s, ticket, canonical.Outcome{Digest: canonical.Digest{byte(i)}})
	}
	assert.Len(t, s.records, DefaultHistorySize)
	assert.Equal(t, names{"read", "Read"}, s.names, "each once")
	held := uintptr(cap(s.records)) * unsafe.Sizeof(record{})
	assert.LessOrEqual(t, held, uintptr(perRun), "the records of a run")
	assert.LessOrEqual(t, cap(s.records), DefaultHistorySize, "no room for records that never come")
	t.Logf("a run holds %d bytes: %d for its records (room for %d), the rest for the state itself",
		held+unsafe.Sizeof(s), held, cap(s.records))

	// A copy, as stores make them, takes no more.
	var c State
	c.CopyFrom(&s)
	assert.LessOrEqual(t, uintptr(cap(c.records))*unsafe.Sizeof(record{}), held, "the records of a copy")
}
