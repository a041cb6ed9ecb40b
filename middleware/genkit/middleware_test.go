package genkit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core"
	framework "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/policy"
)

// host is an agent of the tests: a model and its tools.
type host struct {
	*framework.Genkit
	*model
	tools []ai.ToolRef
}

// newHost makes an agent whose model does what a script says.
func newHost(t *testing.T, script func(turn) *ai.Message) *host {
	h := &host{Genkit: framework.Init(t.Context()), model: &model{script: script}}
	h.define(h.Genkit)
	return h
}

// generate lets the agent work with middleware.
func (h *host) generate(ctx context.Context, use ...ai.Middleware) (*ai.ModelResponse, error) {
	return framework.Generate(ctx, h.Genkit, h.options(use...)...)
}

func (h *host) options(use ...ai.Middleware) []ai.GenerateOption {
	return []ai.GenerateOption{
		ai.WithModelName(modelName), ai.WithPrompt("the build"), ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use...),
	}
}

// tool gives the agent a tool that is a function.
func tool[Out any](h *host, name string, run func(ctx *ai.ToolContext, input any) (Out, error)) *ai.ToolDef[any, Out] {
	defined := framework.DefineTool(h.Genkit, name, "does what "+name+" does", run)
	h.tools = append(h.tools, defined)
	return defined
}

// says gives the agent a tool that always says the same, and returns how often it was run.
func says[Out any](h *host, name string, output Out) *counter {
	runs := &counter{}
	tool(h, name, func(*ai.ToolContext, any) (Out, error) {
		runs.add()
		return output, nil
	})
	return runs
}

// counter counts in goroutines.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *counter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// forever makes the same call again and again.
func forever(tool string) func(turn) *ai.Message {
	return func(turn) *ai.Message { return calls(call(tool, "all")) }
}

// untilRefused makes the same call again and again, until it reads that it should not.
func untilRefused(tool string) func(turn) *ai.Message {
	return func(t turn) *ai.Message {
		if t.readsRefusal() {
			return answer("gave up")
		}
		return calls(call(tool, "all"))
	}
}

// times makes the same call n times.
func times(n int, tool string) func(turn) *ai.Message {
	return func(t turn) *ai.Message {
		if len(t.read) == n {
			return answer("done")
		}
		return calls(call(tool, "all"))
	}
}

// stopOf returns the *LoopError of a generation that was stopped.
func stopOf(t *testing.T, err error) *middleware.LoopError {
	t.Helper()
	var loop *middleware.LoopError
	require.ErrorAs(t, err, &loop)
	return loop
}

// report is what a command comes to: the same each time but for what changes by itself.
type report struct {
	Status     string `json:"status"`
	ExitCode   int    `json:"exitCode"`
	Pid        int    `json:"pid"`
	DurationMs int    `json:"durationMs"`
	MessageID  string `json:"messageId"`
	Output     string `json:"output"`
}

func reportOf(n int) report {
	return report{"failed", 1, 4000 + n, 10 * n, fmt.Sprint("msg-", n), fmt.Sprintf("no such file (pid %d, took %d ms)", 4000+n, n)}
}

func TestLoopAtTheDefaults(t *testing.T) {
	for name, define := range map[string]func(*host) *counter{
		"details": func(h *host) *counter {
			runs := &counter{}
			tool(h, "exec", func(*ai.ToolContext, any) (report, error) { return reportOf(runs.add()), nil })
			return runs
		},
		"text": func(h *host) *counter {
			runs := &counter{}
			tool(h, "exec", func(*ai.ToolContext, any) (string, error) {
				n := runs.add()
				return fmt.Sprintf("no such file (pid %d, took %d ms)", 4000+n, n), nil
			})
			return runs
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen detections
			h := newHost(t, forever("exec"))
			runs := define(h)
			_, err := h.generate(t.Context(), genkit.New(newGuard(t, policy.Default(), seen.option())))
			loop := stopOf(t, err)
			assert.Equal(t, policy.Abort, loop.Action)
			assert.Equal(t, "exec", loop.Tool)
			assert.Equal(t, 20, runs.count())

			read := h.last.texts()
			require.Len(t, read, 30, "the 31st call stopped the run")
			for i, text := range read {
				switch n := i + 1; {
				case n <= 20:
					assert.Contains(t, text, "no such file", "call %d", n)
					assert.Equal(t, n == 11, strings.Contains(text, "[loopguard] Warning"), "call %d", n)
				default:
					assert.Regexp(t, `^\[loopguard\] Call refused`, text, "call %d", n)
				}
			}
		})
	}
}

// A healthy agent reads byte for byte what it reads without a guard.
func TestHealthyAgentIsLeftAlone(t *testing.T) {
	read := func(use ...ai.Middleware) []string {
		h := newHost(t, func(t turn) *ai.Message {
			if len(t.read) == 31 {
				return answer("done")
			}
			return calls(call("exec", map[string]any{"command": fmt.Sprint("step ", len(t.read))}))
		})
		tool(h, "exec", func(_ *ai.ToolContext, input any) (map[string]any, error) {
			return map[string]any{"status": "completed", "exitCode": 0, "output": fmt.Sprint("did ", input)}, nil
		})
		_, err := h.generate(t.Context(), use...)
		require.NoError(t, err)
		return h.last.texts()
	}
	var seen detections
	assert.Equal(t, read(), read(genkit.New(newGuard(t, policy.Default(), seen.option()))))
	assert.Empty(t, seen.all)
}

func TestAbortIsTheErrorItself(t *testing.T) {
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	use := genkit.New(newGuard(t, config()), genkit.WithName("builder"))

	response, err := h.generate(t.Context(), use)
	assert.Nil(t, response)
	assert.IsType(t, (*middleware.LoopError)(nil), err)
	loop := stopOf(t, err)
	assert.Regexp(t, "^builder-[A-Z2-7]+$", loop.Run)
	assert.NotEmpty(t, loop.Calls)

	// Through a flow too.
	flow := framework.DefineFlow(h.Genkit, "flow", func(ctx context.Context, _ string) (string, error) {
		response, err := h.generate(ctx, use)
		return response.Text(), err
	})
	_, err = flow.Run(t.Context(), "")
	assert.NotEqual(t, loop.Run, stopOf(t, err).Run, "each generation is a run")

	// And as structured output.
	type result struct {
		Text string `json:"text"`
	}
	_, _, err = framework.GenerateData[result](t.Context(), h.Genkit, h.options(use)...)
	stopOf(t, err)
}

func TestBlocksAsErrorsEndTheGeneration(t *testing.T) {
	h := newHost(t, forever("build"))
	runs := says(h, "build", "broken")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), middleware.WithBlocksAsErrors())))
	assert.Equal(t, policy.Block, stopOf(t, err).Action)
	assert.Equal(t, 5, runs.count())
}

func TestWithoutAGuard(t *testing.T) {
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	for _, use := range []genkit.Middleware{{}, genkit.New(nil), genkit.New(nil, genkit.WithTracing(nil))} {
		_, err := h.generate(t.Context(), use)
		require.ErrorContains(t, err, "there is no guard")
	}
}

// The Dev UI and other runtimes name middleware, with some JSON to configure it.
func TestByName(t *testing.T) {
	var seen detections
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	described := framework.DefineMiddleware(h.Genkit, "guards against loops", genkit.New(newGuard(t, config(), seen.option())))
	assert.Equal(t, "loopguard", described.Name)
	assert.Same(t, described, framework.LookupMiddleware(h.Genkit, "loopguard"))

	for _, configuration := range []any{nil, map[string]any{}, map[string]any{"settings": nil, "guard": nil, "name": "x"}} {
		_, err := framework.GenerateWithRequest(t.Context(), h.Genkit, &ai.GenerateActionOptions{
			Model:    modelName,
			Messages: []*ai.Message{ai.NewUserTextMessage("the build")},
			Tools:    []string{"build"},
			MaxTurns: 50,
			Use:      []*ai.MiddlewareRef{{Name: "loopguard", Config: configuration}},
		}, nil, nil)
		stopOf(t, err)
	}
}

// genkit 1.7.0 takes middleware in the definition of a prompt, and never uses it.
func TestMiddlewareOfAPromptIsThatOfItsExecution(t *testing.T) {
	var seen detections
	h := newHost(t, times(7, "build"))
	says(h, "build", "broken")
	use := genkit.New(newGuard(t, config(), seen.option()))
	prompt := framework.DefinePrompt(h.Genkit, "build",
		ai.WithModelName(modelName), ai.WithPrompt("the build"), ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use))

	_, err := prompt.Execute(t.Context())
	require.NoError(t, err)
	assert.Empty(t, seen.all, "a later version that uses it needs another text in doc.go")

	_, err = prompt.Execute(t.Context(), ai.WithUse(use))
	require.NoError(t, err)
	assert.NotEmpty(t, seen.all)
}

// A tool that genkit does not have ends the generation before any hook.
func TestUnknownToolEndsTheGeneration(t *testing.T) {
	var seen detections
	h := newHost(t, forever("grep"))
	says(h, "build", "broken")
	guard := newGuard(t, config(), seen.option())
	for range 20 {
		_, err := h.generate(t.Context(), genkit.New(guard))
		var failure *core.GenkitError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, core.NOT_FOUND, failure.Status)
		require.NotErrorIs(t, err, middleware.ErrLoop)
	}
	assert.Empty(t, seen.all)
}

// A tool that genkit has is run, be it offered to the model or not.
func TestToolThatWasNotOfferedIsRun(t *testing.T) {
	h := newHost(t, untilRefused("grep"))
	runs := says(h, "grep", "nothing")
	h.tools = nil
	says(h, "build", "broken")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config())))
	require.NoError(t, err)
	assert.Equal(t, 5, runs.count())
}

// A host that asks for the tool requests runs them itself: no hook sees that.
func TestReturnedToolRequestsAreTheHosts(t *testing.T) {
	var seen detections
	h := newHost(t, untilRefused("build"))
	runs := says(h, "build", "broken")
	guard := newGuard(t, config(), seen.option())
	ctx := middleware.NewRun(t.Context())
	defer func() { require.NoError(t, guard.Forget(ctx)) }()

	messages := []*ai.Message{ai.NewUserTextMessage("the build")}
	for {
		response, err := framework.Generate(ctx, h.Genkit, ai.WithModelName(modelName), ai.WithMessages(messages...),
			ai.WithTools(h.tools...), ai.WithReturnToolRequests(true), ai.WithUse(genkit.New(guard)))
		require.NoError(t, err)
		requests := response.ToolRequests()
		if len(requests) == 0 {
			break
		}
		messages = append(messages, response.Message)
		for _, r := range requests {
			result, err := guard.Do(ctx, middleware.Call{ID: r.Ref, Tool: r.Name, Args: textOf(r.Input)},
				func(ctx context.Context, _ middleware.Call) (middleware.Result, error) {
					output, err := framework.LookupTool(h.Genkit, r.Name).RunRaw(ctx, r.Input)
					return middleware.Text(textOf(output)), err
				})
			require.NoError(t, err)
			messages = append(messages, ai.NewMessage(ai.RoleTool, nil,
				ai.NewToolResponsePart(&ai.ToolResponse{Name: r.Name, Ref: r.Ref, Output: result.Text})))
		}
	}
	assert.Equal(t, 5, runs.count())
	assert.Contains(t, h.last.texts()[3], "Warning")
	assert.Len(t, seen.all, 2, "each call was judged once")
}

func TestToolErrorEndsTheGeneration(t *testing.T) {
	h := newHost(t, forever("build"))
	failure := errors.New("no disk")
	tool(h, "build", func(*ai.ToolContext, any) (string, error) { return "", failure })
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config())))
	require.ErrorIs(t, err, failure)
	require.NotErrorIs(t, err, middleware.ErrLoop)
	var without *core.GenkitError
	_, plain := h.generate(t.Context())
	require.ErrorAs(t, plain, &without)
	assert.Equal(t, without.Message, err.Error())
}

// tolerant is a middleware that lets the model read the errors of tools.
func tolerant() ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, params *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
			response, err := next(ctx, params)
			if err != nil {
				return &ai.MultipartToolResponse{Output: "error: " + err.Error()}, nil
			}
			return response, nil
		}}, nil
	})
}

// The guard does its work inside and outside of it. No other middleware can make a result of an abort.
func TestBesideAMiddlewareThatHandlesErrors(t *testing.T) {
	for name, order := range map[string]func(guard ai.Middleware) []ai.Middleware{
		"inside":  func(guard ai.Middleware) []ai.Middleware { return []ai.Middleware{tolerant(), guard} },
		"outside": func(guard ai.Middleware) []ai.Middleware { return []ai.Middleware{guard, tolerant()} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, forever("build"))
			runs := &counter{}
			tool(h, "build", func(*ai.ToolContext, any) (string, error) {
				runs.add()
				return "", errors.New("no disk")
			})
			_, err := h.generate(t.Context(), order(genkit.New(newGuard(t, config())))...)
			stopOf(t, err)
			assert.Equal(t, 5, runs.count())
			read := h.last.texts()
			require.Len(t, read, 8)
			assert.Regexp(t, `no disk$`, read[2])
			assert.Regexp(t, `no disk\n\n\[loopguard\] Warning: `, read[3])
			assert.Regexp(t, `no disk$`, read[4])
			assert.Regexp(t, `^\[loopguard\] Call refused: `, read[5])
		})
	}
}

// A generation that another middleware starts again is another run.
func TestGenerationThatIsTriedAgain(t *testing.T) {
	again := ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapGenerate: func(ctx context.Context, params *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
			if params.Iteration > 0 {
				return next(ctx, params)
			}
			first := *params.Request // genkit appends to the request that it is given
			retried := *params
			retried.Request = &first
			if response, err := next(ctx, &retried); !errors.Is(err, middleware.ErrLoop) {
				return response, err
			}
			return next(ctx, params)
		}}, nil
	})
	var seen detections
	h := newHost(t, forever("build"))
	runs := says(h, "build", "broken")
	_, err := h.generate(t.Context(), again, genkit.New(newGuard(t, config(), seen.option())))
	stopOf(t, err)
	assert.Equal(t, 10, runs.count())
	require.Len(t, seen.all, 10)
	assert.NotEqual(t, seen.all[0].Run, seen.all[9].Run)
}

// Two guards in one generation have a run each, and do not disturb each other.
func TestTwoGuards(t *testing.T) {
	observing := config()
	observing.Mode = policy.Observe
	var first, second detections
	store := &watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}
	h := newHost(t, untilRefused("build"))
	runs := says(h, "build", "broken")
	_, err := h.generate(t.Context(),
		genkit.New(newGuard(t, observing, first.option(), middleware.WithStore(store)), genkit.WithName("outer")),
		genkit.New(newGuard(t, config(), second.option(), middleware.WithStore(store)), genkit.WithName("inner")))
	require.NoError(t, err)
	assert.Equal(t, 5, runs.count())
	require.Len(t, first.all, 1, "it reads the other's warning as a result")
	require.Len(t, second.all, 2)
	assert.Regexp(t, "^outer-[A-Z2-7]+$", first.all[0].Run)
	assert.Regexp(t, "^outer-[A-Z2-7]+/inner-[A-Z2-7]+$", second.all[0].Run)
	assert.Empty(t, store.runs())
}

// A middleware that does not pass on its context takes the run away, and that is no way around the guard.
func TestContextThatIsLost(t *testing.T) {
	for name, hooks := range map[string]*ai.Hooks{
		"tool": {WrapTool: func(_ context.Context, params *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
			return next(context.Background(), params)
		}},
		"turn": {WrapGenerate: func(_ context.Context, params *ai.GenerateParams, next ai.GenerateNext) (*ai.ModelResponse, error) {
			return next(context.Background(), params)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			loses := ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) { return hooks, nil })
			h := newHost(t, forever("build"))
			runs := says(h, "build", "broken")
			guard := genkit.New(newGuard(t, config()))
			for i, order := range [][]ai.Middleware{{loses, guard}, {guard, loses}} {
				before := runs.count()
				_, err := h.generate(t.Context(), order...)
				if name == "tool" && i == 1 { // it has done its work by then
					stopOf(t, err)
					continue
				}
				require.ErrorIs(t, err, middleware.ErrNoRun)
				require.ErrorContains(t, err, "does not pass on the context")
				assert.LessOrEqual(t, runs.count(), before+1)
			}
		})
	}
}

func TestStoreThatFailsClosed(t *testing.T) {
	store := &watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}, failing: true}
	h := newHost(t, forever("build"))
	runs := says(h, "build", "broken")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), middleware.WithStore(store), middleware.WithFailClosed())))
	require.ErrorIs(t, err, middleware.ErrStore)
	assert.Zero(t, runs.count())
}

// A middleware that compacts the messages tells the guard, with the context that it has.
func TestCompaction(t *testing.T) {
	guard := newGuard(t, policy.Default())
	compacts := ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapModel: func(ctx context.Context, params *ai.ModelParams, next ai.ModelNext) (*ai.ModelResponse, error) {
			if len(readBy(params.Request.Messages)) == 2 {
				if err := guard.Compacted(ctx); err != nil {
					return nil, err
				}
			}
			return next(ctx, params)
		}}, nil
	})
	h := newHost(t, forever("build"))
	runs := says(h, "build", "broken")
	_, err := h.generate(t.Context(), compacts, genkit.New(guard))
	assert.Equal(t, policy.CompactionLoopPersisted, stopOf(t, err).Detector)
	assert.Equal(t, 5, runs.count())
}

func TestManyRunsAtATime(t *testing.T) {
	h := newHost(t, untilRefused("build"))
	runs := says(h, "build", "broken")
	store := &watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}
	use := genkit.New(newGuard(t, config(), middleware.WithStore(store)))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			response, err := h.generate(t.Context(), use)
			assert.NoError(t, err)
			assert.Equal(t, "gave up", response.Text())
		})
	}
	all.Wait()
	assert.Equal(t, 20*5, runs.count())
	assert.Empty(t, store.runs())
}

// watched is a store that knows which runs were not forgotten.
type watched struct {
	middleware.Store
	failing bool

	mu   sync.Mutex
	live map[string]bool
}

func (w *watched) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	if w.failing {
		return errors.New("no connection")
	}
	return w.Store.Update(ctx, run, func(s *policy.State) error {
		err := fn(s)
		if err == nil {
			w.mu.Lock()
			w.live[run] = true
			w.mu.Unlock()
		}
		return err
	})
}

func (w *watched) Forget(ctx context.Context, run string) error {
	w.mu.Lock()
	delete(w.live, run)
	w.mu.Unlock()
	return w.Store.Forget(ctx, run)
}

func (w *watched) runs() (runs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for run := range w.live {
		runs = append(runs, run)
	}
	return runs
}
