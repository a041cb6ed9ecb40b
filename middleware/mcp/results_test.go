package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// outcomes is a store that knows what was remembered of the last call.
type outcomes struct {
	middleware.Store
	last policy.Record
}

func (o *outcomes) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	return o.Store.Update(ctx, run, func(s *policy.State) error {
		err := fn(s)
		if last := s.Last(1); len(last) > 0 {
			o.last = last[0]
		}
		return err
	})
}

// TestShapes: what is remembered of a result is what the rules say of its JSON, as in a recording, on both sides of a wire.
func TestShapes(t *testing.T) {
	const text = `{"type":"text","text":"hello"}`
	for _, test := range []struct{ name, tool, result string }{
		{"nothing", "look", `{"content":[]}`},
		{"text", "look", `{"content":[` + text + `]}`},
		{"texts", "look", `{"content":[` + text + `,{"type":"text","text":" world "},{"type":"text","text":""}]}`},
		{"text that is an object", "look", `{"content":[{"type":"text","text":" {\"a\":9007199254740993} "}]}`},
		{"text that is a list", "look", `{"content":[{"type":"text","text":"[1,2]"}]}`},
		{"text that is a result", "look", `{"content":[{"type":"text","text":"{\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"}]}`},
		{"annotated text", "look", `{"content":[{"type":"text","text":"a","_meta":{"b":1},"annotations":{"priority":0.5}}]}`},
		{"details", "look", `{"content":[],"structuredContent":{"a":[1,null,"<&>"]}}`},
		{"details, repeated", "look", `{"content":[{"type":"text","text":"{\"a\":1.50}"}],"structuredContent":{"a":1.5}}`},
		{"details and text", "look", `{"content":[` + text + `],"structuredContent":{"a":1}}`},
		{"details that are a list", "look", `{"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}`},
		{"details that are a number", "look", `{"content":[],"structuredContent":7}`},
		{"metadata", "look", `{"_meta":{"took":12},"content":[` + text + `]}`},
		{"error", "look", `{"content":[{"type":"text","text":"no such file, attempt 3 after 12ms"}],"isError":true}`},
		{"image", "look", `{"content":[` + text + `,{"type":"image","mimeType":"image/png","data":"AAEC"}]}`},
		{"sound", "look", `{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAEC"}]}`},
		{"link", "look", `{"content":[{"type":"resource_link","uri":"file:///a","name":"a","size":9007199254740993}]}`},
		{"resource", "look", `{"content":[{"type":"resource","resource":{"uri":"file:///a","mimeType":"text/plain","text":"a"}}]}`},
		{"blob", "look", `{"content":[{"type":"resource","resource":{"uri":"file:///a","blob":"AAEC"}}],"structuredContent":{"id":1}}`},
		{"command", "exec", `{"content":[` + text + `],"structuredContent":{"status":"failed","exitCode":2,"pid":7,"output":"took 12ms"}}`},
		{"command as text", "exec", `{"content":[{"type":"text","text":"pid 4711, took 12 ms"}]}`},
		{"delivery", "send_message", `{"content":[` + text + `],"structuredContent":{"messageId":"m-123456","chat":"c","ok":true}}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			id := canonical.New().Identify(canonical.Call{Tool: test.tool, Args: `{"a":1}`})
			want := id.Result(canonical.Result{Details: json.RawMessage(test.result)})
			var result sdk.CallToolResult
			require.NoError(t, json.Unmarshal([]byte(test.result), &result))
			eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
				runs := 0
				store := &outcomes{Store: middleware.NewMemoryStore()}
				server, client := newServer(nil), newClient(nil)
				addRaw(server, test.tool, says(&result, &runs))
				install(server, client, newLoops(t, newGuard(t, policy.Default(), middleware.WithStore(store))))
				for _, w := range []wire{inMemory, old} {
					_, err := call(t.Context(), connect(t, w, server, client), test.tool, `{"a":1}`, nil)
					require.NoError(t, err)
					assert.Equal(t, policy.Done, store.last.Status)
					assert.Equal(t, want.Digest, store.last.Outcome)
					assert.Equal(t, want.Failure, store.last.Failure)
					assert.Equal(t, id.Signature, store.last.Signature)
				}
			})
		})
	}
}

// TestExactNumbers: what differs in the last digit of a long number differs, and a field that is to be ignored is, also at a
// client, whose SDK has rounded the numbers.
func TestExactNumbers(t *testing.T) {
	type row struct {
		ID   int64 `json:"id"`
		Took int   `json:"took"`
	}
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		for name, test := range map[string]struct {
			row  func(n int) row
			want string
		}{
			"another row":  {func(n int) row { return row{9007199254740993 + int64(n), 0} }, "...w......"}, // of the call only
			"the same row": {func(n int) row { return row{9007199254740993, n} }, "...w.xxx"},
		} {
			t.Run(name, func(t *testing.T) {
				runs := 0
				server, client := newServer(nil), newClient(nil)
				addRaw(server, "query", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					runs++
					said, err := json.Marshal(test.row(runs))
					result := textResult(string(said))
					result.StructuredContent = json.RawMessage(said)
					return result, err
				})
				c := config()
				c.Tools = map[string]policy.ToolRule{"query": {IgnoreResult: []string{"took"}, WarningThreshold: 3}}
				install(server, client, newLoops(t, newGuard(t, c)))
				all, _ := repeat(connect(t, inMemory, server, client), 6, "query", `{}`)
				assert.Equal(t, test.want[:6], verdicts(all))
			})
		}
	})
}

func TestArgumentsAreExact(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		var seen detections
		server, client := newServer(nil), newClient(nil)
		addRaw(server, "get", says(textResult("row"), &runs))
		install(server, client, newLoops(t, newGuard(t, policy.Config{
			Enabled: new(true), WarningThreshold: 3, CriticalThreshold: 5,
			Detectors: policy.Detectors{Stagnation: new(false)},
		}, seen.option())))
		session := connect(t, inMemory, server, client)
		for i := range 20 {
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{
				Name: "get", Arguments: map[string]any{"id": int64(9007199254740993) + int64(i)},
			})
			require.NoError(t, err)
		}
		assert.Empty(t, seen.told())
		assert.Equal(t, 20, runs)

		// Whatever the order of keys is.
		for _, args := range []any{
			json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{ "b":2.0,"a":1 }`), map[string]any{"b": 2, "a": 1},
			struct {
				B int `json:"b"`
				A int `json:"a"`
			}{2, 1},
		} {
			_, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "get", Arguments: args})
			require.NoError(t, err)
		}
		assert.Equal(t, []string{"warn of get by generic_repeat at 3"}, seen.told())
	})
}

// TestNoArguments look like this, and are the same.
func TestNoArguments(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	handle := newLoops(t, newGuard(t, config(), middleware.WithStore(store)))(
		func(context.Context, string, sdk.Request) (sdk.Result, error) { return textResult("nothing"), nil })
	session := new(sdk.ServerSession)
	for _, args := range []string{"", "null", "{}", " { } "} {
		_, err := handle(t.Context(), "tools/call", &sdk.CallToolRequest{
			Session: session, Params: &sdk.CallToolParamsRaw{Name: "look", Arguments: json.RawMessage(args)},
		})
		require.NoError(t, err)
	}
	require.Len(t, store.all, 4)
	for _, r := range store.all {
		assert.Equal(t, store.all[0].Signature, r.Signature)
	}
}

// TestResultsAreNotChanged: a handler may return one result to everybody.
func TestResultsAreNotChanged(t *testing.T) {
	backing := make([]sdk.Content, 2, 8)
	backing[0], backing[1] = &sdk.TextContent{Text: "the picture"}, &sdk.ImageContent{Data: []byte{1, 2, 3}, MIMEType: "image/png"}
	shared := &sdk.CallToolResult{
		Meta: sdk.Meta{"cached": true}, Content: backing, StructuredContent: map[string]any{"width": 3}, IsError: true,
	}
	before, err := json.Marshal(shared)
	require.NoError(t, err)

	loops := newLoops(t, newGuard(t, config()))
	handle := loops(func(context.Context, string, sdk.Request) (sdk.Result, error) { return shared, nil })
	var all sync.WaitGroup
	for range 8 {
		session := new(sdk.ServerSession)
		all.Go(func() {
			for i := range 4 {
				got, err := handle(t.Context(), "tools/call", &sdk.CallToolRequest{
					Session: session, Params: &sdk.CallToolParamsRaw{Name: "look"},
				})
				assert.NoError(t, err)
				if i < 3 {
					assert.Same(t, shared, got)
					continue
				}
				noted := got.(*sdk.CallToolResult)
				assert.NotSame(t, shared, noted)
				assert.Equal(t, shared.Content, noted.Content[:2])
				assert.Len(t, noted.Content, 3)
				assert.Contains(t, noted.Content[2].(*sdk.TextContent).Text, warning)
				assert.Equal(t, shared.StructuredContent, noted.StructuredContent)
				assert.Equal(t, shared.Meta, noted.Meta)
				assert.True(t, noted.IsError)
			}
		})
	}
	all.Wait()
	after, err := json.Marshal(shared)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	assert.Nil(t, backing[:3][2], "nor is what lies behind it")
}

// TestWarningsOfAllKindsOfResults.
func TestWarningsOfAllKindsOfResults(t *testing.T) {
	for name, result := range map[string]*sdk.CallToolResult{
		"nil":        nil,
		"empty":      {},
		"structured": {StructuredContent: json.RawMessage(`{"a":1}`)},
		"no JSON":    {StructuredContent: func() {}},
	} {
		t.Run(name, func(t *testing.T) {
			handle := newLoops(t, newGuard(t, config()))(func(context.Context, string, sdk.Request) (sdk.Result, error) {
				return result, nil
			})
			session := new(sdk.ServerSession)
			for i := range 6 {
				got, err := handle(t.Context(), "tools/call", &sdk.CallToolRequest{
					Session: session, Params: &sdk.CallToolParamsRaw{Name: "look"},
				})
				require.NoError(t, err)
				switch {
				case i == 5:
					assert.Contains(t, read(got.(*sdk.CallToolResult)), refusal)
				case i == 3 && result != nil:
					assert.Contains(t, read(got.(*sdk.CallToolResult)), warning)
				default:
					assert.Same(t, result, got)
				}
			}
		})
	}
}

// TestNoContent is the same whether it is an empty list or none, which other middleware may leave to the SDK.
func TestNoContent(t *testing.T) {
	store := &recorded{Store: middleware.NewMemoryStore()}
	content := []sdk.Content{}
	handle := newLoops(t, newGuard(t, config(), middleware.WithStore(store)))(
		func(context.Context, string, sdk.Request) (sdk.Result, error) {
			return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(`{"pid":7,"status":"completed"}`)}, nil
		})
	session := new(sdk.ServerSession)
	for range 2 {
		_, err := handle(t.Context(), "tools/call", &sdk.CallToolRequest{
			Session: session, Params: &sdk.CallToolParamsRaw{Name: "exec"},
		})
		require.NoError(t, err)
		content = nil
	}
	require.Len(t, store.all, 2)
	assert.Equal(t, store.all[0].Outcome, store.all[1].Outcome)
}

// TestPictures: another picture is something new, and the same one is not.
func TestPictures(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		for want, data := range map[string]func(n int) []byte{
			"...w.x":   func(int) []byte { return []byte("png") },
			"...w..w.": func(n int) []byte { return fmt.Append(nil, "png", n) },
		} {
			runs := 0
			server, client := newServer(nil), newClient(nil)
			addRaw(server, "screenshot", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				runs++
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: data(runs), MIMEType: "image/png"}}}, nil
			})
			install(server, client, newLoops(t, newGuard(t, config())))
			all, err := repeat(connect(t, inMemory, server, client), len(want), "screenshot", `{}`)
			require.NoError(t, err)
			assert.Equal(t, want, verdicts(all))
			assert.Contains(t, all[3], `"type":"image"`)
		}
	})
}

// TestCanonicalizer: a function of the user's has the result as JSON.
func TestCanonicalizer(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		server, client := newServer(nil), newClient(nil)
		addText(server, "search", func(context.Context, string) (string, error) {
			runs++
			return fmt.Sprintf("request %d: nothing", runs), nil
		})
		guard := newGuard(t, config(), middleware.WithCanonicalizer("search", func(_ canonical.Call, r canonical.Result) canonical.Result {
			var result sdk.CallToolResult
			if json.Unmarshal(r.Details.(json.RawMessage), &result) == nil {
				_, said, _ := strings.Cut(read(&result), ": ")
				return canonical.Result{Text: said, IsError: r.IsError}
			}
			return r
		}))
		install(server, client, newLoops(t, guard))
		all, err := repeat(connect(t, inMemory, server, client), 6, "search", `{}`)
		require.NoError(t, err)
		assert.Equal(t, "...w.x", verdicts(all))
	})
}
