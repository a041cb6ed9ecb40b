package middleware

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopguard-go/loopguard/policy"
)

// errUnchanged is what a step returns that has nothing to change, so that the store need not write.
var errUnchanged = errors.New("unchanged")

// histories keeps the states of runs: in the store, and, while it fails, in a local one. A call ends where it began. When
// the store is back, a run goes on with the history there.
//
// Whatever a store does, a decided refusal stands: a step that decided one and could not be written refuses all the same.
type histories struct {
	store      Store
	local      *MemoryStore // what takes over; empty as long as the store never failed
	failClosed bool
	policy     *policy.Policy
	reporter   *reporter
}

// begin takes the first step of a ticket. The error is [ErrStore], if the guard fails closed.
func (h *histories) begin(ctx context.Context, t *Ticket, id uint64) error {
	step := func(s *policy.State) error { return t.begin(s, id) }
	if h.local.Runs() > 0 && h.stoppedLocally(ctx, t) {
		return nil
	}
	t.store = h.store
	err := apply(ctx, h.store, t.run, step)
	if err == nil {
		if h.local.Runs() > 0 {
			_ = h.local.Forget(ctx, t.run)
		}
		return nil
	}
	h.reporter.storeFailure(ctx, "begin", t.run, err)
	switch {
	case t.verdict.Refused():
		h.stopLocally(ctx, t.run, t.verdict)
		return nil
	case h.failClosed:
		return fmt.Errorf("%w and the guard fails closed, so the call was not run: %w", ErrStore, err)
	}
	t.store = h.local
	return h.local.Update(ctx, t.run, step)
}

// end takes the last step of a ticket. It has to be taken even if the call ended because its time was over.
func (h *histories) end(ctx context.Context, t *Ticket) {
	ctx = context.WithoutCancel(ctx)
	if err := apply(ctx, t.store, t.run, t.end); err != nil {
		h.reporter.storeFailure(ctx, "end", t.run, err)
		if t.closing.Refused() {
			h.stopLocally(ctx, t.run, t.closing)
		}
	}
}

// cancel takes a ticket back.
func (h *histories) cancel(ctx context.Context, t *Ticket) {
	ctx = context.WithoutCancel(ctx)
	if err := apply(ctx, t.store, t.run, t.cancel); err != nil {
		h.reporter.storeFailure(ctx, "cancel", t.run, err)
	}
}

// update changes the state of a run, and also the local one if the store fails. The error is that of the store.
func (h *histories) update(ctx context.Context, operation, run string, step func(*policy.State) error) error {
	err := apply(ctx, h.store, run, step)
	if err != nil {
		h.reporter.storeFailure(ctx, operation, run, err)
		_ = h.local.Update(ctx, run, step)
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	return nil
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

// stopLocally remembers that a run was stopped where the store could not be told.
func (h *histories) stopLocally(ctx context.Context, run string, v policy.Verdict) {
	if v.Action != policy.Abort {
		return
	}
	_ = h.local.Update(ctx, run, func(s *policy.State) error {
		h.policy.Stop(s, v)
		return nil
	})
}

// stoppedLocally refuses a call of a run that was stopped while the store failed.
func (h *histories) stoppedLocally(ctx context.Context, t *Ticket) (stopped bool) {
	_ = h.local.Update(ctx, t.run, func(s *policy.State) error {
		if _, stopped = s.Stopped(); stopped {
			return t.begin(s, 0)
		}
		return errUnchanged
	})
	return stopped
}

// apply takes a step in a store. A step that changed nothing is no failure.
func apply(ctx context.Context, store Store, run string, step func(*policy.State) error) error {
	err := store.Update(ctx, run, step)
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}
