package guardtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// checkToolErrors: a tool that fails the same way, whatever it is asked, is warned of and refused.
func checkToolErrors(f Framework, found *findings) error {
	fetch := &stub{name: "fetch", answer: func(_ context.Context, n int, _ string) (string, error) {
		return "", fmt.Errorf("dial: connection refused, attempt %d", n)
	}}
	s, err := newStage(f, policy.Default(), []*stub{fetch})
	if err != nil {
		return err
	}
	const n = refused + 2
	p := s.play(context.Background(), varied(n, fetch.name, "page")...)
	failures := s.store.records(func(r policy.Record) bool { return r.Failure })
	if f.ToolErrorsEndRuns {
		found.faults = append(found.faults, p.faults...)
		found.expect(p.err != nil && p.turns == 1, "Limits.ToolErrorsEndRuns: the run went on after an error")
		found.expect(failures == 1, "the error of the tool was not remembered as a failure")
		return nil
	}
	found.play(p, n)
	found.expect(len(fetch.executions()) == refused-1, "a tool that always fails was run %d times, want %d", len(fetch.executions()), refused-1)
	warnings, blocks := s.detected(policy.Warn), s.detected(policy.Block)
	if len(warnings) != 1 || len(blocks) == 0 {
		found.add("there were %d warnings and %d refusals of a tool that always fails, want 1 and %d", len(warnings), len(blocks), n-refused+1)
		return nil
	}
	for turn := 1; turn <= n; turn++ {
		read := p.reading(turn)
		found.expect(strings.Contains(read, "connection refused") == (turn < refused), "call %d, which fails: the model read %q", turn, read)
		found.expect(strings.Contains(read, warnings[0].Reason) == (turn == warned), "call %d, which fails: the model read %q; the warning belongs to call %d", turn, read, warned)
	}
	found.expect(strings.Contains(p.reading(refused), blocks[0].Reason), "call %d was refused and the model read %q", refused, p.reading(refused))
	return nil
}

// checkPanic: a tool that panics leaves a failure behind, whatever the framework does about it.
func checkPanic(f Framework, found *findings) error {
	bad := &stub{name: "crash", answer: func(context.Context, int, string) (string, error) { panic("a tool panicked") }}
	s, err := newStage(f, policy.Default(), []*stub{bad})
	if err != nil {
		return err
	}
	p := s.play(context.Background(), repeated(1, bad.name, `{"level":"1"}`)...)
	found.expect(len(bad.executions()) == 1, "the tool was run %d times, want 1", len(bad.executions()))
	found.faults = append(found.faults, p.faults...)
	found.expect(eventually(func() bool { return s.store.records(isOpen) == 0 }), "the call of a tool that panicked was left without outcome")
	failures := s.store.records(func(r policy.Record) bool { return r.Failure })
	found.expect(failures == 1, "the panic of a tool was not remembered as a failure")
	found.forgotten(f, s)
	return nil
}

// checkCancel: a call that its caller gave up leaves nothing behind.
func checkCancel(f Framework, found *findings) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	unheard := errors.New("the context of the tool was not cancelled")
	var heard error
	wait := &stub{name: "wait"}
	over := make(chan struct{})
	wait.answer = func(ctx context.Context, n int, _ string) (string, error) {
		if n > 1 {
			return "", errors.New("run again")
		}
		defer close(over)
		cancel()
		done := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { close(done) })
		defer stop()
		if !waitFor(done) {
			heard = unheard
			return "", unheard
		}
		return "", fmt.Errorf("gave up: %w", ctx.Err())
	}
	s, err := newStage(f, policy.Default(), []*stub{wait})
	if err != nil {
		return err
	}
	p := s.play(ctx, repeated(1, wait.name, `{"for":"it"}`)...)
	found.faults = append(found.faults, p.faults...) // the error may be anything
	if !waitFor(over) {
		found.add("the tool was not run")
		return nil
	}
	if heard != nil {
		found.add("%w", heard)
		return nil
	}
	left := func() int { return s.store.records(func(policy.Record) bool { return true }) }
	found.expect(eventually(func() bool { return left() == 0 }), "a call that was cancelled is still in the history")
	found.forgotten(f, s)
	return nil
}

// checkStore: a guard that fails closed runs nothing without its store, and one that fails open is as good as none.
func checkStore(f Framework, found *findings) error {
	for _, closed := range []bool{false, true} {
		read := reader()
		var options []middleware.Option
		if closed {
			options = append(options, middleware.WithFailClosed())
		}
		s, err := newStage(f, policy.Default(), []*stub{read}, options...)
		if err != nil {
			return err
		}
		s.store.fail()
		p := s.play(context.Background(), repeated(2, read.name, `{"path":"file"}`)...)
		if closed {
			found.faults = append(found.faults, p.faults...)
			found.expect(len(read.executions()) == 0, "the store failed, the guard fails closed, and the tool was run")
			continue
		}
		found.play(p, 2)
		found.expect(strings.Contains(p.reading(2), "content of file"), "the store failed, the guard fails open, and the model read %q", p.reading(2))
	}
	return nil
}

// waitFor reports whether something happens in time.
func waitFor(something <-chan struct{}) bool {
	select {
	case <-something:
		return true
	case <-time.After(patience):
		return false
	}
}
