package policy_test

// This file is sections 1, 3, 4 and 5 of the specification once more, as slow and as plain as they can be put: one Go
// statement for one sentence, no state but the history itself, everything counted afresh each time. It was written from
// the prose, without a look at the implementation, and shares no type with it. TestPolicyIsTheModel holds the two
// against each other.
//
// "CHOICE" marks every place where the prose leaves more than one reading, with the one taken here.

import "slices"

// Section 1, "Record": open (begun, no outcome yet), done (has an outcome digest), or refused (the guard blocked it).
type modelStatus string

const (
	modelOpen    modelStatus = "open"
	modelDone    modelStatus = "done"
	modelRefused modelStatus = "refused"
)

// Section 1, "Call". Signatures are words here; that two calls have one word is what section 2 decides.
type modelCall struct {
	tool         string // folded
	name         string // as given
	action       string // the argument "action"
	signature    string
	unregistered bool // the host says that the name is not registered
}

// Section 1, "Outcome".
type modelOutcome struct {
	digest      string
	failure     bool
	unknownTool bool // an unknown-tool failure (2.5)
}

type modelRecord struct {
	call    modelCall
	poll    bool
	status  modelStatus
	outcome modelOutcome // of a done record
	repeat  bool         // of a done record

	refusedBy string // "refused (… remembers which detector did)"

	// Section 4: "a record that reported the same key at the same or a higher multiple".
	reportedKey      string
	reportedMultiple int

	compactions int // how many compactions the run had seen when the call began
}

// W, C and B, already resolved (6.2).
type modelThresholds struct{ warning, critical, breaker int }

type modelRule struct {
	poll       *bool
	exempt     bool
	thresholds *modelThresholds // nil: those of the configuration
}

type modelConfig struct {
	enabled     *bool
	observe     bool
	historySize int
	thresholds  modelThresholds
	unknownTool int
	windowSize  int
	off         []string // detectors that are switched off
	rules       map[string]modelRule
}

type modelAction string

const (
	modelAllow modelAction = "allow"
	modelWarn  modelAction = "warn"
	modelBlock modelAction = "block"
	modelAbort modelAction = "abort"
)

type modelVerdict struct {
	action           modelAction
	detector         string
	count, threshold int
	pairedTool       string
	enforced         bool
}

// modelRun is section 1, "Run": "All history is per run; runs never see, count or evict each other's calls."
type modelRun struct {
	config      modelConfig
	history     []*modelRecord // "oldest first"
	stopped     *modelVerdict  // what stopped the run
	compactions int
	armed       bool
	window      []*modelRecord // outcomes in the window, in the order in which they arrived

	dropped int // how many warnings were not repeated; for the statistics of the tests only
}

// ---------------------------------------------------------------------------------------------------------------------
// Section 3: what happens to one call.

// begin is "Begin". The record is nil unless the call runs and leaves a trace.
func (m *modelRun) begin(call modelCall) (modelVerdict, *modelRecord) {
	// "1. an exempt tool (6.3) passes, also in a stopped run, and leaves no trace"
	if m.config.rules[call.tool].exempt {
		return modelVerdict{action: modelAllow}, nil
	}

	// "2. a stopped run refuses the call: detector, count and threshold of what stopped it, with this call's tool"
	//
	// CHOICE: whether such a call gets a record as in step 4 is not said ("refused on a block or an abort" would
	// include it, but a step 2 that ends the matter would not). No verdict depends on it. Taken: no record.
	if m.stopped != nil {
		return *m.stopped, nil
	}

	// "3. if `enabled` is true, the detectors judge the call against the history, which does not yet hold it"
	verdict, key, multiple := modelVerdict{action: modelAllow}, "", 0
	if m.config.enabled != nil && *m.config.enabled {
		verdict, key, multiple = m.judge(call)
	}

	// "4. the record is appended: refused on a block or an abort, open otherwise; the history is trimmed."
	record := &modelRecord{call: call, poll: m.isPoll(call), status: modelOpen, compactions: m.compactions}
	if verdict.action == modelWarn {
		record.reportedKey, record.reportedMultiple = key, multiple
	}
	// Section 4, "Observe mode": "every call runs, its record is open, not refused, and no run is ever stopped".
	if verdict.enforced && (verdict.action == modelBlock || verdict.action == modelAbort) {
		record.status, record.refusedBy = modelRefused, verdict.detector
	}
	m.history = append(m.history, record)
	for len(m.history) > m.config.historySize {
		m.history = m.history[1:]
	}

	// Section 4, "Stop → abort: the run is stopped; this and every later call of the run is refused with the same
	// error until the run is reset."
	if verdict.enforced && verdict.action == modelAbort {
		m.stopped = &verdict
	}
	if record.status == modelRefused {
		return verdict, nil
	}
	return verdict, record
}

// end is "End": "the record gets its outcome; repeats are marked; the guard after compaction (5) looks at it."
func (m *modelRun) end(record *modelRecord, outcome modelOutcome) modelVerdict {
	record.status, record.outcome = modelDone, outcome

	// Section 1: "A done record is a repeat if, when its outcome arrived, the history held another done record with
	// the same signature and the same outcome digest."
	for _, other := range m.history {
		if other != record && other.status == modelDone &&
			other.call.signature == record.call.signature && other.outcome.digest == outcome.digest {
			record.repeat = true
		}
	}
	return m.guardAfterCompaction(record)
}

// cancel: "A call that its caller cancelled (…) leaves no outcome: its record is removed."
func (m *modelRun) cancel(record *modelRecord) {
	m.history = slices.DeleteFunc(m.history, func(r *modelRecord) bool { return r == record })
}

// holds reports whether a record is still in the history, and wants whether its outcome would still play a part: there,
// or in the window of section 5.
func (m *modelRun) holds(record *modelRecord) bool { return slices.Contains(m.history, record) }

func (m *modelRun) wants(record *modelRecord) bool {
	return m.holds(record) || record != nil && m.armed && record.compactions == m.compactions
}

// ---------------------------------------------------------------------------------------------------------------------
// Section 4: detectors.

// newestFirst is the history "from the newest back". Section 1: "Newest and oldest go by the order in which calls
// began, not in which outcomes arrived."
func (m *modelRun) newestFirst() []*modelRecord {
	records := slices.Clone(m.history)
	slices.Reverse(records)
	return records
}

// thresholds are "W, C, B (…) that apply to this tool".
func (m *modelRun) thresholds(tool string) modelThresholds {
	if own := m.config.rules[tool].thresholds; own != nil {
		return *own
	}
	return m.config.thresholds
}

// streak: "from the newest record back, looking only at records with s that are not open: the first outcome met is the
// anchor; count every done record with that outcome until one differs. Refusals newer than the anchor or between
// counted records count too; with no done record at all, the refusals alone are counted."
func (m *modelRun) streak(s string) int {
	var closed []*modelRecord // with s, not open, newest first
	for _, r := range m.newestFirst() {
		if r.call.signature == s && r.status != modelOpen {
			closed = append(closed, r)
		}
	}
	anchor := slices.IndexFunc(closed, func(r *modelRecord) bool { return r.status == modelDone })
	if anchor < 0 {
		return len(closed) // "the refusals alone"
	}
	last := anchor // the oldest record that is counted
	for i := anchor; i < len(closed); i++ {
		if closed[i].status != modelDone {
			continue
		}
		if closed[i].outcome.digest != closed[anchor].outcome.digest {
			break
		}
		last = i
	}
	// Everything from the newest to there is a counted record, a refusal newer than the anchor, or one in between.
	// Refusals older than the oldest counted record are neither and do not count.
	return last + 1
}

// recent: "records with s, whatever their state or outcome."
func (m *modelRun) recent(s string) int {
	n := 0
	for _, r := range m.history {
		if r.call.signature == s {
			n++
		}
	}
	return n
}

// stale: "from the newest back, skipping open records and polls: how many records in a row are repeats, refusals or
// unknown-tool failures."
func (m *modelRun) stale() int {
	n := 0
	for _, r := range m.newestFirst() {
		if r.status == modelOpen || r.poll {
			continue
		}
		if r.repeat || r.status == modelRefused || r.outcome.unknownTool {
			n++
			continue
		}
		break
	}
	return n
}

// known: "if the history holds a record with s that is not open."
func (m *modelRun) known(s string) bool {
	return slices.ContainsFunc(m.history, func(r *modelRecord) bool {
		return r.call.signature == s && r.status != modelOpen
	})
}

// isPoll: "A call is a poll if a rule says so, else if the tool is command_status, or process with action poll or log."
//
// CHOICE: a rule `poll: false` is read as "a rule says that it is none", not as "no rule says so".
// CHOICE: the action is compared exactly ("Poll" is no poll), as 2.3 says for messages.
func (m *modelRun) isPoll(call modelCall) bool {
	if said := m.config.rules[call.tool].poll; said != nil {
		return *said
	}
	return call.tool == "command_status" ||
		call.tool == "process" && (call.action == "poll" || call.action == "log")
}

const (
	levelWarning = iota
	levelCritical
	levelStop
)

type modelFinding struct {
	detector         string
	level            int
	count, threshold int
	pairedTool       string
	key              string // of a warning
}

// judge asks every detector, in the order of the table.
func (m *modelRun) judge(call modelCall) (verdict modelVerdict, key string, multiple int) {
	var findings []modelFinding
	for _, row := range []struct {
		detector string
		find     func(modelCall) []modelFinding
	}{
		{"unknown_tool_repeat", m.unknownToolRepeat},
		{"global_circuit_breaker", m.globalCircuitBreaker},
		{"known_poll_no_progress", m.knownPollNoProgress},
		{"ping_pong", m.pingPong},
		{"generic_repeat", m.genericRepeat},
		{"error_streak", m.errorStreak},
		{"stagnation", m.stagnation},
	} {
		if slices.Contains(m.config.off, row.detector) {
			continue
		}
		for _, f := range row.find(call) {
			f.detector = row.detector
			findings = append(findings, f)
		}
	}
	if len(findings) == 0 {
		return modelVerdict{action: modelAllow}, "", 0
	}

	// "The verdict is the highest level found (stop, critical, warning); at one level the order of the table decides."
	best := findings[0]
	for _, f := range findings {
		if f.level > best.level {
			best = f
		}
	}

	// "Levels to actions."
	action := map[int]modelAction{levelWarning: modelWarn, levelCritical: modelBlock, levelStop: modelAbort}[best.level]
	if action == modelWarn {
		// "it is dropped if the history holds a record that reported the same key at the same or a higher multiple
		// (count ÷ W, rounded down)"
		//
		// CHOICE: multiples are compared as numbers. With thresholds per tool the key of stagnation (the detector
		// alone) and that of ping-pong (the pair) can have been reported at a multiple of another W; read literally,
		// that multiple counts as it stands.
		key, multiple = best.detector+" "+best.key, best.count/best.threshold
		for _, r := range m.history {
			if r.reportedKey == key && r.reportedMultiple >= multiple {
				// "if it is a warning that is dropped, no other detector is asked and the action is allow"
				m.dropped++
				return modelVerdict{action: modelAllow}, "", 0
			}
		}
	}
	return modelVerdict{
		action: action, detector: best.detector, count: best.count, threshold: best.threshold,
		pairedTool: best.pairedTool,
		enforced:   !m.config.observe, // "the same verdicts and events, marked as not enforced"
	}, key, multiple
}

// unknown_tool_repeat.
func (m *modelRun) unknownToolRepeat(call modelCall) []modelFinding {
	const self = "unknown_tool_repeat"

	// "`unknownToolThreshold` unknown-tool failures of this tool (refusals by this detector included, others skipped)
	// with no other outcome of it since; other calls in between do not reset it"
	ofThisTool := 0
	for _, r := range m.newestFirst() {
		if r.call.tool != call.tool || r.status == modelOpen {
			continue
		}
		if r.status == modelRefused {
			if r.refusedBy == self {
				ofThisTool++
			}
			continue
		}
		if !r.outcome.unknownTool {
			break
		}
		ofThisTool++
	}

	// "When the host says that the name is not registered, also that many in a row under any names, skipping open
	// records only"
	//
	// CHOICE: "that many" are unknown-tool failures "(refusals by this detector included …)" here too; refusals by
	// others are not skipped here ("open records only"), so they end the row.
	inARow := 0
	if call.unregistered {
		for _, r := range m.newestFirst() {
			if r.status == modelOpen {
				continue
			}
			if r.status == modelDone && r.outcome.unknownTool || r.status == modelRefused && r.refusedBy == self {
				inARow++
				continue
			}
			break
		}
	}

	// CHOICE: the table's count is "that number"; where both rules hold, or one does and the other has counted more,
	// the number could be either. Taken: the larger, as for the breaker.
	count := max(ofThisTool, inARow)
	if count >= m.config.unknownTool {
		return []modelFinding{{level: levelCritical, count: count, threshold: m.config.unknownTool}}
	}
	return nil
}

// global_circuit_breaker: "streak(s) ≥ B; or, for a known s that is no poll, stale ≥ B. No toggle", "the larger".
//
// CHOICE: "the larger" of the counts that apply: for a poll that is the streak, even if stale is larger.
func (m *modelRun) globalCircuitBreaker(call modelCall) []modelFinding {
	count := m.streak(call.signature)
	if m.known(call.signature) && !m.isPoll(call) {
		count = max(count, m.stale())
	}
	if b := m.thresholds(call.tool).breaker; count >= b {
		return []modelFinding{{level: levelStop, count: count, threshold: b}}
	}
	return nil
}

// criticalAndWarning are the findings of a detector that has both levels.
func (m *modelRun) criticalAndWarning(call modelCall, critical, warning int, key, pairedTool string) []modelFinding {
	var found []modelFinding
	t := m.thresholds(call.tool)
	if critical >= t.critical {
		found = append(found, modelFinding{level: levelCritical, count: critical, threshold: t.critical,
			pairedTool: pairedTool})
	}
	if warning >= t.warning {
		found = append(found, modelFinding{level: levelWarning, count: warning, threshold: t.warning,
			pairedTool: pairedTool, key: key})
	}
	return found
}

// known_poll_no_progress: "a poll with streak(s) ≥ C / ≥ W".
func (m *modelRun) knownPollNoProgress(call modelCall) []modelFinding {
	if !m.isPoll(call) {
		return nil
	}
	n := m.streak(call.signature)
	return m.criticalAndWarning(call, n, n, call.signature, "")
}

// ping_pong: "the history ends in two strictly alternating signatures and s continues it; length of the alternating
// tail + 1 ≥ C with evidence / ≥ W."
func (m *modelRun) pingPong(call modelCall) []modelFinding {
	// CHOICE: a tail must hold both signatures, so it has two records at least and the smallest count is 3. (A tail of
	// one record would make any two different calls an alternation of 2, which a W of 1 or 2 would warn of.)
	records := m.newestFirst()
	if len(records) < 2 {
		return nil
	}
	s, other := call.signature, records[0].call.signature
	if other == s {
		return nil
	}
	var tail []*modelRecord // newest first: other, s, other, …
	for i, r := range records {
		if i%2 == 0 && r.call.signature != other || i%2 == 1 && r.call.signature != s {
			break
		}
		tail = append(tail, r)
	}
	if len(tail) < 2 {
		return nil
	}

	// "Evidence: no open record in the tail, and the done records of each side have one and the same outcome (a side of
	// refusals only has none, so no evidence)."
	evidence := true
	outcomes := [2]map[string]bool{{}, {}}
	for i, r := range tail {
		switch r.status {
		case modelOpen:
			evidence = false
		case modelDone:
			outcomes[i%2][r.outcome.digest] = true
		}
	}
	if len(outcomes[0]) != 1 || len(outcomes[1]) != 1 {
		evidence = false
	}

	// CHOICE: the name of the other tool, where spellings differ, is that of its newest call.
	length := len(tail) + 1
	pair := []string{s, other} // "for ping-pong the unordered pair"
	slices.Sort(pair)
	critical := 0
	if evidence {
		critical = length
	}
	return m.criticalAndWarning(call, critical, length, pair[0]+" "+pair[1], records[0].call.name)
}

// generic_repeat: "no poll; streak(s) ≥ C / recent(s) ≥ W", count "streak / recent".
func (m *modelRun) genericRepeat(call modelCall) []modelFinding {
	if m.isPoll(call) {
		return nil
	}
	return m.criticalAndWarning(call, m.streak(call.signature), m.recent(call.signature), call.signature, "")
}

// error_streak: "this tool's newest outcomes are failures with one identity, whatever the arguments, skipping other
// tools; unknown-tool failures and successes end it; refusals by this detector count, others and open records are
// skipped", count "length".
//
// CHOICE: a refusal by this detector that lies between the oldest counted failure and the record that ends the row
// counts (for streak(s) the prose says the opposite, here it says just "count"). And refusals alone, with all their
// failures trimmed away, count as well.
func (m *modelRun) errorStreak(call modelCall) []modelFinding {
	length, identity := 0, ""
	for _, r := range m.newestFirst() {
		if r.call.tool != call.tool || r.status == modelOpen {
			continue
		}
		if r.status == modelRefused {
			if r.refusedBy == "error_streak" {
				length++
			}
			continue
		}
		if !r.outcome.failure || r.outcome.unknownTool || identity != "" && r.outcome.digest != identity {
			break
		}
		identity = r.outcome.digest
		length++
	}
	return m.criticalAndWarning(call, length, length, call.tool, "")
}

// stagnation: "a known s, no poll; stale ≥ C / ≥ W".
func (m *modelRun) stagnation(call modelCall) []modelFinding {
	if !m.known(call.signature) || m.isPoll(call) {
		return nil
	}
	n := m.stale()
	return m.criticalAndWarning(call, n, n, "", "")
}

// ---------------------------------------------------------------------------------------------------------------------
// Section 5: the guard after compaction.

// compacted: "The host says when a context overflow led to a compaction and a retry. That arms the run".
func (m *modelRun) compacted() {
	// "It works unless `enabled` is explicitly false, also when nothing at all is configured."
	if m.config.enabled != nil && !*m.config.enabled {
		return
	}
	// "Arming a stopped run does nothing."
	if m.stopped != nil {
		return
	}
	// "arming again starts a new window"
	m.compactions++
	m.armed, m.window = true, nil
}

func (m *modelRun) guardAfterCompaction(record *modelRecord) modelVerdict {
	allow := modelVerdict{action: modelAllow}
	if !m.armed {
		return allow
	}
	// "Calls begun before the compaction play no part, even if their outcome comes after it" (the compaction: the
	// newest, as it started the window).
	if record.compactions < m.compactions {
		return allow
	}
	// CHOICE: an outcome whose record has already been trimmed from the history is an outcome nonetheless ("the next
	// windowSize outcomes are compared"; the history is not mentioned in section 5).
	m.window = append(m.window, record)

	// "One different call or result in the window and it stands down until the next compaction"
	first := m.window[0]
	for _, r := range m.window {
		if r.call.signature != first.call.signature || r.outcome.digest != first.outcome.digest {
			m.armed = false
			return allow
		}
	}
	if len(m.window) < m.config.windowSize {
		return allow
	}

	// "If all of them have one signature and one outcome digest, the run is stopped: detector
	// compaction_loop_persisted, count windowSize, with the tool's name." The window is over then; in observe mode it
	// reports "once, then it stands down".
	m.armed = false
	verdict := modelVerdict{
		action: modelAbort, detector: "compaction_loop_persisted",
		count: m.config.windowSize, threshold: m.config.windowSize, enforced: !m.config.observe,
	}
	// CHOICE: a run that the breaker stopped while calls were in flight is not stopped again by their outcomes.
	if m.stopped != nil {
		return allow
	}
	if verdict.enforced {
		m.stopped = &verdict
	}
	return verdict
}

// ---------------------------------------------------------------------------------------------------------------------

// raised is 6.2: "critical is raised to warning + 1, then the breaker to critical + 1".
func (t modelThresholds) raised() modelThresholds {
	if t.critical <= t.warning {
		t.critical = t.warning + 1
	}
	if t.breaker <= t.critical {
		t.breaker = t.critical + 1
	}
	return t
}
