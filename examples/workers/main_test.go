package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestWorkers(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			require.NoError(t, err, "in CI it is required")
		}
		t.Skip("there is no redis-server on the PATH")
	}
	server, err := startServer(t.Context())
	require.NoError(t, err)
	defer server.stop()
	for redis, addr := range map[string]string{"of its own": "", "that is there": server.addr} {
		t.Run("a Redis "+redis, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), addr, &out))
			for _, promised := range []string{
				"call  1  worker a  allow",
				"call 10  worker b  allow",
				"call 11  worker a  warn",
				"call 20  worker b  allow",
				"call 21  worker a  block",
				"Call refused: the tool was not run.",
				"Worker a ran 10 of the calls and worker b 10.",
				"warned at call 11 of its own", "refused at call 21: neither of them came that far.",
			} {
				assert.Contains(t, out.String(), promised)
			}
			_, started, isStarted := strings.Cut(out.String(), "Redis was started at ")
			assert.Equal(t, addr == "", isStarted)
			if isStarted {
				started, _, _ = strings.Cut(started, ".\n")
				_, err := net.Dial("tcp", started)
				assert.Error(t, err, "what was started is stopped")
			}
		})
	}
}

func TestThereIsNoRedis(t *testing.T) {
	t.Run("on the PATH", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		err := run(t.Context(), "", &bytes.Buffer{})
		require.ErrorContains(t, err, "there is no redis-server on the PATH")
		require.ErrorContains(t, err, "-redis host:port or in REDIS_ADDR")
	})
	t.Run("at the address", func(t *testing.T) {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, port.Close())
		require.ErrorContains(t, run(t.Context(), port.Addr().String(), &bytes.Buffer{}),
			"no Redis answers at "+port.Addr().String()+": dial tcp "+port.Addr().String()+": connect: connection refused")
	})
}
