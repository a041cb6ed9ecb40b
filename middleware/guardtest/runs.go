package guardtest

import (
	"context"
	"sync"

	"github.com/loopguard-go/loopguard/policy"
)

// checkRuns: no run has a part in the history of another, be it at the same time or later, and none is left behind.
func checkRuns(f Framework, found *findings) error {
	const atOnce, later, n = 4, 3, warned - 2
	exec := stuck()
	s, err := newStage(f, policy.Default(), []*stub{exec})
	if err != nil {
		return err
	}
	turns := repeated(n, exec.name, `{"command":"cat report"}`)
	performances := make([]performance, atOnce)
	var playing sync.WaitGroup
	for i := range performances {
		playing.Go(func() { performances[i] = s.play(context.Background(), turns...) })
	}
	playing.Wait()
	for range later {
		performances = append(performances, s.play(context.Background(), turns...))
	}
	for _, p := range performances {
		found.play(p, n)
	}
	found.expect(len(s.detections()) == 0, "%d runs of %d calls each are short of a warning, and there were detections: %v", atOnce+later, n, s.detections())
	all, _ := s.store.runs()
	found.expect(all == atOnce+later, "%d runs of the agent were %d runs of the guard", atOnce+later, all)
	found.forgotten(f, s)

	// A run that was stopped is over with its error: the next one starts afresh.
	p := s.play(context.Background(), repeated(stopped+1, exec.name, `{"command":"cat report"}`)...)
	found.faults = append(found.faults, p.faults...)
	found.expect(len(s.detected(policy.Abort)) > 0, "a run in a loop was not stopped")
	found.play(s.play(context.Background(), turns...), n)
	found.forgotten(f, s)
	return nil
}

// forgotten adds a fault for runs that were left behind.
func (f *findings) forgotten(framework Framework, s *stage) {
	none := func() bool { _, live := s.store.runs(); return live == 0 }
	if framework.KeptRuns {
		f.expect(!none(), "Limits.KeptRuns: all runs were forgotten")
		return
	}
	all, live := s.store.runs()
	f.expect(eventually(none), "of %d runs that are over %d were not forgotten", all, live)
}
