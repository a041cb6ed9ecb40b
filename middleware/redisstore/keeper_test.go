package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server must not outlive its test, not even one that panics, runs out of time or is killed. So it is started by a keeper,
// which is this test binary once more, and the keeper kills it when its own standard input is closed. The operating system
// does that, whatever becomes of the test. A server may be paused by then, so that it is not asked but killed.

const (
	keeperVariable = "LOOPGUARD_TEST_KEEPER"
	endAtOnce      = "GORACE=atexit_sleep_ms=0" // with the race detector a process waits for a second else
)

// keep runs a command until it ends, or until standard input does, and tells its process id.
func keep(command []string) (status int) {
	signal.Ignore(os.Interrupt) // it reaches the test, too, which then closes the input

	server := exec.Command(command[0], command[1:]...)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(server.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Process.Kill()
	}()
	<-ended
	return 0
}

// kept is a process with a keeper.
type kept struct {
	*os.Process
	release io.Closer
	ended   chan struct{}
}

// startKept starts a command with a keeper, which ends it when the test is over.
func startKept(t testing.TB, command ...string) *kept {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	keeper := exec.Command(self, command...)
	keeper.Env = append(os.Environ(), keeperVariable+"=1", endAtOnce)
	keeper.Stderr = os.Stderr
	stdin, err := keeper.StdinPipe()
	require.NoError(t, err)
	stdout, err := keeper.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, keeper.Start())

	k := &kept{release: stdin, ended: make(chan struct{})}
	t.Cleanup(k.end)
	var pid int
	_, err = fmt.Fscan(bufio.NewReader(stdout), &pid)
	go func() {
		_ = keeper.Wait()
		close(k.ended)
	}()
	require.NoError(t, err, "%v was not started", command)
	k.Process, err = os.FindProcess(pid)
	require.NoError(t, err)
	return k
}

// end ends the process and waits until it is gone.
func (k *kept) end() {
	_ = k.release.Close()
	<-k.ended
}

// hasEnded reports whether the process ended by itself.
func (k *kept) hasEnded() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}
