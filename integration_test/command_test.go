package integration_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// binaries is where commands are built.
var binaries string

func TestMain(m *testing.M) {
	var err error
	if binaries, err = os.MkdirTemp("", "loopguard-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	_ = os.RemoveAll(binaries)
	os.Exit(status)
}

// buildCommand builds the command for the first test that needs it.
var buildCommand = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(binaries, "loopguard")
	said, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "../cmd/loopguard").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, said)
	}
	return path, nil
})

// ran is what a command did.
type ran struct {
	status   int
	out, err string
}

// loopguard runs the command as it is built.
func loopguard(t *testing.T, stdin []byte, args ...string) ran {
	t.Helper()
	path, err := buildCommand()
	require.NoError(t, err)
	var stdout, stderr bytes.Buffer
	command := exec.Command(path, args...)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(stdin), &stdout, &stderr
	if err := command.Run(); err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return ran{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// write writes a file and returns its name.
func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}
