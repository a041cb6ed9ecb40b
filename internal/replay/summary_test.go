package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

// summarize plays a transcript and returns the summary.
func summarize(t *testing.T, config policy.Config, transcript string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, play(t, config, transcript, replay.NewSummary(&out)))
	return out.String()
}

func TestSummary(t *testing.T) {
	search := func(run string, from, to int) (text string) {
		for i := from; i < to; i++ {
			text += fmt.Sprintf(`{"run":%q,"tool":"web_search","args":"page %d","error":"HTTP 503 after %dms"}`+"\n", run, i, i)
		}
		return text
	}
	transcript := lines(1005, `{"run":"fine","tool":"echo"}`) +
		lines(33, `{"run":"stuck","tool":"Read","args":{"path":"/x"},"result":"same"}`) +
		search("hunting/child", 0, 22) +
		`{"run":"compacted","event":"compaction"}` + "\n" +
		lines(3, `{"run":"compacted","tool":"ls","result":"."}`)
	config := document(t, `{enabled: true, tools: {echo: {exempt: true}}}`)
	assert.Equal(t, `
Run            From line  Detector                   Tool        Warned  Refused  Run stopped
stuck               1016  generic_repeat             Read             1       10
                    1036  global_circuit_breaker     Read             -        3  at line 1036
hunting/child       1049  error_streak               web_search       1        2
compacted           1064  compaction_loop_persisted  ls               -        -  at line 1064

15 of 1,063 calls would have been refused, in 2 of 4 runs; 2 runs would have been stopped.
`, "\n"+summarize(t, config, transcript))
}

func TestSummaryWithoutRefusals(t *testing.T) {
	observe := document(t, `{enabled: true, mode: "observe"}`)
	for name, test := range map[string]struct {
		config     policy.Config
		transcript string
		last       string
	}{
		"no calls":     {policy.Default(), "", "The transcript holds no calls."},
		"no calls yet": {policy.Default(), `{"event":"compaction"}`, "The transcript holds no calls."},
		"one call":     {policy.Default(), call, "No loops: nothing was found in 1 call of 1 run."},
		"no loops":     {policy.Default(), lines(10, call), "No loops: nothing was found in 10 calls of 1 run."},
		"warnings": {
			policy.Default(), lines(11, call), "0 of 11 calls would have been refused: there were only warnings, in 1 of 1 run.",
		},
		"observe mode": {
			observe, lines(40, call),
			"20 of 40 calls came to the point of a refusal, in 1 of 1 run; in observe mode all of them run.",
		},
		"stopped at the end": {
			policy.Config{}, `{"event":"compaction"}` + "\n" + lines(3, call),
			"0 of 3 calls would have been refused, in 0 of 1 run; 1 run would have been stopped.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Split(strings.TrimSpace(summarize(t, test.config, test.transcript)), "\n")
			assert.Equal(t, test.last, text[len(text)-1])
		})
	}
}

func TestSummaryOfAFaultyTranscript(t *testing.T) {
	var out strings.Builder
	require.Error(t, play(t, policy.Default(), lines(5, call)+"x", replay.NewSummary(&out)))
	assert.Equal(t, "No loops: nothing was found in 5 calls of 1 run.\n"+
		"This is of the lines before the one that is wrong.\n", out.String())

	out.Reset()
	require.Error(t, play(t, policy.Default(), "x", replay.NewSummary(&out)))
	assert.Empty(t, out.String())
}

func TestSummaryOfHostileNames(t *testing.T) {
	for _, name := range []string{
		`\u001b[2J\u001b[1;1H`, `a\nb`, `a\rb`, `\u202eabc`, `\u0000`, `\u009b31m`, ` blank `, `\ufffd`, `\ufeff`, `\u2028`,
		strings.Repeat("long", 1<<16), strings.Repeat(`\u0007`, 1000), `日本語のツール`,
	} {
		got := summarize(t, policy.Default(), lines(11, `{"run":"`+name+`","tool":"`+name+`","result":1}`))
		text := strings.Split(got, "\n")
		require.Len(t, text, 5, name)
		for _, line := range text {
			assert.Less(t, len([]rune(line)), 600, name)
			for _, r := range line {
				assert.True(t, unicode.IsPrint(r), "%q in the summary of %q", r, name)
			}
		}
	}
}

func TestSummaryOfLongNamesKeepsBothEnds(t *testing.T) {
	name := "tenant/" + strings.Repeat("x", 100) + "/child-7"
	got := summarize(t, policy.Default(), lines(11, `{"run":"`+name+`","tool":"f","result":1}`))
	assert.Contains(t, got, "tenant/xxx")
	assert.Contains(t, got, "…xxxxx/child-7 ")
}
