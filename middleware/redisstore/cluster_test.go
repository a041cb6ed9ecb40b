package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/redisstore"
)

// cluster is a Redis Cluster of three servers, each with a third of the slots.
type cluster []*server

func startCluster(t testing.TB) cluster {
	t.Helper()
	var c cluster
	var bus []int
	for range 3 {
		port := freePort(t)
		bus = append(bus, port)
		c = append(c, startServer(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(port), "--cluster-node-timeout", "2000"))
	}
	const slots = 16384
	for i, s := range c {
		s.ask("cluster", "addslotsrange", i*slots/3, (i+1)*slots/3-1)
		if i > 0 {
			c[0].ask("cluster", "meet", "127.0.0.1", s.port, bus[i])
		}
	}
	for _, s := range c {
		waitFor(t, "the cluster is one", func() error {
			info := s.ask("cluster", "info").(string)
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_known_nodes:3") {
				return fmt.Errorf("%s", info)
			}
			return nil
		})
	}
	return c
}

// client returns a client that was told of one server only.
func (c cluster) client(t testing.TB) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c[0].addr()}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// id returns the name of a server in the cluster.
func (s *server) id() string { return s.ask("cluster", "myid").(string) }

func TestRunsAreSpreadOverACluster(t *testing.T) {
	c := startCluster(t)
	store, other := newStore(t, c.client(t)), newStore(t, c.client(t))
	const runs = 60
	for n := range 3 {
		for run := range runs {
			update(t, []*redisstore.Store{store, other}[n%2], fmt.Sprint("run ", run), aCall)
		}
	}
	for run := range runs {
		assert.Len(t, history(t, store, fmt.Sprint("run ", run)), 3)
	}
	var keys int64
	for _, s := range c {
		n := s.ask("dbsize").(int64)
		assert.Positive(t, n, "every server has some")
		keys += n
	}
	assert.EqualValues(t, runs, keys, "a run is in one place")
	key := "loopguard:{run 7}"
	assert.Equal(t, c[0].ask("cluster", "keyslot", "run 7"), c[0].ask("cluster", "keyslot", key), "the slot is that of the run")
	for run := range runs {
		require.NoError(t, store.Forget(context.Background(), fmt.Sprint("run ", run)))
	}
	for _, s := range c {
		assert.Zero(t, s.ask("dbsize"))
	}
}

func TestRunsAreSpreadOverARing(t *testing.T) {
	one, two := startServer(t), startServer(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": one.addr(), "two": two.addr()}, ContextTimeoutEnabled: true,
	})
	defer func() { _ = ring.Close() }()
	store := newStore(t, ring)
	const runs = 20
	for run := range runs {
		update(t, store, fmt.Sprint("run ", run), aCall)
		update(t, store, fmt.Sprint("run ", run), aCall)
		assert.Len(t, history(t, store, fmt.Sprint("run ", run)), 2)
	}
	here, there := one.ask("dbsize").(int64), two.ask("dbsize").(int64)
	assert.Positive(t, here)
	assert.Positive(t, there)
	assert.EqualValues(t, runs, here+there)
}

// TestRunWhoseSlotMoves to another server, while it is under way and after.
func TestRunWhoseSlotMoves(t *testing.T) {
	c := startCluster(t)
	store, other := newStore(t, c.client(t)), newStore(t, c.client(t))
	slot := c[0].ask("cluster", "keyslot", "r").(int64)
	from := c[slot*3/16384]
	to := c[(slices.Index(c, from)+1)%len(c)]
	update(t, store, "r", aCall)
	update(t, other, "r", aCall)

	to.ask("cluster", "setslot", slot, "importing", from.id())
	from.ask("cluster", "setslot", slot, "migrating", to.id())
	update(t, store, "r", aCall) // the key is still where it was
	from.ask("migrate", "127.0.0.1", to.port, "loopguard:{r}", 0, 5000)
	update(t, store, "r", aCall) // now it is not, and both servers say so
	update(t, other, "r", aCall)
	for _, s := range []*server{to, from} {
		s.ask("cluster", "setslot", slot, "node", to.id())
	}
	update(t, store, "r", aCall)
	update(t, other, "r", aCall)
	assert.Len(t, history(t, store, "r"), 7)
	assert.Zero(t, from.ask("dbsize"))
}

// TestClusterThatFails: what is on one server has no part in what happens to another, and nothing hangs.
func TestClusterThatFails(t *testing.T) {
	c := startCluster(t)
	for _, s := range c {
		s.ask("config", "set", "cluster-require-full-coverage", "no")
	}
	known, cold := newStore(t, c.client(t), redisstore.WithTimeout(short)), newStore(t, c.client(t), redisstore.WithTimeout(short))
	slots := map[int64]string{} // a run on each server
	for i := 0; len(slots) < len(c); i++ {
		run := fmt.Sprint("run ", i)
		slots[c[0].ask("cluster", "keyslot", run).(int64)*3/16384] = run
	}
	for _, run := range slots {
		waitFor(t, "the cluster is known", func() error { return known.Update(context.Background(), run, aCall) })
	}
	c[1].pause()
	for range 3 {
		within(t, short, func() { require.Error(t, known.Update(context.Background(), slots[1], aCall)) })
		waitFor(t, "the others go on", func() error { return known.Update(context.Background(), slots[2], aCall) })
		within(t, short, func() { require.Error(t, cold.Update(context.Background(), slots[1], aCall)) })
	}
	c[1].resume()
	waitFor(t, "it is back", func() error { return known.Update(context.Background(), slots[1], aCall) })

	for _, s := range c {
		s.pause()
	}
	fresh := newStore(t, c.client(t), redisstore.WithTimeout(short))
	for _, store := range []*redisstore.Store{known, cold, fresh} {
		within(t, short, func() { require.Error(t, store.Update(context.Background(), slots[0], aCall)) })
	}
	for _, s := range c {
		s.resume()
	}
	waitFor(t, "all are back", func() error { return fresh.Update(context.Background(), slots[0], aCall) })
}

// TestClusterClientThatKnowsNoCommands yet would ask for them, with a deadline of its own, before it sends the first.
func TestClusterClientThatKnowsNoCommands(t *testing.T) {
	server := startServer(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		ContextTimeoutEnabled: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: server.addr()}}}}, nil
		},
	})
	defer func() { _ = client.Close() }()
	store := newStore(t, client, redisstore.WithTimeout(short))
	server.pause()
	within(t, short, func() { require.ErrorIs(t, store.Update(context.Background(), "r", aCall), context.DeadlineExceeded) })
	within(t, short, func() { require.ErrorIs(t, store.Forget(context.Background(), "r"), context.DeadlineExceeded) })
}
