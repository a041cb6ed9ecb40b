package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/policy"
)

// Properties of runs that hold whatever the rules are in detail. Scripts and configurations are those of
// TestPolicyIsTheModel.

// requireSame and requireSameList are require.Equal for what is compared at every step, where its reflection would take
// most of the time.
func requireSame[T comparable](t require.TestingT, want, got T, message ...any) {
	if want != got {
		require.Equal(t, want, got, message...)
	}
}

func requireSameList[T comparable](t require.TestingT, want, got []T, message ...any) {
	if !slices.Equal(want, got) {
		require.Equal(t, want, got, message...)
	}
}

// "runs never see, count or evict each other's calls"
func TestRunsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		p := newPolicy(t, c)
		script, other := drawScript(t), drawScript(t)

		var alone [][]policy.Verdict
		one := newPlayer(p)
		for _, o := range script {
			alone = append(alone, one.play(o))
		}

		two, three := newPlayer(p), newPlayer(p)
		for i, o := range script {
			for len(other) > 0 && rapid.Bool().Draw(t, "the other run") {
				three.play(other[0])
				other = other[1:]
			}
			requireSameList(t, alone[i], two.play(o), "step %d, %s", i, o)
		}
	})
}

// Once a call is refused, the very same call is refused, or the run stopped, until something else happens.
//
// The prose makes two exceptions, which are left out here: a refusal by ping_pong (the same side again does not continue
// the alternation, see TestRefusedAlternationThenTheSameSideAgain), and a streak that loses a counted record at the far
// end to the trimming, and with it the refusals that then are no longer "between counted records".
func TestRefusedCallStaysRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		c.Mode = policy.Enforce
		if rapid.Bool().Draw(t, "long history") {
			c.HistorySize = 5000
		}
		p := newPlayer(newPolicy(t, c))
		for i, o := range drawScript(t) {
			verdicts := p.play(o)
			if len(verdicts) == 0 || verdicts[0].Action != policy.Block {
				continue
			}
			switch verdicts[0].Detector {
			case policy.PingPong:
				continue
			case policy.GenericRepeat, policy.KnownPollNoProgress:
				if c.HistorySize != 5000 {
					continue
				}
			}
			for n := range 40 {
				v, _ := p.begin(o.call)
				require.True(t, v.Refused(), "step %d, %s was refused by %s, but after %d more refusals %+v", i, o,
					verdicts[0].Detector, n, v)
			}
		}
	})
}

// "the same verdicts and events": up to the first refusal there is no difference but the mark.
func TestObserveJudgesAsEnforceDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		c.Mode = policy.Enforce
		enforce := newPlayer(newPolicy(t, c))
		c.Mode = policy.Observe
		observe := newPlayer(newPolicy(t, c))

		for i, o := range drawScript(t) {
			enforced, observed := enforce.play(o), observe.play(o)
			for j, want := range enforced {
				if want.Action != policy.Allow {
					require.True(t, want.Enforced)
					require.False(t, observed[j].Enforced)
				}
				refused := want.Refused()
				want.Enforced = observed[j].Enforced
				requireSame(t, want, observed[j], "step %d, %s", i, o)
				if refused {
					return
				}
			}
			_, stopped := observe.state.Stopped()
			require.False(t, stopped, "no run is ever stopped")
		}
	})
}

func TestCopiesAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		p := newPolicy(t, c)
		one, two := newPlayer(p), newPlayer(p)
		for _, o := range drawScript(t) {
			one.play(o)
		}
		for _, o := range drawScript(t) { // what the copy overwrites
			two.play(o)
		}
		if len(one.state.Last(1)) == 0 {
			one.play(do(read1, same))
		}
		two.state.CopyFrom(one.state)
		two.open, two.ids = append([]openCall(nil), one.open...), one.ids
		require.Equal(t, one.state.Last(1000), two.state.Last(1000))

		// Changing one does not change the other …
		third := newPlayer(p)
		third.state.CopyFrom(one.state)
		third.open, third.ids = append([]openCall(nil), one.open...), one.ids+1000
		before := one.state.Last(1000)
		stop, stopped := one.state.Stopped()
		for _, o := range drawScript(t) {
			third.play(o)
		}
		require.Equal(t, before, one.state.Last(1000))
		stopAfter, stoppedAfter := one.state.Stopped()
		require.Equal(t, stopped, stoppedAfter)
		require.Equal(t, stop, stopAfter)

		// … and both go on alike.
		for i, o := range drawScript(t) {
			requireSameList(t, one.play(o), two.play(o), "step %d, %s", i, o)
			requireSameList(t, one.state.Last(1000), two.state.Last(1000))
		}
	})
}

func TestCopyFromItselfAndFromNothing(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	p.play(op{kind: opCompact})
	p.play(do(read1, same))
	p.play(op{kind: opBegin, call: read1})
	before := p.state.Last(10)
	p.state.CopyFrom(p.state)
	assert.Equal(t, before, p.state.Last(10))

	for range 40 {
		p.play(do(read1, same))
	}
	_, stopped := p.state.Stopped()
	require.True(t, stopped)
	p.state.CopyFrom(new(policy.State))
	assert.Empty(t, p.state.Last(10), "a copy of a new run is a new run")
	_, stopped = p.state.Stopped()
	assert.False(t, stopped)
	assert.False(t, p.state.Awaits(p.open[0].ticket))
}

// A store may run a step several times on copies of one state: each time it must come to the same.
func TestBeginIsRepeatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		p := newPlayer(newPolicy(t, c))
		var first, second policy.State
		for i, o := range drawScript(t) {
			if o.kind == opDo || o.kind == opBegin {
				call := callOf(p.id(), o.call)
				first.CopyFrom(p.state)
				second.CopyFrom(p.state)
				v1, t1 := p.policy.Begin(&first, call)
				v2, t2 := p.policy.Begin(&second, call)
				requireSame(t, v1, v2, "step %d, %s", i, o)
				requireSame(t, t1, t2, "step %d, %s", i, o)
				requireSame(t, p.policy.End(&first, t1, policyOutcome(o.outcome)),
					p.policy.End(&second, t2, policyOutcome(o.outcome)), "step %d, %s", i, o)
				requireSameList(t, first.Last(1000), second.Last(1000), "step %d, %s", i, o)
			}
			p.play(o)
		}
	})
}

// leastWarning is the least W that any tool has.
func leastWarning(m modelConfig) int {
	w := m.thresholds.warning
	for _, rule := range m.rules {
		if rule.thresholds != nil {
			w = min(w, rule.thresholds.warning)
		}
	}
	return w
}

// An agent that gets on is left alone. Its failures are all different, since one failure again and again is no progress
// whatever the arguments are; and where W is 1, every failure is one too many.
func TestHealthyRunIsNeverWarned(t *testing.T) {
	tools := []modelCall{read1, write1, build1, poll1, list1, status1, job1, ghost1}

	t.Run("every call is new", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			c, m := drawConfig(t)
			p := newPlayer(newPolicy(t, c))
			for i := range rapid.IntRange(1, 100).Draw(t, "calls") {
				call := rapid.SampledFrom(tools).Draw(t, "call")
				call.signature = fmt.Sprint(i)
				outcome := same
				if leastWarning(m) > 1 && rapid.IntRange(0, 3).Draw(t, "fails") == 3 {
					outcome = modelOutcome{digest: fmt.Sprint(i), failure: true}
				}
				for _, v := range p.play(do(call, outcome)) {
					requireSame(t, policy.Allow, v.Action, "call %d: %+v", i, v)
				}
			}
		})
	})

	// A run of W calls or more may be warned of an alternation, which is counted across both of its calls, even if every
	// answer is new; with that detector off it is each single call that must come less than W times.
	for _, longer := range []bool{false, true} {
		t.Run(fmt.Sprint("every outcome is new, longer runs: ", longer), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c, m := drawConfig(t)
				w := leastWarning(m)
				length := w - 1
				if longer {
					length = 100
					c.Detectors.PingPong = new(false)
				}
				p := newPlayer(newPolicy(t, c))
				times := map[string]int{}
				for i := range length {
					call := rapid.SampledFrom(alphabet).Draw(t, "call")
					if times[call.signature] >= w-1 {
						call.signature = fmt.Sprint(i)
					}
					times[call.signature]++
					for _, v := range p.play(do(call, modelOutcome{digest: fmt.Sprint(i)})) {
						requireSame(t, policy.Allow, v.Action, "call %d: %+v", i, v)
					}
				}
			})
		})
	}
}

func TestStoppedRunStaysStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		p := newPlayer(newPolicy(t, c))
		var stop *policy.Verdict
		for i, o := range drawScript(t) {
			if o.kind == opForget || o.kind == opRenew {
				continue
			}
			verdicts := p.play(o)
			switch {
			case stop == nil:
			case o.kind == opEnd:
				for _, v := range verdicts {
					require.Equal(t, policy.Allow, v.Action, "step %d, %s: an outcome stops no run twice", i, o)
				}
			case o.call.tool == "free":
				require.Equal(t, policy.Allow, verdicts[0].Action, "step %d, %s: an exempt tool passes", i, o)
			case o.kind == opDo || o.kind == opBegin:
				require.Equal(t, []policy.Verdict{*stop}, verdicts, "step %d, %s", i, o)
			}
			if v, stopped := p.state.Stopped(); stopped && stop == nil {
				require.Equal(t, policy.Abort, v.Action)
				require.True(t, v.Refused())
				stop = &v
			} else {
				require.Equal(t, stop != nil, stopped)
			}
		}
	})
}

func TestHistoryIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, m := drawConfig(t)
		p := newPlayer(newPolicy(t, c))
		for i, o := range drawScript(t) {
			p.play(o)
			all := p.state.Last(1000)
			if len(all) > m.historySize {
				t.Fatalf("step %d, %s: %d records in a history of %d", i, o, len(all), m.historySize)
			}
			n := i % (m.historySize + 2)
			requireSameList(t, all[max(0, len(all)-n):], p.state.Last(n), "the newest of the history")
		}
	})
}

// Another policy may take over a run: a new configuration is a new guard on the same store.
func TestShorterHistoryTakesOver(t *testing.T) {
	long, short := policy.Default(), policy.Default()
	long.HistorySize, short.HistorySize = 50, 5
	p := newPlayer(newPolicy(t, long))
	for i := range 50 {
		p.play(do(read1, modelOutcome{digest: fmt.Sprint(i)}))
	}
	require.Len(t, p.state.Last(1000), 50)
	p.policy = newPolicy(t, short)
	for range 3 {
		p.play(do(write1, same))
		assert.Len(t, p.state.Last(1000), 5)
	}
}

// A zero ticket and one whose call is over do nothing.
func TestTicketsThatStandForNothing(t *testing.T) {
	for _, enabled := range []*bool{nil, new(true)} {
		p := newPolicy(t, policy.Config{Enabled: enabled})
		var s policy.State
		for id := range uint64(2) { // also the number 0, which a caller may choose as any other
			v, ticket := p.Begin(&s, callOf(id, read1))
			require.Equal(t, policy.Allow, v.Action)
			require.True(t, s.Awaits(ticket))
			p.End(&s, policy.Ticket{}, policyOutcome(changed))
			p.Cancel(&s, policy.Ticket{})
			require.True(t, s.Awaits(ticket), "id %d: the zero ticket is no call's", id)

			p.End(&s, ticket, policyOutcome(same))
			require.False(t, s.Awaits(ticket))
			done := s.Last(10)
			require.Len(t, done, int(id)+1)
			require.Equal(t, digest("same"), done[id].Outcome)

			p.End(&s, ticket, policyOutcome(changed))
			require.Equal(t, done, s.Last(10), "id %d: an outcome comes once", id)
		}
		_, ticket := p.Begin(&s, callOf(7, read2))
		p.Cancel(&s, ticket)
		require.Len(t, s.Last(10), 2)
		require.False(t, s.Awaits(ticket))
		p.End(&s, ticket, policyOutcome(changed))
		p.Cancel(&s, ticket)
		require.Len(t, s.Last(10), 2)
	}
	require.False(t, new(policy.State).Awaits(policy.Ticket{}))
}

func TestStop(t *testing.T) {
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{"free": {Exempt: new(true)}}
	p := newPlayer(newPolicy(t, c))
	for range 30 {
		p.play(do(read1, same))
	}
	stop, _ := p.begin(read1)
	require.Equal(t, policy.Abort, stop.Action)

	var lost policy.State
	p.policy.Stop(&lost, stop)
	got, stopped := lost.Stopped()
	assert.True(t, stopped)
	assert.Equal(t, stop, got)
	p.policy.Stop(&lost, policy.Verdict{Action: policy.Abort, Detector: policy.CompactionLoopPersisted, Enforced: true})
	v, ticket := p.policy.Begin(&lost, callOf(1, write1))
	assert.Equal(t, stop, v, "what stopped it first")
	assert.Zero(t, ticket)
	v, _ = p.policy.Begin(&lost, callOf(2, free1))
	assert.Equal(t, policy.Allow, v.Action)
}

// "every call runs (…) and no run is ever stopped": also where another policy stopped it before.
func TestObserveLetsAStoppedRunGoOn(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	for range 31 {
		p.play(do(read1, same))
	}
	_, stopped := p.state.Stopped()
	require.True(t, stopped)

	c := policy.Default()
	c.Mode = policy.Observe
	p.policy = newPolicy(t, c)
	v, _ := p.begin(read1)
	assert.Equal(t, policy.GlobalCircuitBreaker, v.Detector)
	assert.False(t, v.Refused())
	v, ticket := p.begin(write1)
	assert.Equal(t, policy.Allow, v.Action)
	assert.True(t, p.state.Awaits(ticket))
}
