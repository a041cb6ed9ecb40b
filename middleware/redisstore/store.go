package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// The defaults of a Store.
const (
	DefaultPrefix   = "loopguard:"
	DefaultIdleTime = time.Hour
	DefaultTimeout  = 500 * time.Millisecond
)

// Where several processes work on one run, one of them writes and the others have to take their step again. They do it at
// once, as long as the newest state is at hand; but after so many attempts in a row they pause, for so long at the most, so as
// not to be in each other's way.
const (
	burst  = 3
	recess = 2 * time.Millisecond
)

// Store keeps states in Redis, each under one key, and forgets them when they were not changed for some time. It is safe for
// concurrent use, by this process and by others. It starts no goroutines and needs no closing; the client is its owner's.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	idle    time.Duration
	timeout time.Duration
	locks   locks
}

var _ middleware.Store = (*Store)(nil)

// New makes a store on a client. It does not ask whether Redis is there: that may be so later. The error says what is wrong
// with an option, or with the client: it must honour the deadlines of contexts (ContextTimeoutEnabled), as else a call hangs
// for as long as a server does, and it must not read from replicas, as these tell what was.
func New(client redis.UniversalClient, options ...Option) (*Store, error) {
	c := config{prefix: DefaultPrefix, idle: DefaultIdleTime, timeout: DefaultTimeout}
	for _, o := range options {
		if o == nil {
			return nil, errors.New("redisstore: an option is nil")
		}
		if err := o.apply(&c); err != nil {
			return nil, fmt.Errorf("redisstore: %w", err)
		}
	}
	if err := checkClient(client, c.trusted); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return &Store{client: client, prefix: c.prefix, idle: c.idle, timeout: c.timeout}, nil
}

// Update lets fn change the state of a run. It runs fn once more for each time that another process was faster. The error is
// that of fn; or matches [middleware.ErrStateLost] if the step was kept and what was there before could not be read; or matches
// [policy.ErrNewerState] if a newer version wrote what is there, which stays as it is; or says what Redis did, or that time
// was over: then the step may have been kept, if that was while it was being written.
func (s *Store) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	key := s.key(run)
	release, err := s.locks.acquire(ctx, key)
	if err != nil {
		return s.fault(ctx, "waiting for other calls of the run", err)
	}
	defer release()

	value, err := s.get(ctx, key)
	if err != nil {
		return s.fault(ctx, "reading", err)
	}
	for attempt := 1; ; attempt++ {
		var state policy.State
		past, err := readEntry(value, &state)
		if errors.Is(err, policy.ErrNewerState) {
			return fmt.Errorf("redisstore: %s: %w", key, err)
		}
		var lost error
		if err != nil {
			lost = fmt.Errorf("redisstore: %w: %s: %w", middleware.ErrStateLost, key, err)
		}
		if err := fn(&state); err != nil {
			return err
		}
		next, err := newEntry(past, &state)
		if err != nil {
			return fmt.Errorf("redisstore: %s: %w", key, err)
		}
		now, kept, err := s.swap(ctx, key, value, next)
		if kept {
			return lost
		}
		if err == nil && attempt%burst == 0 {
			err = pause(ctx, recess)
		}
		if err != nil {
			return s.fault(ctx, "writing", err)
		}
		value = now
	}
}

// Forget removes the state of a run.
func (s *Store) Forget(ctx context.Context, run string) error {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	if _, _, err := s.ask(ctx, "del", s.key(run)); err != nil {
		return s.fault(ctx, "removing", err)
	}
	return nil
}

// get returns what is kept under a key, or nothing.
func (s *Store) get(ctx context.Context, key string) (string, error) {
	reply, _, err := s.ask(ctx, "get", key)
	value, _ := reply.(string)
	return value, err
}

// bound gives a context the timeout of the store, so that also a step without deadline has one.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout,
		fmt.Errorf("not done within %s: %w", s.timeout, context.DeadlineExceeded))
}

// fault says what was being done when an error came, and that time was over if it was.
func (s *Store) fault(ctx context.Context, doing string, err error) error {
	switch {
	case err == ctx.Err():
		err = context.Cause(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("redisstore: %s: %w (%w)", doing, context.Cause(ctx), err)
	}
	return fmt.Errorf("redisstore: %s: %w", doing, err)
}
