package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
)

// report keeps what the guard found, by run, to print it at the end.
type report struct {
	mu    sync.Mutex
	found map[string][]middleware.Detection
}

// detected is called by the guard, from many runs at the same time.
func (r *report) detected(_ context.Context, d middleware.Detection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[d.Run] = append(r.found[d.Run], d)
}

// print says of each run how it ended, where it is in the backend, and what the guard found.
func (r *report) print(out io.Writer, outcomes []outcome) {
	const row = "%-16s  %5v  %-8s  %-32v  %s\n"
	fmt.Fprintf(out, row, "agent", "calls", "ended", "trace id", "run id")
	for _, o := range outcomes {
		ended := "answered"
		switch {
		case errors.Is(o.err, middleware.ErrLoop):
			ended = "stopped"
		case o.err != nil:
			ended = "failed"
		}
		fmt.Fprintf(out, row, o.name, o.calls, ended, o.trace, o.run)
		for _, d := range r.found[o.run] {
			fmt.Fprintf(out, "%s%-5s  %s at %d\n", strings.Repeat(" ", 25), d.Action, d.Detector, d.Count)
		}
	}
}
