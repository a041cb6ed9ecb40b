package middleware

import (
	"context"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/otel/metric"

	"github.com/loopguard-go/loopguard/policy"
)

// The defaults of a MemoryStore.
const (
	DefaultMaxRuns  = 65_536
	DefaultIdleTime = time.Hour
)

// MemoryStore keeps states in memory, within bounds: a number of runs, and a time after which a run without calls is
// forgotten. A run that had to go starts afresh at its next call, and is counted. A run takes a few KiB.
//
// The runs are spread over shards with a lock each. There are no goroutines, and nothing to close: what is too old goes
// when its shard is used next. [NewMemoryStore] makes one; the zero value is of no use.
type MemoryStore struct {
	shards  []shard
	seed    maphash.Seed
	idle    time.Duration
	numbers *numbers

	measuring sync.Mutex
	meters    []metric.Meter // that ask for its numbers
}

// numbers are what a store tells of itself. Whoever collects metrics has these only, so as not to keep the store.
type numbers struct {
	runs    atomic.Int64
	evicted atomic.Uint64
}

type shard struct {
	mu      sync.Mutex
	runs    *simplelru.LRU[string, *entry]
	scratch policy.State // where a change is tried before it is kept
}

type entry struct {
	state policy.State
	used  time.Time
}

// MemoryStoreOption changes a [MemoryStore]. Options are made by this package only.
type MemoryStoreOption interface{ applyToMemoryStore(*memoryStoreConfig) }

type memoryStoreConfig struct {
	maxRuns int
	idle    time.Duration
}

type memoryStoreOption func(*memoryStoreConfig)

func (o memoryStoreOption) applyToMemoryStore(c *memoryStoreConfig) { o(c) }

// WithMaxRuns sets the number of runs that are kept; the one that was used longest ago goes first. Default 65,536, at
// least 1. From 2,048 on it is kept within about a
// tenth, because each shard has its share.
func WithMaxRuns(n int) MemoryStoreOption {
	return memoryStoreOption(func(c *memoryStoreConfig) { c.maxRuns = max(n, 1) })
}

// WithIdleTime sets the time without calls after which a run is forgotten. Default one hour; 0 or less means never.
func WithIdleTime(d time.Duration) MemoryStoreOption {
	return memoryStoreOption(func(c *memoryStoreConfig) { c.idle = d })
}

// NewMemoryStore makes an empty store.
func NewMemoryStore(options ...MemoryStoreOption) *MemoryStore {
	c := memoryStoreConfig{maxRuns: DefaultMaxRuns, idle: DefaultIdleTime}
	for _, o := range options {
		o.applyToMemoryStore(&c)
	}
	const perShard, mostShards = 1024, 64
	n := min(max(c.maxRuns/perShard, 1), mostShards)
	m := &MemoryStore{shards: make([]shard, n), seed: maphash.MakeSeed(), idle: c.idle, numbers: new(numbers)}
	for i := range m.shards {
		size := c.maxRuns / n
		if i < c.maxRuns%n {
			size++
		}
		m.shards[i].runs, _ = simplelru.NewLRU[string, *entry](size, nil) // the only error is a size below 1
	}
	return m
}

// Update lets fn change the state of a run. fn runs once, with the shard locked. Update returns no error but that of fn.
func (m *MemoryStore) Update(_ context.Context, run string, fn func(*policy.State) error) error {
	now := time.Now()
	s := m.shard(run)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.evictIdle(s, now)
	e, ok := s.runs.Peek(run)
	if !ok {
		e = &entry{}
	}
	s.scratch.CopyFrom(&e.state)
	if err := fn(&s.scratch); err != nil {
		return err
	}
	e.state, s.scratch = s.scratch, e.state
	e.used = now
	if ok {
		s.runs.Get(run) // so that it is the last in line to go
	} else {
		m.numbers.runs.Add(1)
		if s.runs.Add(run, e) {
			m.numbers.runs.Add(-1)
			m.numbers.evicted.Add(1)
		}
	}
	return nil
}

// Forget removes the state of a run.
func (m *MemoryStore) Forget(_ context.Context, run string) error {
	s := m.shard(run)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs.Remove(run) {
		m.numbers.runs.Add(-1)
	}
	return nil
}

// Runs returns the number of runs that are kept.
func (m *MemoryStore) Runs() int { return int(m.numbers.runs.Load()) }

// Evicted returns the number of runs that had to go: for want of room, or because they had no calls for long. Runs that
// were forgotten on purpose do not count.
func (m *MemoryStore) Evicted() uint64 { return m.numbers.evicted.Load() }

func (m *MemoryStore) shard(run string) *shard {
	if len(m.shards) == 1 {
		return &m.shards[0]
	}
	return &m.shards[maphash.String(m.seed, run)%uint64(len(m.shards))]
}

// measure lets the store be asked for its numbers when metrics are collected, once for each meter, however many guards share
// it. Several stores of one meter add up. The meter does not keep the store alive; the runs of one that is gone are too, and
// what it had to give up still counts.
func (m *MemoryStore) measure(meter metric.Meter) error {
	m.measuring.Lock()
	defer m.measuring.Unlock()
	if slices.Contains(m.meters, meter) {
		return nil
	}
	live, err := meter.Int64ObservableUpDownCounter(MetricRunsLive, metric.WithUnit("{run}"),
		metric.WithDescription("Runs that are kept in memory."))
	if err != nil {
		return err
	}
	evicted, err := meter.Int64ObservableCounter(MetricRunsEvicted, metric.WithUnit("{run}"),
		metric.WithDescription("Runs that had to be given up for want of room, or because they were idle."))
	if err != nil {
		return err
	}
	n := m.numbers
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(live, n.runs.Load())
		o.ObserveInt64(evicted, int64(n.evicted.Load()))
		return nil
	}, live, evicted)
	if err != nil {
		return err
	}
	if len(m.meters) == 0 {
		runtime.AddCleanup(m, func(n *numbers) { n.runs.Store(0) }, n)
	}
	m.meters = append(m.meters, meter)
	return nil
}

// drop removes a run if a function wants it, which looks at its state.
func (m *MemoryStore) drop(run string, wanted func(*policy.State) bool) {
	s := m.shard(run)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.runs.Peek(run); ok && wanted(&e.state) {
		s.runs.Remove(run)
		m.numbers.runs.Add(-1)
	}
}

// evictIdle removes the runs of a shard that had no calls for too long. The oldest are first in line.
func (m *MemoryStore) evictIdle(s *shard, now time.Time) {
	if m.idle <= 0 {
		return
	}
	for {
		_, oldest, ok := s.runs.GetOldest()
		if !ok || now.Sub(oldest.used) < m.idle {
			return
		}
		s.runs.RemoveOldest()
		m.numbers.runs.Add(-1)
		m.numbers.evicted.Add(1)
	}
}
