package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/loopguard-go/loopguard/canonical"
)

// Option changes a [Guard]. Options are made by this package only; a wrong one makes [New] fail.
type Option interface{ apply(*config) error }

type option func(*config) error

func (o option) apply(c *config) error { return o(c) }

// config is what the options set.
type config struct {
	store          Store
	defaultRun     string
	blocksAsErrors bool
	failClosed     bool
	canonical      []canonical.Option
	onDetection    []func(context.Context, Detection)
	logger         *slog.Logger
}

// WithStore sets where the histories of runs are kept. Default: a [MemoryStore] with its defaults. Guards with different
// configurations can share a store.
func WithStore(s Store) Option {
	return option(func(c *config) error {
		if s == nil {
			return errors.New("WithStore: the store is nil")
		}
		c.store = s
		return nil
	})
}

// WithDefaultRun names the run of calls whose context names none, for a program that has a single run. Default: there is
// none, and such a call is the error [ErrNoRun].
func WithDefaultRun(id string) Option {
	return option(func(c *config) error {
		if id == "" {
			return errors.New("WithDefaultRun: the id is empty")
		}
		c.defaultRun = id
		return nil
	})
}

// WithBlocksAsErrors makes a blocked call return its [*LoopError] as the error, for hosts that tell the model about errors
// themselves. Default: a block is a result that the model reads, and the error is nil. Aborts are errors either way.
func WithBlocksAsErrors() Option {
	return option(func(c *config) error {
		c.blocksAsErrors = true
		return nil
	})
}

// WithFailClosed makes a call fail with [ErrStore], without running, when the store fails. Default: the guard fails open.
// The call runs, and a local history takes over for the run until the store is back. Failing open also means that a run that
// was stopped goes on if its host lets it and the store, which knows of the stop, fails afterwards.
func WithFailClosed() Option {
	return option(func(c *config) error {
		c.failClosed = true
		return nil
	})
}

// WithKey lets a function say what makes the identity of a tool's calls, in place of their arguments: see
// [canonical.WithKey]. It must not panic. Default: the arguments, by the rules of the configuration.
func WithKey(tool string, key func(canonical.Call) string) Option {
	return option(func(c *config) error {
		if err := checkHook("WithKey", tool, key == nil); err != nil {
			return err
		}
		c.canonical = append(c.canonical, canonical.WithKey(tool, key))
		return nil
	})
}

// WithCanonicalizer lets a function change the results of a tool before they are compared: see [canonical.WithResult]. It must
// not panic. Default: results are compared as they are.
func WithCanonicalizer(tool string, change func(canonical.Call, canonical.Result) canonical.Result) Option {
	return option(func(c *config) error {
		if err := checkHook("WithCanonicalizer", tool, change == nil); err != nil {
			return err
		}
		c.canonical = append(c.canonical, canonical.WithResult(tool, change))
		return nil
	})
}

// checkHook says what is wrong with a function for one tool.
func checkHook(option, tool string, isNil bool) error {
	switch {
	case isNil:
		return fmt.Errorf("%s: the function is nil", option)
	case canonical.FoldTool(tool) == "":
		return fmt.Errorf("%s: the name of the tool is empty", option)
	case strings.ContainsAny(tool, "*?"):
		return fmt.Errorf("%s: %q is a glob, must be the name of one tool", option, tool)
	}
	return nil
}

// WithOnDetection calls a function for every detection, in the goroutine of the call and after the history was changed.
// It may be given several times. A function that blocks delays the call.
func WithOnDetection(fn func(context.Context, Detection)) Option {
	return option(func(c *config) error {
		if fn == nil {
			return errors.New("WithOnDetection: the function is nil")
		}
		c.onDetection = append(c.onDetection, fn)
		return nil
	})
}

// WithLogger logs detections, failures of the store and what [Guard.Notices] says: aborts at level Error, all else at level
// Warn. Arguments and results are never logged. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return option(func(c *config) error {
		if l == nil {
			return errors.New("WithLogger: the logger is nil")
		}
		c.logger = l
		return nil
	})
}
