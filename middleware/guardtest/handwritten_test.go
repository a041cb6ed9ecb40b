package guardtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

// handwritten is an agent loop without a framework, and what may be wrong with it.
type handwritten struct {
	setup   guardtest.Setup
	tracing *middleware.Tracing
	flaws   map[flaw]bool

	mu     sync.Mutex // for the flaws
	shared *middleware.Ticket
}

// flaw is a mistake in an adapter.
type flaw string

const (
	dropsNotes         flaw = "the note of a warning is dropped"
	notesHealthy       flaw = "a note is added where there is none"
	hashesNotes        flaw = "the outcome is given to the guard with its note"
	runsRefused        flaw = "a refused call is run"
	hidesRefusals      flaw = "a refusal has another text"
	endsOnRefusal      flaw = "a refusal ends the run"
	ignoresAborts      flaw = "an abort is an answer"
	hidesAborts        flaw = "the error of an abort is another one"
	neverEnds          flaw = "tickets are not ended"
	losesErrors        flaw = "the error of a tool is an empty result"
	losesPanics        flaw = "a panic leaves its ticket open"
	losesCancellations flaw = "a cancelled call is a failure"
	roundsNumbers      flaw = "arguments are changed"
	swapsResults       flaw = "the results of a turn change places"
	oneTicket          flaw = "calls in parallel share a ticket"
	oneAtATime         flaw = "calls in parallel run one after the other"
	sharesRuns         flaw = "all runs are one"
	runPerCall         flaw = "every call is a run"
	keepsRuns          flaw = "runs are not forgotten"
	missesUnknown      flaw = "unknown tools are not seen"
	forgetsUnknown     flaw = "the guard is not told that a tool does not exist"
	hidesUnknown       flaw = "what is said of unknown tools does not reach the model"
	detachesSpans      flaw = "the guard has the context without the span"
	losesIDs           flaw = "the ids of calls are lost"
	hangsAtEnd         flaw = "a run that was cancelled does not return"
	hangsWithoutStore  flaw = "a run does not return if the store fails"
	defiesStore        flaw = "a call is run where the guard gives an error"
)

// framework is the loop as a framework.
func framework(limits guardtest.Limits, flaws ...flaw) guardtest.Framework {
	return guardtest.Framework{Limits: limits, New: func(setup guardtest.Setup) (guardtest.Agent, error) {
		h := &handwritten{setup: setup, tracing: middleware.NewTracing(setup.Tracing), flaws: map[flaw]bool{}}
		for _, f := range flaws {
			h.flaws[f] = true
		}
		return h.run, nil
	}}
}

func (h *handwritten) run(ctx context.Context, script *guardtest.Script) (err error) {
	if h.flaws[sharesRuns] {
		ctx = middleware.WithRun(ctx, "shared")
	} else {
		ctx = middleware.NewRun(ctx)
	}
	if !h.flaws[keepsRuns] {
		defer func() { err = errors.Join(err, ignore(h.setup.Guard.Forget(ctx))) }()
	}
	for calls := script.Next(); len(calls) > 0; {
		read := make([]string, len(calls))
		errs := make([]error, len(calls))
		var panics sync.Map
		var running sync.WaitGroup
		for i, c := range calls {
			running.Go(func() {
				defer func() {
					if p := recover(); p != nil {
						panics.Store(i, p)
					}
				}()
				read[i], errs[i] = h.call(ctx, c)
			})
			if h.flaws[oneAtATime] {
				running.Wait()
			}
		}
		running.Wait()
		panics.Range(func(_, p any) bool { panic(p) })
		if err := errors.Join(errs...); err != nil {
			if h.flaws[hangsWithoutStore] && errors.Is(err, middleware.ErrStore) {
				select {}
			}
			return err
		}
		if h.flaws[hangsAtEnd] && ctx.Err() != nil {
			select {}
		}
		if h.flaws[swapsResults] {
			slices.Reverse(read)
		}
		calls = script.Next(read...)
	}
	return nil
}

// ignore is for a store that is broken on purpose.
func ignore(error) error { return nil }

// call runs a call and returns what the model reads.
func (h *handwritten) call(ctx context.Context, c guardtest.Call) (string, error) {
	call := middleware.Call{ID: c.ID, Tool: c.Tool, Args: c.Args}
	i := slices.IndexFunc(h.setup.Tools, func(t guardtest.Tool) bool { return t.Name == c.Tool })
	call.Unknown = i < 0 && !h.flaws[forgetsUnknown]
	if h.flaws[losesIDs] {
		call.ID = ""
	}
	if h.flaws[missesUnknown] && i < 0 {
		return "no such tool", nil
	}
	host := ctx
	if h.flaws[runPerCall] {
		host = middleware.NewRun(host)
	}
	ctx, span := h.tracing.StartTool(host, call)
	defer span.End()
	if !h.flaws[detachesSpans] {
		host = ctx
	}

	ticket, err := h.setup.Guard.Begin(host, call)
	switch {
	case err != nil && h.flaws[ignoresAborts]:
		return err.Error(), nil
	case err != nil && h.flaws[hidesAborts]:
		return "", errors.New("stopped")
	case err != nil && h.flaws[defiesStore] && errors.Is(err, middleware.ErrStore):
		return h.setup.Tools[i].Run(ctx, c.Args)
	case err != nil:
		return "", err
	}
	if h.flaws[oneTicket] {
		h.mu.Lock()
		h.shared = ticket
		h.mu.Unlock()
	}
	if !h.flaws[losesPanics] {
		defer func() { _ = ticket.End(ctx, middleware.Result{}, middleware.ErrPanic) }()
	}
	if text, refused := ticket.Refusal(); refused {
		switch {
		case h.flaws[endsOnRefusal]:
			return "", errors.New(text)
		case h.flaws[hidesRefusals], h.flaws[hidesUnknown] && i < 0:
			return "error", nil
		case !h.flaws[runsRefused]:
			return text, nil
		}
	}
	text, err := "", fmt.Errorf("%w: %s", middleware.ErrUnknownTool, c.Tool)
	if i >= 0 {
		args := c.Args
		if h.flaws[roundsNumbers] {
			args = `{"path":"` + "file" + `"}`
		}
		text, err = h.setup.Tools[i].Run(ctx, args)
	}
	return h.end(ctx, ticket, text, err)
}

// end gives the outcome to the guard and returns what the model reads.
func (h *handwritten) end(ctx context.Context, ticket *middleware.Ticket, text string, err error) (string, error) {
	if h.flaws[neverEnds] {
		return text, nil
	}
	if h.flaws[oneTicket] {
		h.mu.Lock()
		ticket = h.shared
		h.mu.Unlock()
	}
	outcome := middleware.Text(text)
	if h.flaws[hashesNotes] {
		outcome = middleware.Text(fmt.Sprint(text, ticket.Note(), ticket.Verdict().Count))
	}
	switch {
	case err != nil && h.flaws[losesErrors]:
		err = nil
	case errors.Is(err, context.Canceled) && h.flaws[losesCancellations]:
		err = errors.New("cancelled")
	}
	if stop := ticket.End(ctx, outcome, err); stop != nil {
		return "", stop
	}
	if err != nil {
		text = "error: " + err.Error()
	}
	switch {
	case h.flaws[dropsNotes]:
		return text, nil
	case h.flaws[notesHealthy]:
		if _, judging := h.setup.Guard.Thresholds(); judging {
			text += " (checked)"
		}
	}
	return text + ticket.Note(), nil
}
