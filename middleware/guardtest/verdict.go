package guardtest

import (
	"context"
	"errors"
	"strings"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// The calls of a loop at the defaults of the policy: the first that is warned of, refused, and stopped.
const (
	warned  = 11
	refused = 21
	stopped = 31
)

// loop is an agent that makes the same call until it is stopped.
func loop(f Framework) (*stub, *stage, performance, error) {
	exec := stuck()
	s, err := newStage(f, policy.Default(), []*stub{exec})
	if err != nil {
		return nil, nil, performance{}, err
	}
	ctx, span := s.trace.Tracer("guardtest").Start(context.Background(), "test")
	defer span.End()
	return exec, s, s.play(ctx, repeated(stopped+5, exec.name, `{"command":"cat report"}`)...), nil
}

// checkWarning: the model reads the result and, at the right call and only there, the warning.
func checkWarning(f Framework, found *findings) error {
	_, s, p, err := loop(f)
	if err != nil {
		return err
	}
	found.faults = append(found.faults, p.faults...)
	warnings := s.detected(policy.Warn)
	if len(warnings) != 1 {
		found.add("there were %d warnings, want 1: are the true outcomes given to the guard?", len(warnings))
		return nil
	}
	for turn := 1; turn < refused; turn++ {
		read := p.reading(turn)
		found.expect(strings.Contains(read, marker), "call %d: the model read %q, not the result", turn, read)
		found.expect(strings.Contains(read, warnings[0].Reason) == (turn == warned),
			"call %d: the model read %q; the warning belongs to call %d", turn, read, warned)
	}
	return nil
}

// checkRefusal: a refused call is not run, the model reads why, and the agent goes on.
func checkRefusal(f Framework, found *findings) error {
	exec, s, p, err := loop(f)
	if err != nil {
		return err
	}
	found.faults = append(found.faults, p.faults...)
	found.expect(len(exec.executions()) == refused-1, "the tool was run %d times, want %d", len(exec.executions()), refused-1)
	blocks := s.detected(policy.Block)
	if len(blocks) != stopped-refused {
		found.add("%d calls were refused, want %d", len(blocks), stopped-refused)
		return nil
	}
	for i, block := range blocks {
		read := p.reading(refused + i)
		found.expect(strings.Contains(read, block.Reason) && strings.Contains(read, block.Advice()),
			"call %d was refused and the model read %q, want %q", refused+i, read, block.Reason)
		found.expect(!strings.Contains(read, marker), "call %d was refused and the model read a result of the tool: %q", refused+i, read)
	}
	return nil
}

// checkAbort: the run ends, and its error says why.
func checkAbort(f Framework, found *findings) error {
	exec, s, p, err := loop(f)
	if err != nil {
		return err
	}
	found.faults = append(found.faults, p.faults...)
	found.stopped(f, p, stopped)
	found.expect(len(s.detected(policy.Abort)) == 1, "there were %d aborts, want 1", len(s.detected(policy.Abort)))
	found.expect(len(exec.executions()) < stopped, "the tool was run after the run was stopped")
	return nil
}

// stopped adds what is wrong with a run that had to be stopped in a turn.
func (f *findings) stopped(framework Framework, p performance, turn int) {
	f.expect(p.turns == turn, "the model made %d turns, and the run was to end in turn %d", p.turns, turn)
	if p.err == nil {
		f.add("the run was stopped and returned no error")
		return
	}
	loop, ok := errors.AsType[*middleware.LoopError](p.err)
	switch {
	case framework.OpaqueAborts:
		f.expect(!ok, "Limits.OpaqueAborts: errors.As does find the *LoopError")
	case !ok:
		f.add("errors.As finds no *LoopError in the error of the run: %w", p.err)
	default:
		f.expect(loop.Action == policy.Abort, "the *LoopError of the run says %v", loop.Action)
	}
}

// detected returns the detections that ask for an action.
func (s *stage) detected(action policy.Action) (all []middleware.Detection) {
	for _, d := range s.detections() {
		if d.Action == action {
			all = append(all, d)
		}
	}
	return all
}
