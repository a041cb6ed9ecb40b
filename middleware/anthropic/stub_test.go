package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/anthropics/anthropic-sdk-go/v2/toolrunner"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
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

func newGuard(t *testing.T, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
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

// words returns what was reported, in words.
func (d *detections) words() (said []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, found := range d.all {
		said = append(said, fmt.Sprint(found.Action, " ", found.Detector, " ", found.Tool, " ", found.CallID))
	}
	return said
}

// api is a server that speaks the Messages API. What the model says is a function of the turn and of what it reads.
type api struct {
	*httptest.Server
	say func(turn int, read []result) message

	mu       sync.Mutex
	requests []request
	last     []string // the ids of the calls that the model made last
}

// request is what the model was sent.
type request struct {
	Stream   bool            `json:"stream"`
	Thread   json.RawMessage `json:"thread"`
	Messages []struct {
		Role    string            `json:"role"`
		Content []json.RawMessage `json:"content"`
	} `json:"messages"`

	header http.Header
	body   string
}

// result is what the model reads of a call.
type result struct {
	ID      string                   `json:"tool_use_id"`
	Content []map[string]interface{} `json:"content"`
	IsError bool                     `json:"is_error"`
}

// text returns the texts of a result.
func (r result) text() (said string) {
	for _, block := range r.Content {
		text, _ := block["text"].(string)
		said += text
	}
	return said
}

// message is what the model says: content blocks, as JSON.
type message struct {
	stop   string
	blocks []string
}

// answers is a message that ends the run.
func answers(text string) message {
	return message{"end_turn", []string{fmt.Sprintf(`{"type":"text","text":%q}`, text)}}
}

// asks is a message that asks for calls.
func asks(calls ...string) message { return message{"tool_use", calls} }

// use is a call.
func use(id, tool, input string) string {
	return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, id, tool, input)
}

func newAPI(say func(turn int, read []result) message) *api {
	a := &api{say: say}
	a.Server = httptest.NewServer(a)
	return a
}

// startAPI is newAPI for a test.
func startAPI(t *testing.T, say func(turn int, read []result) message) *api {
	a := newAPI(say)
	t.Cleanup(a.Close)
	return a
}

// client returns a client of the API.
func (a *api) client(options ...option.RequestOption) sdk.Client {
	return sdk.NewClient(append([]option.RequestOption{option.WithBaseURL(a.URL), option.WithAPIKey("none")}, options...)...)
}

// sent returns the requests so far.
func (a *api) sent() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]request(nil), a.requests...)
}

// read returns what the model read of its calls, by turn.
func (a *api) read(turn int) []result { return a.sent()[turn].results(nil) }

func (r request) results(only []string) (all []result) {
	byID := map[string]result{}
	for _, m := range r.Messages {
		for _, block := range m.Content {
			var found result
			if json.Unmarshal(block, &found) == nil && found.ID != "" {
				byID[found.ID] = found
				if only == nil {
					all = append(all, found)
				}
			}
		}
	}
	for _, id := range only {
		if found, ok := byID[id]; ok {
			all = append(all, found)
		}
	}
	return all
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	got := request{header: r.Header, body: string(body)}
	if err := json.Unmarshal(body, &got); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = append(a.requests, got)
	turn := len(a.requests)
	read := got.results(a.last)
	if len(read) != len(a.last) { // as the API has it
		http.Error(w, fmt.Sprintf("%d results of %d calls", len(read), len(a.last)), http.StatusBadRequest)
		return
	}
	said := a.say(turn, read)
	a.last = []string{}
	for _, block := range said.blocks {
		var call struct{ Type, ID string }
		if json.Unmarshal([]byte(block), &call); call.Type == "tool_use" && said.stop == "tool_use" {
			a.last = append(a.last, call.ID)
		}
	}
	if got.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		said.stream(w, turn)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	blocks := make([]json.RawMessage, len(said.blocks))
	for i, block := range said.blocks {
		blocks[i] = json.RawMessage(block)
	}
	content, _ := json.Marshal(blocks)
	fmt.Fprintf(w, `{"id":"msg_%d","type":"message","role":"assistant","model":"scripted","stop_reason":%q,`+
		`"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1},"content":%s}`, turn, said.stop, content)
}

// stream writes the message as events, the inputs of calls in two parts.
func (m message) stream(w io.Writer, turn int) {
	event := func(kind, format string, args ...any) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fmt.Sprintf(format, args...))
	}
	event("message_start", `,"message":{"id":"msg_%d","type":"message","role":"assistant","model":"scripted","content":[],`+
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}`, turn)
	for i, block := range m.blocks {
		var call struct {
			Type, ID, Name string
			Input          json.RawMessage
		}
		_ = json.Unmarshal([]byte(block), &call)
		if call.Type != "tool_use" {
			event("content_block_start", `,"index":%d,"content_block":%s`, i, block)
			event("content_block_stop", `,"index":%d`, i)
			continue
		}
		event("content_block_start", `,"index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}`, i, call.ID, call.Name)
		if half := len(call.Input) / 2; !bytes.Equal(call.Input, []byte("{}")) {
			for _, part := range []json.RawMessage{call.Input[:half], call.Input[half:]} {
				said, _ := json.Marshal(string(part))
				event("content_block_delta", `,"index":%d,"delta":{"type":"input_json_delta","partial_json":%s}`, i, said)
			}
		}
		event("content_block_stop", `,"index":%d`, i)
	}
	event("message_delta", `,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":1}`, m.stop)
	event("message_stop", "")
}

// params are those of a runner.
func params() sdk.BetaToolRunnerParams {
	return sdk.BetaToolRunnerParams{BetaMessageNewParams: sdk.BetaMessageNewParams{
		Model:     "scripted",
		MaxTokens: 1024,
		Messages:  []sdk.BetaMessageParam{sdk.NewBetaUserMessage(sdk.NewBetaTextBlock("Do it."))},
	}}
}

// blocks are the content of a result.
type blocks = []sdk.BetaToolResultBlockParamContentUnion

// text is a content of one text.
func text(said string) blocks {
	return blocks{{OfText: &sdk.BetaTextBlockParam{Text: said}}}
}

// stub is a tool that is a function.
type stub struct {
	sdk.BetaTool
	run func(ctx context.Context, input json.RawMessage) (blocks, error)
}

func newTool(name string, run func(ctx context.Context, input json.RawMessage) (blocks, error)) sdk.BetaTool {
	t, err := toolrunner.NewBetaToolFromBytes(name, "Does what "+name+" does.", []byte(`{"type":"object"}`),
		func(context.Context, json.RawMessage) (sdk.BetaToolResultBlockParamContentUnion, error) {
			panic("it has a function of its own")
		})
	if err != nil {
		panic(err)
	}
	return &stub{t, run}
}

func (s *stub) Execute(ctx context.Context, input json.RawMessage) (blocks, error) {
	return s.run(ctx, input)
}

// says is a tool that always says the same.
func says(name, said string) sdk.BetaTool {
	return newTool(name, func(context.Context, json.RawMessage) (blocks, error) { return text(said), nil })
}

// records returns what is remembered of the run in a context.
func records(ctx context.Context, store middleware.Store) (all []policy.Record) {
	run, _ := middleware.RunID(ctx)
	_ = store.Update(ctx, run, func(s *policy.State) error {
		all = s.Last(100)
		return nil
	})
	return all
}
