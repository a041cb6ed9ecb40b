package backends

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server must not outlive its test, not even one that panics, runs out of time or is killed. So it is started by a keeper,
// which is this test binary once more, and the keeper stops it when its own standard input is closed. The operating system
// does that, whatever becomes of the test.

const (
	keeperVariable = "LOOPGUARD_TEST_KEEPER"
	grace          = 10 * time.Second // for a server to end after SIGTERM
)

func TestMain(m *testing.M) {
	if os.Getenv(keeperVariable) != "" {
		os.Exit(keep(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// keep runs a command until it ends, or until standard input does.
func keep(command []string) (status int) {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // it reaches the server, too; the keeper waits for that to end

	server := exec.Command(command[0], command[1:]...)
	server.Stdout, server.Stderr = os.Stdout, os.Stderr
	if err := server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended, released := make(chan error, 1), make(chan struct{})
	go func() { ended <- server.Wait() }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(released)
	}()

	select {
	case err := <-ended:
		fmt.Fprintln(os.Stderr, "the server ended by itself:", err)
		return 1
	case <-released:
	}
	if err := server.Process.Signal(syscall.SIGTERM); err == nil {
		select {
		case <-ended:
			return 0
		case <-time.After(grace):
		}
	}
	_ = server.Process.Kill()
	<-ended
	return 0
}

// kept starts a command with a keeper, which stops it when the test is over. It returns what the command writes to standard
// error.
func kept(t *testing.T, environment []string, command ...string) io.Reader {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	keeper := exec.Command(self, command...)
	keeper.Env = append(os.Environ(), append(environment, keeperVariable+"=1")...)
	stdin, err := keeper.StdinPipe()
	require.NoError(t, err)
	output, input, err := os.Pipe()
	require.NoError(t, err)
	keeper.Stderr = input
	require.NoError(t, keeper.Start())
	require.NoError(t, input.Close())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = keeper.Wait()
		_ = output.Close()
	})
	return output
}

func TestTheKeeperStopsWhatItKeeps(t *testing.T) {
	for name, script := range map[string]string{
		"a server that ends when it is told to": `echo "$$" >&2; exec sleep 600`,
		"a server that ended by itself":         `echo "$$" >&2`,
	} {
		t.Run(name, func(t *testing.T) {
			var pid int
			t.Run("a test", func(t *testing.T) {
				_, err := fmt.Fscan(kept(t, nil, "sh", "-c", script), &pid)
				require.NoError(t, err)
			})
			process, err := os.FindProcess(pid)
			require.NoError(t, err)
			require.ErrorIs(t, process.Signal(syscall.Signal(0)), os.ErrProcessDone)
		})
	}
	t.Run("a server that cannot be started", func(t *testing.T) {
		said, err := io.ReadAll(kept(t, nil, "./no-such-server"))
		require.NoError(t, err)
		require.Contains(t, string(said), "no-such-server")
	})
}

// binary returns the Jaeger to test with. Without one there is nothing to do, but where it is required that is a failure.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LOOPGUARD_JAEGER")
	switch {
	case path != "":
		_, err := os.Stat(path)
		require.NoError(t, err, "LOOPGUARD_JAEGER must name the binary of Jaeger")
	case os.Getenv("LOOPGUARD_BACKENDS") == "required" || os.Getenv("CI") == "true":
		require.Fail(t, "LOOPGUARD_JAEGER names no Jaeger, and here it is required: run `make test-backends`")
	default:
		t.Skip("LOOPGUARD_JAEGER names no Jaeger: `make test-backends` builds it and runs this test")
	}
	return path
}

// poll tries something until it comes true. Backends take what they are sent in their own time.
func poll(t *testing.T, what string, try func() error) {
	t.Helper()
	const tries = 200
	err := errors.New("not tried")
	for range tries {
		if err = try(); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.NoError(t, err, "%s, after %d tries", strings.TrimSpace(what), tries)
}
