package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// hunt calls tools that do not exist, one after the other, and returns what the model reads.
func hunt(t *testing.T, session *sdk.ClientSession, names ...string) (all []string) {
	t.Helper()
	for i, name := range names {
		said, err := call(t.Context(), session, name, fmt.Sprintf(`{"attempt":%d}`, i), nil)
		require.NoError(t, err)
		all = append(all, said)
	}
	return all
}

// TestUnknownTools under one name and under several, by the errors of this SDK, on every kind of wire.
func TestUnknownTools(t *testing.T) {
	for kind, names := range map[string][]string{
		"one name":      {"grep", "grep", "grep", "grep", "grep"},
		"several names": {"grep", "rg", "ag", "ack", "find"},
		"odd names":     {`"`, "", "tool\nbox", `a"b`, "ä\x00"},
	} {
		t.Run(kind, func(t *testing.T) {
			for wires, by := range map[string]func(*testing.T, *sdk.Server) wire{
				"memory":       always(inMemory),
				"old protocol": always(old),
				"HTTP":         func(t *testing.T, s *sdk.Server) wire { return overHTTP(listen(t, s, nil)) },
			} {
				t.Run(wires, func(t *testing.T) {
					eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
						runs := 0
						var seen detections
						server, client := newServer(nil), newClient(nil)
						addRaw(server, "read", says(textResult("fine"), &runs))
						install(server, client, newLoops(t, newGuard(t, config(), seen.option())))
						session := connect(t, by(t, server), server, client)
						all := hunt(t, session, names...)
						assert.Equal(t, "...xx", verdicts(all))
						assert.Contains(t, all[2], "unknown tool")
						assert.Len(t, seen.told(), 2, "%v", seen.told())
						for _, told := range seen.told() {
							assert.Contains(t, told, "by unknown_tool_repeat")
						}
						assert.Equal(t, []string{"fine"}, hunt(t, session, "read"), "tools that exist can be called")
						assert.Equal(t, ".", verdicts(hunt(t, session, "hunt")), "and then others may be tried")
					})
				})
			}
		})
	}
}

// TestUnknownToolsOfOtherServers, which say so in other words, or in a result.
func TestUnknownToolsOfOtherServers(t *testing.T) {
	for name, answer := range map[string]func(tool string) (sdk.Result, error){
		"by the specification": func(tool string) (sdk.Result, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown tool: " + tool}
		},
		"not found": func(tool string) (sdk.Result, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "MCP error -32602: Tool " + tool + " not found"}
		},
		"in a result": func(tool string) (sdk.Result, error) {
			result := textResult("Unknown tool: " + tool)
			result.IsError = true
			return result, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, client := newServer(nil), newClient(nil)
			server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
					if r, ok := req.(*sdk.CallToolRequest); ok {
						return answer(r.Params.Name)
					}
					return next(ctx, method, req)
				}
			})
			client.AddSendingMiddleware(newLoops(t, newGuard(t, config())))
			session := connect(t, inMemory, server, client)
			assert.Equal(t, "...xx", verdicts(hunt(t, session, "grep", "rg", "ag", "ack", "grep")))
		})
	}
}

// TestOtherTroubleIsNoUnknownTool.
func TestOtherTroubleIsNoUnknownTool(t *testing.T) {
	server, client := newServer(nil), newClient(nil)
	var seen detections
	for name, said := range map[string]string{"run": "tool jq not found", "ask": "unknown tool: jq"} {
		addText(server, name, func(_ context.Context, args string) (string, error) { return "", errors.New(said + " in " + args) })
	}
	addRaw(server, "list", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown directory " + string(req.Params.Arguments)}
	})
	client.AddSendingMiddleware(newLoops(t, newGuard(t, config(), seen.option())))
	hunt(t, connect(t, inMemory, server, client), "run", "ask", "list", "run", "ask", "list", "run", "ask", "list")
	assert.Empty(t, seen.told())
}

// TestAWarningOfAnUnknownTool comes with what the server said, and is reported once.
func TestAWarningOfAnUnknownTool(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		c := config()
		c.UnknownToolThreshold = 20
		var seen detections
		server, client := newServer(nil), newClient(nil)
		install(server, client, newLoops(t, newGuard(t, c, seen.option())))
		session := connect(t, inMemory, server, client)
		all, err := repeat(session, 5, `a"b`, `{}`)
		require.NoError(t, err)
		assert.Equal(t, "...w.", verdicts(all))
		assert.Contains(t, all[3], `unknown tool "a\"b"`)
		assert.Equal(t, []string{`warn of a"b by generic_repeat at 3`}, seen.told())

		_, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "c"})
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		require.True(t, ok)
		assert.EqualValues(t, jsonrpc.CodeInvalidParams, wire.Code)
	})
}

// TestUnknownToolsAreRememberedOnce, although each is judged twice.
func TestUnknownToolsAreRememberedOnce(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	server := newServer(nil)
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, policy.Default(), middleware.WithStore(store))))
	hunt(t, connect(t, inMemory, server, newClient(nil)), "a", "b", "c", "d")
	require.Len(t, store.all, 4)
	for _, r := range store.all {
		assert.Equal(t, policy.Done, r.Status)
		assert.True(t, r.Failure)
	}
}

// recorded is a store that shows the history of its only run.
type recorded struct {
	middleware.Store
	all []policy.Record
}

func (r *recorded) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	return r.Store.Update(ctx, run, func(s *policy.State) error {
		err := fn(s)
		if err == nil {
			r.all = s.Last(1000)
		}
		return err
	})
}
