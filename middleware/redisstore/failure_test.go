package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// What happens when Redis is slow, down, full or lies: every call is judged and run, or refused, in the time of a step.

// short is the timeout of stores whose servers say nothing, so that the tests have not so much to wait for.
const short = 150 * time.Millisecond

// trouble is what happens to a server in the middle of a run.
type trouble struct {
	happens, ends func(*server)
	says          string        // the error then
	reads         bool          // the server still tells what it has
	timeout       time.Duration // for a store to test with
}

var troubles = map[string]trouble{
	"killed": {(*server).kill, (*server).start, "redisstore: reading: ", false, short},
	"paused": {(*server).pause, (*server).resume, "redisstore: reading: not done within 150ms: ", false, short},
	"full":   {(*server).fill, (*server).empty, "redisstore: writing: OOM command not allowed", true, patient},
	"a replica": {
		(*server).demote, (*server).promote, "redisstore: writing: READONLY You can't write against a read only replica", true, patient,
	},
}

// guards returns a guard for what is before the trouble, and one for what is after it.
func (d trouble) guards(t testing.TB, s *server, options ...middleware.Option) (before, after *middleware.Guard) {
	t.Helper()
	return newGuard(t, newStore(t, s.client())), newGuard(t, newStore(t, s.client(), redisstore.WithTimeout(d.timeout)), options...)
}

// fill makes the server one that has no memory left and may not drop anything.
func (s *server) fill() {
	s.t.Helper()
	s.ask("set", "ballast", strings.Repeat("x", 2<<20))
	s.ask("config", "set", "maxmemory-policy", "noeviction")
	s.ask("config", "set", "maxmemory", "1mb")
}

func (s *server) empty() {
	s.t.Helper()
	s.ask("config", "set", "maxmemory", "0")
}

// demote makes the server the replica of one that is not there.
func (s *server) demote() {
	s.t.Helper()
	s.ask("replicaof", "127.0.0.1", fmt.Sprint(freePort(s.t)))
}

func (s *server) promote() {
	s.t.Helper()
	s.ask("replicaof", "no", "one")
}

func TestLoopIsSeenWhateverHappensToTheServer(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			var log bytes.Buffer
			before, guard := trouble.guards(t, server, middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			repeat(t, before, 9)
			trouble.happens(server)

			// One that can still be read goes on from where it was; else the guard begins afresh.
			more := 20
			if trouble.reads {
				more = 11
			}
			for range more {
				within(t, short, func() { repeat(t, guard, 1) })
			}
			for range 10 {
				within(t, short, func() {
					result, err := guard.Do(inRun(), same, mustNotRun(t))
					require.NoError(t, err)
					require.NotNil(t, result.Refusal)
				})
			}
			within(t, 2*short, func() {
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				require.ErrorIs(t, err, middleware.ErrLoop)
			})
			assert.Equal(t, 1, strings.Count(log.String(), "loopguard: store failed"), "an outage is reported once for a run")
			assert.Contains(t, log.String(), trouble.says)

			// Once it is over, the others learn that the run was stopped.
			trouble.ends(server)
			waitFor(t, "the run is stopped in Redis", func() error {
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				require.ErrorIs(t, err, middleware.ErrLoop)
				return stoppedIn(newStore(t, server.client()))
			})
		})
	}
}

// stoppedIn wants the run to be stopped in a store.
func stoppedIn(store *redisstore.Store) error {
	is := errors.New("it is not")
	err := store.Update(context.Background(), "r", func(s *policy.State) error {
		if _, stopped := s.Stopped(); stopped {
			is = nil
		}
		return errPeek
	})
	if !errors.Is(err, errPeek) {
		return err
	}
	return is
}

func TestFailClosedRunsNoCallWhateverHappensToTheServer(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			before, guard := trouble.guards(t, server, middleware.WithFailClosed())
			repeat(t, before, 9)
			trouble.happens(server)
			for range 3 {
				within(t, short, func() {
					_, err := guard.Do(inRun(), same, mustNotRun(t))
					require.ErrorIs(t, err, middleware.ErrStore)
					require.ErrorContains(t, err, trouble.says)
				})
			}
		})
	}
}

// TestDecidedRefusalStands: the history can be read, the refusal not be written.
func TestDecidedRefusalStands(t *testing.T) {
	for name, trouble := range troubles {
		for fails, options := range map[string][]middleware.Option{"open": nil, "closed": {middleware.WithFailClosed()}} {
			if !trouble.reads {
				continue
			}
			t.Run(name+", fail "+fails, func(t *testing.T) {
				t.Parallel()
				server := startServer(t)
				before, guard := trouble.guards(t, server, options...)
				repeat(t, before, 20)
				trouble.happens(server)
				for range 10 {
					result, err := guard.Do(inRun(), same, mustNotRun(t))
					require.NoError(t, err)
					require.NotNil(t, result.Refusal)
				}
				_, err := guard.Do(inRun(), same, mustNotRun(t))
				require.ErrorIs(t, err, middleware.ErrLoop)
			})
		}
	}
}

// TestCallThatRanKeepsItsResult, whatever becomes of the server while it runs, and is not held up by that.
func TestCallThatRanKeepsItsResult(t *testing.T) {
	for name, trouble := range troubles {
		for fails, options := range map[string][]middleware.Option{"open": nil, "closed": {middleware.WithFailClosed()}} {
			t.Run(name+", fail "+fails, func(t *testing.T) {
				t.Parallel()
				server := startServer(t)
				_, guard := trouble.guards(t, server, options...)
				ticket, err := guard.Begin(inRun(), same)
				require.NoError(t, err)
				trouble.happens(server)
				within(t, short, func() { require.NoError(t, ticket.End(inRun(), middleware.Text("done"), nil)) })
				assert.Empty(t, ticket.Note())
			})
		}
	}
}

// TestNoCallHangs: many at the same time, of one run and of several, when the server is killed or paused in the middle.
func TestNoCallHangs(t *testing.T) {
	for _, name := range []string{"killed", "paused"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t)
			guard := newGuard(t, newStore(t, server.client(), redisstore.WithTimeout(redisstore.DefaultTimeout)))
			const workers, each = 16, 12
			var happened sync.WaitGroup
			happened.Go(func() {
				time.Sleep(20 * time.Millisecond)
				troubles[name].happens(server)
			})
			var group sync.WaitGroup
			var mu sync.Mutex
			var ran int
			var slowest time.Duration
			for w := range workers {
				group.Go(func() {
					ctx := middleware.WithRun(context.Background(), fmt.Sprint("run ", w%4))
					for i := range each {
						started := time.Now()
						_, err := guard.Do(ctx, middleware.Call{Tool: "read", Args: fmt.Sprint(w, i)}, func(
							context.Context, middleware.Call,
						) (middleware.Result, error) {
							mu.Lock()
							defer mu.Unlock()
							ran++
							return middleware.Text(fmt.Sprint(w, i)), nil
						})
						took := time.Since(started)
						mu.Lock()
						slowest = max(slowest, took)
						mu.Unlock()
						assert.NoError(t, err)
						if i == each/2 {
							happened.Wait() // so that half of the calls come after it
						}
					}
				})
			}
			group.Wait()
			assert.Equal(t, workers*each, ran, "no call is lost")
			t.Logf("the slowest of %d calls took %s", ran, slowest)
			assert.Less(t, slowest, 2*redisstore.DefaultTimeout+slack, "a call has two steps")
		})
	}
}

// TestPausedServerThatNobodyIsConnectedTo takes connections and does not answer the first word either.
func TestPausedServerThatNobodyIsConnectedTo(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client(), redisstore.WithTimeout(100*time.Millisecond))
	server.pause()
	for range 3 {
		within(t, 100*time.Millisecond, func() {
			err := store.Update(context.Background(), "r", aCall)
			require.ErrorContains(t, err, "redisstore: reading: not done within 100ms: context deadline exceeded")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
		within(t, 100*time.Millisecond, func() {
			err := store.Forget(context.Background(), "r")
			require.ErrorContains(t, err, "redisstore: removing: not done within 100ms: context deadline exceeded")
		})
	}
	server.resume()
	waitFor(t, "it is back", func() error { return store.Update(context.Background(), "r", aCall) })
}

// TestServerThatIsGoneIsNoticedAtOnce by a client that does not try to connect for longer than a step may take.
func TestServerThatIsGoneIsNoticedAtOnce(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client(func(o *redis.Options) { o.DialerRetries = 1 }))
	update(t, store, "r", aCall)
	server.kill()
	within(t, 0, func() {
		require.ErrorContains(t, store.Update(context.Background(), "r", aCall), "connect: connection refused")
	})
}

// TestServerThatIsSlow: a step takes as long as it may, and a slow history is better than none.
func TestServerThatIsSlow(t *testing.T) {
	p := startProxy(t, startServer(t))
	hasty, calm := newStore(t, p.client(t), redisstore.WithTimeout(short)), newStore(t, p.client(t))
	guard := newGuard(t, hasty)
	repeat(t, newGuard(t, calm), 5)
	p.delay(short * 2 / 3)
	for range 20 {
		within(t, short, func() { repeat(t, guard, 1) }) // it is not enough for a connection and a step
	}
	within(t, short, func() {
		err := hasty.Update(context.Background(), "r", aCall)
		require.ErrorContains(t, err, ": not done within 150ms: ")
	})
	update(t, calm, "r", aCall)
}

// TestContextEndsAStep before the timeout does.
func TestContextEndsAStep(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	update(t, store, "r", aCall)
	server.pause()
	within(t, 100*time.Millisecond, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, store.Update(ctx, "r", aCall), context.DeadlineExceeded)
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	within(t, 0, func() { require.ErrorIs(t, store.Update(ctx, "r", aCall), context.Canceled) })
}

// TestWaitingForOtherCallsOfTheRunIsBounded too.
func TestWaitingForOtherCallsOfTheRunIsBounded(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client(), redisstore.WithTimeout(200*time.Millisecond))
	entered, leave := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_ = store.Update(context.Background(), "r", func(*policy.State) error {
			close(entered)
			<-leave
			return errPeek
		})
	})
	<-entered
	within(t, 200*time.Millisecond, func() {
		err := store.Update(context.Background(), "r", aCall)
		require.ErrorContains(t, err, "redisstore: waiting for other calls of the run: not done within 200ms")
	})
	waitFor(t, "other runs go on", func() error { return store.Update(context.Background(), "another", aCall) })
	close(leave)
	group.Wait()
	waitFor(t, "so does this one", func() error { return store.Update(context.Background(), "r", aCall) })
}

// TestRunGoesOnWhenTheServerIsBack: after a pause with all that it had, after a restart with what it kept.
func TestRunGoesOnWhenTheServerIsBack(t *testing.T) {
	for name, test := range map[string]struct {
		args       []string
		fail, mend func(*server)
		left       int // identical calls that may still be made
	}{
		"after a pause":                    {nil, (*server).pause, (*server).resume, 5},
		"after a restart":                  {nil, (*server).kill, (*server).start, 20},
		"after a restart, with a log kept": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, (*server).kill, (*server).start, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startServer(t, test.args...)
			store := newStore(t, server.client(), redisstore.WithTimeout(2*time.Second))
			guard := newGuard(t, store)
			repeat(t, guard, 15)
			before := history(t, store, "r")
			test.fail(server)
			repeat(t, guard, 3) // what happens meanwhile is not brought after
			test.mend(server)
			waitFor(t, "it is back", func() error {
				err := store.Update(context.Background(), "another", func(*policy.State) error { return errPeek })
				if errors.Is(err, errPeek) {
					return nil
				}
				return err
			})
			if test.left == 5 {
				assert.Equal(t, before, history(t, store, "r"))
			}
			repeat(t, guard, test.left)
			result, err := guard.Do(inRun(), same, mustNotRun(t))
			require.NoError(t, err)
			assert.NotNil(t, result.Refusal)
		})
	}
}

// TestServerThatIsLoading answers, but not what it is asked for.
func TestServerThatIsLoading(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	for i := range 300 {
		update(t, store, fmt.Sprint(i), aCall)
	}
	server.ask("save")
	server.kill()
	server.args = append(server.args, "--key-load-delay", "10000", "--loading-process-events-interval-bytes", "1024")
	server.start()
	guard := newGuard(t, store, middleware.WithFailClosed())
	within(t, short, func() {
		_, err := guard.Do(inRun(), same, mustNotRun(t))
		require.ErrorContains(t, err, "redisstore: reading: LOADING Redis is loading the dataset in memory")
	})
	waitFor(t, "it has loaded", func() error { return store.Update(context.Background(), "0", aCall) })
	assert.Len(t, history(t, store, "0"), 2)
}

// TestKeyOfAnotherType belongs to somebody else and is left alone.
func TestKeyOfAnotherType(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	server.ask("rpush", "loopguard:{r}", "theirs")
	err := store.Update(context.Background(), "r", aCall)
	require.ErrorContains(t, err, "redisstore: reading: WRONGTYPE Operation against a key holding the wrong kind of value")
	assert.Equal(t, []any{"theirs"}, server.ask("lrange", "loopguard:{r}", "0", "-1"))
}

func TestClosedClient(t *testing.T) {
	client := startServer(t).client()
	store := newStore(t, client)
	update(t, store, "r", aCall)
	require.NoError(t, client.Close())
	within(t, 0, func() { require.ErrorIs(t, store.Update(context.Background(), "r", aCall), redis.ErrClosed) })
}

// TestDamagedStateIsReportedAndTheRunStartsAfresh, at once: the guard goes on in the store.
func TestDamagedStateIsReportedAndTheRunStartsAfresh(t *testing.T) {
	for name, damage := range map[string]func(value string) string{
		"another value": func(string) string { return "the value of someone else" },
		"cut off":       func(value string) string { return value[:len(value)/2] },
		"one bit":       func(value string) string { return value[:50] + string([]byte{value[50] ^ 1}) + value[51:] },
		"a few bytes":   func(string) string { return "lgr" },
	} {
		for fails, options := range map[string][]middleware.Option{"open": nil, "closed": {middleware.WithFailClosed()}} {
			t.Run(name+", fail "+fails, func(t *testing.T) {
				server := startServer(t)
				var log bytes.Buffer
				store := newStore(t, server.client())
				guard := newGuard(t, store, append(options, middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))...)
				repeat(t, guard, 9)
				server.ask("set", "loopguard:{r}", damage(server.ask("get", "loopguard:{r}").(string)))

				repeat(t, guard, 1)
				said := log.String()
				assert.Equal(t, 1, strings.Count(said, "\n"), said)
				assert.Contains(t, said, "loopguard.store.operation=begin loopguard.run.id=r "+
					`exception.message="redisstore: loopguard: the history of the run is lost: loopguard:{r}: `)
				assert.Len(t, history(t, store, "r"), 1)

				repeat(t, guard, 8)
				assert.Equal(t, said, log.String(), "it is reported once")
				assert.Len(t, history(t, store, "r"), 9)
			})
		}
	}
}

// TestDamagedStateThatAnotherReplaced meanwhile is theirs: nothing is lost.
func TestDamagedStateThatAnotherReplaced(t *testing.T) {
	server := startServer(t)
	store, other := newStore(t, server.client()), newStore(t, server.client())
	server.ask("set", "loopguard:{r}", "damaged")
	attempts := 0
	update(t, store, "r", func(s *policy.State) error {
		if attempts++; attempts == 1 {
			assert.ErrorIs(t, other.Update(context.Background(), "r", aCall), middleware.ErrStateLost)
		}
		return aCall(s)
	})
	assert.Equal(t, 2, attempts)
	assert.Len(t, history(t, store, "r"), 2)
}

// TestStateOfANewerVersionIsLeftAlone: it is not lost, only not for us, so that the guard goes on by itself.
func TestStateOfANewerVersionIsLeftAlone(t *testing.T) {
	server := startServer(t)
	store := newStore(t, server.client())
	newer := "lgr\x02and whatever is in it"
	server.ask("set", "loopguard:{r}", newer)

	err := store.Update(context.Background(), "r", aCall)
	require.EqualError(t, err, "redisstore: loopguard:{r}: entry of form 2, this version reads up to 1: "+
		"written by a newer version of loopguard")
	require.ErrorIs(t, err, policy.ErrNewerState)
	require.NotErrorIs(t, err, middleware.ErrStateLost)

	guard := newGuard(t, store)
	repeat(t, guard, 20)
	result, err := guard.Do(inRun(), same, mustNotRun(t))
	require.NoError(t, err)
	assert.NotNil(t, result.Refusal)
	_, err = newGuard(t, store, middleware.WithFailClosed()).Do(inRun(), same, mustNotRun(t))
	require.ErrorIs(t, err, middleware.ErrStore)
	require.ErrorIs(t, err, policy.ErrNewerState)
	assert.Equal(t, newer, server.ask("get", "loopguard:{r}"))
}
