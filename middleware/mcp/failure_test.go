package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// TestFailuresOfRawHandlers are errors of the protocol. They are counted, and keep their code and their data with a warning.
func TestFailuresOfRawHandlers(t *testing.T) {
	data := json.RawMessage(`{"elicitations":[]}`)
	for name, test := range map[string]struct {
		err  error
		code int64
		data json.RawMessage
	}{
		"an error":               {errors.New("no disk"), 0, nil},
		"an error of JSON-RPC":   {&jsonrpc.Error{Code: -32042, Message: "no disk", Data: data}, -32042, data},
		"one that wraps another": {fmt.Errorf("no disk: %w", &jsonrpc.Error{Code: 7, Message: "x"}), 7, nil},
	} {
		t.Run(name, func(t *testing.T) {
			eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
				server, client := newServer(nil), newClient(nil)
				addRaw(server, "save", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, test.err })
				install(server, client, newLoops(t, newGuard(t, config())))
				session := connect(t, inMemory, server, client)
				for i := range 5 {
					_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "save"})
					require.ErrorContains(t, err, "no disk")
					assert.Equal(t, i == 3, verdicts([]string{err.Error()}) == "w", "call %d: %v", i+1, err)
					wire, ok := errors.AsType[*jsonrpc.Error](err)
					require.True(t, ok)
					assert.Equal(t, test.code, wire.Code)
					assert.Equal(t, test.data, wire.Data)
				}
				result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "save"})
				require.NoError(t, err)
				assert.Contains(t, read(result), refusal)
			})
		})
	}
}

// TestGivenUp: the SDK makes a result of an error of a handler, also of that of a call that was given up.
func TestGivenUp(t *testing.T) {
	for name, handler := range map[string]func(ctx context.Context, cancel func()) (string, error){
		"by the caller, and the handler says so": func(ctx context.Context, cancel func()) (string, error) {
			cancel()
			<-ctx.Done()
			return "", fmt.Errorf("gave up: %w", ctx.Err())
		},
		"by the caller, and the handler says something else": func(ctx context.Context, cancel func()) (string, error) {
			cancel()
			<-ctx.Done()
			return "", errors.New("the disk went away")
		},
		"by the caller, and the handler has a result": func(ctx context.Context, cancel func()) (string, error) {
			cancel()
			<-ctx.Done()
			return "half of it", nil
		},
		"by the handler itself": func(context.Context, func()) (string, error) {
			return "", fmt.Errorf("save: %w", context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var cancel context.CancelFunc
			over := make(chan struct{}, 1)
			store := &recorded{Store: middleware.NewMemoryStore()}
			server := newServer(nil)
			addText(server, "save", func(ctx context.Context, _ string) (string, error) { return handler(ctx, cancel) })
			server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
					if method == "tools/call" {
						defer func() { over <- struct{}{} }()
					}
					return next(ctx, method, req)
				}
			}, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
			session := connect(t, inMemory, server, newClient(nil))
			for range 10 {
				ctx, stop := context.WithCancel(t.Context())
				cancel = stop
				_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "save"})
				<-over
				stop()
			}
			assert.Empty(t, store.all)
		})
	}
}

// TestGivenUpAtAClient.
func TestGivenUpAtAClient(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	server, client := newServer(nil), newClient(nil)
	var cancel context.CancelFunc
	addText(server, "save", func(ctx context.Context, _ string) (string, error) {
		cancel()
		<-ctx.Done()
		return "", ctx.Err()
	})
	client.AddSendingMiddleware(newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
	session := connect(t, inMemory, server, client)
	for range 10 {
		ctx, stop := context.WithCancel(t.Context())
		cancel = stop
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "save"})
		stop()
		require.ErrorIs(t, err, context.Canceled)
	}
	assert.Empty(t, store.all)
}

// TestTimeOver is a failure like any other at a client. A server is told no more than that the call was given up.
func TestTimeOver(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		store := &recorded{Store: middleware.NewMemoryStore()}
		server, client := newServer(nil), newClient(nil)
		atClient := false
		over := make(chan struct{}, 1)
		addText(server, "wait", func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
		install(server, client, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "tools/call" {
					defer func() { over <- struct{}{} }()
				}
				return next(ctx, method, req)
			}
		})
		client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				result, err := next(ctx, method, req)
				atClient = err == nil && method == "tools/call" // a refusal
				return result, err
			}
		})
		session := connect(t, inMemory, server, client)
		n := 0
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, _ = session.CallTool(ctx, &sdk.CallToolParams{Name: "wait"})
			cancel()
			if !atClient {
				<-over
				n++
			}
		}
		if len(store.all) == 0 {
			assert.Equal(t, 6, n, "the server saw nothing but calls that were given up")
			return
		}
		assert.Equal(t, 5, n, "the sixth was refused")
		require.Len(t, store.all, 6)
		assert.True(t, store.all[0].Failure)
		assert.Equal(t, policy.Refused, store.all[5].Status)
	})
}

// TestPanic: nothing of the SDK recovers one, so that hosts do it themselves. It is remembered, and goes on.
func TestPanic(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	server := newServer(nil)
	addText(server, "crash", func(context.Context, string) (string, error) { panic("secret") })
	var said any
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
			defer func() {
				if r := recover(); r != nil {
					said, result, err = r, nil, errors.New("internal error")
				}
			}()
			return next(ctx, method, req)
		}
	}, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
	session := connect(t, inMemory, server, newClient(nil))
	all, err := repeat(session, 6, "crash", `{}`)
	require.NoError(t, err)
	assert.Equal(t, ".....x", verdicts(all), "a panic leaves nobody to warn")
	require.Len(t, store.all, 6)
	for _, r := range store.all[:5] {
		assert.True(t, r.Failure)
		assert.Equal(t, store.all[0].Outcome, r.Outcome)
	}
	assert.Equal(t, "secret", said)
}

// TestAgentInATool: what its guard says is new each time, with its counts and its runs. To the guard around it that is one
// and the same failure.
func TestAgentInATool(t *testing.T) {
	inner := newGuard(t, config())
	var seen detections
	server := newServer(nil)
	parents := map[string]bool{}
	addText(server, "research", func(ctx context.Context, _ string) (string, error) {
		parent, _ := middleware.RunID(ctx)
		parents[parent] = true
		ctx = middleware.ChildRun(ctx, "")
		defer func() { _ = inner.Forget(ctx) }()
		for {
			_, err := inner.Do(ctx, middleware.Call{Tool: "look"}, func(context.Context, middleware.Call) (middleware.Result, error) {
				return middleware.Text("nothing"), nil
			})
			if err != nil {
				return "", err
			}
		}
	})
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config(), seen.option())))
	all, err := repeat(connect(t, inMemory, server, newClient(nil)), 6, "research", `{}`)
	require.NoError(t, err)
	assert.Equal(t, "...w.x", verdicts(all))
	assert.Contains(t, all[0], "loopguard: run stopped by global_circuit_breaker")
	assert.NotEqual(t, all[0], all[1])
	assert.Len(t, parents, 1)
	assert.Contains(t, seen.runs(), keys(parents)[0])
}

func keys[M ~map[K]V, K comparable, V any](m M) (all []K) {
	for key := range m {
		all = append(all, key)
	}
	return all
}

// down is a store that fails.
type down struct{ middleware.Store }

func (down) Update(context.Context, string, func(*policy.State) error) error {
	return errors.New("dial tcp 10.0.0.7:6379: connection refused")
}

func TestFailClosed(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		guard := newGuard(t, config(), middleware.WithStore(down{middleware.NewMemoryStore()}), middleware.WithFailClosed())
		server, client := newServer(nil), newClient(nil)
		addRaw(server, "read", says(textResult("fine"), &runs))
		install(server, client, newLoops(t, guard))
		var outside error
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
				result, err = next(ctx, method, req)
				if method == "tools/call" {
					outside = err
				}
				return result, err
			}
		})
		_, err := connect(t, inMemory, server, client).CallTool(t.Context(), &sdk.CallToolParams{Name: "read"})
		require.Error(t, err)
		assert.Zero(t, runs)
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok { // at a client
			require.ErrorIs(t, err, middleware.ErrStore)
			return
		}
		assert.EqualValues(t, jsonrpc.CodeInternalError, wire.Code)
		assert.NotContains(t, err.Error(), "10.0.0.7")
		require.ErrorIs(t, outside, middleware.ErrStore, "other middleware of the server may know")
	})
}

// TestStatelessServersDoNotHearOfCancellations: a trap. The notification comes with a request of its own, and so in a session
// of its own, which has no such call. What comes of the call is its outcome then, though nobody reads it. With
// PropagateRequestCancellation it is the end of the request that ends the call, see TestConformance.
func TestStatelessServersDoNotHearOfCancellations(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	goOn, over := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	server := newServer(nil)
	addText(server, "save", func(ctx context.Context, _ string) (string, error) {
		cancel()
		<-goOn
		return "saved", ctx.Err()
	})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			if method == "tools/call" {
				over <- ctx.Err()
			}
			return result, err
		}
	}, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
	endpoint := listen(t, server, &sdk.StreamableHTTPOptions{Stateless: true})
	session := connect(t, overHTTP(endpoint), server, newClient(nil))
	_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "save"})
	require.ErrorIs(t, err, context.Canceled)
	time.Sleep(100 * time.Millisecond)
	close(goOn)
	require.NoError(t, <-over)
	require.Len(t, store.all, 1)
	assert.Equal(t, policy.Done, store.all[0].Status)
}
