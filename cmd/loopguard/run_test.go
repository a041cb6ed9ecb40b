package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outcome is what a command did.
type outcome struct {
	status   int
	out, err string
}

// command runs a command with a text as its standard input.
func command(stdin string, args ...string) outcome {
	var out, err strings.Builder
	status := run(args, strings.NewReader(stdin), &out, &err)
	return outcome{status, out.String(), err.String()}
}

// file writes a file and returns its name.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"-h"}, {"-help"}, {"help"}} {
		assert.Equal(t, outcome{0, help, ""}, command("", args...), args)
	}
	for _, args := range [][]string{{"replay", "--help"}, {"replay", "x", "-h"}, {"help", "replay"}} {
		assert.Equal(t, outcome{0, replayHelp, ""}, command("", args...), args)
	}
	for _, args := range [][]string{{"version"}, {"--version"}} {
		got := command("", args...)
		assert.Equal(t, 0, got.status)
		assert.Regexp(t, `^loopguard \S+ go\S+ \w+/\w+\n$`, got.out)
		assert.Empty(t, got.err)
	}
}

func TestMisuse(t *testing.T) {
	tests := []struct {
		args  []string
		words string
	}{
		{nil, "Usage:"},
		{[]string{"play"}, `unknown command "play", must be replay, version or help`},
		{[]string{"--json"}, `unknown command "--json"`},
		{[]string{""}, `unknown command ""`},
		{[]string{"version", "now"}, `version takes no "now"`},
		{[]string{"help", "me"}, `help takes no "me"`},
		{[]string{"--help", "replay", "x"}, `--help takes no "replay"`},
		{[]string{"replay", "--jsonl"}, "flag provided but not defined: -jsonl"},
		{[]string{"replay", "a", "--no"}, "flag provided but not defined: -no"},
		{[]string{"replay", "--config"}, "flag needs an argument: -config"},
		{[]string{"replay", "--json=perhaps"}, `invalid boolean value "perhaps" for -json`},
		{[]string{"replay", "a", "b"}, `replay takes one transcript, found 2: ["a" "b"]`},
		{[]string{"replay", "a", "--json", "-"}, `replay takes one transcript, found 2: ["a" "-"]`},
		{[]string{"replay", "--", "a", "--json"}, `replay takes one transcript, found 2: ["a" "--json"]`},
	}
	for _, test := range tests {
		got := command("", test.args...)
		assert.Equal(t, exitUsage, got.status, test.args)
		assert.Empty(t, got.out, test.args)
		assert.Contains(t, got.err, test.words, test.args)
		assert.Contains(t, got.err, "help", test.args)
	}
}

// TestHelpIsTrue runs what the help shows.
func TestHelpIsTrue(t *testing.T) {
	aTranscript := regexp.MustCompile(`(?m)^  \{"run": .*\n`)
	aConfig := regexp.MustCompile(`(?ms)^  \{\n.*?^  \}\n|^  \{tools: .*?\n`)
	for name, text := range map[string]string{"loopguard": help, "replay": replayHelp} {
		t.Run(name, func(t *testing.T) {
			for line := range strings.Lines(text) {
				assert.LessOrEqual(t, len(line), len("\n")+100)
			}
			transcript := strings.Join(aTranscript.FindAllString(text, -1), "")
			config := file(t, "c.json5", aConfig.FindString(text))
			got := command(transcript, "replay", "--json", "--config", config, "--agent", "careful")
			assert.Equal(t, 0, got.status)
			assert.Empty(t, got.err)
			assert.Equal(t, strings.Count(got.out, "\n"), strings.Count(got.out, `"action":"allow"`))
			assert.NotEmpty(t, got.out)
		})
	}
	for _, line := range strings.Split(command(strings.Repeat(sameCall, 11), "replay", "--json").out, "\n")[9:11] {
		shown := strings.TrimSpace(line[:min(len(line), 90)])
		assert.Contains(t, replayHelp, shown)
	}
}

// brokenPipe fails with an error from the first or a later write on.
type brokenPipe struct {
	good int
	err  error
}

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.good--; p.good < 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: p.err}
	}
	return len(b), nil
}

func TestOutputThatCannotBeWritten(t *testing.T) {
	long := strings.Repeat(sameCall, 10_000)
	for _, args := range [][]string{{"help"}, {"version"}, {"replay"}, {"replay", "--json"}, {"replay", "-h"}} {
		var err bytes.Buffer
		assert.Equal(t, exitOutput, run(args, strings.NewReader(long), &brokenPipe{0, syscall.ENOSPC}, &err), args)
		assert.Equal(t, "loopguard: write /dev/stdout: no space left on device\n", err.String())

		err.Reset()
		assert.Equal(t, exitOutput, run(args, strings.NewReader(long), &brokenPipe{0, syscall.EPIPE}, &err), args)
		assert.Empty(t, err.String(), "who went away need not be told")
	}
	var err bytes.Buffer
	input := io.MultiReader(strings.NewReader(long), strings.NewReader("broken"))
	assert.Equal(t, exitOutput, run([]string{"replay", "--json"}, input, &brokenPipe{2, errors.New("full")}, &err))
	assert.Contains(t, err.String(), "full")
}
