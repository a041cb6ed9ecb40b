package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// An agent reads the same file again and again. It is warned, then refused, and in the end its run is stopped.
func Example() {
	guard, err := middleware.New(policy.Default())
	if err != nil {
		fmt.Println(err)
		return
	}

	// A run is what the agent does for one message of its user.
	ctx := middleware.NewRun(context.Background())
	defer guard.Forget(ctx)

	readFile := func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
		return middleware.Text("TODO: write this file"), nil
	}
	for n := 1; ; n++ {
		call := middleware.Call{Tool: "read_file", Args: `{"path": "main.go"}`} // what the model asks for
		result, err := guard.Do(ctx, call, readFile)
		if errors.Is(err, middleware.ErrLoop) {
			fmt.Printf("call %d: the run is stopped\n", n)
			return
		}
		// Here the model reads result.Text.
		switch {
		case n == 21:
			fmt.Printf("call %d: %s\n", n, result.Text)
		case n == 1 || n == 11:
			fmt.Printf("call %d: %s\n", n, strings.ReplaceAll(result.Text, "\n\n", "\n  "))
		}
	}
	// Output:
	// call 1: TODO: write this file
	// call 11: TODO: write this file
	//   [loopguard] Warning: This very call was already made 10 times. Do not repeat it as it is. Use what it brought, take another way or another tool; if you cannot go on, say what is missing. If nothing new comes of it, calls will be refused.
	// call 21: [loopguard] Call refused: the tool was not run. This very call was already made 20 times, and nothing new came of it. Do not repeat it as it is. Use what it brought, take another way or another tool; if you cannot go on, say what is missing.
	// call 31: the run is stopped
}

// Do is for loops that have a function for running a tool. A refused call is an ordinary result that the model reads; only
// the end of the run is an error.
func ExampleGuard_Do() {
	guard, _ := middleware.New(policy.Tight())
	ctx := middleware.WithRun(context.Background(), "ticket 4711")

	search := func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
		return middleware.Text("no matches"), nil
	}
	for n := 1; n <= 20; n++ {
		result, err := guard.Do(ctx, middleware.Call{Tool: "search", Args: `{"query": "unicorns"}`}, search)

		var stop *middleware.LoopError
		switch {
		case errors.As(err, &stop):
			fmt.Printf("%d: stopped by %s at %d\n", n, stop.Detector, stop.Count)
			return
		case result.Refusal != nil:
			fmt.Printf("%d: refused by %s at %d\n", n, result.Refusal.Detector, result.Refusal.Count)
		}
	}
	// Output:
	// 11: refused by generic_repeat at 10
	// 12: refused by generic_repeat at 11
	// 13: refused by generic_repeat at 12
	// 14: refused by generic_repeat at 13
	// 15: refused by generic_repeat at 14
	// 16: stopped by global_circuit_breaker at 15
}

// Begin and End are Do in two steps, for loops in which a call begins in one place and ends in another.
func ExampleGuard_Begin() {
	guard, _ := middleware.New(policy.Tight())
	ctx := middleware.WithRun(context.Background(), "r1")

	for n := 1; n <= 11; n++ {
		ticket, err := guard.Begin(ctx, middleware.Call{ID: "call_1", Tool: "exec", Args: `{"command": "make"}`})
		if err != nil {
			fmt.Println(err) // the run is stopped
			return
		}
		if text, refused := ticket.Refusal(); refused {
			fmt.Printf("%d: the tool is not run, the model reads %q\n", n, text[:39])
			continue
		}

		// The tool runs. What changes from run to run and says nothing, like pid and duration, is no news.
		result := middleware.Text(fmt.Sprintf(
			`{"exitCode": 2, "pid": %d, "durationMs": %d, "stderr": "no rule to make target"}`, 4000+n, 17*n))

		if err := ticket.End(ctx, result, nil); err != nil {
			fmt.Println(err) // the run is stopped
			return
		}
		if note := ticket.Note(); note != "" {
			fmt.Printf("%d: after the result the model reads %q\n", n, note[:22])
		}
	}
	// Output:
	// 6: after the result the model reads "\n\n[loopguard] Warning:"
	// 11: the tool is not run, the model reads "[loopguard] Call refused: the tool was "
}

// The guard is an interceptor. Those around it see its refusals, those inside see only the calls that run.
func ExampleGuard_Interceptor() {
	guard, _ := middleware.New(policy.Tight())
	ran, refused := 0, 0

	count := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
			result, err := next(ctx, call)
			if result.Refusal != nil {
				refused++
			}
			return result, err
		}
	}
	run := func(context.Context, middleware.Call) (middleware.Result, error) {
		ran++
		return middleware.Result{}, fmt.Errorf("%w: fly", middleware.ErrUnknownTool)
	}
	handle := middleware.Chain(count, guard.Interceptor())(run)

	ctx := middleware.NewRun(context.Background())
	for range 8 {
		handle(ctx, middleware.Call{Tool: "fly", Args: `{"to": "the moon"}`})
	}
	fmt.Println(ran, "ran,", refused, "were refused")
	// Output:
	// 5 ran, 3 were refused
}

// An agent whose context overflows is given a summary and goes on. If it then starts the very loop again that filled its
// context, three calls are enough. This works without any configuration.
func ExampleGuard_Compacted() {
	guard, _ := middleware.New(policy.Config{})
	ctx := middleware.WithRun(context.Background(), "r1")

	guard.Compacted(ctx) // called where the host has compacted the context
	for n := 1; ; n++ {
		call := middleware.Call{Tool: "read", Args: `{"path": "huge.log"}`}
		_, err := guard.Do(ctx, call, func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Text(strings.Repeat("x", 1_000)), nil
		})
		if err != nil {
			fmt.Printf("call %d: %v\n", n, err)
			break
		}
	}

	guard.Forget(ctx) // the run starts afresh
	// Output:
	// call 3: loopguard: run stopped by compaction_loop_persisted at 3 (threshold 3), tool "read", run "r1": After the context was compacted the agent made the same call 3 times with the same result. It stays stopped until it is forgotten (Guard.Forget).
}

// The answer of this tool starts with the time, so that no two answers are equal and no loop would ever be seen. Only what
// is compared is changed, not what the model reads.
func ExampleWithCanonicalizer() {
	guard, _ := middleware.New(policy.Tight(),
		middleware.WithCanonicalizer("inbox", func(_ canonical.Call, r canonical.Result) canonical.Result {
			_, r.Text, _ = strings.Cut(r.Text, "] ")
			return r
		}),
	)
	ctx := middleware.NewRun(context.Background())

	second := 0
	inbox := func(context.Context, middleware.Call) (middleware.Result, error) {
		second++
		return middleware.Text(fmt.Sprintf("[as of %ds] no new mail", second)), nil
	}
	for n := 1; n <= 11; n++ {
		result, _ := guard.Do(ctx, middleware.Call{Tool: "inbox"}, inbox)
		switch {
		case n == 1:
			fmt.Println(result.Text)
		case result.Refusal != nil:
			fmt.Println(result.Refusal.Reason)
		}
	}
	// Output:
	// [as of 1s] no new mail
	// This very call was already made 10 times, and nothing new came of it.
}

// A key says what makes two calls of a tool the same. To this one it does not matter whether a page is asked for with
// another fragment or session.
func ExampleWithKey() {
	guard, _ := middleware.New(policy.Tight(), middleware.WithKey("browse", func(call canonical.Call) string {
		page, err := url.Parse(call.Args)
		if err != nil {
			return call.Args
		}
		return page.Host + page.Path
	}))
	ctx := middleware.NewRun(context.Background())

	for n := 1; n <= 11; n++ {
		call := middleware.Call{Tool: "browse", Args: fmt.Sprintf("https://example.com/news?session=%d#top", n)}
		result, _ := guard.Do(ctx, call, func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Text("404"), nil
		})
		if result.Refusal != nil {
			fmt.Println(n, result.Refusal.Action, result.Refusal.Detector)
		}
	}
	// Output:
	// 11 block generic_repeat
}

// A program with few agents can keep few runs, and tell how many of them had to go.
func ExampleNewMemoryStore() {
	store := middleware.NewMemoryStore(middleware.WithMaxRuns(2), middleware.WithIdleTime(10*time.Minute))
	guard, _ := middleware.New(policy.Default(), middleware.WithStore(store))

	for _, run := range []string{"alice", "bob", "carol"} {
		ctx := middleware.WithRun(context.Background(), run)
		guard.Do(ctx, middleware.Call{Tool: "hello"}, func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Result{}, nil
		})
	}
	fmt.Println(store.Runs(), "runs kept,", store.Evicted(), "evicted")
	// Output:
	// 2 runs kept, 1 evicted
}

// A sub-agent has a run of its own, with a history of its own. Whoever opens it forgets it when it returns.
func ExampleChildRun() {
	guard, _ := middleware.New(policy.Default())
	ctx := middleware.WithRun(context.Background(), "r1")
	defer guard.Forget(ctx)

	research := func(ctx context.Context, question string) {
		ctx = middleware.ChildRun(ctx, "research-"+question)
		defer guard.Forget(ctx)

		id, _ := middleware.RunID(ctx)
		fmt.Println("calls belong to", id)
	}
	research(ctx, "1")
	research(ctx, "2")
	// Output:
	// calls belong to r1/research-1
	// calls belong to r1/research-2
}

// The first interceptor is the outermost: it sees a refusal of the guard as a result.
func ExampleChain() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	refusals := 0
	count := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, call middleware.Call) (middleware.Result, error) {
			result, err := next(ctx, call)
			if result.Refusal != nil {
				refusals++
			}
			return result, err
		}
	}
	handle := middleware.Chain(count, guard.Interceptor())(
		func(context.Context, middleware.Call) (middleware.Result, error) {
			return middleware.Text("the same"), nil
		})

	ctx := middleware.NewRun(context.Background())
	for range 12 {
		if _, err := handle(ctx, middleware.Call{Tool: "read", Args: `{"path":"/a"}`}); err != nil {
			panic(err)
		}
	}
	fmt.Println("refused:", refusals)
	// Output:
	// refused: 2
}
