package mcp

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/loopguard-go/loopguard/middleware"
)

// maxRuns is how many runs are known at most. The one that had no calls for the longest time has to go first.
const maxRuns = middleware.DefaultMaxRuns

// runs are the runs that the adapter opens itself: those of sessions, and those that have a name. Nobody tells it when one is
// over, so that it forgets those that have no calls, and those of sessions that are gone, when others have calls.
type runs struct {
	idle   time.Duration
	forget func(id string)

	mu    sync.Mutex
	known *simplelru.LRU[any, *run] // the one that had no calls for the longest time first
	gone  []*run                    // no longer known, and to be forgotten
}

// run is a run that had a call not long ago.
type run struct {
	key    any
	id     string
	calls  int       // in flight
	last   time.Time // when its last call ended
	forget func()    // once, however often it is called; who comes second waits
	after  func()    // forgets the one whose id it may have, to be called before its calls begin
}

func newRuns(guard *middleware.Guard, idle time.Duration) *runs {
	r := &runs{idle: idle, forget: func(id string) {
		_ = guard.Forget(middleware.WithRun(context.Background(), id)) // the guard reports it if its store fails
	}}
	r.known, _ = simplelru.NewLRU[any, *run](maxRuns, nil) // the only error is a size below 1
	return r
}

// enter returns the run of a key with one more call in flight, to be ended with leave. If there is none that is still good,
// open says what the id of a new one is, and what else is to be done when that is forgotten.
func (r *runs) enter(key any, open func() (id string, closing func())) *run {
	r.mu.Lock()
	now := time.Now()
	e, ok := r.known.Get(key)
	if !ok || e.isIdle(now, r.idle) {
		next := r.newRun(key, open)
		if ok {
			next.after = e.forget
		} else if r.known.Len() == maxRuns {
			_, oldest, _ := r.known.RemoveOldest()
			r.gone = append(r.gone, oldest)
		}
		r.known.Add(key, next)
		e = next
	}
	e.calls++
	r.mu.Unlock()
	e.after()
	return e
}

func (r *runs) newRun(key any, open func() (id string, closing func())) *run {
	id, closing := open()
	return &run{key: key, id: id, after: func() {}, forget: sync.OnceFunc(func() {
		closing()
		r.forget(id)
	})}
}

// leave ends a call, and forgets a few runs that are over: more than a call can open.
func (r *runs) leave(e *run) {
	r.mu.Lock()
	now := time.Now()
	e.calls--
	e.last = now
	r.known.Get(e.key)
	over := r.over(now)
	r.mu.Unlock()

	for _, e := range over {
		if e == nil {
			continue
		}
		e.forget()
		r.drop(e)
	}
}

// over returns runs that are over. Those that are known stay so until they are forgotten: whoever wants one meanwhile has to
// wait for that.
func (r *runs) over(now time.Time) (over [2]*run) {
	for i := range over {
		if n := len(r.gone); n > 0 {
			over[i] = r.gone[n-1]
			r.gone[n-1] = nil
			r.gone = r.gone[:n-1]
			continue
		}
		key, e, ok := r.known.GetOldest()
		if !ok || now.Sub(e.last) < r.idle {
			break
		}
		r.known.Get(key) // so that it is the last in line
		if e.calls == 0 {
			over[i] = e
		}
	}
	return over
}

// drop makes a run unknown, unless another one has taken its place.
func (r *runs) drop(e *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.known.Peek(e.key); ok && now == e {
		r.known.Remove(e.key)
	}
}

// end says that there will be no more calls of a key. It is quick, as the garbage collector waits for it.
func (r *runs) end(key any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.known.Peek(key); ok {
		r.known.Remove(key)
		r.gone = append(r.gone, e)
	}
}

func (e *run) isIdle(now time.Time, idle time.Duration) bool {
	return e.calls == 0 && now.Sub(e.last) >= idle
}
