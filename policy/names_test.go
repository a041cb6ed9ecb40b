package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A model that makes up a name for every call leaves no more names behind than its history needs.
func TestNamesGoWithTheirRecords(t *testing.T) {
	p, _, err := New(Default())
	require.NoError(t, err)
	var s State
	for i := range uint64(1_000) {
		p.Begin(&s, Call{ID: i, Tool: fmt.Sprintf("tool-%d", i), Name: fmt.Sprintf("Tool-%d", i)})
		assert.LessOrEqual(t, len(s.names), 2*DefaultHistorySize+spareNames+2)
	}
	for i, r := range s.Last(DefaultHistorySize) {
		assert.Equal(t, fmt.Sprintf("Tool-%d", 970+i), r.Tool)
	}
}

// Copies share their names, and what becomes of one does not touch the other.
func TestCopiesShareNames(t *testing.T) {
	p, _, err := New(Default())
	require.NoError(t, err)
	var first, second State
	call := func(s *State, name string) { p.Begin(s, Call{ID: uint64(len(s.records)), Tool: name, Name: name}) }
	tools := func(s *State) (names []string) {
		for _, r := range s.Last(10) {
			names = append(names, r.Tool)
		}
		return names
	}
	for _, name := range []string{"a", "b", "c"} {
		call(&first, name)
	}
	second.CopyFrom(&first)
	call(&first, "d")
	call(&second, "e")
	call(&second, "d")
	call(&first, "e")
	assert.Equal(t, []string{"a", "b", "c", "d", "e"}, tools(&first))
	assert.Equal(t, []string{"a", "b", "c", "e", "d"}, tools(&second))
}
