package redisstore

import (
	"fmt"
	"strings"
	"time"
)

// Option changes a [Store]. Options are made by this package only; a wrong one makes [New] fail.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

// config is what the options set.
type config struct {
	prefix  string
	idle    time.Duration
	timeout time.Duration
	trusted bool
}

// WithPrefix sets what the keys begin with. Default "loopguard:". It holds no braces, with which all runs of a cluster would
// be in one slot.
func WithPrefix(prefix string) Option {
	return option(func(c *config) error {
		if strings.ContainsAny(prefix, "{}") {
			return fmt.Errorf("WithPrefix: %q has braces, which are for the id of the run", prefix)
		}
		c.prefix = prefix
		return nil
	})
}

// WithIdleTime sets the time after which a run is forgotten if it had no calls. Default one hour, at least a millisecond.
func WithIdleTime(d time.Duration) Option {
	return option(func(c *config) error {
		if d < time.Millisecond {
			return fmt.Errorf("WithIdleTime: %s is too short, must be at least 1ms", d)
		}
		c.idle = d
		return nil
	})
}

// WithTimeout sets how long a step may take, all that it does and waits for included: a call has two of them, one when it
// begins and one when it ends. Default 500 ms. A shorter deadline of the context is kept too.
func WithTimeout(d time.Duration) Option {
	return option(func(c *config) error {
		if d <= 0 {
			return fmt.Errorf("WithTimeout: %s is too short, must be more than 0", d)
		}
		c.timeout = d
		return nil
	})
}

// WithTrustedClient takes a client of which [New] cannot see the options, such as one that wraps another: whoever gives it
// vouches that it honours the deadlines of contexts and does not read from replicas. Default: such a client is refused.
func WithTrustedClient() Option {
	return option(func(c *config) error {
		c.trusted = true
		return nil
	})
}
