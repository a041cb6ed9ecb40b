package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/platform"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/toolutils"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/policy"
)

// tracing is where the framework has its spans: it asks for the global provider once, when it is loaded.
var tracing = sdktrace.NewTracerProvider()

func TestMain(m *testing.M) {
	otel.SetTracerProvider(tracing)
	os.Exit(m.Run())
}

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

// watched is a guard and what it reports.
type watched struct {
	*middleware.Guard
	store *middleware.MemoryStore

	mu  sync.Mutex
	all []middleware.Detection
}

func newGuard(t testing.TB, c policy.Config, options ...middleware.Option) *watched {
	t.Helper()
	w := &watched{store: middleware.NewMemoryStore()}
	guard, err := middleware.New(c, append([]middleware.Option{
		middleware.WithStore(w.store),
		middleware.WithOnDetection(func(_ context.Context, d middleware.Detection) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.all = append(w.all, d)
		}),
	}, options...)...)
	require.NoError(t, err)
	w.Guard = guard
	return w
}

// found returns what was reported, as "action tool", with the part of the run after the id of the invocation.
func (w *watched) found() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.all {
		_, below, _ := strings.Cut(d.Run, "/")
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", d.Action, d.Tool, below)))
	}
	return all
}

// historian is a store that shows what was in the history of each run last.
type historian struct {
	middleware.Store

	mu        sync.Mutex
	runs      map[string][]policy.Record
	forgotten int
}

func (h *historian) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	return h.Store.Update(ctx, run, func(s *policy.State) error {
		err := fn(s)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.runs[run] = s.Last(100)
		return err
	})
}

func (h *historian) Forget(ctx context.Context, run string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgotten++
	return h.Store.Forget(ctx, run)
}

// records returns how many calls there were in all histories.
func (h *historian) records() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, records := range h.runs {
		n += len(records)
	}
	return n
}

// turn is what a model is given: all that was said, and what it reads of the calls that it has made.
type turn struct {
	ctx  context.Context
	said []*genai.Content
	read []string
}

// last returns what it reads of the calls of its last turn.
func (t turn) last() []string {
	n := 0
	for _, c := range t.said {
		if calls := len(callsIn(c)); calls > 0 {
			n = calls
		}
	}
	return t.read[max(len(t.read)-n, 0):]
}

// scripted is a model whose turns are a function of what it reads, so that it can serve many runs at a time.
type scripted func(turn) *genai.Content

func (scripted) Name() string { return "scripted" }

func (m scripted) GenerateContent(
	ctx context.Context, req *model.LLMRequest, stream bool,
) iter.Seq2[*model.LLMResponse, error] {
	return func(yield func(*model.LLMResponse, error) bool) {
		t := turn{ctx: ctx, said: req.Contents}
		for _, c := range req.Contents {
			for _, p := range c.Parts {
				if p.FunctionResponse != nil {
					t.read = append(t.read, reads(p.FunctionResponse))
				}
			}
		}
		c := m(t)
		if stream && !yield(&model.LLMResponse{Content: say("thinking"), Partial: true}, nil) {
			return
		}
		yield(&model.LLMResponse{Content: c, TurnComplete: true}, nil)
	}
}

// reads is a function response as a text: what it says, and the note.
func reads(r *genai.FunctionResponse) string {
	rest := maps.Clone(r.Response)
	note, _ := rest[adk.NoteKey].(string)
	delete(rest, adk.NoteKey)
	said := ""
	for _, key := range []string{"result", "output", "error"} {
		if text, ok := rest[key].(string); ok && len(rest) == 1 {
			said = text
		}
	}
	if said == "" {
		encoded, _ := json.Marshal(rest)
		said = string(encoded)
	}
	return strings.TrimSpace(said + "\n\n" + note)
}

func callsIn(c *genai.Content) (calls []*genai.FunctionCall) {
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			calls = append(calls, p.FunctionCall)
		}
	}
	return calls
}

// say is a turn in which the model answers.
func say(text string) *genai.Content { return genai.NewContentFromText(text, genai.RoleModel) }

// call is a turn with a call; its id is left to the framework.
func call(tool, args string) *genai.Content { return together(functionCall("", tool, args)) }

// functionCall is a call as a model makes it, its numbers as it wrote them.
func functionCall(id, tool, args string) *genai.FunctionCall {
	decoder := json.NewDecoder(strings.NewReader(args))
	decoder.UseNumber()
	var decoded map[string]any
	if err := decoder.Decode(&decoded); err != nil {
		panic(err)
	}
	return &genai.FunctionCall{ID: id, Name: tool, Args: decoded}
}

// together is a turn of parallel calls.
func together(calls ...*genai.FunctionCall) *genai.Content {
	c := &genai.Content{Role: genai.RoleModel}
	for _, call := range calls {
		c.Parts = append(c.Parts, &genai.Part{FunctionCall: call})
	}
	return c
}

// times makes a call n times and then answers.
func times(n int, tool, args string) scripted {
	return func(t turn) *genai.Content {
		if len(t.read) == n {
			return say("enough")
		}
		return call(tool, args)
	}
}

// forever makes a call again and again, whatever it reads.
func forever(tool, args string) scripted {
	return func(turn) *genai.Content { return call(tool, args) }
}

// untilRefused makes a call again and again, until it is refused.
func untilRefused(tool, args string) scripted {
	return func(t turn) *genai.Content {
		if strings.Contains(strings.Join(t.read, "\n"), "Call refused") {
			return say("gave up")
		}
		return call(tool, args)
	}
}

// reading wraps a model and keeps what it reads.
func reading(read *[]string, m scripted) scripted {
	return func(t turn) *genai.Content {
		*read = slices.Clone(t.read)
		return m(t)
	}
}

type fields = map[string]json.RawMessage

// function is a tool that takes any object. What it is given is JSON as the model wrote it.
func function[T any](t testing.TB, c functiontool.Config, run func(ctx agent.Context, args string) (T, error)) tool.Tool {
	t.Helper()
	made, err := newFunction(c, run)
	require.NoError(t, err)
	return made
}

func newFunction[T any](c functiontool.Config, run func(ctx agent.Context, args string) (T, error)) (tool.Tool, error) {
	c.Description = "does what " + c.Name + " does"
	c.InputSchema = &jsonschema.Schema{Type: "object"}
	return functiontool.New(c, func(ctx agent.Context, args fields) (T, error) {
		encoded, err := json.Marshal(args)
		if err != nil {
			panic(err)
		}
		return run(ctx, string(encoded))
	})
}

// says is a tool that always says the same, and counts how often it was run.
func says(t testing.TB, name, text string, runs *int) tool.Tool {
	return function(t, functiontool.Config{Name: name}, func(agent.Context, string) (string, error) {
		*runs++
		return text, nil
	})
}

// plain is a tool that is not one of the framework's own.
type plain struct {
	name string
	run  func() (map[string]any, error)
	long bool
}

func (p plain) Name() string        { return p.name }
func (p plain) Description() string { return "does what " + p.name + " does" }
func (p plain) IsLongRunning() bool { return p.long }

func (p plain) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: p.name, Description: p.Description()}
}

func (p plain) Run(agent.Context, any) (map[string]any, error) { return p.run() }

func (p plain) ProcessRequest(_ agent.Context, req *model.LLMRequest) error {
	return toolutils.PackTool(req, p)
}

// oneAtATime runs the calls of a turn one after the other, in the goroutine of the agent.
func oneAtATime(ctx context.Context) context.Context {
	return platform.WithTaskRunner(ctx, func(ctx context.Context, tasks []func(context.Context)) {
		for _, task := range tasks {
			task(ctx)
		}
	})
}

// llm is an agent. Its settings can be changed before it is made.
func llm(t testing.TB, name string, m model.LLM, tools []tool.Tool, change ...func(*llmagent.Config)) agent.Agent {
	t.Helper()
	c := llmagent.Config{Name: name, Description: "does what " + name + " does", Model: m, Tools: tools}
	for _, f := range change {
		f(&c)
	}
	a, err := llmagent.New(c)
	require.NoError(t, err)
	return a
}

// guarded is a runner with a guard, the other plugins after it.
func guarded(t testing.TB, guard *watched, root agent.Agent, others ...*plugin.Plugin) *runner.Runner {
	t.Helper()
	loops, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	return newRunner(t, root, append([]*plugin.Plugin{loops}, others...)...)
}

func newRunner(t testing.TB, root agent.Agent, plugins ...*plugin.Plugin) *runner.Runner {
	t.Helper()
	r, err := runner.New(runner.Config{
		AppName: "test", Agent: root, SessionService: session.InMemoryService(), AutoCreateSession: true,
		PluginConfig: runner.PluginConfig{Plugins: plugins},
	})
	require.NoError(t, err)
	return r
}

// run sends a message and returns what came of it, up to the first error. It gives up on an agent that nobody stops.
func run(ctx context.Context, r *runner.Runner, sessionID string, m *genai.Content) (events []*session.Event, err error) {
	for event, err := range r.Run(ctx, "user", sessionID, m, agent.RunConfig{}) {
		if err != nil {
			return events, err
		}
		if events = append(events, event); len(events) > 1000 {
			return events, errors.New("nobody stops it")
		}
	}
	return events, nil
}

func message(text string) *genai.Content { return genai.NewContentFromText(text, genai.RoleUser) }

// responsesIn returns all function responses.
func responsesIn(events []*session.Event) (all []*genai.FunctionResponse) {
	for _, e := range events {
		if e.Content == nil {
			continue
		}
		for _, p := range e.Content.Parts {
			if p.FunctionResponse != nil {
				all = append(all, p.FunctionResponse)
			}
		}
	}
	return all
}
