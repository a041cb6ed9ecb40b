package mcp_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/mcp"
	"github.com/loopguard-go/loopguard/policy"
)

// TestIdleSession: a stop lasts as long as the agent goes on.
func TestIdleSession(t *testing.T) {
	for name, test := range map[string]struct {
		options []mcp.Option
		idle    time.Duration
	}{
		"default": {nil, mcp.DefaultIdleTime},
		"option":  {[]mcp.Option{mcp.WithIdleTime(time.Hour)}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
				synctest.Test(t, func(t *testing.T) {
					runs := 0
					server, client := newServer(nil), newClient(nil)
					addRaw(server, "build", says(textResult("broken"), &runs))
					store := middleware.NewMemoryStore(middleware.WithIdleTime(0))
					var seen detections
					install(server, client, newLoops(t, newGuard(t, config(), middleware.WithStore(store), seen.option()), test.options...))
					session := connect(t, inMemory, server, client)
					stopped := func() bool {
						_, err := call(t.Context(), session, "build", `{}`, nil)
						return err != nil
					}
					_, err := repeat(session, 9, "build", `{}`)
					require.Error(t, err)
					for range 3 { // a call that is refused is a call
						time.Sleep(test.idle - time.Second)
						require.True(t, stopped())
					}
					time.Sleep(test.idle)
					require.False(t, stopped())
					assert.Equal(t, 1, store.Runs(), "the run before was forgotten")

					all, err := repeat(session, 7, "build", `{}`)
					require.NoError(t, err)
					assert.Equal(t, "..w.xxx", verdicts(all), "and the next one starts afresh")
					assert.Len(t, seen.runs(), 2)
				})
			})
		})
	}
}

// TestLongCallKeepsTheRun: it is not idle while a call is in flight.
func TestLongCallKeepsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(nil)
		addText(server, "wait", func(context.Context, string) (string, error) {
			time.Sleep(time.Hour)
			return "over", nil
		})
		addText(server, "look", func(context.Context, string) (string, error) { return "nothing", nil })
		c := config()
		c.Detectors.PingPong = new(false) // which "look, wait, look" would look like
		server.AddReceivingMiddleware(newLoops(t, newGuard(t, c)))
		session := connect(t, inMemory, server, newClient(nil))
		all, err := repeat(session, 3, "look", `{}`)
		require.NoError(t, err)
		var waiting sync.WaitGroup
		waiting.Go(func() { _, _ = call(t.Context(), session, "wait", `{}`, nil) })
		time.Sleep(59 * time.Minute)

		// Others make calls meanwhile, which is when runs are looked through.
		other := connect(t, inMemory, server, newClient(nil))
		_, err = repeat(other, 3, "look", `{}`)
		require.NoError(t, err)
		more, err := repeat(session, 1, "look", `{}`)
		require.NoError(t, err)
		assert.Equal(t, "...w", verdicts(append(all, more...)))
		waiting.Wait()
		time.Sleep(mcp.DefaultIdleTime - time.Second) // after the end of the call, not its beginning
		more, err = repeat(session, 2, "look", `{}`)
		require.NoError(t, err)
		assert.Equal(t, ".x", verdicts(more))
	})
}

// TestRunsThatAreOverAreForgotten when others have calls, and are not known any more.
func TestRunsThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := middleware.NewMemoryStore(middleware.WithIdleTime(0))
		guard := newGuard(t, config(), middleware.WithStore(store))
		loops := newLoops(t, guard, mcp.WithRunFromMeta(runKey))
		var sessions []*sdk.ServerSession
		for i := range 20 {
			sessions = append(sessions, new(sdk.ServerSession))
			direct(t, loops, sessions[i], nil)
			direct(t, loops, sessions[i], sdk.Meta{runKey: fmt.Sprint("run-", i)})
		}
		assert.Equal(t, 40, store.Runs())
		time.Sleep(mcp.DefaultIdleTime)
		for i := range 20 {
			direct(t, loops, sessions[0], nil)
			assert.Equal(t, max(40-2*(i+1), 1), store.Runs())
		}
		runtime.KeepAlive(sessions)
	})
}

// TestSessionsAreNotKept by the adapter, and what they leave behind is forgotten.
func TestSessionsAreNotKept(t *testing.T) {
	store := middleware.NewMemoryStore()
	loops := newLoops(t, newGuard(t, config(), middleware.WithStore(store)))
	live := new(sdk.ClientSession)
	var gone []weak.Pointer[sdk.ServerSession]
	for range 50 {
		session := new(sdk.ServerSession)
		direct(t, loops, session, nil)
		gone = append(gone, weak.Make(session))
	}
	assert.Equal(t, 50, store.Runs())
	require.Eventually(t, func() bool {
		runtime.GC()
		direct(t, loops, live, nil)
		return store.Runs() == 1
	}, 20*time.Second, time.Millisecond)
	for _, session := range gone {
		assert.Nil(t, session.Value())
	}
	runtime.KeepAlive(live)
}

// forgetful is a store that counts what is to be forgotten.
type forgetful struct {
	middleware.Store
	n int
}

func (f *forgetful) Forget(context.Context, string) error { f.n++; return nil }

// TestRunsAreBounded in number: for each that is too many another one is given up.
func TestRunsAreBounded(t *testing.T) {
	c := config()
	c.Tools = map[string]policy.ToolRule{"look": {Exempt: new(true)}} // to be quick
	store := &forgetful{Store: middleware.NewMemoryStore()}
	var id string
	loops := newLoops(t, newGuard(t, c, middleware.WithStore(store)), mcp.WithRun(func(context.Context, sdk.Request) string { return id }))
	look := loops(func(context.Context, string, sdk.Request) (sdk.Result, error) { return nil, nil })
	req := &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "look"}}
	const more = 1000
	for i := range middleware.DefaultMaxRuns + more {
		id = strconv.Itoa(i)
		_, err := look(t.Context(), "tools/call", req)
		require.NoError(t, err)
	}
	assert.Equal(t, more, store.n)
}

// TestNamesAreBounded in length, and in what they may be.
func TestNamesAreBounded(t *testing.T) {
	loops := newLoops(t, newGuard(t, config()), mcp.WithRunFromMeta(runKey))
	session := new(sdk.ServerSession)
	long := strings.Repeat("x", 1<<20)
	for _, id := range []any{long, long + "y", 7, nil, true, []any{"a"}, map[string]any{}, ""} {
		run := direct(t, loops, session, sdk.Meta{runKey: id})
		assert.Less(t, len(run), 129)
	}
	a, b := direct(t, loops, session, sdk.Meta{runKey: long}), direct(t, loops, session, sdk.Meta{runKey: long + "y"})
	assert.NotEqual(t, a, b)
	ofSession := direct(t, loops, session, nil)
	assert.Equal(t, ofSession, direct(t, loops, session, sdk.Meta{runKey: 7}), "not a name")
	assert.NotEqual(t, ofSession, a)
}

// direct takes one call through the middleware, without a wire, and returns the run that it was in.
func direct(t *testing.T, loops sdk.Middleware, session sdk.Session, meta sdk.Meta) (run string) {
	t.Helper()
	handle := loops(func(ctx context.Context, _ string, _ sdk.Request) (sdk.Result, error) {
		run, _ = middleware.RunID(ctx)
		return textResult(rand.Text()), nil // something new each time
	})
	var req sdk.Request
	switch s := session.(type) {
	case *sdk.ServerSession:
		req = &sdk.CallToolRequest{Session: s, Params: &sdk.CallToolParamsRaw{Meta: meta, Name: "look", Arguments: json.RawMessage(fmt.Sprintf("{\"n\":%q}", rand.Text()))}}
	case *sdk.ClientSession:
		req = &sdk.ClientRequest[*sdk.CallToolParams]{Session: s, Params: &sdk.CallToolParams{Meta: meta, Name: "look", Arguments: map[string]any{"n": rand.Text()}}}
	}
	_, err := handle(t.Context(), "tools/call", req)
	require.NoError(t, err)
	return run
}

// slowToForget is a store that takes its time to forget a run.
type slowToForget struct {
	middleware.Store
	run              string
	asked, forgotten chan struct{}
}

func (s slowToForget) Forget(ctx context.Context, run string) error {
	if run == s.run {
		close(s.asked)
		<-s.forgotten
	}
	return s.Store.Forget(ctx, run)
}

// TestNobodyEntersARunThatIsBeingForgotten: a name that comes again has a new history, and whoever comes meanwhile waits for
// the old one to be gone. Nobody else does. The clock is a real one, as nobody waits for a mutex in a bubble of synctest.
func TestNobodyEntersARunThatIsBeingForgotten(t *testing.T) {
	const idle = 700 * time.Millisecond
	store := slowToForget{middleware.NewMemoryStore(), "a", make(chan struct{}), make(chan struct{})}
	loops := newLoops(t, newGuard(t, config(), middleware.WithStore(store)), mcp.WithRunFromMeta(runKey), mcp.WithIdleTime(idle))
	look := loops(func(context.Context, string, sdk.Request) (sdk.Result, error) { return textResult("nothing"), nil })
	session := new(sdk.ServerSession)
	enter := func(name string) error {
		_, err := look(t.Context(), "tools/call", &sdk.CallToolRequest{
			Session: session, Params: &sdk.CallToolParamsRaw{Meta: sdk.Meta{runKey: name}, Name: "look"},
		})
		return err
	}
	for range 8 {
		require.NoError(t, enter("a"))
	}
	require.ErrorContains(t, enter("a"), "run stopped")
	time.Sleep(idle)

	var all sync.WaitGroup
	all.Go(func() { assert.NoError(t, enter("b")) }) // and forgets the other on its way out
	<-store.asked
	var entered atomic.Int32
	for range 3 {
		all.Go(func() {
			assert.NoError(t, enter("a"))
			entered.Add(1)
		})
	}
	require.NoError(t, enter("c"))
	time.Sleep(idle / 10)
	assert.Zero(t, entered.Load())
	close(store.forgotten)
	all.Wait()
	for i := range 10 {
		assert.Equal(t, i >= 5, enter("a") != nil, "three and %d calls are all that is remembered", i)
	}
}

func TestTheContextNamesTheRun(t *testing.T) {
	guard := newGuard(t, config())
	server, client := newServer(nil), newClient(nil)
	addText(server, "look", func(context.Context, string) (string, error) { return "nothing", nil })
	client.AddSendingMiddleware(newLoops(t, guard))
	one, two := connect(t, inMemory, server, client), connect(t, inMemory, server, client)

	ctx := middleware.WithRun(t.Context(), "agent")
	var all []string
	for i := range 6 {
		session := one
		if i%2 == 1 {
			session = two
		}
		said, err := call(ctx, session, "look", `{}`, nil)
		require.NoError(t, err)
		all = append(all, said)
	}
	assert.Equal(t, "...w.x", verdicts(all), "one run over two sessions")
	all, err := repeat(one, 4, "look", `{}`)
	require.NoError(t, err)
	assert.Equal(t, "...w", verdicts(all), "and the session by itself is another")

	require.NoError(t, guard.Forget(ctx))
	said, err := call(ctx, one, "look", `{}`, nil)
	require.NoError(t, err)
	assert.Equal(t, "nothing", said)
}

// TestAHandlerKnowsItsRun, so that an agent in it is a sub-agent.
func TestAHandlerKnowsItsRun(t *testing.T) {
	var seen detections
	server := newServer(nil)
	addText(server, "whoami", func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		return id, nil
	})
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config(), seen.option())))
	session := connect(t, inMemory, server, newClient(nil))
	all, err := repeat(session, 4, "whoami", `{}`)
	require.NoError(t, err)
	id, _, _ := strings.Cut(all[3], "\n")
	assert.Len(t, id, 26)
	assert.Equal(t, map[string]int{id: 1}, seen.runs())
}

func TestAFunctionNamesTheRun(t *testing.T) {
	server := newServer(nil)
	addText(server, "whoami", func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		return id, nil
	})
	byConversation := func(_ context.Context, req sdk.Request) string {
		conversation, _ := req.GetParams().GetMeta()["conversation"].(string)
		if conversation == "" {
			return ""
		}
		return "alice/" + conversation // whom the token of the request names, see sdk.RequestExtra
	}
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config()), mcp.WithRun(byConversation)))
	one, two := connect(t, inMemory, server, newClient(nil)), connect(t, inMemory, server, newClient(nil))
	whoami := func(session *sdk.ClientSession, meta sdk.Meta) string {
		id, err := call(t.Context(), session, "whoami", `{}`, meta)
		require.NoError(t, err)
		return id
	}
	assert.Equal(t, "alice/7", whoami(one, sdk.Meta{"conversation": "7"}))
	assert.Equal(t, "alice/7", whoami(two, sdk.Meta{"conversation": "7"}))
	assert.Equal(t, "alice/8", whoami(one, sdk.Meta{"conversation": "8"}))
	assert.NotEqual(t, whoami(one, nil), whoami(two, nil))
}

// TestNameBeatsContext: whoever names runs by option says it of each call.
func TestNameBeatsContext(t *testing.T) {
	loops := newLoops(t, newGuard(t, config()), mcp.WithRunFromMeta(runKey))
	named := func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			return loops(next)(middleware.WithRun(ctx, "context"), method, req)
		}
	}
	session := new(sdk.ServerSession)
	assert.Equal(t, "meta", direct(t, named, session, sdk.Meta{runKey: "meta"}))
	assert.Equal(t, "context", direct(t, named, session, nil))
}

// TestStatelessServers have a session for each request: no run comes of that, so that runs need a name.
func TestStatelessServers(t *testing.T) {
	for name, options := range map[string]*sdk.ServerOptions{
		"stateless":        nil,
		"without sessions": {GetSessionID: func() string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			store := middleware.NewMemoryStore()
			server := newServer(options)
			addRaw(server, "build", says(textResult("broken"), &runs))
			guard := newGuard(t, policy.Default(), middleware.WithStore(store))
			server.AddReceivingMiddleware(newLoops(t, guard, mcp.WithRunFromMeta(runKey)))
			session := connect(t, overHTTP(listen(t, server, &sdk.StreamableHTTPOptions{Stateless: options == nil})), server, newClient(nil))

			all, err := repeat(session, 35, "build", `{}`)
			require.NoError(t, err)
			assert.Equal(t, strings.Repeat(".", 35), verdicts(all), "unnamed")
			require.Eventually(t, func() bool {
				runtime.GC()
				_, err := call(t.Context(), session, "build", `{}`, nil)
				return assert.NoError(t, err) && store.Runs() < 10
			}, 20*time.Second, time.Millisecond, "what the sessions leave behind is forgotten")

			all = nil
			for range 31 {
				var said string
				if said, err = call(t.Context(), session, "build", `{}`, sdk.Meta{runKey: "conversation-7"}); err == nil {
					all = append(all, said)
				}
			}
			assert.Equal(t, "..........w.........xxxxxxxxxx", verdicts(all), "named")
			require.ErrorContains(t, err, "run stopped")
		})
	}
}

// TestManyClientsOverHTTP keep to their own runs.
func TestManyClientsOverHTTP(t *testing.T) {
	var seen detections
	server := newServer(nil)
	addText(server, "look", func(context.Context, string) (string, error) { return "nothing", nil })
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config(), seen.option())))
	endpoint := listen(t, server, nil)
	var all sync.WaitGroup
	for range 8 {
		session := connect(t, overHTTP(endpoint), server, newClient(nil))
		all.Go(func() {
			said, err := repeat(session, 20, "look", `{}`)
			assert.ErrorContains(t, err, "run stopped")
			assert.Equal(t, "...w.xxx", verdicts(said))
		})
	}
	all.Wait()
	assert.Len(t, seen.runs(), 8)
}

// TestContextsOverHTTP: a trap. In a session over HTTP the context of every call is that of the request that opened the
// session, so that what middleware of the web server puts into it is known of that only. The headers are of each request.
func TestContextsOverHTTP(t *testing.T) {
	server := newServer(nil)
	addText(server, "whoami", func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		return id, nil
	})
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config())))
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	requests := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			requests++
		}
		handler.ServeHTTP(w, r.WithContext(middleware.WithRun(r.Context(), fmt.Sprint("request-", requests))))
	}))
	t.Cleanup(web.Close)
	session := connect(t, overHTTP(web.URL), server, newClient(nil))
	all, err := repeat(session, 2, "whoami", `{}`)
	require.NoError(t, err)
	assert.Equal(t, all[0], all[1])
	assert.Contains(t, all[0], "request-")
	assert.NotEqual(t, fmt.Sprint("request-", requests), all[1])
}

// TestRequestsWithoutSession are made by hand. The guard knows a run for them, or says what is missing.
func TestRequestsWithoutSession(t *testing.T) {
	for _, req := range []sdk.Request{
		&sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{Name: "look", Arguments: json.RawMessage(`{}`)}},
		&sdk.ClientRequest[*sdk.CallToolParams]{Params: &sdk.CallToolParams{Name: "look"}},
	} {
		next := func(context.Context, string, sdk.Request) (sdk.Result, error) { return textResult("nothing"), nil }
		_, err := newLoops(t, newGuard(t, config()))(next)(t.Context(), "tools/call", req)
		require.ErrorIs(t, err, middleware.ErrNoRun)
		_, err = newLoops(t, newGuard(t, config(), middleware.WithDefaultRun("the only one")))(next)(t.Context(), "tools/call", req)
		require.NoError(t, err)
	}
}

// TestContextsInMemory: a trap. The context of every call is that with which the server was connected.
func TestContextsInMemory(t *testing.T) {
	server := newServer(nil)
	addText(server, "whoami", func(ctx context.Context, _ string) (string, error) {
		id, _ := middleware.RunID(ctx)
		return id, nil
	})
	server.AddReceivingMiddleware(newLoops(t, newGuard(t, config())))
	session, err := inMemory(middleware.WithRun(t.Context(), "of the agent around it"), server, newClient(nil))
	require.NoError(t, err)
	defer session.Close()
	for range 2 {
		id, err := call(middleware.WithRun(t.Context(), "of the call"), session, "whoami", `{}`, nil)
		require.NoError(t, err)
		assert.Equal(t, "of the agent around it", id)
	}
}

// TestServerBeforeAServer: a trap. With a guard on both sides each call counts twice, as the run goes on with the context.
func TestServerBeforeAServer(t *testing.T) {
	for want, both := range map[string]bool{"...w.x": false, ".w": true} {
		loops := newLoops(t, newGuard(t, config()))
		behind := newServer(nil)
		addText(behind, "look", func(context.Context, string) (string, error) { return "nothing", nil })
		client := newClient(nil)
		if both {
			client.AddSendingMiddleware(loops)
		}
		behindIt := connect(t, inMemory, behind, client)
		server := newServer(nil)
		addRaw(server, "look", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return behindIt.CallTool(ctx, &sdk.CallToolParams{Name: "look", Arguments: req.Params.Arguments})
		})
		server.AddReceivingMiddleware(loops)
		all, err := repeat(connect(t, inMemory, server, newClient(nil)), len(want), "look", `{}`)
		require.NoError(t, err)
		assert.Equal(t, want, verdicts(all))
	}
}
