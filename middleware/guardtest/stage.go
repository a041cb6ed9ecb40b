package guardtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// patience is how long a run may take, grace how long what it leaves to be done.
const (
	patience = 20 * time.Second
	grace    = 3 * time.Second
)

// stage is where a check plays: an agent, the guard in it, and all that can be seen of both.
type stage struct {
	agent Agent
	store *watchedStore
	spans *tracetest.SpanRecorder
	trace *sdktrace.TracerProvider

	mu    sync.Mutex
	found []middleware.Detection
}

// newStage makes an agent that has tools.
func newStage(f Framework, c policy.Config, tools []*stub, options ...middleware.Option) (*stage, error) {
	s := &stage{store: newWatchedStore(), spans: tracetest.NewSpanRecorder()}
	s.trace = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	guard, err := middleware.New(c, append(options,
		middleware.WithStore(s.store),
		middleware.WithOnDetection(func(_ context.Context, d middleware.Detection) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.found = append(s.found, d)
		}),
	)...)
	if err != nil {
		return nil, err
	}
	setup := Setup{Guard: guard, Tracing: s.trace, Spans: s.spans}
	for _, t := range tools {
		setup.Tools = append(setup.Tools, t.tool())
	}
	if s.agent, err = f.New(setup); err != nil {
		return nil, fmt.Errorf("the agent could not be made: %w", err)
	}
	return s, nil
}

// detections returns what was reported so far.
func (s *stage) detections() []middleware.Detection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found)
}

// performance is a run that is over, or has hung.
type performance struct {
	err    error      // of a run that is over
	turns  int        // that the model made
	read   [][]string // by turn: what the model read of its calls
	faults []error
}

// play runs the agent.
func (s *stage) play(ctx context.Context, turns ...[]Call) performance {
	script := &Script{turns: turns}
	over := make(chan error, 1)
	go func() { // which may be left behind, if it hangs
		var err error
		defer func() {
			if said := recover(); said != nil {
				err = fmt.Errorf("panic: %v", said)
			}
			over <- err
		}()
		err = s.agent(ctx, script)
	}()
	var p performance
	select {
	case p.err = <-over:
	case <-time.After(patience):
		p.err = fmt.Errorf("the run did not return within %v", patience)
		p.faults = append(p.faults, p.err)
	}
	script.mu.Lock()
	defer script.mu.Unlock()
	p.turns, p.read, p.faults = script.turn, script.read, append(p.faults, script.faults...)
	return p
}

// reading returns what the model read of the only call of a turn, counted from 1, or nothing if it came to none.
func (p performance) reading(turn int) string {
	if turn > len(p.read) || len(p.read[turn-1]) != 1 {
		return ""
	}
	return p.read[turn-1][0]
}

// eventually waits for what may be done a little after a run has returned.
func eventually(done func() bool) bool {
	for end := time.Now().Add(grace); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return true
		}
	}
	return done()
}
