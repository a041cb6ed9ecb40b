package guardtest

import (
	"context"
	"errors"
	"sync"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// watchedStore is a store that shows what an adapter does to the histories of its runs.
type watchedStore struct {
	middleware.Store

	mu      sync.Mutex
	failing bool
	last    map[string][]policy.Record // by run: what was in its history last, before it was forgotten
	live    map[string]bool            // runs that were not forgotten
}

var errStore = errors.New("the store is down")

func newWatchedStore() *watchedStore {
	return &watchedStore{
		Store: middleware.NewMemoryStore(),
		last:  map[string][]policy.Record{},
		live:  map[string]bool{},
	}
}

func (w *watchedStore) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return errStore
	}
	return w.Store.Update(ctx, run, func(s *policy.State) error {
		if err := fn(s); err != nil {
			return err
		}
		w.last[run], w.live[run] = s.Last(1000), true
		return nil
	})
}

func (w *watchedStore) Forget(ctx context.Context, run string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing {
		return errStore
	}
	delete(w.live, run)
	return w.Store.Forget(ctx, run)
}

// runs returns how many runs there were, and how many of them were not forgotten.
func (w *watchedStore) runs() (all, live int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.last), len(w.live)
}

// records counts the records, of all runs, of which something is true.
func (w *watchedStore) records(is func(policy.Record) bool) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, records := range w.last {
		for _, r := range records {
			if is(r) {
				n++
			}
		}
	}
	return n
}

func isOpen(r policy.Record) bool { return r.Status == policy.Open }

// fail makes all that comes now fail.
func (w *watchedStore) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = true
}
