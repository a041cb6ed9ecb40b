package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"
)

// TestMain is also the way in for the processes that tests start: keepers of servers, and workers.
func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it says a lot about servers that are killed
	switch {
	case os.Getenv(keeperVariable) != "":
		os.Exit(keep(os.Args[1:]))
	case os.Getenv(workerVariable) != "":
		os.Exit(work(os.Getenv(workerVariable)))
	}
	status := m.Run()
	if n := skipped.Load(); n > 0 {
		fmt.Printf("%d tests were skipped: there is no redis-server on the PATH (on Debian it is in the package of that name)\n", n)
	}
	if status == 0 && leftGoroutines() {
		fmt.Println("a goroutine of the store outlived its call")
		status = 1
	}
	os.Exit(status)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// leftGoroutines reports whether something of the store still runs.
func leftGoroutines() bool {
	stacks := make([]byte, 16<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return bytes.Contains(stacks, []byte("redisstore.(*Store)"))
}
