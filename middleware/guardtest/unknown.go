package guardtest

import (
	"context"
	"fmt"
	"strings"

	"github.com/loopguard-go/loopguard/policy"
)

// unknownRefused is the first call of an unknown tool that is refused, at the defaults of the policy.
const unknownRefused = 11

// checkUnknown: a tool that does not exist is refused after some tries, and the model reads it.
func checkUnknown(f Framework, found *findings) error {
	return hunt(f, found, varied(unknownRefused+3, "frobnicate", "thing"))
}

// checkUnknownNames: so is any tool that does not exist, if an agent tries one name after the other. For that the guard has
// to be told that there is no such tool, see middleware.Call.Unknown.
func checkUnknownNames(f Framework, found *findings) error {
	var turns [][]Call
	var next calls
	for i := range unknownRefused + 3 {
		turns = append(turns, []Call{next.to(fmt.Sprintf("frobnicate_%d", i), `{"thing":"it"}`)})
	}
	return hunt(f, found, turns)
}

// hunt has an agent call tools that do not exist.
func hunt(f Framework, found *findings, turns [][]Call) error {
	s, err := newStage(f, policy.Default(), []*stub{reader()})
	if err != nil {
		return err
	}
	p := s.play(context.Background(), turns...)
	if f.UnseenUnknownTools {
		found.faults = append(found.faults, p.faults...)
		found.expect(s.store.records(func(policy.Record) bool { return true }) == 0, "Limits.UnseenUnknownTools: they are seen")
		return nil
	}
	n := len(turns)
	found.play(p, n)
	blocks := s.detected(policy.Block)
	if len(blocks) != n-unknownRefused+1 {
		found.add("%d of %d calls of an unknown tool were refused, want %d", len(blocks), n, n-unknownRefused+1)
		return nil
	}
	for turn := 1; turn <= n; turn++ {
		read, is := p.reading(turn), ""
		if turn >= unknownRefused {
			is = blocks[turn-unknownRefused].Reason
		}
		found.expect(read != "" && strings.Contains(read, is), "call %d of an unknown tool: the model read %q, want %q", turn, read, is)
		found.expect(is != "" || !strings.Contains(read, "Call refused"), "call %d of an unknown tool: the model read %q", turn, read)
	}
	return nil
}

// checkUnknownAbort: an agent that will not leave an unknown tool alone is stopped.
func checkUnknownAbort(f Framework, found *findings) error {
	s, err := newStage(f, policy.Default(), []*stub{reader()})
	if err != nil {
		return err
	}
	p := s.play(context.Background(), repeated(stopped+5, "frobnicate", `{"thing":"it"}`)...)
	found.faults = append(found.faults, p.faults...)
	found.stopped(f, p, stopped)
	return nil
}
