package mcp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/mcp"
	"github.com/loopguard-go/loopguard/policy"
)

func TestWrongOptions(t *testing.T) {
	guard := newGuard(t, config())
	name := func(context.Context, sdk.Request) string { return "run" }
	for want, options := range map[string][]mcp.Option{
		"an option is nil":              {nil},
		"WithRun: the function is nil":  {mcp.WithRun(nil)},
		"the name of a run is given tw": {mcp.WithRun(name), mcp.WithRunFromMeta("key")},
		"WithRunFromMeta: the key is e": {mcp.WithRunFromMeta("")},
		"WithIdleTime: 0s":              {mcp.WithIdleTime(0)},
		"WithIdleTime: -1s":             {mcp.WithIdleTime(-time.Second)},
	} {
		_, err := mcp.Middleware(guard, options...)
		require.ErrorContains(t, err, "loopguard: ")
		require.ErrorContains(t, err, want)
	}
	_, err := mcp.Middleware(nil)
	require.ErrorContains(t, err, "loopguard: the guard is nil")
	_, err = mcp.Middleware(guard, mcp.WithRun(name), mcp.WithIdleTime(time.Hour), mcp.WithTracing(nil))
	require.NoError(t, err)
}

// TestOtherRequestsPass, and those that are no proper tool calls.
func TestOtherRequestsPass(t *testing.T) {
	failure := errors.New("as it was")
	store := &recorded{Store: middleware.NewMemoryStore()}
	for method, req := range map[string]sdk.Request{
		"tools/list":                &sdk.ListToolsRequest{},
		"notifications/progress":    &sdk.ProgressNotificationServerRequest{},
		"prompts/get":               &sdk.GetPromptRequest{Params: &sdk.GetPromptParams{Name: "a"}},
		"tools/call":                &sdk.CallToolRequest{},
		"resources/read":            nil,
		"sampling/createMessage":    &sdk.CreateMessageRequest{},
		"tools/call ":               &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "a"}},
		"com.example/custom/method": nil,
	} {
		handle := newLoops(t, newGuard(t, config(), middleware.WithStore(store)))(
			func(_ context.Context, gotMethod string, got sdk.Request) (sdk.Result, error) {
				assert.Equal(t, method, gotMethod)
				assert.Equal(t, req, got)
				return nil, failure
			})
		for range 20 {
			_, err := handle(t.Context(), method, req)
			assert.Same(t, failure, err)
		}
	}
	for _, req := range []sdk.Request{
		&sdk.CallToolRequest{Params: nil},
		&sdk.ClientRequest[*sdk.CallToolParams]{Params: nil},
		&sdk.GetPromptRequest{Params: &sdk.GetPromptParams{}}, // other middleware may do such things
	} {
		handle := newLoops(t, newGuard(t, config(), middleware.WithStore(store)))(
			func(context.Context, string, sdk.Request) (sdk.Result, error) { return nil, failure })
		_, err := handle(t.Context(), "tools/call", req)
		assert.Same(t, failure, err)
	}
	assert.Empty(t, store.all)
}

// TestRealServerStaysWhatItIs: tools are listed, prompts and progress come through.
func TestRealServerStaysWhatItIs(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		progress := make(chan string, 1)
		server := newServer(nil)
		client := newClient(&sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, req *sdk.ProgressNotificationClientRequest) {
				progress <- req.Params.Message
			},
		})
		addRaw(server, "work", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Message: "half", Progress: 1, Total: 2,
			})
			return textResult("done"), err
		})
		server.AddPrompt(&sdk.Prompt{Name: "hello"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "says hello"}, nil
		})
		install(server, client, newLoops(t, newGuard(t, config())))
		session := connect(t, inMemory, server, client)
		tools, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		assert.Len(t, tools.Tools, 1)
		prompt, err := session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "hello"})
		require.NoError(t, err)
		assert.Equal(t, "says hello", prompt.Description)
		params := &sdk.CallToolParams{Name: "work"}
		params.SetProgressToken("token")
		result, err := session.CallTool(t.Context(), params)
		require.NoError(t, err)
		assert.Equal(t, "done", read(result))
		assert.Equal(t, "half", <-progress)
	})
}

// TestOneMiddlewareForManyServers: runs by name are the same at all of them.
func TestOneMiddlewareForManyServers(t *testing.T) {
	loops := newLoops(t, newGuard(t, config()), mcp.WithRunFromMeta(runKey))
	var all []string
	for range 6 {
		server := newServer(nil)
		addText(server, "look", func(context.Context, string) (string, error) { return "nothing", nil })
		server.AddReceivingMiddleware(loops)
		said, err := call(t.Context(), connect(t, inMemory, server, newClient(nil)), "look", `{}`, sdk.Meta{runKey: "seven"})
		require.NoError(t, err)
		all = append(all, said)
	}
	assert.Equal(t, "...w.x", verdicts(all))
}

// TestGuardThatIsOff, and a tool that is exempt.
func TestGuardThatIsOff(t *testing.T) {
	runs := 0
	server := newServer(nil)
	addRaw(server, "build", says(textResult("broken"), &runs))
	exempt := config()
	exempt.Tools = map[string]policy.ToolRule{"*": {Exempt: new(true)}}
	for _, c := range []policy.Config{{Enabled: new(false)}, exempt} {
		client := newClient(nil)
		client.AddSendingMiddleware(newLoops(t, newGuard(t, c)))
		session := connect(t, inMemory, server, client)
		all, err := repeat(session, 40, "build", `{}`)
		require.NoError(t, err)
		assert.NotContains(t, verdicts(all), "w")
		_, err = repeat(session, 40, "no such tool", `{}`)
		require.NoError(t, err)
	}
	assert.Equal(t, 80, runs)
}

// TestOrder: what is added last is outermost, and in one call the first is. What is inside of the guard is part of what it
// sees, and what is outside is not.
func TestOrder(t *testing.T) {
	stamp := func(word string) sdk.Middleware { // makes each result a new one
		return func(next sdk.MethodHandler) sdk.MethodHandler {
			n := 0
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				result, err := next(ctx, method, req)
				if r, ok := result.(*sdk.CallToolResult); ok {
					n++
					stamped := *r
					stamped.Content = append([]sdk.Content{&sdk.TextContent{Text: word + time.Duration(n).String()}}, r.Content...)
					return &stamped, err
				}
				return result, err
			}
		}
	}
	for want, add := range map[string]func(*sdk.Server, sdk.Middleware){
		"...w..w.": func(s *sdk.Server, loops sdk.Middleware) { // seen: the calls are equal, their results are not
			s.AddReceivingMiddleware(stamp("inside "))
			s.AddReceivingMiddleware(loops)
		},
		"...w.xxx": func(s *sdk.Server, loops sdk.Middleware) { s.AddReceivingMiddleware(stamp("outside "), loops) },
	} {
		runs := 0
		server := newServer(nil)
		addRaw(server, "build", says(textResult("broken"), &runs))
		add(server, newLoops(t, newGuard(t, config())))
		all, err := repeat(connect(t, inMemory, server, newClient(nil)), 8, "build", `{}`)
		require.NoError(t, err)
		assert.Equal(t, want, verdicts(all))
	}
}

// TestTypedHandlersRoundNumbers: a trap of the SDK, which takes what typed handlers get and return through floating point. The
// guard sees what the client wrote.
func TestTypedHandlersRoundNumbers(t *testing.T) {
	type row struct {
		ID int64 `json:"id"`
	}
	store := &recorded{Store: middleware.NewMemoryStore()}
	server := newServer(nil)
	var given []int64
	sdk.AddTool(server, &sdk.Tool{Name: "get"}, func(_ context.Context, _ *sdk.CallToolRequest, in row) (*sdk.CallToolResult, row, error) {
		given = append(given, in.ID)
		return nil, row{9007199254740993}, nil
	})
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
	session := connect(t, inMemory, server, newClient(nil))
	for _, args := range []string{`{"id":9007199254740992}`, `{"id":9007199254740993}`} {
		said, err := call(t.Context(), session, "get", args, nil)
		require.NoError(t, err)
		assert.Equal(t, `{"id":9007199254740992}`, said)
	}
	assert.Equal(t, []int64{9007199254740992, 9007199254740992}, given)
	require.Len(t, store.all, 2)
	assert.NotEqual(t, store.all[0].Signature, store.all[1].Signature)
	assert.Equal(t, store.all[0].Outcome, store.all[1].Outcome)
}
