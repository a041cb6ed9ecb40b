package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"
)

// execTool runs shell commands in a directory. Its answer differs each time, for want of a fixed process id and duration.
// The guard knows tools of this name and compares what matters: how the command ended, and what it printed.
type execTool struct{ dir string }

func (execTool) Name() string        { return "exec" }
func (execTool) Description() string { return `runs a shell command; the input is {"command": "..."}` }

func (t execTool) Call(ctx context.Context, input string) (string, error) {
	var args struct {
		Command string `json:"command"`
	}
	if err := json.Unmarshal([]byte(input), &args); err != nil {
		return "the input is not as described: " + err.Error(), nil // for the model to mend
	}
	command := exec.CommandContext(ctx, "sh", "-c", args.Command)
	command.Dir = t.dir
	command.Env = append(os.Environ(), "LC_ALL=C")

	started := time.Now()
	output, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err // it did not even start
	}
	answer, err := json.Marshal(struct {
		PID        int    `json:"pid"`
		DurationMS int64  `json:"durationMs"`
		ExitCode   int    `json:"exitCode"`
		Output     string `json:"output"`
	}{
		command.ProcessState.Pid(), time.Since(started).Milliseconds(), command.ProcessState.ExitCode(),
		strings.TrimSpace(string(output)),
	})
	return string(answer), err
}
