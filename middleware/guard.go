package middleware

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// Guard judges the tool calls of agents. It does not change after [New] and is safe for concurrent use.
type Guard struct {
	policy        *policy.Policy
	notices       []policy.Notice
	canonicalizer *canonical.Canonicalizer
	histories     histories
	reporter      reporter

	defaultRun     string
	blocksAsErrors bool
	digestKey      []byte
}

// New makes a guard. The error names what is wrong with the configuration or an option.
func New(c policy.Config, options ...Option) (*Guard, error) {
	rules, notices, err := policy.New(c)
	if err != nil {
		return nil, fmt.Errorf("loopguard: %w", err)
	}
	var o config
	for _, option := range options {
		if option == nil {
			return nil, errors.New("loopguard: an option is nil")
		}
		if err := option.apply(&o); err != nil {
			return nil, fmt.Errorf("loopguard: %w", err)
		}
	}
	if o.meters == nil && len(o.metricTools) > 0 {
		return nil, errors.New("loopguard: WithMetricTools: nothing is measured without WithMeterProvider")
	}
	if o.store == nil {
		o.store = NewMemoryStore()
	}
	instruments, err := newMetrics(o.meters, o.metricTools, o.store)
	if err != nil {
		return nil, fmt.Errorf("loopguard: %w", err)
	}
	identity := append([]canonical.Option{canonical.WithRules(func(tool string) canonical.Rule {
		r := rules.ToolRule(tool)
		return canonical.Rule{
			Kind: r.Kind, IdentityArgs: r.IdentityArgs, IgnoreArgs: r.IgnoreArgs, IgnoreResult: r.IgnoreResult,
		}
	})}, o.canonical...)
	g := &Guard{
		policy:         rules,
		notices:        notices,
		canonicalizer:  canonical.New(identity...),
		reporter:       reporter{events: o.events, metrics: instruments, logger: o.logger, callbacks: o.onDetection},
		defaultRun:     o.defaultRun,
		blocksAsErrors: o.blocksAsErrors,
		digestKey:      o.digestKey,
	}
	g.histories = newHistories(o.store, o.failClosed, rules, &g.reporter)
	for _, n := range notices {
		g.reporter.notice(n)
	}
	return g, nil
}

// Notices returns what the author of the configuration will want to know, such as thresholds that were raised.
func (g *Guard) Notices() []policy.Notice { return slices.Clone(g.notices) }

// Thresholds returns the counts from which the guard acts on tools that have none of their own, and whether it judges calls
// at all.
func (g *Guard) Thresholds() (t policy.Thresholds, judging bool) { return g.policy.Thresholds() }

// LogNotice logs a notice as the guard logs its own, see [WithLogger]. It is for adapters, which know the settings of their
// framework.
func (g *Guard) LogNotice(n policy.Notice) { g.reporter.notice(n) }

// Compacted tells the guard that the context of the run was compacted and the agent goes on with what is left. The guard
// then stops the run if its first calls (three, if nothing else is configured) are one and the same with one and the same
// result. The error is [ErrNoRun] or that of the store.
func (g *Guard) Compacted(ctx context.Context) error {
	if g.policy.Off() {
		return nil
	}
	run, ok := g.run(ctx)
	if !ok {
		return ErrNoRun
	}
	return g.histories.compacted(ctx, run, rand.Uint64()|1)
}

// Forget removes the history of the run: it is over, or starts afresh. A stopped run can make calls again after it. Calls
// that are still in flight leave no outcome. The error is [ErrNoRun] or that of the store.
func (g *Guard) Forget(ctx context.Context) error {
	if g.policy.Off() {
		return nil
	}
	run, ok := g.run(ctx)
	if !ok {
		return ErrNoRun
	}
	return g.histories.forget(ctx, run)
}

// publish returns a digest as it may be shown: with a key, nobody without it can find out what it is the digest of by
// trying.
func (g *Guard) publish(d canonical.Digest) canonical.Digest {
	if len(g.digestKey) == 0 || d.IsZero() {
		return d
	}
	mac := hmac.New(sha256.New, g.digestKey)
	mac.Write(d[:])
	return canonical.Digest(mac.Sum(nil)[:len(d)])
}

// run returns the id of the run that a context belongs to.
func (g *Guard) run(ctx context.Context) (id string, ok bool) {
	if id, ok = RunID(ctx); ok {
		return id, true
	}
	return g.defaultRun, g.defaultRun != ""
}
