package integration_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// readme returns the README of the project.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	return string(text)
}

// blocks returns the blocks of code in a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(readme(t), -1) {
		found = append(found, match[1])
	}
	require.NotEmpty(t, found, "no block of %s in the README", language)
	return found
}

// moduleOf returns the directory of the module in which code compiles: that of the adapter which it imports, if the adapter
// has a module of its own.
func moduleOf(code string) string {
	for _, match := range regexp.MustCompile(`"github.com/loopguard-go/loopguard/(.*)"`).FindAllStringSubmatch(code, -1) {
		dir := filepath.Join("..", match[1])
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return ".."
}

// The Go code of the README compiles, and is formatted.
func TestReadmeGoCompiles(t *testing.T) {
	for i, code := range blocks(t, "go") {
		t.Run(fmt.Sprint(i+1), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "readme.go")
			require.NoError(t, os.WriteFile(file, []byte(code), 0o600))
			for _, command := range [][]string{{"go", "vet", file}, {"gofmt", "-d", file}} {
				run := exec.CommandContext(t.Context(), command[0], command[1:]...)
				run.Dir, run.Env = moduleOf(code), append(os.Environ(), "GOWORK=off")
				out, err := run.CombinedOutput()
				require.NoError(t, err, "%s", out)
				require.Empty(t, string(out))
			}
		})
	}
}

// The configuration of the README is valid, for every agent in it, and nothing in it surprises.
func TestReadmeConfigurationIsValid(t *testing.T) {
	example, err := os.ReadFile("../examples/loops.json5")
	require.NoError(t, err)
	require.Equal(t, blocks(t, "json5")[0], string(example), "the example is the one of the README")
	for _, document := range blocks(t, "json5") {
		for _, agent := range []string{"", "nightly"} {
			config, err := policy.ParseConfig(strings.NewReader(document), agent)
			require.NoError(t, err)
			require.NotZero(t, config)
			_, notices, err := policy.New(config)
			require.NoError(t, err)
			require.Empty(t, notices)
		}
	}
}

// The README knows every detector, and every name on a trace.
func TestReadmeIsComplete(t *testing.T) {
	text := readme(t)
	for _, name := range []string{
		policy.GenericRepeat, policy.KnownPollNoProgress, policy.PingPong, policy.ErrorStreak, policy.UnknownToolRepeat,
		policy.Stagnation, policy.GlobalCircuitBreaker, policy.CompactionLoopPersisted,
		middleware.EventDetection, middleware.EventStoreFailure,
		middleware.AttrDetector, middleware.AttrAction, middleware.AttrEnforced, middleware.AttrCount,
		middleware.AttrThreshold, middleware.AttrPairedTool, middleware.AttrReason, middleware.AttrRunID,
		middleware.AttrCallDigest, middleware.AttrToolName, middleware.AttrToolCallID,
	} {
		assert.Contains(t, text, "`"+name+"`")
	}
}

// code is what is no prose in a page: in Go, too, brackets may follow brackets.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

// Links to files of the project lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	pages = append(pages, "../README.md", "../CHANGELOG.md", "../examples/README.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		text = code.ReplaceAll(text, nil)
		for _, match := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			assert.FileExists(t, orDir(filepath.Join(filepath.Dir(page), match[1])), "%s links to %s", page, match[1])
		}
	}
}

// orDir returns a path, or some file in it if it is a folder.
func orDir(path string) string {
	if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
		return orDir(filepath.Join(path, entries[len(entries)-1].Name()))
	}
	return path
}
