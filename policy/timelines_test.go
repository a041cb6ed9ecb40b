package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/policy"
)

// The timelines of section 4 and the guard of section 5, as they are written there.

// said is one verdict that is not allow, as "number of the call: action detector count/threshold".
func said(n int, v policy.Verdict) string {
	return fmt.Sprintf("%d: %s %s %d/%d", n, v.Action, v.Detector, v.Count, v.Threshold)
}

// timeline makes calls one after the other, each with its outcome if it runs, and returns all that was said.
func timeline(p *policy.Policy, calls int, step func(n int) (modelCall, modelOutcome)) []string {
	player := newPlayer(p)
	var heard []string
	for n := 1; n <= calls; n++ {
		call, outcome := step(n)
		for _, v := range player.play(op{kind: opDo, call: call, outcome: outcome}) {
			if v.Action != policy.Allow {
				heard = append(heard, said(n, v))
			}
		}
	}
	return heard
}

// sayings is one saying for each call from first to last.
func sayings(first, last int, saying func(n int) string) []string {
	var lines []string
	for n := first; n <= last; n++ {
		lines = append(lines, fmt.Sprintf("%d: %s", n, saying(n)))
	}
	return lines
}

func lines(of ...[]string) []string {
	var all []string
	for _, l := range of {
		all = append(all, l...)
	}
	return all
}

func TestTimelines(t *testing.T) {
	stopped := func(int) string { return "abort global_circuit_breaker 30/30" }

	t.Run("the same call with the same answer", func(t *testing.T) {
		assert.Equal(t, lines(
			[]string{"11: warn generic_repeat 10/10"},
			sayings(21, 30, func(n int) string { return fmt.Sprintf("block generic_repeat %d/20", n-1) }),
			sayings(31, 33, stopped),
		), timeline(newPolicy(t, policy.Default()), 33, func(int) (modelCall, modelOutcome) { return read1, same }))
	})

	t.Run("a strict alternation", func(t *testing.T) {
		// From the 32nd call on the history holds no more of it than thirty records.
		assert.Equal(t, lines(
			[]string{"10: warn ping_pong 10/10"},
			sayings(20, 32, func(n int) string { return fmt.Sprintf("block ping_pong %d/20", min(n, 31)) }),
			sayings(33, 35, stopped),
		), timeline(newPolicy(t, policy.Default()), 35, func(n int) (modelCall, modelOutcome) {
			return []modelCall{read1, write1}[n%2], same
		}))
	})

	t.Run("a cycle of three", func(t *testing.T) {
		assert.Equal(t, lines(
			[]string{"14: warn stagnation 10/10"},
			sayings(24, 33, func(n int) string { return fmt.Sprintf("block stagnation %d/20", n-4) }),
			sayings(34, 36, stopped),
		), timeline(newPolicy(t, policy.Default()), 36, func(n int) (modelCall, modelOutcome) {
			return []modelCall{read1, write1, build1}[n%3], same
		}))
	})

	t.Run("a call whose answer changes each time", func(t *testing.T) {
		// The warning at the 31st call is the 31st record. It has left the history of thirty when the 62nd begins.
		assert.Equal(t, []string{
			"11: warn generic_repeat 10/10", "21: warn generic_repeat 20/10", "31: warn generic_repeat 30/10",
			"62: warn generic_repeat 30/10", "93: warn generic_repeat 30/10",
		}, timeline(newPolicy(t, policy.Default()), 100, func(n int) (modelCall, modelOutcome) {
			return read1, modelOutcome{digest: fmt.Sprint(n)}
		}))
	})

	t.Run("a poll with the same answer", func(t *testing.T) {
		assert.Equal(t, lines(
			[]string{"11: warn known_poll_no_progress 10/10"},
			sayings(21, 30, func(n int) string { return fmt.Sprintf("block known_poll_no_progress %d/20", n-1) }),
			sayings(31, 33, stopped),
		), timeline(newPolicy(t, policy.Default()), 33, func(int) (modelCall, modelOutcome) { return poll1, same }))
	})

	t.Run("a tool that always fails in the same way", func(t *testing.T) {
		// No call is known, so nothing is stale and nothing stops the run: the refusals go on.
		assert.Equal(t, lines(
			[]string{"11: warn error_streak 10/10"},
			sayings(21, 40, func(n int) string { return fmt.Sprintf("block error_streak %d/20", min(n-1, 30)) }),
		), timeline(newPolicy(t, policy.Default()), 40, func(n int) (modelCall, modelOutcome) {
			return modelCall{tool: "read", name: "read", signature: fmt.Sprint(n)}, broken
		}))
	})

	t.Run("a hunt for a tool that is not there", func(t *testing.T) {
		assert.Equal(t, sayings(11, 50, func(n int) string {
			return fmt.Sprintf("block unknown_tool_repeat %d/10", min(n-1, 30))
		}), timeline(newPolicy(t, policy.Default()), 50, func(n int) (modelCall, modelOutcome) {
			name := fmt.Sprint("edit", n)
			return modelCall{tool: name, name: name, signature: name, unregistered: true}, unknown
		}))
	})

	t.Run("refusals of a missing tool for another reason are skipped", func(t *testing.T) {
		c := policy.Config{Enabled: new(true), UnknownToolThreshold: 4, WarningThreshold: 1, CriticalThreshold: 2,
			Detectors: policy.Detectors{Stagnation: new(false)}}
		missing := []modelCall{
			{tool: "weather", name: "weather", signature: "1"}, {tool: "weather", name: "weather", signature: "2"},
		}
		assert.Equal(t, []string{
			"2: warn generic_repeat 1/1", "3: block generic_repeat 2/2",
			"5: warn generic_repeat 1/1", "6: block unknown_tool_repeat 4/4",
		}, timeline(newPolicy(t, c), 6, func(n int) (modelCall, modelOutcome) { return missing[(n-1)/3], unknown }))
	})

	t.Run("observe says the same and refuses nothing", func(t *testing.T) {
		c := policy.Default()
		c.Mode = policy.Observe
		assert.Equal(t, lines(
			[]string{"11: warn generic_repeat 10/10"},
			sayings(21, 30, func(n int) string { return fmt.Sprintf("block generic_repeat %d/20", n-1) }),
			sayings(31, 40, stopped), // "the breaker reports at every call"
		), timeline(newPolicy(t, c), 40, func(int) (modelCall, modelOutcome) { return read1, same }))
	})
}

// A refusal by ping_pong is of a call that continues the alternation. The very same call once more does not continue
// it, so it is let through until another detector has counted enough of it.
func TestRefusedAlternationThenTheSameSideAgain(t *testing.T) {
	heard := timeline(newPolicy(t, policy.Default()), 22, func(n int) (modelCall, modelOutcome) {
		return []modelCall{read1, write1}[min(n, 20)%2], same
	})
	assert.Equal(t, []string{
		"10: warn ping_pong 10/10", "20: block ping_pong 20/20",
		"21: warn generic_repeat 10/10", // nine answers and a refusal of this side, ten records
	}, heard)
}

// guarded is a run on which only the guard after compaction may speak.
func guarded(t *testing.T, c policy.Config) *player { return newPlayer(newPolicy(t, c)) }

// hear plays steps and returns all that was said, numbered by step.
func hear(p *player, ops ...op) []string {
	var heard []string
	for i, o := range ops {
		for _, v := range p.play(o) {
			if v.Action != policy.Allow {
				heard = append(heard, said(i+1, v))
			}
		}
	}
	return heard
}

func do(c modelCall, o modelOutcome) op { return op{kind: opDo, call: c, outcome: o} }

func TestGuardAfterCompaction(t *testing.T) {
	compact := op{kind: opCompact}
	begin := func(c modelCall) op { return op{kind: opBegin, call: c} }
	end := func(o modelOutcome) op { return op{kind: opEnd, outcome: o} } // the oldest open call
	exempting := policy.Config{Tools: map[string]policy.ToolRule{"free": {Exempt: new(true)}}}
	window2 := policy.Config{PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 2}}

	tests := []struct {
		name   string
		config policy.Config
		ops    []op
		want   []string
	}{
		{"not armed", policy.Config{}, []op{do(read1, same), do(read1, same), do(read1, same), do(read1, same)}, nil},
		{"all of one signature and one outcome", policy.Config{},
			[]op{do(read1, same), compact, do(read1, same), do(read1, same), do(read1, same), do(write1, changed)},
			[]string{"5: abort compaction_loop_persisted 3/3", "6: abort compaction_loop_persisted 3/3"}},
		{"with the detectors on", policy.Default(),
			[]op{compact, do(read1, same), do(read1, same), do(read1, same)},
			[]string{"4: abort compaction_loop_persisted 3/3"}},
		{"switched off", policy.Config{Enabled: new(false)},
			[]op{compact, do(read1, same), do(read1, same), do(read1, same), do(read1, same)}, nil},
		{"a window of two", window2, []op{compact, do(read1, same), do(read1, same)},
			[]string{"3: abort compaction_loop_persisted 2/2"}},
		{"failures are outcomes", window2, []op{compact, do(read1, broken), do(read1, broken)},
			[]string{"3: abort compaction_loop_persisted 2/2"}},
		{"a different call stands it down", policy.Config{},
			[]op{compact, do(read1, same), do(read1, same), do(read2, same), do(read1, same), do(read1, same),
				do(read1, same)}, nil},
		{"a different result stands it down", policy.Config{},
			[]op{compact, do(read1, same), do(read1, same), do(read1, changed), do(read1, changed),
				do(read1, changed)}, nil},
		{"until the next compaction", policy.Config{},
			[]op{compact, do(read1, same), do(read2, same), compact, do(read1, same), do(read1, same), do(read1, same)},
			[]string{"7: abort compaction_loop_persisted 3/3"}},
		{"arming again starts a new window", policy.Config{},
			[]op{compact, do(read1, same), do(read1, same), compact, do(read1, same), do(read1, same)}, nil},
		{"a call begun before plays no part", policy.Config{},
			[]op{begin(read1), compact, end(same), do(read1, same), do(read1, same)}, nil},
		{"nor does it break the window", policy.Config{},
			[]op{begin(read2), compact, do(read1, same), do(read1, same), end(changed), do(read1, same)},
			[]string{"6: abort compaction_loop_persisted 3/3"}},
		{"nor one begun before the second compaction", policy.Config{},
			[]op{compact, begin(read1), compact, end(same), do(read1, same), do(read1, same)}, nil},
		{"calls in flight count as their outcomes come", policy.Config{},
			[]op{compact, begin(read1), begin(read2), begin(read1), begin(read1),
				{kind: opEnd, outcome: same, which: 3}, {kind: opEnd, outcome: same, which: 2}, end(same)},
			[]string{"8: abort compaction_loop_persisted 3/3"}},
		{"a cancelled call has no outcome", policy.Config{},
			[]op{compact, do(read1, same), begin(read2), {kind: opCancel}, do(read1, same), do(read1, same)},
			[]string{"6: abort compaction_loop_persisted 3/3"}},
		{"exempt calls neither fill nor break it", exempting,
			[]op{compact, do(read1, same), do(free1, changed), do(read1, same), do(free1, same), do(read1, same)},
			[]string{"6: abort compaction_loop_persisted 3/3"}},
		{"nor is an exempt call ever stopped", exempting,
			[]op{compact, do(free1, same), do(free1, same), do(free1, same), do(read1, same), do(read1, same),
				do(read1, same), do(free1, same), do(read1, same)},
			[]string{"7: abort compaction_loop_persisted 3/3", "9: abort compaction_loop_persisted 3/3"}},
		{"refusals neither fill nor break it",
			policy.Config{Enabled: new(true), UnknownToolThreshold: 1, HistorySize: 40},
			[]op{do(ghost1, unknown), compact, do(read1, same), do(ghost1, unknown), do(ghost2, unknown),
				do(read1, same), do(ghost1, unknown), do(read1, same)},
			[]string{"4: block unknown_tool_repeat 1/1", "5: block unknown_tool_repeat 2/1",
				"7: block unknown_tool_repeat 3/1", "8: abort compaction_loop_persisted 3/3"}},
		{"observe reports once and stands down until the next compaction", policy.Config{Mode: policy.Observe},
			[]op{compact, do(read1, same), do(read1, same), do(read1, same), do(read1, same), do(read1, same),
				do(read1, same), compact, do(read1, same), do(read1, same), do(read1, same)},
			[]string{"4: abort compaction_loop_persisted 3/3", "11: abort compaction_loop_persisted 3/3"}},
		{"a window that is longer than the history",
			policy.Config{HistorySize: 1, PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 4}},
			[]op{compact, begin(read1), begin(read1), begin(read1), begin(read1), end(same), end(same), end(same),
				end(same)},
			[]string{"9: abort compaction_loop_persisted 4/4"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, hear(guarded(t, tt.config), tt.ops...))
		})
	}
}

func TestCompactionOfAStoppedRun(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	for range 31 {
		p.play(do(read1, same))
	}
	stop, stopped := p.state.Stopped()
	require.True(t, stopped)

	p.play(op{kind: opCompact})
	v, ticket := p.begin(write1)
	assert.Equal(t, stop, v, "arming a stopped run does nothing")
	assert.Zero(t, ticket)
}

// A run that the breaker stopped is not stopped again by the outcomes of calls that were in flight.
func TestOutcomesAfterTheStop(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Config{
		Enabled: new(true), WarningThreshold: 1, CriticalThreshold: 2, GlobalCircuitBreakerThreshold: 3,
		PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 3},
	}))
	p.play(op{kind: opCompact})
	p.play(op{kind: opBegin, call: read1})
	for range 2 {
		p.play(do(read1, same))
	}
	require.Equal(t, []string{"1: block generic_repeat 2/2", "2: abort global_circuit_breaker 3/3"},
		hear(p, do(read1, same), do(read1, same)))
	assert.Empty(t, hear(p, op{kind: opEnd, outcome: same}), "the third outcome in the window")
	stop, _ := p.state.Stopped()
	assert.Equal(t, policy.GlobalCircuitBreaker, stop.Detector)
}

// "the detectors keep their history"
func TestCompactionKeepsTheHistory(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	for range 9 {
		p.play(do(read1, same))
	}
	assert.Equal(t, []string{"4: warn generic_repeat 10/10"},
		hear(p, op{kind: opCompact}, do(read1, same), op{kind: opCompact}, do(read1, same)))
}
