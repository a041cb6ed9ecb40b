package middleware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"go.opentelemetry.io/otel/metric"

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
	hooks          map[[2]string]bool // options and the tools that they were given for
	onDetection    []func(context.Context, Detection)
	logger         *slog.Logger
	events         Events
	meters         metric.MeterProvider
	metricTools    []string
	digestKey      []byte
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
// was stopped goes on if its host lets it and the store, which knows of the stop, fails afterwards. A [MemoryStore] never
// fails.
func WithFailClosed() Option {
	return option(func(c *config) error {
		c.failClosed = true
		return nil
	})
}

// WithKey lets a function say what makes the identity of a tool's calls, in place of their arguments: see
// [canonical.WithKey]. It must not panic. A tool has one at the most. Default: the arguments, by the rules of the
// configuration.
func WithKey(tool string, key func(canonical.Call) string) Option {
	return option(func(c *config) error {
		if err := c.checkHook("WithKey", tool, key == nil); err != nil {
			return err
		}
		c.canonical = append(c.canonical, canonical.WithKey(tool, key))
		return nil
	})
}

// WithCanonicalizer lets a function change the results of a tool before they are compared: see [canonical.WithResult]. It must
// not panic. A tool has one at the most. Default: results are compared as they are.
func WithCanonicalizer(tool string, change func(canonical.Call, canonical.Result) canonical.Result) Option {
	return option(func(c *config) error {
		if err := c.checkHook("WithCanonicalizer", tool, change == nil); err != nil {
			return err
		}
		c.canonical = append(c.canonical, canonical.WithResult(tool, change))
		return nil
	})
}

// checkHook says what is wrong with a function for one tool, which has one of each kind at the most.
func (c *config) checkHook(option, tool string, isNil bool) error {
	if isNil {
		return fmt.Errorf("%s: the function is nil", option)
	}
	if err := checkTool(option, tool); err != nil {
		return err
	}
	hook := [2]string{option, canonical.FoldTool(tool)}
	if c.hooks[hook] {
		return fmt.Errorf("%s: %q has a function already", option, tool)
	}
	if c.hooks == nil {
		c.hooks = map[[2]string]bool{}
	}
	c.hooks[hook] = true
	return nil
}

// checkTool says what is wrong with the name of a tool.
func checkTool(option, tool string) error {
	switch {
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

// WithEvents gives the events to something else than spans, such as the logs of OpenTelemetry, which plans to move events there:
// see the module middleware/otellog. What is said on the span itself stays there. Default: events are on spans.
func WithEvents(e Events) Option {
	return option(func(c *config) error {
		if e == nil {
			return errors.New("WithEvents: it is nil")
		}
		c.events = e
		return nil
	})
}

// WithMeterProvider measures, with the instruments that are listed as Metric constants. The numbers of several memory stores
// add up. Default: nothing is measured.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(c *config) error {
		if p == nil {
			return errors.New("WithMeterProvider: the provider is nil")
		}
		c.meters = p
		return nil
	})
}

// WithMetricTools names the tools that metrics tell apart, by [AttrToolName]. All others, and those that a model makes up,
// are counted without a name, so that there are never more time series than you chose. Default: none. It needs
// [WithMeterProvider].
func WithMetricTools(tools ...string) Option {
	return option(func(c *config) error {
		for _, tool := range tools {
			if err := checkTool("WithMetricTools", tool); err != nil {
				return err
			}
		}
		c.metricTools = append(c.metricTools, tools...)
		return nil
	})
}

// WithDigestKey makes the digests that are shown, on traces, in logs and in errors, keyed ones (HMAC-SHA-256): without the
// key nobody can find out by trying what arguments a digest stands for. Guards with the same key show the same digests.
// Default: no key. Histories hold digests without key.
func WithDigestKey(key []byte) Option {
	key = bytes.Clone(key)
	return option(func(c *config) error {
		if len(key) == 0 {
			return errors.New("WithDigestKey: the key is empty")
		}
		c.digestKey = key
		return nil
	})
}
