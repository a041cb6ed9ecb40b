package guardtest

import (
	"context"
	"strings"

	"github.com/loopguard-go/loopguard/policy"
)

// unknownRefused is the first call of an unknown tool that is refused, at the defaults of the policy.
const unknownRefused = 11

// checkUnknown: a tool that does not exist is refused after some tries, and the model reads it.
func checkUnknown(f Framework, found *findings) error {
	s, err := newStage(f, policy.Default(), []*stub{reader()})
	if err != nil {
		return err
	}
	const n = unknownRefused + 3
	p := s.play(context.Background(), varied(n, "frobnicate", "thing")...)
	if f.UnseenUnknownTools {
		found.expect(s.store.records(func(policy.Record) bool { return true }) == 0, "Limits.UnseenUnknownTools: they are seen")
		return nil
	}
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
