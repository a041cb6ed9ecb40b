package middleware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// Ticket stands for one call between [Guard.Begin] and [Ticket.End]. A ticket that is never ended does no harm: its call
// stays without outcome until the history has forgotten it. The methods are safe for concurrent use.
type Ticket struct {
	guard    *Guard
	callID   string
	unknown  bool // the host has no such tool
	run      string
	identity canonical.Identity
	progress atomic.Uint32 // begun, ended or cancelled

	// What the history said when the call began.
	store   Store // in which it began and will end
	verdict policy.Verdict
	stopped bool // before this call
	pass    policy.Ticket
	last    []policy.Record
	refusal *LoopError

	// What the history said when it ended.
	outcome canonical.Outcome
	closing *policy.Verdict // nil if it allows, as it nearly always does: tickets are most of what a call allocates
}

// How far a ticket came.
const (
	begun uint32 = iota
	ended
	cancelled
)

// Begin judges a call. If it may run, run it and give what came of it to [Ticket.End]. If [Ticket.Refusal] says that it is
// blocked, do not run it and give the model the text. The error is a [*LoopError] if the run is stopped (or the call
// blocked, with [WithBlocksAsErrors]), [ErrNoRun] if the context names no run, or [ErrStore] if the store failed and the
// guard fails closed.
func (g *Guard) Begin(ctx context.Context, call Call) (*Ticket, error) {
	t := &Ticket{guard: g, callID: call.ID, unknown: call.Unknown}
	if g.policy.Off() || g.policy.Exempt(canonical.FoldTool(call.Tool)) {
		t.progress.Store(ended)
		return t, nil
	}
	run, ok := g.run(ctx)
	if !ok {
		return nil, ErrNoRun
	}
	start := g.reporter.metrics.start()
	t.run = run
	t.identity = g.canonicalizer.Identify(call.canonical())
	if err := g.histories.begin(ctx, t, rand.Uint64()); err != nil {
		return nil, err
	}
	g.reporter.metrics.called(ctx, t.identity.Tool, start)
	if t.verdict.Action != policy.Allow {
		g.reporter.detection(ctx, t.detection(t.verdict), effect{
			tool:    t.identity.Tool,
			refuses: t.verdict.Refused(),
			stops:   t.verdict.Stops() && !t.stopped,
		})
	}
	if !t.verdict.Refused() {
		return t, nil
	}
	t.progress.Store(ended)
	t.refusal = t.loopError(t.verdict)
	if t.verdict.Action == policy.Abort || g.blocksAsErrors {
		return nil, t.refusal
	}
	return t, nil
}

// Verdict returns what was said of the call when it began.
func (t *Ticket) Verdict() policy.Verdict { return t.verdict }

// Refusal reports whether the call was blocked, and the text that the model is to read instead of a result. The tool must
// not be run then.
func (t *Ticket) Refusal() (text string, refused bool) {
	if t.refusal == nil {
		return "", false
	}
	return refusalText(t.verdict), true
}

// Note returns what is to be appended to the result that the model reads: a paragraph of its own, with the blank line before
// it, or nothing if there is nothing to say. It is empty in observe mode, and for a call that was cancelled.
func (t *Ticket) Note() string {
	if t.verdict.Action != policy.Warn || !t.verdict.Enforced || t.progress.Load() == cancelled {
		return ""
	}
	return noteText(t.verdict)
}

// End remembers what came of the call: the result, or the error if it is not nil. The result is what the tool returned,
// without what the guard adds to it. An error that is [context.Canceled] means that the caller gave the call up, and the
// history forgets it.
//
// End returns a [*LoopError] if this outcome stops the run, which only the guard after compaction does. Only the first End
// or Cancel of a ticket counts, and none of a call that was blocked.
func (t *Ticket) End(ctx context.Context, result Result, err error) error {
	if errors.Is(err, context.Canceled) {
		t.Cancel(ctx)
		return nil
	}
	if !t.progress.CompareAndSwap(begun, ended) {
		return nil
	}
	start := t.guard.reporter.metrics.start()
	t.outcome = t.outcomeOf(result, err)
	t.guard.histories.end(ctx, t)
	t.guard.reporter.metrics.ended(ctx, start)
	if t.closing == nil {
		return nil
	}
	v := *t.closing
	t.guard.reporter.detection(ctx, t.detection(v), effect{tool: t.identity.Tool, stops: v.Stops()})
	if !v.Refused() {
		return nil
	}
	return t.loopError(v)
}

// outcomeOf returns what is remembered of a result or an error. What a guard said is not: a call that ran others under a
// guard, such as that of a sub-agent, may bring back its counts and the ids of its runs, which are new each time.
func (t *Ticket) outcomeOf(result Result, err error) canonical.Outcome {
	if noted, ok := errors.AsType[*notedError](err); ok {
		err = noted.error
	}
	loop, isLoop := errors.AsType[*LoopError](err)
	switch {
	case isLoop:
		return t.identity.Error(fmt.Errorf("%s by %s", loop.Action, loop.Detector))
	case err != nil:
		return t.identity.Error(err)
	case result.Refusal != nil:
		return t.identity.Error(fmt.Errorf("%s by %s", result.Refusal.Action, result.Refusal.Detector))
	}
	result.Text = strings.TrimSuffix(result.Text, result.note)
	return t.identity.Result(result.Result)
}

// Cancel takes the call back: it never ran, or its caller gave it up. It leaves no trace in the history.
func (t *Ticket) Cancel(ctx context.Context) {
	if t.progress.CompareAndSwap(begun, cancelled) {
		t.guard.histories.cancel(ctx, t)
	}
}

func (t *Ticket) detection(v policy.Verdict) Detection {
	v.PairedTool = clean(v.PairedTool)
	return Detection{
		Verdict: v,
		Tool:    clean(t.identity.Name),
		CallID:  clean(canonical.Bound(t.callID)),
		Run:     clean(t.run),
		Call:    t.guard.publish(t.identity.Signature),
	}
}

func (t *Ticket) loopError(v policy.Verdict) *LoopError {
	for i := range t.last {
		c := &t.last[i]
		c.Signature, c.Outcome = t.guard.publish(c.Signature), t.guard.publish(c.Outcome)
	}
	return &LoopError{Verdict: v, Tool: t.identity.Name, Run: t.run, Calls: t.last}
}

// The steps of a ticket on the state of its run. A store may take each of them several times.

func (t *Ticket) begin(s *policy.State, id uint64) {
	_, t.stopped = s.Stopped()
	t.verdict, t.pass = t.guard.policy.Begin(s, policy.Call{
		ID:           id,
		Tool:         t.identity.Tool,
		Name:         t.identity.Name,
		Action:       t.identity.Action,
		Signature:    t.identity.Signature,
		Unregistered: t.unknown,
	})
	t.last = nil
	if t.verdict.Refused() {
		t.last = s.Last(lastCalls)
	}
}

func (t *Ticket) end(s *policy.State) error {
	t.closing, t.last = nil, nil
	if !s.Awaits(t.pass) {
		return errUnchanged
	}
	v := t.guard.policy.End(s, t.pass, t.outcome)
	if v.Action == policy.Allow {
		return nil
	}
	if v.Refused() {
		t.last = s.Last(lastCalls)
	}
	closing := v // so that v need not be on the heap
	t.closing = &closing
	return nil
}

func (t *Ticket) cancel(s *policy.State) error {
	if !s.Awaits(t.pass) {
		return errUnchanged
	}
	t.guard.policy.Cancel(s, t.pass)
	return nil
}
