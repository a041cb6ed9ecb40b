package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

const (
	call    = `{"tool":"read","args":{"path":"/x"},"result":"same"}`
	opening = `{"id":"c","tool":"read","args":{"path":"/x"}}`
	closing = `{"id":"c","result":"same"}`
)

// timeline is what became of each call, a letter for each: allow, warn, block, abort (upper case where it is about an
// outcome that came by itself).
func timeline(judged []replay.Judgement) string {
	var b strings.Builder
	for _, j := range judged {
		letter := map[policy.Action]string{policy.Allow: ".", policy.Warn: "w", policy.Block: "b", policy.Abort: "a"}[j.Action]
		if !j.Made {
			letter = strings.ToUpper(letter)
		}
		b.WriteString(letter)
	}
	return b.String()
}

func TestTheSameCallIsWarnedBlockedAndStopped(t *testing.T) {
	want := strings.Repeat(".", 10) + "w" + strings.Repeat(".", 9) + strings.Repeat("b", 10) + "aa"
	assert.Equal(t, want, timeline(judge(t, policy.Default(), lines(32, call))), "with outcomes on the lines of their calls")
	assert.Equal(t, want, timeline(judge(t, policy.Default(), lines(32, opening, closing))), "with outcomes on their own lines")
}

func TestOutcomesBelongToTheOldestOpenCallOfTheirID(t *testing.T) {
	// Two calls share an id. The first outcome is that of f, which so never changes, and the second that of g.
	config := document(t, `{enabled: true, warningThreshold: 2, criticalThreshold: 3, detectors: {pingPong: false}}`)
	var transcript strings.Builder
	for i := range 4 {
		fmt.Fprintf(&transcript, `{"id":"c","tool":"f"}
{"id":"c","tool":"g"}
{"id":"c","result":"same"}
{"id":"c","result":"new %d"}
`, i)
	}
	judged := judge(t, config, transcript.String())
	assert.Equal(t, policy.Block, judged[6].Action, "f, whose result is the same")
	assert.NotEqual(t, policy.Block, judged[7].Action, "g, whose result is new")
}

func TestRunsAndTheirIDsAreApart(t *testing.T) {
	var got judgements
	err := play(t, policy.Default(), lines(1,
		`{"run":"a","id":"c","tool":"f"}`,
		`{"id":"c","tool":"f"}`,
		`{"id":"c","result":1}`,
		`{"run":"b","id":"c","result":1}`,
	), &got)
	require.EqualError(t, err,
		`line 4: is the outcome of a call that is not open (run "b", id "c"), must come after its call and once`)
	assert.Len(t, got.all, 2, "what comes before is judged")
}

func TestOutcomesNeedAnOpenCall(t *testing.T) {
	tests := map[string]struct {
		lines []string
		at    int
		words string
	}{
		"no call":             {[]string{closing}, 1, `no run, id "c"`},
		"no id":               {[]string{opening, `{"result":1}`}, 2, `no run, no id`},
		"twice":               {[]string{opening, closing, closing}, 3, `not open`},
		"came with its call":  {[]string{`{"id":"c","tool":"f","result":1}`, closing}, 2, `not open`},
		"before its call":     {[]string{closing, opening}, 1, `not open`},
		"refused, twice":      {append(refusal, opening, closing, closing), 6, `not open`},
		"of an exempt, twice": {[]string{`{"id":"c","tool":"free"}`, closing, closing}, 3, `not open`},
		"of a long id": {
			[]string{`{"run":"` + strings.Repeat("r", 99) + `","id":"\u001b[2J","error":"e"}`}, 1, `rr…rr`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := document(t, `{enabled: true, warningThreshold: 1, criticalThreshold: 2, tools: {free: {exempt: true}}}`)
			err := play(t, config, lines(1, test.lines...), &judgements{})
			var fault *replay.Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, test.at, fault.Line)
			assert.Contains(t, fault.Message, test.words)
			assert.NotContains(t, fault.Message, "\x1b")
		})
	}
}

// refusal are lines after which the call that they make is refused, at thresholds of 1 and 2.
var refusal = []string{call, call, call}

func TestOutcomesOfRefusedAndExemptCallsAreSkipped(t *testing.T) {
	config := document(t, `{enabled: true, warningThreshold: 1, criticalThreshold: 2, tools: {free: {exempt: true}}}`)
	judged := judge(t, config, lines(1, append(refusal,
		opening, `{"id":"c","result":"other"}`, // refused: the result does not end the streak
		call,
		`{"id":"c","tool":"free"}`, closing,
	)...))
	assert.Equal(t, ".wbbb.", timeline(judged))
}

func TestCallsWithoutIDsAreOpenInTurn(t *testing.T) {
	judged := judge(t, policy.Default(), lines(25, `{"tool":"f"}`, `{"result":1}`))
	assert.Equal(t, policy.Block, judged[20].Action)
}

func TestAnOutcomeCanStopTheRun(t *testing.T) {
	const compaction = `{"event":"compaction"}`
	stop := judge(t, policy.Config{}, compaction+"\n"+lines(3, call))[2].Verdict
	assert.Equal(t, policy.Verdict{
		Action: policy.Abort, Detector: policy.CompactionLoopPersisted, Count: 3, Threshold: 3, Enforced: true, Reason: stop.Reason,
	}, stop)
	t.Run("in place of the verdict on the call", func(t *testing.T) {
		judged := judge(t, policy.Config{}, compaction+"\n"+lines(4, call))
		assert.Equal(t, "..aa", timeline(judged))
		assert.Equal(t, replay.Judgement{Verdict: stop, Line: 4, Tool: "read", Made: true}, judged[2])
		assert.True(t, judged[3].Refused)
	})
	t.Run("in place of a warning", func(t *testing.T) {
		config := document(t, `{enabled: true, warningThreshold: 2}`)
		judged := judge(t, config, compaction+"\n"+lines(3, call))
		assert.Equal(t, "..a", timeline(judged))
	})
	t.Run("on a line of its own", func(t *testing.T) {
		judged := judge(t, policy.Config{}, compaction+"\n"+lines(3, opening, closing)+opening)
		assert.Equal(t, "...Aa", timeline(judged))
		assert.Equal(t, replay.Judgement{Verdict: stop, Line: 7, Tool: "read"}, judged[3])
	})
	t.Run("in observe mode, once", func(t *testing.T) {
		config := document(t, `{mode: "observe"}`)
		judged := judge(t, config, compaction+"\n"+lines(5, opening, closing))
		assert.Equal(t, "...A..", timeline(judged))
		assert.False(t, judged[3].Enforced)
		assert.False(t, judged[3].Refused)
	})
}

func TestObserveModeReportsWhatItDoesNotDo(t *testing.T) {
	config := document(t, `{enabled: true, mode: "observe"}`)
	judged := judge(t, config, lines(33, call))
	assert.Equal(t, strings.Repeat(".", 10)+"w"+strings.Repeat(".", 9)+strings.Repeat("b", 10)+"aaa", timeline(judged))
	for _, j := range judged {
		assert.False(t, j.Enforced)
		assert.Equal(t, j.Action >= policy.Block, j.Refused)
	}
}

func TestNamesAreReportedAsGiven(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for _, tool := range []string{"  Read ", "", long, "\x1b[2J\n"} {
		line := fmt.Sprintf(`{"run":%q,"tool":%q,"result":1}`, long, tool)
		line = strings.ReplaceAll(line, `\x1b`, `\u001b`)
		judged := judge(t, policy.Default(), lines(11, line))
		assert.Equal(t, tool, judged[10].Tool)
		assert.Equal(t, long, judged[10].Run)
		assert.Equal(t, policy.Warn, judged[10].Action)
	}
}

func TestManyRunsAreKept(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	// The first runs come again after more others than a store keeps by default.
	const runs, again = middleware.DefaultMaxRuns + middleware.DefaultMaxRuns/4, 10
	config := document(t, `{enabled: true, warningThreshold: 1}`)
	var transcript strings.Builder
	for i := range runs + again {
		fmt.Fprintf(&transcript, `{"run":"%d","tool":"f"}`+"\n", i%runs)
	}
	judged := judge(t, config, transcript.String())
	assert.Equal(t, strings.Repeat(".", runs)+strings.Repeat("w", again), timeline(judged))
}

// brokenWriter fails at every judgement.
type brokenWriter struct{}

func (brokenWriter) Write(replay.Judgement) error { return errBroken }
func (brokenWriter) End(bool) error               { return nil }

var errBroken = errors.New("broken")

func TestErrorsOfTheWriterEndThePlay(t *testing.T) {
	assert.ErrorIs(t, play(t, policy.Default(), call, brokenWriter{}), errBroken)
	assert.ErrorIs(t, play(t, policy.Config{}, `{"event":"compaction"}`+"\n"+lines(3, opening, closing), brokenWriter{}), errBroken)
}

func TestWrongConfigurationsMakeNoPlayer(t *testing.T) {
	_, err := replay.NewPlayer(policy.Config{HistorySize: -1})
	assert.ErrorContains(t, err, "historySize")
}
