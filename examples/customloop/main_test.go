package main

import (
	"bytes"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// locked makes a buffer safe for the calls that run at the same time.
type locked struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func TestCustomLoop(t *testing.T) {
	out := &locked{}
	require.NoError(t, run(t.Context(), out))
	for _, promised := range []string{
		"guard: warn by known_poll_no_progress at 5, tool job_c, run watch",
		"guard: block by known_poll_no_progress at 10, tool job_c, run watch",
		"answer: Jobs a and b are running; job c is stuck",
		"guard: block by generic_repeat at 10, tool read_page, run question/researcher-1",
		"guard: abort by compaction_loop_persisted at 3, tool read_file, run refactoring",
		"stopped: loopguard: run stopped by compaction_loop_persisted",
	} {
		require.Contains(t, out.buffer.String(), promised)
	}
	for _, moving := range []string{"tool job_a,", "tool job_b,"} {
		require.NotContains(t, out.buffer.String(), moving, "a job that moves is left alone")
	}
}
