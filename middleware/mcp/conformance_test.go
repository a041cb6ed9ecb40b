package mcp_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/guardtest"
	"github.com/loopguard-go/loopguard/middleware/mcp"
)

// runKey is where hosts of these tests name runs in the metadata.
const runKey = "example.com/run"

// TestConformance: every way to install it, on every kind of wire. The tools have typed handlers. A panic of a tool ends the
// process of a server: nothing of the SDK recovers it.
func TestConformance(t *testing.T) {
	for name, test := range map[string]struct {
		install func(*sdk.Server, *sdk.Client, sdk.Middleware)
		by      func(*testing.T, *sdk.Server) wire
		open    func(context.Context, *middleware.Guard) (context.Context, func())
		options []mcp.Option
		limits  guardtest.Limits
	}{
		"server in memory": {
			install: receiving, by: always(inMemory),
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, OpaqueAborts: true, KeptRuns: true},
		},
		"server on pipes": {
			install: receiving, by: always(pipes),
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, OpaqueAborts: true, KeptRuns: true},
		},
		"server over HTTP": {
			install: receiving,
			by: func(t *testing.T, server *sdk.Server) wire {
				return overHTTP(listen(t, server, nil))
			},
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, OpaqueAborts: true, KeptRuns: true},
		},
		"stateless server over HTTP, runs by metadata": {
			install: receiving,
			by: func(t *testing.T, server *sdk.Server) wire {
				return overHTTP(listen(t, server, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
			},
			options: []mcp.Option{mcp.WithRunFromMeta(runKey)},
			limits:  guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, OpaqueAborts: true, KeptRuns: true},
		},
		"client in memory": {
			install: sending, by: always(inMemory),
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, KeptRuns: true},
		},
		"client over HTTP": {
			install: sending,
			by: func(t *testing.T, server *sdk.Server) wire {
				return overHTTP(listen(t, server, nil))
			},
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true, KeptRuns: true},
		},
		"client of a host that opens runs": {
			install: sending, by: always(inMemory),
			open: func(ctx context.Context, guard *middleware.Guard) (context.Context, func()) {
				ctx = middleware.NewRun(ctx)
				return ctx, func() { _ = guard.Forget(ctx) }
			},
			limits: guardtest.Limits{PanicsKill: true, UnseenCallIDs: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, guardtest.Framework{Limits: test.limits, New: func(setup guardtest.Setup) (guardtest.Agent, error) {
				loops, err := mcp.Middleware(setup.Guard, append(test.options, mcp.WithTracing(setup.Tracing))...)
				if err != nil {
					return nil, err
				}
				server, client := newServer(nil), newClient(nil)
				for _, tool := range setup.Tools {
					addText(server, tool.Name, tool.Run)
				}
				test.install(server, client, loops)
				connect := test.by(t, server)
				return func(ctx context.Context, script *guardtest.Script) error {
					if test.open != nil {
						var over func()
						ctx, over = test.open(ctx, setup.Guard)
						defer over()
					}
					session, err := connect(ctx, server, client)
					if err != nil {
						return err
					}
					// Not at once: what says that a call was given up is sent in the background, or not if the session is closed.
					t.Cleanup(func() { _ = session.Close() })
					return play(ctx, session, script)
				}, nil
			}})
		})
	}
}

func receiving(server *sdk.Server, client *sdk.Client, loops sdk.Middleware) {
	client.AddSendingMiddleware(inject)
	server.AddReceivingMiddleware(extract, loops)
}

func sending(server *sdk.Server, client *sdk.Client, loops sdk.Middleware) {
	client.AddSendingMiddleware(loops, inject)
	server.AddReceivingMiddleware(extract)
}

func always(w wire) func(*testing.T, *sdk.Server) wire {
	return func(*testing.T, *sdk.Server) wire { return w }
}

// play is an agent: it makes the calls of a turn at once, and ends with the first error that is none for the model to read.
func play(ctx context.Context, session *sdk.ClientSession, script *guardtest.Script) error {
	run := rand.Text()
	var said []string
	for {
		calls := script.Next(said...)
		if len(calls) == 0 {
			return nil
		}
		said = make([]string, len(calls))
		errs := make([]error, len(calls))
		var turn sync.WaitGroup
		for i, c := range calls {
			turn.Go(func() { said[i], errs[i] = call(ctx, session, c.Tool, c.Args, sdk.Meta{runKey: run}) })
		}
		turn.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
	}
}
