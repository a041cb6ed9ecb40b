package policy

import (
	"cmp"
	"slices"

	"github.com/loopguard-go/loopguard/canonical"
)

// Policy judges calls by one configuration. It does not change after [New] and is safe for concurrent use; the states it
// works on are not.
type Policy struct {
	enabled  bool // the detectors judge
	guarding bool // the guard after compaction works
	enforced bool
	size     int // of the history
	unknown  int // the threshold of unknown_tool_repeat
	window   int // the size of the window after a compaction
	on       [len(detectors)]bool
	rules    ruleset
}

// New makes a policy of a configuration. It returns what the author of the configuration will want to know, and an error
// of type [*ConfigError], or several of them joined, if the configuration is not valid. The lists and pointers in c must not
// be changed afterwards.
func New(c Config) (*Policy, []Notice, error) {
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	c = c.normalized()
	rules, notices := newRuleset(c)
	on := func(b *bool) bool { return b == nil || *b }
	p := &Policy{
		enabled:  c.Enabled != nil && *c.Enabled,
		guarding: on(c.Enabled),
		enforced: c.Mode != Observe,
		size:     cmp.Or(c.HistorySize, DefaultHistorySize),
		unknown:  cmp.Or(c.UnknownToolThreshold, DefaultUnknownToolThreshold),
		window:   cmp.Or(c.PostCompactionGuard.WindowSize, DefaultWindowSize),
		rules:    rules,
	}
	for i := range detectors {
		p.on[i] = detectors[i].enabled == nil || on(detectors[i].enabled(&c.Detectors))
	}
	return p, notices, nil
}

// Off reports whether the configuration switches everything off, so that nothing will ever be found.
func (p *Policy) Off() bool { return !p.enabled && !p.guarding }

// Thresholds are the counts from which a policy acts.
type Thresholds struct{ Warning, Critical, Breaker, UnknownTool int }

// Thresholds returns the thresholds for tools that have none of their own, raised into order, and whether the detectors
// judge at all.
func (p *Policy) Thresholds() (t Thresholds, judging bool) {
	l := p.rules.rest.limits
	return Thresholds{Warning: l.warning, Critical: l.critical, Breaker: l.breaker, UnknownTool: p.unknown}, p.enabled
}

// ToolRule returns the rules for a tool by its folded name ([canonical.FoldTool]), all that match laid over each other.
// Thresholds in it are as they were written.
func (p *Policy) ToolRule(tool string) ToolRule { return p.rules.forTool(tool).ToolRule }

// Exempt reports whether a tool, by its folded name, is never judged.
func (p *Policy) Exempt(tool string) bool {
	exempt := p.ToolRule(tool).Exempt
	return exempt != nil && *exempt
}

// Call is a call to be judged.
type Call struct {
	// ID is a number by which the outcome finds the call. The caller chooses it, unlike any other in the run: at random,
	// where several processes work on one run.
	ID uint64
	// Tool is the folded name of the tool and Name the one that the model wrote.
	Tool, Name string
	// Action is the argument "action", if the call has one.
	Action string
	// Signature is the digest of tool and arguments.
	Signature canonical.Digest
	// Unregistered says that the host knows no tool of this name.
	Unregistered bool
}

// Ticket stands for a call that was let through, until its outcome is there. It is ended or cancelled, once. The zero Ticket
// stands for a call that was not let through: ending it does nothing.
type Ticket struct {
	id        uint64
	signature canonical.Digest
	window    uint64
	valid     bool
}

// Begin judges a call and adds it to the history. If the verdict refuses the call, the ticket is zero.
func (p *Policy) Begin(s *State, c Call) (Verdict, Ticket) {
	rule := p.rules.forTool(c.Tool)
	if rule.Exempt != nil && *rule.Exempt {
		return Verdict{Enforced: p.enforced}, Ticket{}
	}
	if s.stopped != nil && p.enforced {
		return *s.stopped, Ticket{}
	}
	c.Tool, c.Name = canonical.Bound(c.Tool), canonical.Bound(c.Name)
	r := record{id: c.ID, signature: c.Signature, poll: isPoll(c, rule.Poll)}
	v := Verdict{Enforced: p.enforced}
	if p.enabled {
		found := p.judge(s, c, r.poll, rule.limits)
		v = found.verdict(p.enforced)
		switch {
		case v.Refused():
			r.status, r.refusedBy = Refused, found.by
		case v.Action == Warn:
			r.warnedBy, r.warnedAt, r.warnedOf = found.by, int32(found.count/found.threshold), found.pairedWith
		}
	}
	s.append(r, c, p.size)
	if !v.Refused() {
		return v, Ticket{id: c.ID, signature: c.Signature, window: s.window.id, valid: true}
	}
	if v.Action == Abort {
		s.stop(v)
	}
	return v, Ticket{}
}

// judge asks every detector and returns the highest finding, the first of those of one level. A warning that was given
// already becomes no finding.
func (p *Policy) judge(s *State, c Call, poll bool, limits limits) finding {
	v := look(s, c, poll, limits, p.unknown)
	var highest finding
	for id := unknownToolID; id <= stagnationID; id++ {
		if !p.on[id] {
			continue
		}
		if found := detectors[id].judge(v); found.action > highest.action {
			highest = found
			highest.by = id
		}
	}
	if highest.action == Warn && v.warned(highest) {
		return finding{}
	}
	return highest
}

// End adds the outcome of a call to the history. The verdict is [Abort] if this outcome stops the run, which only the
// guard after compaction does, and else [Allow].
func (p *Policy) End(s *State, t Ticket, o canonical.Outcome) Verdict {
	v := Verdict{Enforced: p.enforced}
	if !t.valid {
		return v
	}
	if i := s.find(t.id); i >= 0 {
		r := &s.records[i]
		if r.status != Open { // it has its outcome
			return v
		}
		r.repeat = s.holds(r.signature, o.Digest)
		r.status, r.outcome, r.failure, r.unknown = Done, o.Digest, o.Failure, o.UnknownTool
	}
	if s.stopped == nil && s.window.fill(t, o.Digest, p.window) {
		v = finding{action: Abort, by: compactionID, count: p.window, threshold: p.window}.verdict(p.enforced)
		if p.enforced {
			s.stop(v)
		}
	}
	return v
}

// holds reports whether the history holds a done record with a signature and an outcome.
func (s *State) holds(signature, outcome canonical.Digest) bool {
	for i := range s.records {
		if r := &s.records[i]; r.status == Done && r.signature == signature && r.outcome == outcome {
			return true
		}
	}
	return false
}

// Cancel takes a call out of the history that left no outcome, because its caller gave it up.
func (p *Policy) Cancel(s *State, t Ticket) {
	if !t.valid {
		return
	}
	if i := s.find(t.id); i >= 0 && s.records[i].status == Open {
		s.records = slices.Delete(s.records, i, i+1)
	}
}

// Compacted arms the guard after compaction: the context of the run was compacted and the agent goes on with what is
// left. The caller chooses an id, unlike that of any other compaction of the run and not 0.
func (p *Policy) Compacted(s *State, id uint64) {
	if p.guarding && s.stopped == nil {
		s.window = window{id: id, armed: true}
	}
}

// Stop stops a run with the verdict that was already given for it, where the state that it was given on is lost.
func (p *Policy) Stop(s *State, v Verdict) {
	if s.stopped == nil {
		s.stop(v)
	}
}

// isPoll reports whether a call waits for something by asking again: if a rule says so, else by its name.
func isPoll(c Call, byRule *bool) bool {
	if byRule != nil {
		return *byRule
	}
	switch c.Tool {
	case "command_status":
		return true
	case "process":
		return c.Action == "poll" || c.Action == "log"
	}
	return false
}
