package integration_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

const (
	recordedRuns = "testdata/transcripts/runs.jsonl.gz"
	runLabels    = "testdata/transcripts/labels.json"

	recordedCalls = 11_804
)

// label is what is known of a recorded run.
type label struct {
	Run     string
	Calls   int
	Loop    bool
	Period  *int
	Success *bool // nil if it is not known
}

// figures are what a configuration does to the recorded runs.
type figures struct {
	LoopsWarned, LoopsRefused         int // runs
	SuccessesWarned, SuccessesRefused int // runs

	CallsRefused        int
	CallsRefusedInLoops int
	Innocent            map[string]int // calls refused in runs that are no loops
}

// wantFigures are those of testdata/transcripts/README.md. The last two loops end before the defaults refuse a call, and the
// one run that is no loop but has calls refused is a failed one.
var wantFigures = map[string]figures{
	"default": {
		LoopsWarned: 12, LoopsRefused: 10, CallsRefused: 328, CallsRefusedInLoops: 326,
		Innocent: map[string]int{"sweagent-lm32b-0182": 2},
	},
	"tight": {
		LoopsWarned: 12, LoopsRefused: 12, SuccessesWarned: 15, CallsRefused: 486, CallsRefusedInLoops: 450,
		Innocent: map[string]int{"sweagent-lm32b-0182": 36},
	},
}

var presets = map[string]policy.Config{"default": policy.Default(), "tight": policy.Tight()}

func TestTranscriptsByTheLibrary(t *testing.T) {
	text, labels := readTranscripts(t)
	var lines []json.RawMessage
	for line := range bytes.Lines(text) {
		lines = append(lines, line)
	}
	for name, config := range presets {
		assert.Equal(t, wantFigures[name], figuresOf(t, judgeByLibrary(t, config, lines), labels), name)
	}
}

func TestTranscriptsByTheCommand(t *testing.T) {
	_, labels := readTranscripts(t)
	for name, config := range presets {
		document, err := json.Marshal(map[string]any{"tools": map[string]any{"loopDetection": config}})
		require.NoError(t, err)
		verdicts := judgeByCommand(t, nil, "--config", write(t, "config.json", document), recordedRuns)
		assert.Equal(t, wantFigures[name], figuresOf(t, verdicts, labels), name)
		if name != "default" {
			continue
		}
		packed, err := os.ReadFile(filepath.FromSlash(recordedRuns))
		require.NoError(t, err)
		assert.Equal(t, verdicts, judgeByCommand(t, packed), "on standard input, and without a configuration")
	}
	summary := loopguard(t, nil, "replay", recordedRuns)
	assert.Equal(t, 0, summary.status)
	assert.Contains(t, summary.out, "\n328 of 11,804 calls would have been refused, in 11 of 817 runs;")
}

// readTranscripts returns the recorded runs and what is known of each.
func readTranscripts(t testing.TB) (text []byte, labels map[string]label) {
	t.Helper()
	file, err := os.Open(filepath.FromSlash(recordedRuns))
	require.NoError(t, err)
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	require.NoError(t, err)
	var buffer bytes.Buffer
	_, err = buffer.ReadFrom(unpacked)
	require.NoError(t, err)

	known, err := os.ReadFile(filepath.FromSlash(runLabels))
	require.NoError(t, err)
	var list []label
	require.NoError(t, json.Unmarshal(known, &list))
	labels = map[string]label{}
	for _, l := range list {
		labels[l.Run] = l
	}
	require.Len(t, labels, 817)
	return buffer.Bytes(), labels
}

// figuresOf counts. It makes sure that it counts what was recorded: every call of every run.
func figuresOf(t *testing.T, verdicts []verdict, labels map[string]label) figures {
	t.Helper()
	calls, warned, refused := map[string]int{}, map[string]bool{}, map[string]int{}
	for _, v := range verdicts {
		calls[v.Run]++
		if v.Action == "warn" {
			warned[v.Run] = true
		}
		if v.refuses() {
			refused[v.Run]++
		}
	}
	require.Len(t, verdicts, recordedCalls)

	f := figures{Innocent: map[string]int{}}
	loops, successes := 0, 0
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	for run, l := range labels {
		require.Equal(t, l.Calls, calls[run], run)
		succeeded := l.Success != nil && *l.Success
		f.CallsRefused += refused[run]
		count(&successes, succeeded)
		count(&f.SuccessesWarned, succeeded && warned[run])
		count(&f.SuccessesRefused, succeeded && refused[run] > 0)
		if l.Loop {
			loops++
			count(&f.LoopsWarned, warned[run])
			count(&f.LoopsRefused, refused[run] > 0)
			f.CallsRefusedInLoops += refused[run]
		} else if refused[run] > 0 {
			f.Innocent[run] = refused[run]
			require.NotNil(t, l.Success, run)
			require.False(t, *l.Success, run)
		}
	}
	require.Equal(t, 12, loops)
	require.Equal(t, 501, successes)
	return f
}

// BenchmarkReplay replays the recorded runs from memory.
func BenchmarkReplay(b *testing.B) {
	text, _ := readTranscripts(b)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		player, err := replay.NewPlayer(policy.Default())
		require.NoError(b, err)
		lines, err := replay.NewReader(bytes.NewReader(text))
		require.NoError(b, err)
		require.NoError(b, player.Play(lines, replay.NewJSONLines(io.Discard)))
	}
	b.ReportMetric(float64(b.N*recordedCalls)/b.Elapsed().Seconds(), "calls/s")
}
