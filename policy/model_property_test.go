package policy_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// ---------------------------------------------------------------------------------------------------------------------
// What happens to a run, as data: a script is independent of what is decided, so one script can be played under several
// policies, on several states and to the model.

type opKind string

const (
	opDo      opKind = "do"      // begin a call and, if it runs, end it at once
	opBegin   opKind = "begin"   // begin a call and leave it open
	opEnd     opKind = "end"     // end one of the open calls
	opCancel  opKind = "cancel"  // cancel one of the open calls
	opCompact opKind = "compact" // a compaction
	opForget  opKind = "forget"  // forget the run; its open calls stay and their outcomes come late
	opRenew   opKind = "renew"   // forget the run if it was stopped
	opCopy    opKind = "copy"    // go on with a copy of the state and spoil the original
	opStore   opKind = "store"   // go on with what the binary form of the state says
)

type op struct {
	kind    opKind
	call    modelCall
	outcome modelOutcome
	which   int // of the open calls
}

func (o op) String() string {
	switch o.kind {
	case opDo:
		return fmt.Sprintf("do %s -> %s", o.call.signature, o.outcome.digest)
	case opBegin:
		return "begin " + o.call.signature
	case opEnd:
		return fmt.Sprintf("end #%d -> %s", o.which, o.outcome.digest)
	case opCancel:
		return fmt.Sprintf("cancel #%d", o.which)
	}
	return string(o.kind)
}

// The alphabet of calls. Signatures are "tool:arguments".
var (
	read1   = modelCall{tool: "read", name: "read", signature: "read:1"}
	read1b  = modelCall{tool: "read", name: " READ", signature: "read:1"} // the same call in another spelling
	read2   = modelCall{tool: "read", name: "read", signature: "read:2"}
	read3   = modelCall{tool: "read", name: "read", signature: "read:3"}
	write1  = modelCall{tool: "write", name: "write", signature: "write:1"}
	build1  = modelCall{tool: "build", name: "Build", signature: "build:1"}
	build2  = modelCall{tool: "build", name: "Build", signature: "build:2"}
	poll1   = modelCall{tool: "process", name: "process", action: "poll", signature: "process:poll:1"}
	log1    = modelCall{tool: "process", name: "process", action: "log", signature: "process:log:1"}
	list1   = modelCall{tool: "process", name: "process", action: "list", signature: "process:list"}
	odd1    = modelCall{tool: "process", name: "process", action: "Poll", signature: "process:Poll"} // no poll
	status1 = modelCall{tool: "command_status", name: "command_status", signature: "command_status:1"}
	job1    = modelCall{tool: "job_wait", name: "job_wait", signature: "job_wait:1"}
	ghost1  = modelCall{tool: "ghost", name: "ghost", signature: "ghost:1", unregistered: true}
	ghost2  = modelCall{tool: "ghost", name: "GHOST", signature: "ghost:2", unregistered: true}
	phantom = modelCall{tool: "phantom", name: "Phantom", signature: "phantom:1", unregistered: true}
	risen   = modelCall{tool: "ghost", name: "ghost", signature: "ghost:1"} // registered by now
	free1   = modelCall{tool: "free", name: "free", signature: "free:1"}    // exempt

	alphabet = []modelCall{read1, read1, read1b, read2, read3, write1, build1, build2, poll1, log1, list1, odd1,
		status1, job1, ghost1, ghost2, phantom, risen, free1}
	unregistered = []modelCall{ghost1, ghost2, phantom, risen}
	polls        = []modelCall{poll1, log1, status1, job1}
)

var (
	same    = modelOutcome{digest: "same"}
	changed = modelOutcome{digest: "changed"}
	broken  = modelOutcome{digest: "broken", failure: true}
	refuted = modelOutcome{digest: "refuted", failure: true}
	unknown = modelOutcome{digest: "unknown", failure: true, unknownTool: true}
)

// outcomeOf is the outcome of a call as section 2.5 has it: every failure of an unregistered call is an unknown-tool
// failure.
func outcomeOf(call modelCall, o modelOutcome) modelOutcome {
	o.unknownTool = o.unknownTool || o.failure && call.unregistered
	return o
}

// scripter writes a run in phases, each a habit of agents: insisting, alternating, going in circles, hopping, failing,
// hunting for tools, waiting, working in parallel, starting anew after a compaction; with noise strewn in.
type scripter struct {
	t   *rapid.T
	ops []op
}

// fresh stands for what was never there before, as an outcome or as the arguments of a call. It becomes a number when
// the script is complete, so that rapid can take phases out of a script that fails.
const fresh = "fresh"

func drawScript(t *rapid.T) []op {
	phases := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) []op {
		s := &scripter{t: t}
		s.phase()
		return s.ops
	}), 1, 30).Draw(t, "phases")
	script := slices.Concat(phases...)
	for i := range script {
		o := &script[i]
		o.outcome.digest = strings.Replace(o.outcome.digest, fresh, fmt.Sprint("new", i), 1)
		o.call.signature = strings.Replace(o.call.signature, fresh, fmt.Sprint("new", i), 1)
	}
	return script
}

func (s *scripter) oneIn(n int) bool { return rapid.IntRange(0, n-1).Draw(s.t, "dice") == n-1 }

func (s *scripter) pick(of []modelCall) modelCall { return rapid.SampledFrom(of).Draw(s.t, "call") }

func (s *scripter) anyOutcome(call modelCall) modelOutcome {
	switch rapid.IntRange(0, 9).Draw(s.t, "outcome") {
	case 4:
		return changed
	case 5, 6:
		return outcomeOf(call, broken)
	case 7:
		return outcomeOf(call, refuted)
	case 8:
		return unknown
	case 9:
		return modelOutcome{digest: fresh}
	}
	return same
}

func (s *scripter) add(o op) { s.ops = append(s.ops, o) }

func (s *scripter) do(call modelCall, o modelOutcome) {
	s.add(op{kind: opDo, call: call, outcome: outcomeOf(call, o)})
}

func (s *scripter) noise() {
	which := func() int { return rapid.IntRange(0, 7).Draw(s.t, "which") }
	switch n := rapid.IntRange(0, 19).Draw(s.t, "noise"); {
	case n < 6:
		call := s.pick(alphabet)
		s.do(call, s.anyOutcome(call))
	case n < 10:
		s.add(op{kind: opBegin, call: s.pick(alphabet)})
	case n < 14:
		// Whether a failure is of an unknown tool is settled when it is played, as only then the call is known.
		s.add(op{kind: opEnd, outcome: s.anyOutcome(modelCall{}), which: which()})
	case n < 15:
		s.add(op{kind: opCancel, which: which()})
	case n < 16:
		s.add(op{kind: opCompact})
	case n < 17:
		s.add(op{kind: opForget})
	case n < 18:
		s.add(op{kind: opCopy})
	case n < 19:
		s.add(op{kind: opStore})
	default:
		s.add(op{kind: opRenew})
	}
}

func (s *scripter) phase() {
	of := alphabet
	var calls []modelCall // that the phase goes through again and again
	steady := same        // what they answer
	period := 1
	switch rapid.IntRange(0, 11).Draw(s.t, "habit") {
	case 0, 1: // insisting
	case 2, 3: // alternating
		period = 2
	case 4: // going in circles
		period = rapid.IntRange(3, 5).Draw(s.t, "period")
	case 5: // hunting for tools
		of, period, steady = unregistered, rapid.IntRange(1, 3).Draw(s.t, "period"), unknown
	case 6: // failing, whatever the arguments
		for range rapid.IntRange(1, 3).Draw(s.t, "period") {
			call := s.pick([]modelCall{read1, read1b, build1})
			call.signature = call.tool + ":" + fresh
			calls = append(calls, call)
		}
		period, steady = 0, broken
	case 7: // in parallel
		s.parallel()
		return
	case 8: // anew after a compaction
		s.add(op{kind: opCompact})
	case 9: // a new answer each time
		steady = modelOutcome{digest: fresh}
		period = rapid.IntRange(1, 2).Draw(s.t, "period")
	case 10, 11: // waiting
		of, period = polls, rapid.IntRange(1, 2).Draw(s.t, "period")
	}
	for range period {
		calls = append(calls, s.pick(of))
	}
	noisy := rapid.SampledFrom([]int{0, 12, 4}).Draw(s.t, "noisy") // one in so many steps, or none
	hops := s.oneIn(5)
	for i := range rapid.IntRange(1, 24).Draw(s.t, "steps") {
		if noisy > 0 && s.oneIn(noisy) {
			s.noise()
		}
		call := calls[i%len(calls)]
		if hops {
			call = s.pick(calls)
		}
		if noisy > 0 && s.oneIn(noisy) {
			s.do(call, s.anyOutcome(call))
		} else {
			s.do(call, steady)
		}
		if i%8 == 7 && s.oneIn(2) {
			s.add(op{kind: opRenew})
		}
	}
	if s.oneIn(2) {
		s.add(op{kind: opRenew})
	}
}

func (s *scripter) parallel() {
	calls := []modelCall{s.pick(alphabet), s.pick(alphabet)}
	if s.oneIn(2) {
		s.add(op{kind: opCompact})
	}
	for range rapid.IntRange(1, 4).Draw(s.t, "rounds") {
		n := rapid.IntRange(1, 6).Draw(s.t, "width")
		for range n {
			s.add(op{kind: opBegin, call: s.pick(calls)})
		}
		for range n {
			if s.oneIn(8) {
				s.noise()
			}
			o := same
			if s.oneIn(6) {
				o = s.anyOutcome(modelCall{})
			}
			s.add(op{kind: opEnd, outcome: o, which: rapid.IntRange(0, 7).Draw(s.t, "which")})
		}
	}
}

// ---------------------------------------------------------------------------------------------------------------------
// Configurations.

// drawConfig draws one configuration twice: as the policy takes it and as the model does, with everything resolved.
func drawConfig(t *rapid.T) (policy.Config, modelConfig) {
	threshold := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
	written := modelThresholds{threshold("W", 6), threshold("C", 6), threshold("B", 6)}
	if rapid.Bool().Draw(t, "late breaker") { // else the breaker leaves nothing to the other detectors
		written.breaker = 12
	}
	c := policy.Config{
		HistorySize:                   rapid.SampledFrom([]int{1, 2, 3, 4, 6, 8, 12, 16, 30, 0}).Draw(t, "history"),
		WarningThreshold:              written.warning,
		CriticalThreshold:             written.critical,
		GlobalCircuitBreakerThreshold: written.breaker,
		UnknownToolThreshold:          threshold("unknown", 6),
		PostCompactionGuard: policy.PostCompactionGuard{
			WindowSize: rapid.SampledFrom([]int{0, 2, 3, 5}).Draw(t, "window"),
		},
		Tools: map[string]policy.ToolRule{"free": {Exempt: new(true)}},
	}
	m := modelConfig{
		historySize: c.HistorySize,
		thresholds:  written.raised(),
		unknownTool: c.UnknownToolThreshold,
		windowSize:  c.PostCompactionGuard.WindowSize,
		rules:       map[string]modelRule{"free": {exempt: true}},
	}
	if m.historySize == 0 {
		m.historySize = 30
	}
	if m.windowSize == 0 {
		m.windowSize = 3
	}
	switch rapid.IntRange(0, 15).Draw(t, "enabled") {
	case 14:
		c.Enabled = new(false)
	case 15: // unset
	default:
		c.Enabled = new(true)
	}
	m.enabled = c.Enabled
	if rapid.IntRange(0, 2).Draw(t, "mode") == 2 {
		c.Mode, m.observe = policy.Observe, true
	}
	for _, d := range []struct {
		name   string
		toggle **bool
	}{
		{"known_poll_no_progress", &c.Detectors.KnownPollNoProgress}, {"ping_pong", &c.Detectors.PingPong},
		{"generic_repeat", &c.Detectors.GenericRepeat}, {"error_streak", &c.Detectors.ErrorStreak},
		{"stagnation", &c.Detectors.Stagnation},
	} {
		switch rapid.IntRange(0, 5).Draw(t, d.name) {
		case 4:
			*d.toggle = new(true)
		case 5:
			*d.toggle = new(false)
			m.off = append(m.off, d.name)
		}
	}
	for _, tool := range []string{"read", "build", "process", "command_status", "job_wait", "ghost"} {
		var rule policy.ToolRule
		var resolved modelRule
		if rapid.IntRange(0, 4).Draw(t, tool+" has thresholds") == 4 {
			own := written
			for _, x := range []struct{ own, rule *int }{
				{&own.warning, &rule.WarningThreshold}, {&own.critical, &rule.CriticalThreshold},
				{&own.breaker, &rule.GlobalCircuitBreakerThreshold},
			} {
				if rapid.Bool().Draw(t, "own") {
					*x.own = threshold("threshold", 9)
					*x.rule = *x.own
				}
			}
			resolved.thresholds = new(own.raised())
		}
		if rapid.IntRange(0, 9).Draw(t, tool+" is declared") == 9 || tool == "job_wait" && !m.observe {
			rule.Poll = new(tool == "job_wait" || rapid.Bool().Draw(t, "poll"))
			resolved.poll = rule.Poll
		}
		m.rules[tool] = resolved
		if tool == "job_wait" {
			tool = "job_*"
		}
		c.Tools[tool] = rule
	}
	return c, m
}

func newPolicy(t require.TestingT, c policy.Config) *policy.Policy {
	p, _, err := policy.New(c)
	require.NoError(t, err)
	return p
}

// ---------------------------------------------------------------------------------------------------------------------
// Playing a script.

func digest(word string) canonical.Digest {
	sum := sha256.Sum256([]byte(word))
	return canonical.Digest(sum[:16])
}

func callOf(id uint64, c modelCall) policy.Call {
	return policy.Call{
		ID: id, Tool: c.tool, Name: c.name, Action: c.action, Signature: digest(c.signature),
		Unregistered: c.unregistered,
	}
}

func policyOutcome(o modelOutcome) canonical.Outcome {
	return canonical.Outcome{Digest: digest(o.digest), Failure: o.failure, UnknownTool: o.unknownTool}
}

// player plays scripts on one state.
type player struct {
	policy *policy.Policy
	state  *policy.State
	spare  *policy.State
	open   []openCall
	ids    uint64
}

type openCall struct {
	call   modelCall
	ticket policy.Ticket
	record *modelRecord // of the model, if it plays along
}

func newPlayer(p *policy.Policy) *player {
	return &player{policy: p, state: new(policy.State), spare: new(policy.State)}
}

// id gives numbers as a host would: far apart, in no order, never twice.
func (p *player) id() uint64 {
	p.ids++
	return p.ids * 0x9e3779b97f4a7c15
}

func (p *player) begin(c modelCall) (policy.Verdict, policy.Ticket) {
	return p.policy.Begin(p.state, callOf(p.id(), c))
}

// take removes one of the open calls.
func (p *player) take(which int) (openCall, bool) {
	if len(p.open) == 0 {
		return openCall{}, false
	}
	i := which % len(p.open)
	taken := p.open[i]
	p.open = slices.Delete(p.open, i, i+1)
	return taken, true
}

// copy goes on with a copy of the state, in memory that another state used before, and spoils the original.
func (p *player) copy() {
	p.spare.CopyFrom(p.state)
	p.state, p.spare = p.spare, p.state
	for range 3 {
		_, ticket := p.policy.Begin(p.spare, callOf(p.id(), modelCall{tool: "spoil", signature: "spoil:1"}))
		p.policy.End(p.spare, ticket, policyOutcome(changed))
	}
	p.policy.Compacted(p.spare, p.id())
	p.policy.Stop(p.spare, policy.Verdict{Action: policy.Abort, Detector: "spoiled", Enforced: true})
}

// store takes the state to its binary form and back, as a store outside the process does.
func (p *player) store() {
	data, err := p.state.MarshalBinary()
	if err != nil {
		panic(err)
	}
	p.state = new(policy.State)
	if err := p.state.UnmarshalBinary(data); err != nil {
		panic(err)
	}
}

// play plays one step and returns the verdicts that it brought.
func (p *player) play(o op) (verdicts []policy.Verdict) {
	switch o.kind {
	case opDo, opBegin:
		v, ticket := p.begin(o.call)
		verdicts = append(verdicts, v)
		if v.Refused() {
			return verdicts
		}
		if o.kind == opDo {
			return append(verdicts, p.policy.End(p.state, ticket, policyOutcome(o.outcome)))
		}
		p.open = append(p.open, openCall{call: o.call, ticket: ticket})
	case opEnd:
		if taken, ok := p.take(o.which); ok {
			verdicts = append(verdicts, p.policy.End(p.state, taken.ticket, policyOutcome(outcomeOf(taken.call, o.outcome))))
		}
	case opCancel:
		if taken, ok := p.take(o.which); ok {
			p.policy.Cancel(p.state, taken.ticket)
		}
	case opCompact:
		p.policy.Compacted(p.state, p.id())
	case opForget:
		p.state = new(policy.State)
	case opRenew:
		if _, stopped := p.state.Stopped(); stopped {
			p.state = new(policy.State)
		}
	case opCopy:
		p.copy()
	case opStore:
		p.store()
	}
	return verdicts
}

// ---------------------------------------------------------------------------------------------------------------------
// The policy and the model, side by side.

type sideBySide struct {
	*player
	t      *rapid.T
	config policy.Config
	model  *modelRun
	trace  []string
	hits   map[string]int
}

// fatalf ends the test. What rapid compares to make the case smaller is the last message, so that it is always the same.
func (b *sideBySide) fatalf(format string, args ...any) {
	b.t.Helper()
	config, _ := json.Marshal(b.config)
	b.t.Logf("%s\nconfiguration: %s\nscript:\n  %s", fmt.Sprintf(format, args...), config,
		strings.Join(b.trace, "\n  "))
	b.t.Fatal("the policy and the model differ")
}

func asModel(v policy.Verdict) modelVerdict {
	return modelVerdict{
		action: modelAction(v.Action.String()), detector: v.Detector, count: v.Count, threshold: v.Threshold,
		pairedTool: v.PairedTool, enforced: v.Enforced && v.Action != policy.Allow,
	}
}

func (b *sideBySide) agree(got policy.Verdict, want modelVerdict) {
	if asModel(got) != want {
		b.fatalf("policy says %+v\n model says %+v", asModel(got), want)
	}
	mode := "enforce"
	if b.model.config.observe {
		mode = "observe"
	}
	b.hits["steps"]++
	b.hits[fmt.Sprintf("%-25s %-5s %s", want.detector, want.action, mode)]++
	if want.action == modelAllow {
		return
	}
	if got.Reason == "" || got.Advice() == "" {
		b.fatalf("no reason or no advice: %+v", got)
	}
}

// sameHistory compares what can be seen of the histories, which is more than verdicts tell.
func (b *sideBySide) sameHistory() {
	if b.policy.Off() {
		return // nothing depends on the history, so nothing is said of it
	}
	var want []policy.Record
	for _, r := range b.model.history {
		record := policy.Record{Tool: r.call.name, Signature: digest(r.call.signature), Detector: r.refusedBy}
		switch r.status {
		case modelDone:
			record.Status, record.Outcome, record.Failure = policy.Done, digest(r.outcome.digest), r.outcome.failure
		case modelRefused:
			record.Status = policy.Refused
		}
		if r.reportedKey != "" {
			record.Detector, _, _ = strings.Cut(r.reportedKey, " ")
		}
		want = append(want, record)
	}
	got := b.state.Last(1000)
	if !slices.Equal(got, want) {
		b.fatalf("histories differ:\npolicy %+v\n model %+v", got, want)
	}
	stopped, is := b.state.Stopped()
	if is != (b.model.stopped != nil) || is && asModel(stopped) != *b.model.stopped {
		b.fatalf("policy stopped: %v %+v, model: %+v", is, stopped, b.model.stopped)
	}
}

func (b *sideBySide) step(o op) {
	b.trace = append(b.trace, o.String())
	trimmed := len(b.model.history)
	switch o.kind {
	case opDo, opBegin:
		got, ticket := b.begin(o.call)
		want, record := b.model.begin(o.call)
		b.agree(got, want)
		if trimmed == len(b.model.history) {
			b.hits["begun with a full history, or without trace"]++
		}
		switch {
		case record == nil && ticket != (policy.Ticket{}):
			b.fatalf("a ticket for a call that is not recorded")
		case record == nil:
			// Ending a call that is refused or exempt does nothing.
			b.agree(b.policy.End(b.state, ticket, policyOutcome(o.outcome)), modelVerdict{action: modelAllow})
		case o.kind == opDo:
			b.agree(b.policy.End(b.state, ticket, policyOutcome(o.outcome)), b.model.end(record, o.outcome))
		default:
			b.open = append(b.open, openCall{o.call, ticket, record})
		}
	case opEnd:
		taken, ok := b.take(o.which)
		if !ok {
			return
		}
		if wants := b.model.wants(taken.record); b.state.Awaits(taken.ticket) != wants {
			b.fatalf("policy awaits the outcome of %s: %v, model: %v", taken.call.signature, !wants, wants)
		}
		outcome := outcomeOf(taken.call, o.outcome)
		want := modelVerdict{action: modelAllow}
		if !b.model.holds(taken.record) {
			b.hits["ended after it was trimmed or forgotten"]++
		}
		if taken.record != nil {
			want = b.model.end(taken.record, outcome)
		}
		b.agree(b.policy.End(b.state, taken.ticket, policyOutcome(outcome)), want)
	case opCancel:
		if taken, ok := b.take(o.which); ok {
			b.policy.Cancel(b.state, taken.ticket)
			b.model.cancel(taken.record)
		}
	case opCompact:
		b.policy.Compacted(b.state, b.id())
		b.model.compacted()
	case opForget, opRenew:
		if o.kind == opRenew && b.model.stopped == nil {
			return
		}
		b.state = new(policy.State)
		b.hits["warnings not repeated"] += b.model.dropped
		b.model = &modelRun{config: b.model.config}
		// The outcomes of calls in flight come to a run that does not know them.
		for i := range b.open {
			b.open[i].record = nil
		}
	case opCopy:
		b.copy()
	case opStore:
		b.store()
	}
	b.sameHistory()
}

// TestPolicyIsTheModel also where the state comes from a store at every step.
func TestPolicyIsTheModel(t *testing.T) {
	hits := map[string]int{}
	for i := range 4 {
		rapid.Check(t, func(t *rapid.T) {
			c, m := drawConfig(t)
			b := &sideBySide{player: newPlayer(newPolicy(t, c)), t: t, config: c, model: &modelRun{config: m}, hits: hits}
			for _, o := range drawScript(t) {
				b.step(o)
				if i%2 == 1 {
					b.step(op{kind: opStore})
				}
			}
			hits["warnings not repeated"] += b.model.dropped
		})
	}

	// A generator that never gets there proves nothing: every finding that there is must have been hit often. At a
	// million steps (-rapid.checks=2000) the rarest come some hundred times.
	for _, k := range slices.Sorted(maps.Keys(hits)) {
		t.Logf("%8d  %s", hits[k], k)
	}
	if hits["steps"] < 20_000 {
		return // -rapid.checks was made small
	}
	for _, finding := range []string{
		"unknown_tool_repeat       block", "global_circuit_breaker    abort",
		"known_poll_no_progress    warn ", "known_poll_no_progress    block",
		"ping_pong                 warn ", "ping_pong                 block",
		"generic_repeat            warn ", "generic_repeat            block",
		"error_streak              warn ", "error_streak              block",
		"stagnation                warn ", "stagnation                block",
		"compaction_loop_persisted abort",
	} {
		for _, mode := range []string{"enforce", "observe"} {
			often := hits["steps"] / 10_000
			assert.Greater(t, hits[finding+" "+mode], often, "%s %s is hit too seldom", finding, mode)
		}
	}
}
