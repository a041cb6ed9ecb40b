package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// begin begins a call that must be let through.
func begin(t testingT, g *middleware.Guard, ctx context.Context, call middleware.Call) *middleware.Ticket {
	t.Helper()
	ticket, err := g.Begin(ctx, call)
	require.NoError(t, err)
	_, refused := ticket.Refusal()
	require.False(t, refused)
	return ticket
}

func TestTicketSaysWhatWasFound(t *testing.T) {
	guard, ctx := newGuard(t), inRun()

	ticket := begin(t, guard, ctx, same)
	assert.Equal(t, policy.Verdict{Enforced: true}, ticket.Verdict())
	assert.Empty(t, ticket.Note())
	require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
	repeat(t, guard, ctx, 9)

	ticket = begin(t, guard, ctx, same)
	assert.Equal(t, "warn generic_repeat 10/10", inWords(ticket.Verdict()))
	assert.NotEmpty(t, ticket.Note())
	require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
	repeat(t, guard, ctx, 9)

	ticket, err := guard.Begin(ctx, same)
	require.NoError(t, err)
	assert.Equal(t, "block generic_repeat 20/20", inWords(ticket.Verdict()))
	assert.Empty(t, ticket.Note())
	said, refused := ticket.Refusal()
	assert.True(t, refused)
	assert.Contains(t, said, "20 times")
}

// TestCancelledTicketHasNoNote: nobody reads a result that there is not, and the warning was taken back with the call.
func TestCancelledTicketHasNoNote(t *testing.T) {
	for name, giveUp := range map[string]func(*middleware.Ticket){
		"Cancel": func(ticket *middleware.Ticket) { ticket.Cancel(inRun()) },
		"End":    func(ticket *middleware.Ticket) { _ = ticket.End(inRun(), middleware.Result{}, context.Canceled) },
	} {
		t.Run(name, func(t *testing.T) {
			guard, ctx := newGuard(t), inRun()
			repeat(t, guard, ctx, 10)
			for range 2 { // the next call is warned in place of the one that was given up
				ticket := begin(t, guard, ctx, same)
				require.NotEmpty(t, ticket.Note())
				giveUp(ticket)
				assert.Empty(t, ticket.Note())
			}
		})
	}
}

// TestOutcomesInAnyOrder begins the calls of a run in batches, as a model does that asks for several at once, and ends
// them in any order and with call ids that are used again. The verdicts are those of the order in which the calls began.
//
// Stagnation is left out: which of two equal calls was the repetition depends on whose outcome came first.
func TestOutcomesInAnyOrder(t *testing.T) {
	c := policy.Tight()
	c.Detectors.Stagnation = new(false)
	c.GlobalCircuitBreakerThreshold = 1_000
	rapid.Check(t, func(t *rapid.T) {
		script := scripts(80).Draw(t, "script")
		batches := rapid.SliceOfN(rapid.IntRange(1, 6), 80, 80).Draw(t, "batches")
		verdicts := func(order func(n int) []int) (got []string) {
			guard, ctx := newGuardOf(t, c), inRun()
			rest := script
			for _, size := range batches {
				batch := rest[:min(size, len(rest))]
				rest = rest[len(batch):]
				tickets := make([]*middleware.Ticket, len(batch))
				for i, s := range batch {
					var err error
					tickets[i], err = guard.Begin(ctx, s.call)
					require.NoError(t, err)
					got = append(got, inWords(tickets[i].Verdict()))
				}
				for _, i := range order(len(batch)) {
					result, err := batch[i].tool(ctx, batch[i].call)
					require.NoError(t, tickets[i].End(ctx, result, err))
				}
			}
			return got
		}
		inOrder := func(n int) []int {
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			return order
		}
		inAny := func(n int) []int { return rapid.Permutation(inOrder(n)).Draw(t, "order") }
		require.Equal(t, verdicts(inOrder), verdicts(inAny))
	})
}

// TestOutcomesBelongToTheirOwnCall although all calls have one id, and the first to begin is the last to end.
func TestOutcomesBelongToTheirOwnCall(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	call := func(n int) middleware.Call { return middleware.Call{ID: "call_0", Tool: fmt.Sprint("tool", n)} }
	var tickets []*middleware.Ticket
	for n := range 3 {
		tickets = append(tickets, begin(t, guard, ctx, call(n)))
	}
	require.NoError(t, tickets[2].End(ctx, middleware.Result{}, errors.New("failed")))
	require.NoError(t, tickets[0].End(ctx, middleware.Text("done"), nil))

	records := history(t, store, "r")

	require.Len(t, records, 3)
	for n, want := range []policy.Record{
		{Tool: "tool0", Status: policy.Done},
		{Tool: "tool1", Status: policy.Open},
		{Tool: "tool2", Status: policy.Done, Failure: true},
	} {
		got := records[n]
		got.Signature, got.Outcome = want.Signature, want.Outcome
		assert.Equal(t, want, got)
	}
}

// TestCallsInFlightAreCounted: nobody has to wait for outcomes to see that one call is made all the time. Only an outcome
// can prove that nothing comes of it, so that it is not refused.
func TestCallsInFlightAreCounted(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	var said []string
	for range 40 {
		said = append(said, inWords(begin(t, guard, ctx, same).Verdict()))
	}
	assert.Equal(t, []string{
		"11: warn generic_repeat 10/10", "21: warn generic_repeat 20/10", "31: warn generic_repeat 30/10",
	}, turns(said))
}

// TestNeverEndedTicketsDoNoHarm: the history forgets them like others, and the verdicts on other calls stay.
func TestNeverEndedTicketsDoNoHarm(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	for n := range 100 {
		begin(t, guard, ctx, numbered("lost", n))
	}
	assert.Len(t, history(t, store, "r"), 30)

	for n := range 20 {
		begin(t, guard, ctx, numbered("lost", n))
		repeat(t, guard, ctx, 1)
	}
	result, err := guard.Do(ctx, same, returns("the same"))
	require.NoError(t, err)
	assert.Nil(t, result.Refusal, "the history of 30 holds 15 of the 20")
}

func TestOnlyTheFirstEndCounts(t *testing.T) {
	end := func(ticket *middleware.Ticket) error { return ticket.End(inRun(), middleware.Text("the same"), nil) }
	endOtherwise := func(ticket *middleware.Ticket) error {
		return ticket.End(inRun(), middleware.Text("other"), errors.New("other"))
	}
	cancel := func(ticket *middleware.Ticket) error { ticket.Cancel(inRun()); return nil }
	giveUp := func(ticket *middleware.Ticket) error {
		return ticket.End(inRun(), middleware.Text("other"), context.Canceled)
	}

	tests := map[string]struct {
		steps []func(*middleware.Ticket) error
		left  bool
	}{
		"end, end":       {[]func(*middleware.Ticket) error{end, endOtherwise}, true},
		"end, cancel":    {[]func(*middleware.Ticket) error{end, cancel}, true},
		"end, give up":   {[]func(*middleware.Ticket) error{end, giveUp}, true},
		"cancel, end":    {[]func(*middleware.Ticket) error{cancel, endOtherwise}, false},
		"cancel, cancel": {[]func(*middleware.Ticket) error{cancel, cancel}, false},
		"give up, end":   {[]func(*middleware.Ticket) error{giveUp, endOtherwise}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := middleware.NewMemoryStore()
			guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
			repeat(t, guard, ctx, 2)
			want := history(t, store, "r")
			ticket := begin(t, guard, ctx, same)

			for _, step := range test.steps {
				require.NoError(t, step(ticket))
			}

			if test.left {
				want = append(want, want[0])
			}
			assert.Equal(t, want, history(t, store, "r"))
		})
	}
}

// TestCompactionStopsTheRunOnlyOnce: the second End of the ticket that stopped it says nothing any more.
func TestCompactionStopsTheRunOnlyOnce(t *testing.T) {
	var w witness
	guard, ctx := newGuard(t, w.option()), inRun()
	require.NoError(t, guard.Compacted(ctx))
	repeat(t, guard, ctx, 2)
	ticket := begin(t, guard, ctx, same)
	require.ErrorIs(t, ticket.End(ctx, middleware.Text("the same"), nil), middleware.ErrLoop)
	require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
	assert.Equal(t, []string{"abort compaction_loop_persisted 3/3"}, w.take())
}

func TestEndAfterForgetLeavesNoRunBehind(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	ended, cancelled := begin(t, guard, ctx, same), begin(t, guard, ctx, same)
	require.NoError(t, guard.Forget(ctx))

	require.NoError(t, ended.End(ctx, middleware.Text("the same"), nil))
	cancelled.Cancel(ctx)

	assert.Zero(t, store.Runs())
	assert.Zero(t, store.Evicted())
}

func TestEndAfterForgetDoesNotTouchTheRunThatStartsAfresh(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	require.NoError(t, guard.Compacted(ctx))
	early := []*middleware.Ticket{begin(t, guard, ctx, same), begin(t, guard, ctx, same), begin(t, guard, ctx, same)}
	require.NoError(t, guard.Forget(ctx))
	require.NoError(t, guard.Compacted(ctx))
	begin(t, guard, ctx, same)
	before := history(t, store, "r")

	for _, ticket := range early {
		require.NoError(t, ticket.End(ctx, middleware.Text("the same"), nil))
	}

	assert.Equal(t, before, history(t, store, "r"))
}

// TestEndInAStoppedRun: calls that were in flight when another one stopped the run may end, and leave their outcome.
func TestEndInAStoppedRun(t *testing.T) {
	store := middleware.NewMemoryStore()
	c := policy.Default()
	c.HistorySize = 50
	guard, ctx := newGuardOf(t, c, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 20)
	ticket := begin(t, guard, ctx, numbered("slow", 1))
	stop := runInto(t, guard, ctx)

	require.NoError(t, ticket.End(ctx, middleware.Text("done"), nil))

	_, err := guard.Do(ctx, same, mustNotRun(t))
	later, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok)
	assert.Equal(t, stop.Verdict, later.Verdict)
	records := history(t, store, "r")
	slow := slices.IndexFunc(records, func(r policy.Record) bool { return r.Tool == "slow" })
	require.GreaterOrEqual(t, slow, 0)
	assert.Equal(t, policy.Done, records[slow].Status)
}

func TestEndOfARefusedTicketChangesNothing(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 20)
	for _, end := range []func(*middleware.Ticket) error{
		func(ticket *middleware.Ticket) error { return ticket.End(ctx, middleware.Text("other"), nil) },
		func(ticket *middleware.Ticket) error {
			return ticket.End(ctx, middleware.Text("other"), errors.New("other"))
		},
		func(ticket *middleware.Ticket) error {
			return ticket.End(ctx, middleware.Text("other"), context.Canceled)
		},
		func(ticket *middleware.Ticket) error { ticket.Cancel(ctx); return nil },
	} {
		ticket, err := guard.Begin(ctx, same)
		require.NoError(t, err)
		before := history(t, store, "r")
		require.NoError(t, end(ticket))
		assert.Equal(t, before, history(t, store, "r"))
	}
}

func TestEndOfAnExemptTicketNeedsNoRun(t *testing.T) {
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{"log": {Exempt: new(true)}}
	store := middleware.NewMemoryStore()
	guard, ctx := newGuardOf(t, c, middleware.WithStore(store)), context.Background()
	ticket := begin(t, guard, ctx, middleware.Call{Tool: "log"})
	require.NoError(t, ticket.End(ctx, middleware.Text("ok"), nil))
	ticket.Cancel(ctx)
	assert.Zero(t, store.Runs())
}

// TestCancelledCallsChangeNoVerdict puts calls into a run that their callers give up. The verdicts on the others stay.
func TestCancelledCallsChangeNoVerdict(t *testing.T) {
	c := policy.Tight()
	c.HistorySize = 1_000 // what the cancelled calls push out of the history does not come back
	rapid.Check(t, func(t *rapid.T) {
		var w witness
		script := scripts(60).Draw(t, "script")
		want := play(newGuardOf(t, c, w.option()), &w, inRun(), (*middleware.Guard).Do, script)
		guard := newGuardOf(t, c, w.option())
		var got []string
		for i, s := range script {
			if rapid.Bool().Draw(t, "cancelled") {
				if ticket, err := guard.Begin(inRun(), numbered("other", i)); err == nil {
					ticket.Cancel(inRun())
				}
				_ = w.take()
			}
			got = append(got, play(guard, &w, inRun(), (*middleware.Guard).Do, []step{s})...)
		}
		require.Equal(t, want, got)
	})
}

// TestCallsOfOneRunAtOnce lets many goroutines make one call. However they meet, no call is lost, and as many run as would
// one after the other.
func TestCallsOfOneRunAtOnce(t *testing.T) {
	const workers, each = 16, 50
	c := policy.Default()
	c.HistorySize = workers * each
	store := middleware.NewMemoryStore()
	guard := newGuardOf(t, c, middleware.WithStore(store))
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			for i := range each {
				call := numbered("read", worker*each+i)
				if _, err := guard.Do(inRun(), call, returns(call.Args)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()

	records := history(t, store, "r")
	require.Len(t, records, workers*each)
	signatures := map[string]bool{}
	for _, r := range records {
		assert.Equal(t, policy.Done, r.Status)
		signatures[r.Signature.String()] = true
	}
	assert.Len(t, signatures, workers*each)
}

// TestLoopOfSeveralWorkersIsStopped: sixteen workers that repeat one call share one history.
func TestLoopOfSeveralWorkersIsStopped(t *testing.T) {
	guard := newGuard(t)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for n := 0; ; n++ {
				if n > 1_000 {
					t.Error("nobody stops this")
					return
				}
				if _, err := guard.Do(inRun(), same, returns("the same")); errors.Is(err, middleware.ErrLoop) {
					return
				}
			}
		})
	}
	group.Wait()
}

// TestTicketIsSafeForConcurrentUse: of many that end a ticket at once, one counts.
func TestTicketIsSafeForConcurrentUse(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	for range 100 {
		ticket := begin(t, guard, ctx, same)
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				_, _ = ticket.Refusal()
				_, _ = ticket.Note(), ticket.Verdict()
				if i == 0 {
					ticket.Cancel(ctx)
				} else if err := ticket.End(ctx, middleware.Text(fmt.Sprint(i)), nil); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, r := range history(t, store, "r") {
			require.Equal(t, policy.Done, r.Status)
		}
		require.NoError(t, guard.Forget(ctx))
	}
}

// TestNoGoroutineIsLeftBehind: a guard starts none, whatever becomes of its calls.
func TestNoGoroutineIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	for n := range 100 {
		guard := newGuard(t)
		ctx := middleware.WithRun(context.Background(), fmt.Sprint(n))
		begin(t, guard, ctx, same) // and never end it
		begin(t, guard, ctx, same).Cancel(ctx)
		repeat(t, guard, ctx, 5)
		func() {
			defer func() { _ = recover() }()
			_, _ = guard.Do(ctx, same, func(context.Context, middleware.Call) (middleware.Result, error) { panic("x") })
		}()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}
