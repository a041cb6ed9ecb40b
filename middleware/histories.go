package middleware

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopguard-go/loopguard/policy"
)

// errUnchanged is what a step returns that has nothing to change, so that the store need not write.
var errUnchanged = errors.New("unchanged")

// histories keeps the states of runs: in the store, and, while it fails, in a local one. The local one goes on from what the
// store still told, or else starts afresh. A call ends where it began. When the store is back, a run goes on there.
//
// Whatever a store does, a decided refusal stands: a step that decided one and could not be written refuses all the same,
// and a run that was stopped stays stopped.
type histories struct {
	store      Store
	remote     bool         // the store is no MemoryStore, so that it can fail
	local      *MemoryStore // what takes over; empty as long as the store never failed
	failClosed bool
	policy     *policy.Policy
	reporter   *reporter
}

func newHistories(store Store, failClosed bool, p *policy.Policy, r *reporter) histories {
	_, inMemory := store.(*MemoryStore)
	return histories{
		store: store, remote: !inMemory, local: NewMemoryStore(), failClosed: failClosed, policy: p, reporter: r,
	}
}

// begin takes the first step of a ticket. The error is [ErrStore] if the guard fails closed, or that of a context whose
// owner gave up.
func (h *histories) begin(ctx context.Context, t *Ticket, id uint64) error {
	if h.local.Runs() > 0 && h.stoppedLocally(ctx, t) {
		return nil
	}
	seen, err := h.try(ctx, "begin", h.store, t.run, func(s *policy.State) error {
		t.begin(s, id)
		return nil
	})
	if err == nil {
		t.store = h.store
		if h.local.Runs() > 0 {
			h.local.drop(t.run, func(s *policy.State) bool { _, stopped := s.Stopped(); return !stopped })
		}
		return nil
	}
	if !t.verdict.Refused() {
		if errors.Is(ctx.Err(), context.Canceled) { // not the store failed: the caller gave up
			return ctx.Err()
		}
		if h.failClosed {
			h.reporter.storeFailure(ctx, "begin", t.run, err)
			return fmt.Errorf("%w and the guard fails closed, so the call was not run: %w", ErrStore, err)
		}
	}
	decided, last, stopped := t.verdict, t.last, t.stopped
	t.store = h.local
	isNew := h.takeOver(ctx, t.run, seen, func(s *policy.State) {
		t.begin(s, id)
		if decided.Refused() && t.verdict.Action < decided.Action {
			t.verdict, t.last, t.stopped = decided, last, stopped
			s.CopyFrom(seen)
		}
	})
	if isNew { // and not at every call of an outage
		h.reporter.storeFailure(ctx, "begin", t.run, err)
	}
	return nil
}

// stoppedLocally refuses a call of a run that was stopped while the store failed. First it tries to tell the store: if that
// is back, all goes on there.
func (h *histories) stoppedLocally(ctx context.Context, t *Ticket) bool {
	var local policy.State
	_ = h.local.Update(ctx, t.run, func(s *policy.State) error {
		local.CopyFrom(s)
		return errUnchanged
	})
	v, stopped := local.Stopped()
	if !stopped {
		return false
	}
	_, err := h.try(ctx, "begin", h.store, t.run, func(s *policy.State) error {
		if s.IsZero() {
			s.CopyFrom(&local)
		} else {
			h.policy.Stop(s, v)
		}
		return nil
	})
	if err == nil {
		_ = h.local.Forget(ctx, t.run)
		return false
	}
	t.begin(&local, 0)
	return t.verdict.Refused() // a guard that only observes refuses nothing
}

// end takes the last step of a ticket. It has to be taken even if the call ended because its time was over.
func (h *histories) end(ctx context.Context, t *Ticket) {
	ctx = context.WithoutCancel(ctx)
	seen, err := h.try(ctx, "end", t.store, t.run, t.end)
	if err == nil {
		return
	}
	h.reporter.storeFailure(ctx, "end", t.run, err)
	if v := t.closing; v != nil && v.Refused() {
		h.takeOver(ctx, t.run, seen, func(s *policy.State) { h.policy.Stop(s, *v) })
	}
}

// cancel takes a ticket back.
func (h *histories) cancel(ctx context.Context, t *Ticket) {
	ctx = context.WithoutCancel(ctx)
	if _, err := h.try(ctx, "cancel", t.store, t.run, t.cancel); err != nil {
		h.reporter.storeFailure(ctx, "cancel", t.run, err)
	}
}

// compacted arms the guard after compaction. The error is that of the store.
func (h *histories) compacted(ctx context.Context, run string, id uint64) error {
	seen, err := h.try(ctx, "compacted", h.store, run, func(s *policy.State) error {
		h.policy.Compacted(s, id)
		return nil
	})
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	h.reporter.storeFailure(ctx, "compacted", run, err)
	h.takeOver(ctx, run, seen, func(s *policy.State) { h.policy.Compacted(s, id) })
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// forget removes a run wherever it is.
func (h *histories) forget(ctx context.Context, run string) error {
	ctx = context.WithoutCancel(ctx)
	_ = h.local.Forget(ctx, run)
	if err := h.store.Forget(ctx, run); err != nil {
		h.reporter.storeFailure(ctx, "forget", run, err)
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
}

// try takes a step in a store; one that changed nothing is no failure, nor is one that was kept although what was there
// before is lost. It returns what the state was after the step, in case that cannot be kept, or nil if the step was never
// taken or the store cannot fail.
func (h *histories) try(
	ctx context.Context, operation string, store Store, run string, step func(*policy.State) error,
) (seen *policy.State, err error) {
	if h.remote {
		seen, err = look(ctx, store, run, step)
	} else {
		err = store.Update(ctx, run, step)
	}
	switch {
	case errors.Is(err, errUnchanged):
		err = nil
	case errors.Is(err, ErrStateLost):
		h.reporter.storeFailure(ctx, operation, run, err)
		err = nil
	}
	return seen, err
}

// look takes a step in a store and keeps a copy of the state after it.
func look(
	ctx context.Context, store Store, run string, step func(*policy.State) error,
) (seen *policy.State, err error) {
	err = store.Update(ctx, run, func(s *policy.State) error {
		err := step(s)
		seen = new(policy.State)
		seen.CopyFrom(s)
		return err
	})
	return seen, err
}

// takeOver goes on in the local history of a run. It starts with what was seen in the store, in which the step was taken;
// where it has started before, or nothing was seen, the step is taken in it. It reports whether it starts.
func (h *histories) takeOver(
	ctx context.Context, run string, seen *policy.State, step func(*policy.State),
) (starts bool) {
	_ = h.local.Update(ctx, run, func(s *policy.State) error {
		if starts = s.IsZero(); starts && seen != nil {
			s.CopyFrom(seen)
		} else {
			step(s)
		}
		return nil
	})
	return starts
}
