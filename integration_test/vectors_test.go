package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/policy"
)

// vector is a case of the specification: a configuration, a transcript, and what is to be said of it.
type vector struct {
	Name   string            `json:"name"`
	Note   string            `json:"note"`
	Config json.RawMessage   `json:"config"`
	Agent  string            `json:"agent"`
	Lines  []json.RawMessage `json:"lines"`
	Want   []map[string]any  `json:"want"`
}

// vectorFiles are all files of vectors there are, so that none can be lost.
var vectorFiles = []string{
	"arguments.json", "compaction.json", "config.json", "errors.json", "exec.json", "messages.json", "ping_pong.json",
	"polls.json", "repeat.json", "results.json", "scope.json", "stagnation.json", "unknown.json",
}

// readVectors reads a file of vectors.
func readVectors(t *testing.T, name string) (vectors []vector) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "vectors", name))
	require.NoError(t, err)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&vectors))
	return vectors
}

func TestVectorsAreAllThere(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("testdata", "vectors", "*.json"))
	require.NoError(t, err)
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	assert.ElementsMatch(t, vectorFiles, found)

	cases, lines, wanted := 0, 0, 0
	for _, name := range vectorFiles {
		vectors := readVectors(t, name)
		assert.GreaterOrEqual(t, len(vectors), 5, name)
		for _, v := range vectors {
			assert.NotEmpty(t, v.Name, name)
			assert.NotEmpty(t, v.Config, v.Name)
			assert.NotEmpty(t, v.Lines, v.Name)
			lines += len(v.Lines)
			wanted += len(v.Want)
		}
		cases += len(vectors)
	}
	assert.Equal(t, 123, cases)
	assert.Equal(t, 2839, lines)
	assert.Positive(t, wanted)
}

func TestVectors(t *testing.T) {
	for _, name := range vectorFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range readVectors(t, name) {
				t.Run(v.Name, v.test)
			}
		})
	}
}

// test judges the transcript by the library and by the command.
func (v vector) test(t *testing.T) {
	config, err := policy.ParseConfig(bytes.NewReader(v.Config), v.Agent)
	require.NoError(t, err)
	byLibrary := judgeByLibrary(t, config, v.Lines)
	v.check(t, config, byLibrary)

	var transcript bytes.Buffer
	for _, line := range v.Lines {
		require.NoError(t, json.Compact(&transcript, line))
		transcript.WriteByte('\n')
	}
	args := []string{"--config", write(t, "config.json", v.Config)}
	if v.Agent != "" {
		args = append(args, "--agent", v.Agent)
	}
	assert.Equal(t, byLibrary, judgeByCommand(t, transcript.Bytes(), args...), "the command says the same as the library")
}

// check holds what was said against what is wanted. A line of which nothing is wanted is to be allowed.
func (v vector) check(t *testing.T, config policy.Config, verdicts []verdict) {
	t.Helper()
	assert.Len(t, verdicts, v.calls(t, verdicts))
	want := map[int]map[string]any{}
	for _, w := range v.Want {
		want[int(w["line"].(float64))] = w
	}
	require.Len(t, want, len(v.Want), "a line is wanted once")
	for _, said := range verdicts {
		wanted, ok := want[said.Line]
		if !ok {
			assert.Equal(t, verdict{Line: said.Line, Run: said.Run, Tool: said.Tool, Action: "allow"}, said)
			continue
		}
		delete(want, said.Line)
		fields := fieldsOf(t, said)
		for key, value := range wanted {
			assert.Equal(t, value, fields[key], "line %d: %s", said.Line, key)
		}
		if assert.NotEqual(t, "allow", said.Action) {
			assert.NotEmpty(t, said.Detector)
			assert.Positive(t, said.Threshold)
			assert.GreaterOrEqual(t, said.Count, said.Threshold)
			assert.NotEmpty(t, said.Reason)
			assert.Equal(t, said.Detector == policy.PingPong, said.PairedTool != "")
			if assert.NotNil(t, said.Enforced) {
				assert.Equal(t, config.Mode != policy.Observe, *said.Enforced)
			}
		}
	}
	assert.Empty(t, want, "these lines were not reported")
}

// calls returns how many verdicts there have to be: one for each call, and one for each outcome by itself that stopped a
// run.
func (v vector) calls(t *testing.T, verdicts []verdict) int {
	t.Helper()
	made := map[int]bool{}
	for i, line := range v.Lines {
		var r recorded
		require.NoError(t, json.Unmarshal(line, &r))
		if r.Tool != nil {
			made[i+1] = true
		}
	}
	count := len(made)
	for _, said := range verdicts {
		if !made[said.Line] {
			assert.Equal(t, policy.CompactionLoopPersisted, said.Detector)
			count++
		}
	}
	return count
}

// fieldsOf returns a verdict as the fields of its JSON.
func fieldsOf(t *testing.T, v verdict) (fields map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &fields))
	return fields
}
