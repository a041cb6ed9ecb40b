package adk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

type execution struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exitCode"`
	PID        int    `json:"pid"`
	DurationMs int    `json:"durationMs"`
	MessageID  string `json:"messageId"`
	Aggregated string `json:"aggregated"`
}

// A command that fails the same way each time, with another process, another duration and another message.
func TestALoopAtTheDefaults(t *testing.T) {
	runs := 0
	var read []string
	exec := function(t, functiontool.Config{Name: "exec"}, func(agent.Context, string) (execution, error) {
		runs++
		return execution{"failed", 1, 4000 + runs, 10 * runs, fmt.Sprintf("m-%06d", runs), fmt.Sprintf("no such file (pid %d)", 4000+runs)}, nil
	})
	guard := newGuard(t, policy.Default())
	m := reading(&read, forever("exec", `{"command":"cat report"}`))
	_, err := run(t.Context(), guarded(t, guard, llm(t, "worker", m, []tool.Tool{exec})), "s", message("the report"))
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	assert.Equal(t, policy.GlobalCircuitBreaker, loop.Detector)
	assert.Equal(t, 20, runs)
	require.Len(t, read, 30, "stopped at call 31")
	for i, said := range read {
		call := i + 1
		assert.Equal(t, call < 21, strings.Contains(said, "no such file"), "call %d: %s", call, said)
		assert.Equal(t, call == 11, strings.Contains(said, "[loopguard] Warning"), "call %d: %s", call, said)
		assert.Equal(t, call >= 21, strings.Contains(said, "[loopguard] Call refused"), "call %d: %s", call, said)
	}
}

// An agent of the same length that gets on with its work is left alone, to the byte.
func TestAHealthyAgentIsLeftAlone(t *testing.T) {
	play := func(plugins bool) (read []string, kept []map[string]any) {
		n := 0
		exec := function(t, functiontool.Config{Name: "exec"}, func(_ agent.Context, args string) (execution, error) {
			n++
			return execution{"completed", 0, 4000 + n, 10 * n, fmt.Sprintf("m-%06d", n), "content of " + args}, nil
		})
		m := reading(&read, func(t turn) *genai.Content {
			if len(t.read) == 31 {
				return say("done")
			}
			return call("exec", fmt.Sprintf(`{"command":"cat report-%d","id":9007199254740993}`, len(t.read)))
		})
		root := llm(t, "worker", m, []tool.Tool{exec})
		guard := newGuard(t, policy.Default())
		r := newRunner(t, root)
		if plugins {
			r = guarded(t, guard, root)
		}
		events, err := run(t.Context(), r, "s", message("the reports"))
		require.NoError(t, err)
		assert.Empty(t, guard.found())
		for _, response := range responsesIn(events) {
			kept = append(kept, response.Response)
		}
		return read, kept
	}
	read, kept := play(true)
	plainRead, plainKept := play(false)
	require.Len(t, read, 31)
	assert.Equal(t, plainRead, read)
	assert.Equal(t, plainKept, kept)
}
