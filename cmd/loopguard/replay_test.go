package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const sameCall = `{"run":"r1","tool":"exec","args":{"command":"ls"},"result":{"exitCode":0,"output":"a b"}}` + "\n"

func zip(t *testing.T, text string) string {
	t.Helper()
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.String()
}

func TestReplayReadsFilesAndStandardInput(t *testing.T) {
	text := strings.Repeat(sameCall, 12)
	plain, packed := file(t, "t.jsonl", text), file(t, "packed", zip(t, text))
	dashed := filepath.Join(t.TempDir(), "--json")
	require.NoError(t, os.WriteFile(dashed, []byte(text), 0o600))
	t.Chdir(filepath.Dir(dashed))

	want := command(text, "replay", "--json")
	assert.Equal(t, 0, want.status)
	assert.Empty(t, want.err)
	assert.Equal(t, 12, strings.Count(want.out, "\n"))
	assert.Equal(t, 1, strings.Count(want.out, `"action":"warn"`))

	assert.Equal(t, want, command(text, "replay", "--json", "-"))
	assert.Equal(t, want, command(zip(t, text), "replay", "-json"))
	assert.Equal(t, want, command("", "replay", "--json", plain))
	assert.Equal(t, want, command("", "replay", plain, "--json"))
	assert.Equal(t, want, command("", "replay", packed, "--json=true"))
	assert.Equal(t, want, command("", "replay", "--json", "--", "--json"))
	assert.Equal(t, want, command(text, "replay", "-", "--json"))

	for _, got := range []outcome{command(text, "replay"), command("", "replay", "--json=false", packed)} {
		assert.Equal(t, 0, got.status)
		assert.Contains(t, got.out, "generic_repeat")
		assert.Contains(t, got.out, "0 of 12 calls would have been refused")
	}
}

func TestReplayOfNothing(t *testing.T) {
	for _, text := range []string{"", "\n", " \r\n\t\n", "\uFEFF", zip(t, "")} {
		assert.Equal(t, outcome{0, "", ""}, command(text, "replay", "--json"))
		assert.Equal(t, outcome{0, "The transcript holds no calls.\n", ""}, command(text, "replay"))
	}
}

func TestReplayByConfiguration(t *testing.T) {
	config := file(t, "c.json5", `{
		tools: { loopDetection: { enabled: true, warningThreshold: 2 } },
		agents: { list: [
			{ id: "off", tools: { loopDetection: { enabled: false } } },
			{ id: "late", tools: { loopDetection: { warningThreshold: 20, criticalThreshold: 15, historySize: 40 } } },
		] },
	}`)
	text := strings.Repeat(sameCall, 4)
	warned := command(text, "replay", "--json", "--config", config)
	assert.Contains(t, warned.out, `"line":3,"run":"r1","tool":"exec","action":"warn"`)
	assert.Empty(t, warned.err)
	assert.Equal(t, warned, command(text, "replay", "--json", "--config="+config, "--agent", "nobody"))

	off := command(text, "replay", "--json", "--config", config, "--agent", "off")
	assert.Equal(t, 4, strings.Count(off.out, `"allow"`))
	assert.Contains(t, off.err, `agent "off": tools.loopDetection.enabled is false, so that nothing is looked for`)
	assert.Contains(t, off.err, "these have no effect: warningThreshold")

	late := command(text, "replay", "--config", config, "-agent", "late")
	assert.Equal(t, "No loops: nothing was found in 4 calls of 1 run.\n", late.out)
	assert.Equal(t, "loopguard: notice: "+config+`, agent "late": tools.loopDetection.criticalThreshold: `+
		"raised from 15 to 21, as it must be above warningThreshold, which is 20\n", late.err)

	unused := command(text, "replay", "--agent", "x")
	assert.Equal(t, 0, unused.status)
	assert.Equal(t, "loopguard: notice: --agent has no effect without --config\n", unused.err)
}

func TestReplaySaysWhenNothingIsConfigured(t *testing.T) {
	for block, words := range map[string]string{
		`{}`: "tools.loopDetection is not there or empty, so that the detectors are off",
		`{tools: {loopDetection: {}}, agents: {list: [{id: "x"}]}}`:              "is not there or empty",
		`{agents: {list: [{id: "x", tools: {loopDetection: {enabled: true}}}]}}`: "is not there or empty",
		`{tools: {loopDetection: {mode: "observe"}}}`:                            "tools.loopDetection.enabled is not set",
	} {
		config := file(t, "c.json5", block)
		got := command(`{"run":"r1","event":"compaction"}`+"\n"+strings.Repeat(sameCall, 3), "replay", "--config", config, "--json")
		assert.Equal(t, 0, got.status)
		assert.Contains(t, got.err, "loopguard: notice: "+config+": ")
		assert.Contains(t, got.err, words)
		assert.Contains(t, got.out, "compaction_loop_persisted", "this works all the same")
	}
}

func TestReplayWithAWrongConfiguration(t *testing.T) {
	for document, words := range map[string][]string{
		``:              {"empty"},
		`{`:             {"line 1, column 2"},
		`[1]`:           {"must be an object"},
		"{\n  tools: }": {"line 2, column 10"},
		`{tools: {loopDetection: {warnThreshold: 3}}}`:                     {"tools.loopDetection.warnThreshold", "unknown key"},
		`{tools: {loopDetection: {enabled: "yes"}}}`:                       {"tools.loopDetection.enabled", "must be true or false"},
		`{tools: {loopDetection: {historySize: 0}}}`:                       {"tools.loopDetection.historySize"},
		`{tools: {loopDetection: {postCompactionGuard: {windowSize: 1}}}}`: {"postCompactionGuard.windowSize"},
		`{tools: {loopDetection: {mode: "off", tools: {"x": {kind: 1}}}}}`: {
			"loopguard: ", `tools.loopDetection.mode: found "off"`, "\nloopguard: ", `tools["x"].kind`,
		},
	} {
		config := file(t, "c.json5", document)
		got := command(sameCall, "replay", "--json", "--config", config)
		assert.Equal(t, exitUsage, got.status, document)
		assert.Empty(t, got.out, document)
		for _, word := range append(words, "loopguard: "+config+": ") {
			assert.Contains(t, got.err, word, document)
		}
	}
	missing := command(sameCall, "replay", "--config", filepath.Join(t.TempDir(), "none.json5"))
	assert.Equal(t, exitUsage, missing.status)
	assert.Regexp(t, `^loopguard: \S+none.json5: no such file or directory\n$`, missing.err)
	directory := command(sameCall, "replay", "--config", t.TempDir())
	assert.Equal(t, exitUsage, directory.status)
	assert.Regexp(t, `^loopguard: \S+: is a directory\n$`, directory.err)
}

func TestReplayOfAWrongTranscript(t *testing.T) {
	good := strings.Repeat(sameCall, 12)
	for bad, words := range map[string]string{
		`{"tool":`:                            "line 14: ends before its JSON object does",
		`{"run":"r1","id":"x","result":1}`:    `line 14: is the outcome of a call that is not open (run "r1", id "x")`,
		`{"tool":"f","result":1,"error":"e"}`: `line 14: has both "result" and "error"`,
		`{"tool":{}}`:                         `line 14: "tool" is an object, must be a string`,
		`{"comment":"none of them"}`:          "line 14: is none of the three kinds",
	} {
		text := "\n" + good + bad + "\n" + sameCall
		got := command(text, "replay", "--json")
		assert.Equal(t, exitUsage, got.status, bad)
		assert.Equal(t, 12, strings.Count(got.out, "\n"), "what comes before is written")
		assert.Equal(t, 1, strings.Count(got.err, "\n"))
		assert.Contains(t, got.err, "loopguard: standard input: "+words)

		name := file(t, "t.jsonl", text)
		got = command("", "replay", name)
		assert.Equal(t, exitUsage, got.status, bad)
		assert.Contains(t, got.out, "0 of 12 calls")
		assert.Contains(t, got.err, "loopguard: "+name+": "+words)
	}
	packed := zip(t, good)
	cut := command(packed[:len(packed)-4], "replay", "--json")
	assert.Equal(t, exitUsage, cut.status)
	assert.Contains(t, cut.err, "standard input: line 13: cannot be read: the compressed transcript is cut off")
	assert.Equal(t, 12, strings.Count(cut.out, "\n"))

	missing := command("", "replay", filepath.Join(t.TempDir(), "none.jsonl"))
	assert.Equal(t, exitUsage, missing.status)
	assert.Regexp(t, `^loopguard: \S+none.jsonl: no such file or directory\n$`, missing.err)
	directory := command("", "replay", t.TempDir())
	assert.Equal(t, exitUsage, directory.status)
	assert.Empty(t, directory.out)
	assert.Contains(t, directory.err, ": line 1: cannot be read: is a directory")
}

// TestReplayIsPrompt has a reader that gives the next line only when it has seen what became of the last one.
func TestReplayIsPrompt(t *testing.T) {
	input, feed := io.Pipe()
	seen, output := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run([]string{"replay", "--json"}, input, output, io.Discard)
		output.Close()
	}()
	lines := bufio.NewScanner(seen)
	for i := range 3 {
		_, err := io.WriteString(feed, sameCall)
		require.NoError(t, err)
		require.True(t, lines.Scan())
		assert.Contains(t, lines.Text(), fmt.Sprintf(`{"line":%d,`, i+1))
	}
	require.NoError(t, feed.Close())
	select {
	case status := <-done:
		assert.Equal(t, exitOK, status)
	case <-time.After(10 * time.Second):
		t.Fatal("replay did not end with its input")
	}
}

func FuzzReplay(f *testing.F) {
	for _, seed := range []string{
		"", sameCall, strings.Repeat(sameCall, 35),
		`{"event":"compaction"}` + "\n" + strings.Repeat(`{"id":"a","tool":"ls"}`+"\n"+`{"id":"a","result":null}`+"\n", 4),
		strings.Repeat(`{"tool":"x","registered":false,"error":"unknown tool: x"}`+"\n", 12),
		strings.Repeat(`{"tool":"a","result":1}`+"\n"+`{"tool":"b","args":"{\"a\":1,\"a\":2}","result":"\ud800"}`+"\n", 20),
		strings.Repeat(`{"tool":"message","args":{"action":"send"},"result":{"details":{"messageId":"abcdef","text":"abcdef"},"content":[]}}`+"\n", 12),
		strings.Repeat(`{"tool":"exec","result":{"content":[{"type":"text","text":"x"}],"details":{"status":"failed","exit_code":"1"},"isError":true}}`+"\n", 12),
		`{"tool":"f","args":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n",
		`{"tool":"f","args":-1e999999999999999999,"result":0.00000000000000000000001E-5}`,
		"\x1f\x8b\x08", "\uFEFF\r\n{}", `{"a":1}{"b":2}`, "{\"tool\":\"\xff\"}", `{"id":"c","result":1}`,
	} {
		f.Add([]byte(seed))
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, sameCall)
	_ = w.Close()
	f.Add(packed.Bytes())

	f.Fuzz(func(t *testing.T, transcript []byte) {
		var out, errors, summary bytes.Buffer
		status := run([]string{"replay", "--json"}, bytes.NewReader(transcript), &out, &errors)
		require.Contains(t, []int{exitOK, exitUsage}, status)
		require.Equal(t, status == exitOK, errors.Len() == 0, errors.String())
		for line := range bytes.Lines(out.Bytes()) {
			require.True(t, json.Valid(line), "%q", line)
		}
		require.Equal(t, status, run([]string{"replay"}, bytes.NewReader(transcript), &summary, io.Discard))
	})
}
