package policy

import (
	"slices"
	"strings"
)

// names are the names of the tools in a history, each once. Records refer to them by number and hold no pointers, so that to
// copy a history is to copy bytes, and the garbage collector has nothing to look for in it. States share their names:
// nothing that is in the list changes.
type names []string

// nameID is the number of a name in its list, from 1 on. 0 is none.
type nameID uint32

// find returns the number of a name, 0 if it is not in the list.
func (n names) find(name string) nameID { return nameID(slices.Index(n, name) + 1) }

// of returns the name with a number.
func (n names) of(id nameID) string { return n[id-1] }

// number returns the number of a name, which is added to the list if it is new: as a copy, as the name itself may be a
// piece of something much larger, such as the whole answer of a model.
func (n *names) number(name string) nameID {
	if id := n.find(name); id != 0 {
		return id
	}
	*n = append(slices.Clip(*n), strings.Clone(name)) // another list: this one may be shared
	return nameID(len(*n))
}

// spareNames is how many names are kept that no record needs any more.
const spareNames = 8

// sweepNames drops the names that no record needs, if there may be many. A record needs two at the most.
func (s *State) sweepNames() {
	if len(s.names) <= 2*len(s.records)+spareNames {
		return
	}
	numbers := make([]nameID, len(s.names)+1) // by the old ones
	var kept names
	renumber := func(id nameID) nameID {
		if numbers[id] == 0 {
			kept = append(kept, s.names.of(id))
			numbers[id] = nameID(len(kept))
		}
		return numbers[id]
	}
	for i := range s.records {
		r := &s.records[i]
		r.tool, r.name = renumber(r.tool), renumber(r.name)
	}
	s.names = kept
}
