package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/mcp"
	"github.com/loopguard-go/loopguard/policy"
)

// config acts early: the same call with the same result is warned of at the 4th call, refused from the 6th on, and stops
// the run at the 9th. A tool that does not exist is refused from the 4th call on.
func config() policy.Config {
	return policy.Config{
		Enabled:                       new(true),
		WarningThreshold:              3,
		CriticalThreshold:             5,
		UnknownToolThreshold:          3,
		GlobalCircuitBreakerThreshold: 8,
	}
}

func newGuard(t testing.TB, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
}

// newLoops makes the middleware.
func newLoops(t testing.TB, guard *middleware.Guard, options ...mcp.Option) sdk.Middleware {
	t.Helper()
	loops, err := mcp.Middleware(guard, options...)
	require.NoError(t, err)
	return loops
}

// detections keeps what a guard reports.
type detections struct {
	mu  sync.Mutex
	all []middleware.Detection
}

func (d *detections) option() middleware.Option {
	return middleware.WithOnDetection(func(_ context.Context, found middleware.Detection) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, found)
	})
}

// told returns what was reported, in words.
func (d *detections) told() (told []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, found := range d.all {
		told = append(told, fmt.Sprintf("%s of %s by %s at %d", found.Action, found.Tool, found.Detector, found.Count))
	}
	return told
}

// runs returns the ids of the runs of which something was reported.
func (d *detections) runs() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	runs := map[string]int{}
	for _, found := range d.all {
		runs[found.Run]++
	}
	return runs
}

// noSchema is that of a tool that takes any object.
var noSchema = json.RawMessage(`{"type":"object"}`)

func newServer(options *sdk.ServerOptions) *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: "server", Version: "1"}, options)
}

func newClient(options *sdk.ClientOptions) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, options)
}

// addText adds a tool as most are: with a typed handler, whose errors the SDK makes results.
func addText(s *sdk.Server, name string, run func(ctx context.Context, args string) (string, error)) {
	sdk.AddTool(s, &sdk.Tool{Name: name}, func(ctx context.Context, req *sdk.CallToolRequest, _ any) (*sdk.CallToolResult, any, error) {
		said, err := run(ctx, string(req.Params.Arguments))
		if err != nil {
			return nil, nil, err
		}
		return textResult(said), nil, nil
	})
}

// addRaw adds a tool with a handler that does everything itself.
func addRaw(s *sdk.Server, name string, run sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, InputSchema: noSchema}, run)
}

// says is a handler that always returns one and the same result, and counts how often it was run.
func says(result *sdk.CallToolResult, runs *int) sdk.ToolHandler {
	return func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		*runs++
		return result, nil
	}
}

func textResult(said string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: said}}}
}

// wire connects a client to a server.
type wire func(ctx context.Context, server *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error)

// inMemory connects both in memory.
func inMemory(ctx context.Context, server *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error) {
	a, b := sdk.NewInMemoryTransports()
	if _, err := server.Connect(ctx, a, nil); err != nil {
		return nil, err
	}
	return client.Connect(ctx, b, nil)
}

// old connects both in memory by the version of the protocol with which servers may ask clients for something.
func old(ctx context.Context, server *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error) {
	a, b := sdk.NewInMemoryTransports()
	if _, err := server.Connect(ctx, a, nil); err != nil {
		return nil, err
	}
	return client.Connect(ctx, b, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
}

// pipes connects both as a command is connected that talks with its standard input and output.
func pipes(ctx context.Context, server *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error) {
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	if _, err := server.Connect(ctx, &sdk.IOTransport{Reader: toServer, Writer: fromServer}, nil); err != nil {
		return nil, err
	}
	return client.Connect(ctx, &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
}

// overHTTP connects clients to an endpoint.
func overHTTP(endpoint string) wire {
	return func(ctx context.Context, _ *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error) {
		return client.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: endpoint}, nil)
	}
}

// listen serves a server on the loopback interface.
func listen(t testing.TB, server *sdk.Server, options *sdk.StreamableHTTPOptions) string {
	web := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options))
	t.Cleanup(web.Close)
	return web.URL
}

// connect connects a client to a server for the length of a test.
func connect(t testing.TB, by wire, server *sdk.Server, client *sdk.Client) *sdk.ClientSession {
	t.Helper()
	session, err := by(context.Background(), server, client)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// call calls a tool as a host of an agent does, and returns what the model reads.
func call(ctx context.Context, session *sdk.ClientSession, tool, args string, meta sdk.Meta) (string, error) {
	result, err := session.CallTool(ctx, &sdk.CallToolParams{Meta: meta, Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code != mcp.CodeLoop {
			return "error: " + err.Error(), nil // the model may know better next time
		}
		return "", err
	}
	return read(result), nil
}

// read is what a model reads of a result.
func read(result *sdk.CallToolResult) string {
	var parts []string
	for _, part := range result.Content {
		if t, ok := part.(*sdk.TextContent); ok {
			parts = append(parts, t.Text)
		} else {
			data, _ := json.Marshal(part)
			parts = append(parts, string(data))
		}
	}
	return strings.Join(parts, "\n")
}

// repeat makes a call some times and returns what was read, and the error that ended it.
func repeat(session *sdk.ClientSession, n int, tool, args string) (all []string, err error) {
	for range n {
		said, err := call(context.Background(), session, tool, args, nil)
		if err != nil {
			return all, err
		}
		all = append(all, said)
	}
	return all, nil
}

const (
	warning = "[loopguard] Warning"
	refusal = "[loopguard] Call refused"
)

// verdicts says for each call whether it was warned of (w), refused (x) or none of both (.).
func verdicts(all []string) string {
	var said strings.Builder
	for _, read := range all {
		switch {
		case strings.Contains(read, warning):
			said.WriteString("w")
		case strings.Contains(read, refusal):
			said.WriteString("x")
		default:
			said.WriteString(".")
		}
	}
	return said.String()
}

var traces propagation.TraceContext

// inject puts the trace into the metadata of a request, as hosts do.
func inject(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "tools/call" {
			carrier := propagation.MapCarrier{}
			traces.Inject(ctx, carrier)
			meta := sdk.Meta{}
			for key, value := range req.GetParams().GetMeta() {
				meta[key] = value
			}
			for key, value := range carrier {
				meta[key] = value
			}
			req.GetParams().SetMeta(meta)
		}
		return next(ctx, method, req)
	}
}

// extract takes it out again.
func extract(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "tools/call" {
			carrier := propagation.MapCarrier{}
			for key, value := range req.GetParams().GetMeta() {
				if s, ok := value.(string); ok {
					carrier[key] = s
				}
			}
			ctx = traces.Extract(ctx, carrier)
		}
		return next(ctx, method, req)
	}
}
