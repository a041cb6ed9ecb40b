package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// command is a command that the client sends once. The store sends it again where that is right, and has to know that it
// did: a write that came without an answer may have been done. It also keeps the client from answering out of a cache.
type command struct{ *redis.Cmd }

// NoRetry is how a client asks.
func (command) NoRetry() bool { return true }

// A command without an answer is sent so often, after pauses of so long at the most.
const (
	maxSends  = 3
	sendAgain = 10 * time.Millisecond
)

// ask sends a command to Redis, and again if there was no answer. It returns the answer, nil for none such, and how often
// the command was sent: if that is more than once, Redis may also have done it more than once.
func (s *Store) ask(ctx context.Context, args ...any) (reply any, sent int, err error) {
	for sent = 1; ; sent++ {
		c := command{redis.NewCmd(ctx, args...)}
		c.SetStepCount(1) // of its keys: else the client asks a cluster for it, with a deadline of its own
		err = s.client.Process(ctx, c)
		if errors.Is(err, redis.Nil) {
			return nil, sent, nil
		}
		if _, answered := errors.AsType[redis.Error](err); err == nil || answered || sent == maxSends {
			return c.Val(), sent, err
		}
		if pause(ctx, sendAgain) != nil {
			return nil, sent, err // which says more
		}
	}
}

// pause waits for a moment, at random, so that those who were in each other's way are not so again. The error is that of the
// context.
func pause(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
