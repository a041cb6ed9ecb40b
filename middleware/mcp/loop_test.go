package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/mcp"
	"github.com/loopguard-go/loopguard/policy"
)

// eachSide runs a test with the guard at a server and with the guard at a client.
func eachSide(t *testing.T, test func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware))) {
	for name, install := range map[string]func(*sdk.Server, *sdk.Client, sdk.Middleware){"server": receiving, "client": sending} {
		t.Run(name, func(t *testing.T) { test(t, install) })
	}
}

// command is how an exec tool reports, as structured content: nothing of it is ever the same but how the command ended.
type command struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exitCode"`
	PID        int    `json:"pid"`
	DurationMS int    `json:"durationMs"`
	MessageID  string `json:"messageId"`
	Stderr     string `json:"stderr"`
}

func addExec(server *sdk.Server, runs *int) {
	sdk.AddTool(server, &sdk.Tool{Name: "exec"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		Command string `json:"command"`
	}) (*sdk.CallToolResult, command, error) {
		*runs++
		n := *runs
		if in.Command != "make" {
			return nil, command{Status: "completed", PID: n, DurationMS: n, Stderr: in.Command}, nil
		}
		return nil, command{"failed", 2, 4000 + n, 10 * n, fmt.Sprint("msg-", n), fmt.Sprintf("make: *** [all] Error 2 (pid %d, 0.%ds)", n, n)}, nil
	})
}

func TestLoopOfFailingCommands(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		var seen detections
		server, client := newServer(nil), newClient(nil)
		addExec(server, &runs)
		install(server, client, newLoops(t, newGuard(t, policy.Default(), seen.option())))
		session := connect(t, inMemory, server, client)

		all, err := repeat(session, 40, "exec", `{"command":"make"}`)
		require.Error(t, err)
		assert.Equal(t, "..........w.........xxxxxxxxxx", verdicts(all), "and the 31st is the end")
		assert.Equal(t, 20, runs)
		assert.Contains(t, all[10], `"exitCode":2`, "a warning comes with the result")
		assert.Equal(t, "abort of exec by global_circuit_breaker at 30", seen.told()[11])
		assert.Len(t, seen.runs(), 1)
	})
}

func TestHealthyAgentIsLeftAlone(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		play := func(loops sdk.Middleware) (all []string) {
			runs := 0
			server, client := newServer(nil), newClient(nil)
			addExec(server, &runs)
			install(server, client, loops)
			session := connect(t, inMemory, server, client)
			for i := range 40 {
				result, err := session.CallTool(t.Context(), &sdk.CallToolParams{
					Name: "exec", Arguments: map[string]any{"command": fmt.Sprint("cat file-", i)},
				})
				require.NoError(t, err)
				data, err := json.Marshal(result)
				require.NoError(t, err)
				all = append(all, string(data))
			}
			return all
		}
		var seen detections
		guarded := play(newLoops(t, newGuard(t, policy.Default(), seen.option())))
		plain := play(func(next sdk.MethodHandler) sdk.MethodHandler { return next })
		assert.Equal(t, plain, guarded)
		assert.Empty(t, seen.told())
	})
}

func TestAbortOfAServer(t *testing.T) {
	runs := 0
	guard := newGuard(t, config())
	server := newServer(nil)
	addRaw(server, "build", says(textResult("broken"), &runs))
	server.AddReceivingMiddleware(newLoops(t, guard))
	var outside error
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler { // as one that logs
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, req)
			if err != nil {
				outside = err
			}
			return result, err
		}
	})
	session := connect(t, inMemory, server, newClient(nil))

	all, err := repeat(session, 20, "build", `{}`)
	assert.Equal(t, "...w.xxx", verdicts(all))
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	require.True(t, ok, "%v", err)
	assert.EqualValues(t, mcp.CodeLoop, wire.Code)
	assert.Equal(t, `loopguard: run stopped by global_circuit_breaker at 8 (threshold 8), tool "build": `+
		"8 calls brought nothing new. All further tool calls of this run are refused. Stop calling tools, and say what "+
		"is in the way.", wire.Message)
	assert.NotErrorIs(t, err, middleware.ErrLoop, "it came over a wire")

	loop, ok := errors.AsType[*middleware.LoopError](outside)
	require.True(t, ok, "%v", outside)
	assert.Equal(t, policy.Abort, loop.Action)
	assert.Len(t, loop.Calls, 5)

	addRaw(server, "other", says(textResult("fine"), &runs))
	_, err = call(t.Context(), session, "other", `{}`, nil)
	require.ErrorContains(t, err, "run stopped by global_circuit_breaker", "all that the run asks for is refused")
	fine, err := call(t.Context(), connect(t, inMemory, server, newClient(nil)), "build", `{}`, nil)
	require.NoError(t, err, "another session is another run")
	assert.Equal(t, "broken", fine)
	assert.Equal(t, 6, runs)
}

func TestAbortOfAClient(t *testing.T) {
	runs := 0
	server, client := newServer(nil), newClient(nil)
	addRaw(server, "build", says(textResult("broken"), &runs))
	client.AddSendingMiddleware(newLoops(t, newGuard(t, config())))
	all, err := repeat(connect(t, inMemory, server, client), 20, "build", `{}`)
	assert.Equal(t, "...w.xxx", verdicts(all))
	loop, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, policy.Abort, loop.Action)
	assert.Equal(t, "build", loop.Tool)
	assert.Equal(t, 5, runs)
}

func TestBlocksAsErrors(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		server, client := newServer(nil), newClient(nil)
		addRaw(server, "build", says(textResult("broken"), &runs))
		install(server, client, newLoops(t, newGuard(t, config(), middleware.WithBlocksAsErrors())))
		all, err := repeat(connect(t, inMemory, server, client), 20, "build", `{}`)
		assert.Equal(t, "...w.", verdicts(all))
		require.ErrorContains(t, err, "loopguard: call refused by generic_repeat at 5 (threshold 5)")
		wire, isWire := errors.AsType[*jsonrpc.Error](err)
		if _, isLoop := errors.AsType[*middleware.LoopError](err); !isLoop {
			require.True(t, isWire)
			assert.EqualValues(t, mcp.CodeLoop, wire.Code)
		}
	})
}

// TestStopByAnOutcome: the guard after compaction knows only afterwards. The host tells it, so that it names the run itself.
func TestStopByAnOutcome(t *testing.T) {
	runs := 0
	guard := newGuard(t, policy.Default())
	server, client := newServer(nil), newClient(nil)
	addRaw(server, "build", says(textResult("broken"), &runs))
	client.AddSendingMiddleware(newLoops(t, guard))
	session := connect(t, inMemory, server, client)

	ctx := middleware.NewRun(t.Context())
	require.NoError(t, guard.Compacted(ctx))
	for range 2 {
		_, err := call(ctx, session, "build", `{}`, nil)
		require.NoError(t, err)
	}
	_, err := call(ctx, session, "build", `{}`, nil)
	loop, ok := errors.AsType[*middleware.LoopError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "compaction_loop_persisted", loop.Detector)
	assert.Equal(t, 3, runs)
}

// TestRefusalsAreComplete: clients of a newer version of the protocol are told so with every result.
func TestRefusalsAreComplete(t *testing.T) {
	for version, w := range map[string]wire{"new": inMemory, "old": old} {
		runs := 0
		server, client := newServer(nil), newClient(nil)
		addRaw(server, "build", says(textResult("broken"), &runs))
		server.AddReceivingMiddleware(newLoops(t, newGuard(t, config())))
		var results []string
		client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				result, err := next(ctx, method, req)
				if r, ok := result.(*sdk.CallToolResult); ok {
					data, _ := json.Marshal(r)
					results = append(results, string(data))
				}
				return result, err
			}
		})
		all, err := repeat(connect(t, w, server, client), 6, "build", `{}`)
		require.NoError(t, err)
		assert.Equal(t, "...w.x", verdicts(all))
		for i, result := range results {
			assert.Equal(t, version == "new", strings.Contains(result, `"resultType":"complete"`), "call %d: %s", i+1, result)
			assert.Equal(t, i == 5, strings.Contains(result, `"isError":true`), "call %d: %s", i+1, result)
		}
	}
}
