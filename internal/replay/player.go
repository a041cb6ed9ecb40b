package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// Player plays transcripts to a guard. It is not safe for concurrent use.
type Player struct {
	guard    *middleware.Guard
	runs     map[string]*run
	reported policy.Verdict // what the guard reported during the step that is being taken
}

// NewPlayer makes a player with a guard of its own, which options change. The error says what is wrong with the
// configuration or an option.
func NewPlayer(config policy.Config, options ...middleware.Option) (*Player, error) {
	p := &Player{runs: map[string]*run{}}
	guard, err := middleware.New(config, append([]middleware.Option{
		// A recorded run is never evicted: the verdicts are those of a store with room enough.
		middleware.WithStore(middleware.NewMemoryStore(middleware.WithMaxRuns(math.MaxInt32), middleware.WithIdleTime(0))),
		// This is the one place where all verdicts come by, also those of observe mode and those on outcomes.
		middleware.WithOnDetection(func(_ context.Context, d middleware.Detection) { p.reported = d.Verdict }),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	p.guard = guard
	return p, nil
}

// Notices returns what the author of the configuration will want to know.
func (p *Player) Notices() []policy.Notice { return p.guard.Notices() }

// Play judges a transcript and hands each judgement on at once. The error is a [*Fault] of the transcript, or that of the
// writer.
func (p *Player) Play(in *Reader, out Writer) error {
	for {
		line, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.step(line, out); err != nil {
			return err
		}
	}
}

// step plays one line.
func (p *Player) step(line Line, out Writer) error {
	r := p.run(line.Run)
	switch {
	case line.Compaction:
		return p.guard.Compacted(r.ctx)
	case line.Call != nil:
		judged, err := p.call(r, line)
		if err != nil {
			return err
		}
		return out.Write(judged)
	default:
		call, ok := r.pop(line.ID)
		if !ok {
			return &Fault{line.Number, fmt.Sprintf(
				"is the outcome of a call that is not open (%s), must come after its call and once", where(line))}
		}
		verdict := p.end(r, call, line.Outcome)
		if verdict.Action == policy.Allow {
			return nil
		}
		return out.Write(Judgement{Verdict: verdict, Line: line.Number, Run: line.Run, Tool: call.tool})
	}
}

// call plays a line that makes a call. What an outcome on the same line brings takes the place of the verdict on the call.
func (p *Player) call(r *run, line Line) (Judgement, error) {
	p.reported = policy.Verdict{}
	ticket, err := p.guard.Begin(r.ctx, *line.Call)
	if err != nil && !errors.Is(err, middleware.ErrLoop) {
		return Judgement{}, err
	}
	judged := Judgement{
		Verdict: p.reported,
		Line:    line.Number,
		Run:     line.Run,
		Tool:    line.Call.Tool,
		Made:    true,
		Refused: p.reported.Action >= policy.Block,
	}
	call := openedCall{line.Call.Tool, ticket}
	if line.Outcome == nil {
		r.push(line.ID, call)
		return judged, nil
	}
	if verdict := p.end(r, call, line.Outcome); verdict.Action != policy.Allow {
		judged.Verdict = verdict
	}
	return judged, nil
}

// end plays the outcome of a call and returns what the guard reported, which is Allow in all but a few cases. It skips the
// outcome of a call that was refused.
func (p *Player) end(r *run, call openedCall, outcome *Outcome) policy.Verdict {
	p.reported = policy.Verdict{}
	if call.ticket != nil {
		_ = call.ticket.End(r.ctx, outcome.Result, outcome.Err) // the error says no more than the report
	}
	return p.reported
}

func (p *Player) run(id string) *run {
	r, ok := p.runs[id]
	if !ok {
		r = newRun(id)
		p.runs[id] = r
	}
	return r
}

// where says which call an outcome is for.
func where(line Line) string {
	id, run := "no id", "no run"
	if line.ID != "" {
		id = "id " + quote(line.ID)
	}
	if line.Run != "" {
		run = "run " + quote(line.Run)
	}
	return run + ", " + id
}
