package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// server is a Redis of a test's own, on the loopback interface and in a folder that goes with the test.
type server struct {
	t       testing.TB
	dir     string
	port    int
	args    []string
	process *kept
}

// skipped counts the tests that had no server.
var skipped atomic.Int64

// binary returns the server to test with. Without one there is nothing to do, but in CI that is a failure.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		require.Fail(t, "there is no redis-server on the PATH, and in CI it is required")
	}
	skipped.Add(1)
	t.Skip("there is no redis-server on the PATH (on Debian it is in the package of that name)")
	return ""
}

// startServer starts a Redis that keeps nothing on disk, unless the arguments say so.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	port := freePort(t)
	return startServerOn(t, port, append([]string{"--port", strconv.Itoa(port)}, args...)...)
}

// startServerOn is startServer for arguments that say themselves how the port is used.
func startServerOn(t testing.TB, port int, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), port: port}
	s.args = append([]string{
		"--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log"), "--save", "", "--daemonize", "no",
	}, args...)
	s.start()
	return s
}

// start starts the server and waits until it takes connections.
func (s *server) start() {
	s.t.Helper()
	s.process = startKept(s.t, append([]string{binary(s.t)}, s.args...)...)
	for range 200 {
		if conn, err := net.Dial("tcp", s.addr()); err == nil {
			_ = conn.Close()
			return
		}
		if s.process.hasEnded() {
			break
		}
		time.Sleep(25 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	require.Fail(s.t, "the server did not start", "%s", log)
}

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// kill ends the server at once, as a machine that fails does.
func (s *server) kill() {
	s.t.Helper()
	require.NoError(s.t, s.process.Kill())
	s.process.end()
}

// pause stops the server where it stands, so that connections are taken and nothing is answered, until resume.
func (s *server) pause()  { s.signal(syscall.SIGSTOP) }
func (s *server) resume() { s.signal(syscall.SIGCONT) }

func (s *server) signal(signal os.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.process.Signal(signal))
}

// options are those of a client that may be used with a store.
func (s *server) options() *redis.Options {
	return &redis.Options{Addr: s.addr(), ContextTimeoutEnabled: true}
}

// client returns a client that is closed with the test.
func (s *server) client(options ...func(*redis.Options)) *redis.Client {
	o := s.options()
	for _, change := range options {
		change(o)
	}
	client := redis.NewClient(o)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// ask has the server do something that the store has no part in.
func (s *server) ask(args ...any) any {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := s.client().Do(ctx, args...).Result()
	require.NoError(s.t, err, "%v", args)
	return reply
}

// freePort returns a port that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// waitFor waits until something is so.
func waitFor(t testing.TB, what string, so func() error) {
	t.Helper()
	err := fmt.Errorf("not tried")
	for range 400 {
		if err = so(); err == nil {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	require.NoError(t, err, what)
}
