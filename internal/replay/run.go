package replay

import (
	"context"

	"github.com/loopguard-go/loopguard/middleware"
)

// run is what the player keeps of one run.
type run struct {
	ctx  context.Context         // in which the guard is asked about the run
	open map[string][]openedCall // by id, the oldest first
}

// openedCall is a call whose outcome has not come yet. The ticket is nil if the guard refused it: the recorded call went
// on all the same, and its outcome is to be skipped.
type openedCall struct {
	tool   string
	ticket *middleware.Ticket
}

func newRun(id string) *run {
	// A guard takes the empty id for none, and here it is one.
	return &run{ctx: middleware.WithRun(context.Background(), "run "+id), open: map[string][]openedCall{}}
}

// push adds an open call.
func (r *run) push(id string, call openedCall) { r.open[id] = append(r.open[id], call) }

// pop takes the oldest open call with an id.
func (r *run) pop(id string) (call openedCall, ok bool) {
	queue := r.open[id]
	if len(queue) == 0 {
		return openedCall{}, false
	}
	call, queue[0] = queue[0], openedCall{}
	if r.open[id] = queue[1:]; len(queue) == 1 {
		delete(r.open, id)
	}
	return call, true
}
