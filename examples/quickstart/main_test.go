package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestItShowsWhatItPromises(t *testing.T) {
	t.Setenv(endpointVariable, "")
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	for _, promised := range []string{
		"warn   exec", "block  exec", "block  search_code", "abort  exec", // the guard, call by call
		"Warning: This very call was already made 5 times.", // what the model reads
		"Call refused: the tool was not run.",
		"The run finished: The file is called db.yaml", // how it ends
		"The run finished: I have no tool to search code with",
		"The run was stopped. errors.As gives a *middleware.LoopError",
		"span \"stuck on a failing command\"\n     span \"invoke_agent helper\"\n", // the traces
		"span \"execute_tool exec\"", "span \"execute_tool search_code\"",
		"(5 × execute_tool without events)", "(4 × execute_tool without events)",
		"status: Error, stopped by global_circuit_breaker",
		"loopguard.detection",
		"loopguard.detector=generic_repeat loopguard.action=warn",
		"loopguard.detector=unknown_tool_repeat loopguard.action=block",
		"loopguard.detector=global_circuit_breaker loopguard.action=abort",
		"gen_ai.tool.call.id=call_6",
	} {
		assert.Contains(t, out.String(), promised)
	}
	for line := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), len(margin)+width, line)
	}
}

func TestItIsTheSameEachTime(t *testing.T) {
	t.Setenv(endpointVariable, "")
	var first, second strings.Builder
	require.NoError(t, run(t.Context(), &first))
	require.NoError(t, run(t.Context(), &second))
	assert.Equal(t, masked(first.String()), masked(second.String()))
}

// masked takes out what differs: process ids, durations and the ids of runs.
func masked(s string) string {
	return regexp.MustCompile(`("pid":|"durationMs":|loopguard\.run\.id=)[\w-]+`).ReplaceAllString(s, "$1_")
}

func TestItSendsTheTrace(t *testing.T) {
	var path, sent string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		path, sent = r.URL.Path, string(body)
	}))
	defer collector.Close()
	t.Setenv(endpointVariable, collector.URL)

	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, "/v1/traces", path)
	for _, name := range []string{
		serviceName, "invoke_agent helper", "execute_tool exec", "loopguard.detection", "generic_repeat", "unknown_tool_repeat",
	} {
		assert.Contains(t, sent, name)
	}
	assert.NotContains(t, sent, "db.yml", "no arguments")
	assert.NotContains(t, sent, "3 jobs waiting", "and no results")
	assert.Contains(t, out.String(), "The traces were sent to "+collector.URL)
	assert.NotContains(t, out.String(), "loopguard.detection")
}

func TestACollectorThatIsNotThere(t *testing.T) {
	refuses := httptest.NewServer(nil)
	refuses.Close()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	for name, collector := range map[string]*httptest.Server{"refuses": refuses, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(endpointVariable, collector.URL)
			started := time.Now()
			err := run(t.Context(), io.Discard)
			require.ErrorContains(t, err, "the traces could not be sent to "+collector.URL)
			assert.Less(t, time.Since(started), patience+2*time.Second)
		})
	}
}
