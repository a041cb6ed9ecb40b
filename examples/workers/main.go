// Command workers has two processes serve one agent through Redis. Each call of a tool goes to the worker whose turn it is,
// as it does with a queue or a workflow engine, and the guard of either sees the whole run.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if name := os.Getenv(workerVariable); name != "" { // this process is a worker, see startWorker
		exit("worker "+name, work(ctx, os.Getenv(redisVariable), os.Stdin, os.Stdout))
		return
	}
	addr := flag.String("redis", os.Getenv(redisVariable), "`address` of a Redis, host:port; without one, one is started")
	flag.Parse()
	exit("workers", run(ctx, *addr, os.Stdout))
}

func exit(who string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", who, err)
		os.Exit(1)
	}
}

// redisVariable names a Redis to use.
const redisVariable = "REDIS_ADDR"

func run(ctx context.Context, addr string, out io.Writer) error {
	if addr == "" {
		server, err := startServer(ctx)
		if err != nil {
			return err
		}
		defer server.stop()
		addr = server.addr
		fmt.Fprintf(out, "Redis was started at %s.\n", addr)
	}
	client := connect(addr)
	defer func() { _ = client.Close() }()
	if err := client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("no Redis answers at %s: %w", addr, err)
	}
	guard, err := newGuard(client)
	if err != nil {
		return err
	}
	var workers []*worker
	for _, name := range []string{"a", "b"} {
		w, err := startWorker(ctx, name, addr)
		if err != nil {
			return err
		}
		defer w.stop()
		workers = append(workers, w)
	}

	ctx = middleware.NewRun(ctx)
	defer func() { _ = guard.Forget(ctx) }() // whoever opens a run forgets it
	if err := loop(ctx, workers, out); err != nil {
		return err
	}
	thresholds, _ := guard.Thresholds()
	fmt.Fprintf(out, "\nWorker a ran %d of the calls and worker b %d. By itself, a worker would have been warned at call %d of its own and\n"+
		"refused at call %d: neither of them came that far.\n",
		workers[0].ran, workers[1].ran, thresholds.Warning+1, thresholds.Critical+1)
	return nil
}

// connect makes a client that suits a store.
func connect(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true, // the store wants it: else a call hangs with the server
		DialerRetries:         1,    // so that a server that is gone is noticed at once
	})
}

// newGuard makes the guard that all processes have alike: the same rules, on the same Redis.
func newGuard(client *redis.Client) (*middleware.Guard, error) {
	store, err := redisstore.New(client)
	if err != nil {
		return nil, err
	}
	return middleware.New(policy.Default(), middleware.WithStore(store))
}

// loop is the agent, with a model that wants to know how a deployment goes, again and again, until it is refused.
func loop(ctx context.Context, workers []*worker, out io.Writer) error {
	run, _ := middleware.RunID(ctx)
	for n := 1; ; n++ {
		w := workers[(n-1)%len(workers)]
		answer, err := w.do(job{Run: run, Tool: "deployment_status", Args: `{"deployment":"web-42"}`})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "call %2d  worker %s  %-7s  %s\n", n, w.name, answer.Verdict, oneLine(answer.Text))
		if answer.Refused {
			fmt.Fprintln(out, "The model: the deployment does not get on, so I stopped waiting for it.")
			return nil
		}
	}
}
