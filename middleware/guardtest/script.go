package guardtest

import (
	"fmt"
	"slices"
	"sync"
)

// Call is a tool call that a model makes.
type Call struct {
	// ID is the id that the model gives the call, new for each call of a run.
	ID string
	// Tool is the name of the tool.
	Tool string
	// Args are the arguments, a JSON object.
	Args string
}

// Script is what the model does in one run. The scripted model of the framework under test asks it what comes next. It is
// safe for concurrent use.
type Script struct {
	turns [][]Call

	mu     sync.Mutex
	turn   int        // how many the model has made
	read   [][]string // by turn: what the model read of its calls
	faults []error
}

// Next returns the calls of the next turn of the model, to be made in parallel if the framework can do that. It is given what
// the model reads as the results of the calls of the turn before, in the order of those calls; in the first turn it
// is given nothing. Where there are no calls the model has nothing left to do: it answers.
func (s *Script) Next(read ...string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn > 0 {
		if made := len(s.turns[s.turn-1]); made != len(read) {
			s.faults = append(s.faults, fmt.Errorf("turn %d made %d calls and the model read %d results", s.turn, made, len(read)))
		}
		s.read = append(s.read, slices.Clone(read))
	}
	if s.turn == len(s.turns) {
		return nil
	}
	s.turn++
	return slices.Clone(s.turns[s.turn-1])
}
