package middleware

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
	m := &MemoryStore{shards: make([]shard, n), seed: maphash.MakeSeed(), idle: c.idle}
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
		m.runs.Add(1)
		if s.runs.Add(run, e) {
			m.runs.Add(-1)
			m.evicted.Add(1)
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
		m.runs.Add(-1)
	}
	return nil
}

// Runs returns the number of runs that are kept.
func (m *MemoryStore) Runs() int { return int(m.runs.Load()) }

// Evicted returns the number of runs that had to go: for want of room, or because they had no calls for long. Runs that
// were forgotten on purpose do not count.
func (m *MemoryStore) Evicted() uint64 { return m.evicted.Load() }

func (m *MemoryStore) shard(run string) *shard {
	if len(m.shards) == 1 {
		return &m.shards[0]
	}
	return &m.shards[maphash.String(m.seed, run)%uint64(len(m.shards))]
}

// drop removes a run if a function wants it, which looks at its state.
func (m *MemoryStore) drop(run string, wanted func(*policy.State) bool) {
	s := m.shard(run)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.runs.Peek(run); ok && wanted(&e.state) {
		s.runs.Remove(run)
		m.runs.Add(-1)
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
		m.runs.Add(-1)
		m.evicted.Add(1)
	}
}
