package redisstore

import (
	"context"
	"sync"
)

// locks let one call of this process at a time work on a run. Without them the calls of a process would be in each other's
// way in Redis, where all but one of them would have to begin again.
type locks struct {
	mu   sync.Mutex
	runs map[string]*lock
}

type lock struct {
	taken chan struct{} // is full while somebody works on the run
	users int           // how many work on it or wait
}

// acquire waits until nobody works on a run. The error is that of the context.
func (l *locks) acquire(ctx context.Context, key string) (release func(), err error) {
	k := l.use(key)
	select {
	case k.taken <- struct{}{}:
		return func() {
			<-k.taken
			l.leave(key, k)
		}, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, ctx.Err()
	}
}

func (l *locks) use(key string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.runs[key]
	if !ok {
		k = &lock{taken: make(chan struct{}, 1)}
		if l.runs == nil {
			l.runs = make(map[string]*lock)
		}
		l.runs[key] = k
	}
	k.users++
	return k
}

func (l *locks) leave(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.runs, key)
	}
}
