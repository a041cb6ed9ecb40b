package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// server is a Redis of our own, for those who have none at hand.
type server struct {
	addr    string
	dir     string
	process *exec.Cmd
}

// startServer starts a Redis on the loopback interface that keeps nothing on disk.
func startServer(ctx context.Context) (*server, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, fmt.Errorf("there is no redis-server on the PATH (on Debian: apt-get install redis-server); "+
			"or name a Redis with -redis host:port or in %s", redisVariable)
	}
	dir, err := os.MkdirTemp("", "loopguard-workers-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	port, err := freePort()
	if err != nil {
		s.stop()
		return nil, err
	}
	s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s.process = exec.CommandContext(ctx, path,
		"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--loglevel", "warning")
	if err := s.process.Start(); err != nil {
		s.stop()
		return nil, err
	}
	for range 100 {
		if conn, err := net.Dial("tcp", s.addr); err == nil {
			_ = conn.Close()
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, errors.New("the redis-server that was started does not answer")
}

// stop ends the server and removes what it left.
func (s *server) stop() {
	if s.process != nil && s.process.Process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// freePort returns a port that nobody listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
