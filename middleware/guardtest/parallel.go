package guardtest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loopguard-go/loopguard/policy"
)

// checkParallel: turns of equal calls are judged as what they are, one call after the other as they begin, however they end.
func checkParallel(f Framework, found *findings) error {
	const width = 7
	exec := stuck()
	answer := exec.answer
	var here atomic.Int32
	together := make(chan struct{}) // closed when a whole turn is running
	var alone atomic.Bool
	exec.answer = func(ctx context.Context, n int, args string) (string, error) {
		if here.Add(1) == width {
			close(together)
		}
		wait := grace
		if f.Sequential {
			wait = time.Second
		}
		if n <= width && !alone.Load() {
			select {
			case <-together:
			case <-time.After(wait):
				alone.Store(true) // nobody else has to wait
			}
		}
		return answer(ctx, n, args)
	}
	s, err := newStage(f, policy.Default(), []*stub{exec})
	if err != nil {
		return err
	}
	var turns [][]Call
	var next calls
	for range 6 {
		var turn []Call
		for range width {
			turn = append(turn, next.to(exec.name, `{"command":"cat report"}`))
		}
		turns = append(turns, turn)
	}
	p := s.play(context.Background(), turns...)
	found.faults = append(found.faults, p.faults...)
	found.expect(f.Sequential || !alone.Load(), "the calls of a turn did not run at the same time: is that Limits.Sequential?")
	found.expect(!f.Sequential || alone.Load(), "Limits.Sequential: the calls of a turn did run at the same time")

	// The first 14 calls run. The 11th is warned of. The 21st is refused if all before it are done; with the 29th at the
	// earliest and the 31st at the latest, 30 calls that brought nothing new have been made.
	n := len(exec.executions())
	found.expect(n == 20 || n == 21, "of %d equal calls in parallel %d were run, want 20 or 21", 5*width, n)
	found.stopped(f, p, 5)
	for i := range min(4, len(p.read)) {
		results, refusals := 0, 0
		for _, read := range p.read[i] {
			switch {
			case strings.Contains(read, marker):
				results++
			case strings.Contains(read, "[loopguard]"):
				refusals++
			}
		}
		found.expect(results+refusals == width, "turn %d: the model read %d results and %d refusals of %d calls: %q", i+1, results, refusals, width, p.read[i])
		found.expect(i > 1 || refusals == 0, "turn %d: %d calls were refused", i+1, refusals)
		found.expect(i < 3 || results == 0, "turn %d: %d calls were not refused", i+1, results)
	}
	return nil
}

// checkMixed: of two calls in a turn each has its own result and its own verdict.
func checkMixed(f Framework, found *findings) error {
	exec, read := stuck(), reader()
	answer := exec.answer
	exec.answer = func(ctx context.Context, n int, args string) (string, error) {
		if !f.Sequential && n%2 == 0 {
			time.Sleep(2 * time.Millisecond) // so that now the one is the first to end, and now the other
		}
		return answer(ctx, n, args)
	}
	// Half of the history belongs to the healthy calls: the defaults cannot be reached in what is left.
	s, err := newStage(f, policy.Tight(), []*stub{exec, read})
	if err != nil {
		return err
	}
	const refused, n = 11, 14
	var turns [][]Call
	var next calls
	for i := range n {
		turns = append(turns, []Call{
			next.to(exec.name, `{"command":"cat report"}`),
			next.to(read.name, fmt.Sprintf(`{"path":"file-%d"}`, i)),
		})
	}
	p := s.play(context.Background(), turns...)
	found.play(p, n)
	for i, both := range p.read {
		if len(both) != 2 {
			continue // said already
		}
		want := fmt.Sprintf("content of file-%d", i)
		found.expect(strings.Contains(both[1], want) && !strings.Contains(both[1], "[loopguard]"),
			"turn %d: the model read %q of a healthy call beside one in a loop, want %q", i+1, both[1], want)
		found.expect(strings.Contains(both[0], marker) == (i+1 < refused), "turn %d: the model read %q of a call in a loop", i+1, both[0])
	}
	return nil
}
