package guardtest

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/loopguard-go/loopguard/policy"
)

// off is the configuration of a guard that does nothing.
func off() policy.Config { return policy.Config{Enabled: new(false)} }

// bigNumber is an integer that floating point cannot hold.
const bigNumber = "9007199254740993"

// checkHealthy: an agent that gets on with its work reads what it would read without a guard.
func checkHealthy(f Framework, found *findings) error {
	var turns [][]Call
	var next calls
	for i := range 40 {
		turn := []Call{next.to("read_file", fmt.Sprintf(`{"path":"file-%d","line":%s}`, i, bigNumber))}
		if i%4 == 3 { // for example tests, after a change
			turn = append(turn, next.to("exec", `{"command":"make test"}`))
		}
		turns = append(turns, turn)
	}
	play := func(c policy.Config) (*stub, performance, *stage, error) {
		read := reader()
		s, err := newStage(f, c, []*stub{read, stuck()})
		if err != nil {
			return nil, performance{}, nil, err
		}
		return read, s.play(context.Background(), turns...), s, nil
	}
	_, without, _, err := play(off())
	if err != nil {
		return err
	}
	read, with, s, err := play(policy.Default())
	if err != nil {
		return err
	}
	found.play(without, len(turns))
	found.play(with, len(turns))
	for i, turn := range with.read {
		path := fmt.Sprintf("content of file-%d", i)
		found.expect(len(turn) > 0 && strings.Contains(turn[0], path), "turn %d: the model did not read the result %q", i+1, path)
		if i < len(without.read) {
			found.expect(reflect.DeepEqual(turn, without.read[i]), "turn %d: the model read %q, without a guard %q", i+1, turn, without.read[i])
		}
	}
	for _, e := range read.executions() {
		if rounded := !strings.Contains(e.args, bigNumber); rounded != f.RoundedNumbers {
			found.add("the tool was given the arguments %s, the model wrote %s; Limits.RoundedNumbers: %t", e.args, bigNumber, f.RoundedNumbers)
			break
		}
	}
	found.expect(len(read.executions()) == len(turns), "a tool was run %d times for %d calls", len(read.executions()), len(turns))
	found.expect(len(s.detections()) == 0, "there were detections: %v", s.detections())
	found.expect(s.store.records(func(policy.Record) bool { return true }) > 0, "the guard never saw a call")
	found.expect(s.store.records(isOpen) == 0, "calls were left without outcome")
	return nil
}

// checkObserve: a guard that only observes changes nothing and refuses nothing.
func checkObserve(f Framework, found *findings) error {
	const n = 35
	play := func(c policy.Config) (*stub, performance, *stage, error) {
		exec := stuck()
		s, err := newStage(f, c, []*stub{exec})
		if err != nil {
			return nil, performance{}, nil, err
		}
		return exec, s.play(context.Background(), repeated(n, exec.name, `{"command":"cat report"}`)...), s, nil
	}
	_, without, _, err := play(off())
	if err != nil {
		return err
	}
	observe := policy.Default()
	observe.Mode = policy.Observe
	exec, with, s, err := play(observe)
	if err != nil {
		return err
	}
	found.play(without, n)
	found.play(with, n)
	found.expect(len(exec.executions()) == n, "the tool was run %d times for %d calls", len(exec.executions()), n)
	found.expect(reflect.DeepEqual(with.read, without.read), "the model did not read what it reads without a guard")
	found.expect(len(s.detections()) > 0, "nothing was detected")
	return nil
}

// play adds what is wrong with a run that had to come to its end.
func (f *findings) play(p performance, turns int) {
	f.faults = append(f.faults, p.faults...)
	f.expect(p.err == nil, "the run ended with: %w", p.err)
	f.expect(p.turns == turns && len(p.read) == turns, "the model made %d turns and read the results of %d, of %d", p.turns, len(p.read), turns)
}
