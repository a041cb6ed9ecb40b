package genkit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	framework "github.com/firebase/genkit/go/genkit"
	builtin "github.com/firebase/genkit/go/plugins/middleware"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/policy"
)

func watch() (*watched, middleware.Option) {
	w := &watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}
	return w, middleware.WithStore(w)
}

// A generation within a tool is a run of its own, below that of the tool.
func TestSubAgents(t *testing.T) {
	var seen detections
	store, kept := watch()
	guard := newGuard(t, config(), seen.option(), kept)
	researcher := newHost(t, forever("build"))
	runs := says(researcher, "build", "broken")
	use := genkit.New(guard, genkit.WithName("researcher"))

	boss := newHost(t, times(2, "ask"))
	tool(boss, "ask", func(ctx *ai.ToolContext, _ any) (string, error) {
		_, err := researcher.generate(ctx, use)
		if errors.Is(err, middleware.ErrLoop) {
			return "the researcher was stopped", nil
		}
		return "", err
	})
	_, err := boss.generate(t.Context(), genkit.New(guard, genkit.WithName("boss")))
	require.NoError(t, err)
	assert.Equal(t, []string{"the researcher was stopped", "the researcher was stopped"}, boss.last.texts())
	assert.Equal(t, 10, runs.count())
	below := regexp.MustCompile("^(boss-[A-Z2-7]+)/researcher-[A-Z2-7]+$")
	require.Len(t, seen.runs(), 10)
	assert.Regexp(t, below, seen.runs()[0])
	assert.Equal(t, below.FindStringSubmatch(seen.runs()[0])[1], below.FindStringSubmatch(seen.runs()[9])[1])
	assert.NotEqual(t, seen.runs()[0], seen.runs()[9], "each time it is asked it is a run")
	assert.Empty(t, store.runs())
}

// A sub-agent that was stopped is a tool that failed, which ends the generation like any other.
func TestSubAgentThatIsStopped(t *testing.T) {
	guard := newGuard(t, config())
	researcher := newHost(t, forever("build"))
	says(researcher, "build", "broken")
	boss := newHost(t, forever("ask"))
	tool(boss, "ask", func(ctx *ai.ToolContext, _ any) (string, error) {
		response, err := researcher.generate(ctx, genkit.New(guard, genkit.WithName("researcher")))
		return response.Text(), err
	})
	_, err := boss.generate(t.Context(), genkit.New(guard))
	assert.Contains(t, stopOf(t, err).Run, "/researcher-")
	require.ErrorContains(t, err, `tool "ask" failed`)
}

// The run that a host opened is the parent, unless it is to be the run itself.
func TestRunOfTheHost(t *testing.T) {
	var seen detections
	store, kept := watch()
	guard := newGuard(t, config(), seen.option(), kept)
	h := newHost(t, times(2, "build"))
	runs := says(h, "build", "broken")
	ctx := middleware.WithRun(t.Context(), "R")

	for range 5 {
		_, err := h.generate(ctx, genkit.New(guard))
		require.NoError(t, err)
	}
	assert.Empty(t, seen.all, "each generation is a run")
	assert.Empty(t, store.runs())

	h.script = func(t turn) *ai.Message {
		if len(t.read) == 2 {
			return answer("done")
		}
		return calls(call("build", "all"))
	}
	use := genkit.New(guard, genkit.WithHostRun())
	for n := range 4 {
		_, err := h.generate(ctx, use)
		require.NoError(t, err)
		read := h.last.texts()
		switch n {
		case 1:
			assert.Contains(t, read[1], "Warning")
		case 2:
			assert.Equal(t, "broken", read[0])
			assert.Contains(t, read[1], "Call refused")
		}
	}
	assert.Equal(t, 10+5, runs.count())
	assert.Equal(t, []string{"R"}, store.runs())

	_, err := h.generate(ctx, use)
	assert.Equal(t, "R", stopOf(t, err).Run)
	_, err = h.generate(ctx, use)
	stopOf(t, err)
	require.NoError(t, guard.Forget(ctx))
	_, err = h.generate(ctx, use)
	require.NoError(t, err)

	_, err = h.generate(t.Context(), use)
	require.ErrorIs(t, err, middleware.ErrNoRun)
	byDefault := newGuard(t, config(), middleware.WithDefaultRun("the only one"))
	_, err = h.generate(t.Context(), genkit.New(byDefault, genkit.WithHostRun()))
	require.NoError(t, err)
}

func TestSubAgentOfAHostRun(t *testing.T) {
	for name, run := range map[string]string{"named": "R", "default": ""} {
		t.Run(name, func(t *testing.T) {
			var seen detections
			store, kept := watch()
			guard := newGuard(t, config(), seen.option(), kept, middleware.WithDefaultRun("default"))
			use := genkit.New(guard, genkit.WithHostRun(), genkit.WithName("sub"))
			inner := newHost(t, untilRefused("build"))
			says(inner, "build", "broken")
			other := newHost(t, times(4, "build"))
			says(other, "build", "broken")
			outer := newHost(t, times(1, "ask"))
			tool(outer, "ask", func(ctx *ai.ToolContext, _ any) (string, error) {
				if _, err := inner.generate(ctx, use); err != nil {
					return "", err
				}
				// A run that the tool opens is the tool's.
				_, err := other.generate(middleware.WithRun(ctx, "of the tool"), use)
				return "asked", err
			})
			_, err := outer.generate(middleware.WithRun(t.Context(), run), use)
			require.NoError(t, err)
			require.Len(t, seen.all, 3)
			assert.Regexp(t, "^(R/)?sub-[A-Z2-7]+$", seen.all[0].Run)
			assert.Equal(t, "of the tool", seen.all[2].Run)
			if run == "" {
				run = "default"
			}
			assert.ElementsMatch(t, []string{run, "of the tool"}, store.runs())
		})
	}
}

// An interrupted call has no outcome. Where the host opened the run, the restarted one goes on with its history.
func TestInterruptsAndRestarts(t *testing.T) {
	var seen detections
	store, kept := watch()
	guard := newGuard(t, config(), seen.option(), kept)
	h := newHost(t, func(t turn) *ai.Message {
		if t.readsRefusal() {
			return answer("gave up")
		}
		return calls(call("deploy", "production"))
	})
	var runs counter
	deploy := tool(h, "deploy", func(ctx *ai.ToolContext, _ any) (string, error) {
		if !ctx.IsResumed() {
			return "", ctx.Interrupt(nil)
		}
		runs.add()
		return "permission denied", nil
	})
	ctx := middleware.NewRun(t.Context())
	use := genkit.New(guard, genkit.WithHostRun())

	response, err := h.generate(ctx, use)
	for range 4 {
		require.NoError(t, err)
		require.Len(t, response.Interrupts(), 1)
		restart, restartErr := deploy.RestartWith(response.Interrupts()[0])
		require.NoError(t, restartErr)
		response, err = framework.Generate(ctx, h.Genkit, ai.WithModelName(modelName), ai.WithMessages(response.History()...),
			ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use), ai.WithToolRestarts(restart))
	}
	require.NoError(t, err)
	assert.Equal(t, 4, runs.count(), "only the restarted calls count")
	read := h.last.texts()
	require.Len(t, read, 4)
	assert.Equal(t, []string{"permission denied", "permission denied", "permission denied"}, read[:3])
	assert.Regexp(t, `^permission denied\n\n\[loopguard\] Warning`, read[3])
	require.NoError(t, guard.Forget(ctx))
	assert.Empty(t, store.runs())
}

// The same with genkit's own middleware for it, wherever it stands.
func TestToolApproval(t *testing.T) {
	for name, order := range map[string]func(guard, approval ai.Middleware) []ai.Middleware{
		"guard inside":  func(guard, approval ai.Middleware) []ai.Middleware { return []ai.Middleware{approval, guard} },
		"guard outside": func(guard, approval ai.Middleware) []ai.Middleware { return []ai.Middleware{guard, approval} },
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, config())
			h := newHost(t, untilRefused("deploy"))
			var runs counter
			deploy := tool(h, "deploy", func(*ai.ToolContext, any) (string, error) {
				runs.add()
				return "permission denied", nil
			})
			ctx := middleware.NewRun(t.Context())
			use := order(genkit.New(guard, genkit.WithHostRun()), &builtin.ToolApproval{})
			response, err := h.generate(ctx, use...)
			for range 20 {
				require.NoError(t, err)
				interrupts := response.Interrupts()
				if len(interrupts) == 0 {
					break
				}
				restart, restartErr := deploy.RestartWith(interrupts[0], ai.WithResumedMetadata[any](map[string]any{"toolApproved": true}))
				require.NoError(t, restartErr)
				response, err = framework.Generate(ctx, h.Genkit, ai.WithModelName(modelName), ai.WithMessages(response.History()...),
					ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use...), ai.WithToolRestarts(restart))
			}
			assert.Equal(t, "gave up", response.Text())
			assert.Equal(t, 5, runs.count())
		})
	}
}

// A response that the host gives in place of a tool passes no hook.
func TestRespondedCallsAreNotSeen(t *testing.T) {
	var seen detections
	guard := newGuard(t, config(), seen.option())
	h := newHost(t, times(12, "ask"))
	ask := tool(h, "ask", func(ctx *ai.ToolContext, _ any) (string, error) { return "", ctx.Interrupt(nil) })
	ctx := middleware.NewRun(t.Context())
	use := genkit.New(guard, genkit.WithHostRun())
	response, err := h.generate(ctx, use)
	for range 12 {
		require.NoError(t, err)
		require.Len(t, response.Interrupts(), 1)
		responded, respondErr := ask.RespondWith(response.Interrupts()[0], "no")
		require.NoError(t, respondErr)
		response, err = framework.Generate(ctx, h.Genkit, ai.WithModelName(modelName), ai.WithMessages(response.History()...),
			ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use), ai.WithToolResponses(responded))
	}
	require.NoError(t, err)
	assert.Equal(t, "done", response.Text())
	assert.Empty(t, seen.all)
}

// genkit keeps the output of the calls beside one that was interrupted, but not their other content: the note is in the output.
func TestNoteBesideAnInterrupt(t *testing.T) {
	guard := newGuard(t, config())
	h := newHost(t, func(t turn) *ai.Message {
		switch len(t.read) {
		case 0, 1, 2:
			return calls(call("build", "all"))
		case 3:
			return calls(call("build", "all"), call("ask", "may I?"))
		}
		return answer("done")
	})
	build := framework.DefineMultipartTool(h.Genkit, "build", "builds", func(*ai.ToolContext, any) (*ai.MultipartToolResponse, error) {
		return &ai.MultipartToolResponse{Output: "broken", Content: []*ai.Part{ai.NewMediaPart("image/png", "data:image/png;base64,AAAA")}}, nil
	})
	h.tools = append(h.tools, build)
	ask := tool(h, "ask", func(ctx *ai.ToolContext, _ any) (string, error) { return "", ctx.Interrupt(nil) })
	use := genkit.New(guard)
	response, err := h.generate(t.Context(), use)
	require.NoError(t, err)
	require.Len(t, response.Interrupts(), 1)
	responded, err := ask.RespondWith(response.Interrupts()[0], "yes")
	require.NoError(t, err)
	_, err = framework.Generate(t.Context(), h.Genkit, ai.WithModelName(modelName), ai.WithMessages(response.History()...),
		ai.WithTools(h.tools...), ai.WithMaxTurns(50), ai.WithUse(use), ai.WithToolResponses(responded))
	require.NoError(t, err)
	require.Len(t, h.last.read, 5)
	assert.Contains(t, h.last.texts()[3], "[loopguard] Warning")
	assert.NotEmpty(t, h.last.read[2].Content)
	assert.Empty(t, h.last.read[3].Content, "a later version that keeps it needs another text in doc.go")
}

// holds is a middleware that holds a call back, and says when it is done.
func holds(id string, wait, done func()) ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, params *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
			if params.Request.Ref == id {
				wait()
				defer done()
			}
			return next(ctx, params)
		}}, nil
	})
}

// Beside a call that stops the run others run to their end: nobody waits for ever, and nothing hides the stop.
func TestAbortBesideOtherCalls(t *testing.T) {
	for name, last := range map[string]func(ctx *ai.ToolContext) (string, error){
		"result":    func(*ai.ToolContext) (string, error) { return "fine", nil },
		"error":     func(*ai.ToolContext) (string, error) { return "", errors.New("no disk") },
		"interrupt": func(ctx *ai.ToolContext) (string, error) { return "", ctx.Interrupt(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			store, kept := watch()
			stopped := make(chan struct{})
			h := newHost(t, func(t turn) *ai.Message {
				if len(t.read) == 8 {
					return calls(call("build", "all"), call("slow", "one"), call("slow", "two"), call("slow", "three"))
				}
				return calls(call("build", "all"))
			})
			says(h, "build", "broken")
			var begun sync.WaitGroup
			begun.Add(3)
			var done counter
			tool(h, "slow", func(ctx *ai.ToolContext, _ any) (string, error) {
				begun.Done()
				<-stopped
				defer done.add()
				return last(ctx)
			})
			before := goroutines()
			_, err := h.generate(t.Context(), holds("call_9", begun.Wait, func() { close(stopped) }), genkit.New(newGuard(t, config(), kept)))
			assert.Equal(t, policy.Abort, stopOf(t, err).Action)
			if name != "error" { // then genkit does not wait
				assert.Equal(t, 3, done.count())
				assert.Eventually(t, func() bool { return goroutines() <= before }, 10*time.Second, time.Millisecond,
					"a goroutine was left behind")
			}
			assert.Eventually(t, func() bool { return len(store.runs()) == 0 }, 10*time.Second, time.Millisecond)
		})
	}
}

// goroutines returns how many goroutines of genkit there are that hand over the result of a tool.
func goroutines() int {
	buffer := make([]byte, 1<<20)
	return strings.Count(string(buffer[:runtime.Stack(buffer, true)]), "ai.handleToolRequests.func")
}

// genkit does not wait for the calls beside one that failed. Such a call may come when the run is over, and leaves nothing
// behind.
func TestCallThatIsLate(t *testing.T) {
	store, kept := watch()
	over, late := make(chan struct{}), make(chan struct{})
	slow := holds("call_2", func() { <-over }, func() { close(late) })
	h := newHost(t, func(turn) *ai.Message { return calls(call("fails", ""), call("slow", "")) })
	failure := errors.New("no disk")
	tool(h, "fails", func(*ai.ToolContext, any) (string, error) { return "", failure })
	runs := says(h, "slow", "done")
	_, err := h.generate(t.Context(), slow, genkit.New(newGuard(t, config(), kept)))
	require.ErrorIs(t, err, failure)
	assert.Empty(t, store.runs())
	close(over)
	<-late
	assert.Equal(t, 1, runs.count(), "it is run, as without a guard")
	assert.Empty(t, store.runs())
}

// A call that is late for a run that was stopped is not run.
func TestCallThatIsLateForAnAbort(t *testing.T) {
	store, kept := watch()
	stopped, over, late := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(1)
	build := holds("call_9", begun.Wait, func() { close(stopped) })
	slow := holds("call_11", func() { <-over }, func() { close(late) })
	h := newHost(t, func(t turn) *ai.Message {
		if len(t.read) == 8 {
			return calls(call("build", "all"), call("fails", ""), call("slow", ""))
		}
		return calls(call("build", "all"))
	})
	says(h, "build", "broken")
	tool(h, "fails", func(*ai.ToolContext, any) (string, error) {
		begun.Done()
		<-stopped
		return "", errors.New("no disk")
	})
	runs := says(h, "slow", "done")
	_, err := h.generate(t.Context(), build, slow, genkit.New(newGuard(t, config(), kept)))
	stopOf(t, err)
	close(over)
	<-late
	assert.Zero(t, runs.count())
	assert.Empty(t, store.runs())
}

// The model reads of a turn what ended first, first: the ids tell what belongs to what.
func TestResultsComeInTheOrderInWhichTheyEnd(t *testing.T) {
	first := make(chan struct{})
	h := newHost(t, func(t turn) *ai.Message {
		if len(t.read) > 0 {
			return answer("done")
		}
		return calls(call("slow", ""), call("quick", ""))
	})
	tool(h, "slow", func(*ai.ToolContext, any) (string, error) { <-first; return "slow", nil })
	tool(h, "quick", func(*ai.ToolContext, any) (string, error) {
		time.AfterFunc(300*time.Millisecond, func() { close(first) })
		return "quick", nil
	})
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config())))
	require.NoError(t, err)
	messages := h.last.request.Messages
	assert.Equal(t, "quick", messages[len(messages)-1].Content[0].ToolResponse.Output)
}

// A panic of a tool is remembered and goes on. Here it is a middleware that calls the hooks, as genkit's goroutines do not
// live to tell.
func TestPanic(t *testing.T) {
	store := &outcomes{watched: watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}}
	recovers := ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, params *ai.ToolParams, next ai.ToolNext) (r *ai.MultipartToolResponse, err error) {
			defer func() {
				if said := recover(); said != nil {
					err = fmt.Errorf("panic: %v", said)
				}
			}()
			return next(ctx, params)
		}}, nil
	})
	h := newHost(t, forever("build"))
	tool(h, "build", func(*ai.ToolContext, any) (string, error) { panic("no disk") })
	_, err := h.generate(t.Context(), recovers, genkit.New(newGuard(t, config(), middleware.WithStore(store))))
	require.ErrorContains(t, err, "panic: no disk")
	require.NotEmpty(t, store.last)
	assert.True(t, store.last[0].Failure)
	assert.NotEqual(t, policy.Open, store.last[0].Status)
	assert.Empty(t, store.runs())
}

// outcomes is a store that keeps what a run had come to.
type outcomes struct {
	watched
	last []policy.Record
}

func (o *outcomes) Update(ctx context.Context, run string, fn func(*policy.State) error) error {
	return o.watched.Update(ctx, run, func(s *policy.State) error {
		err := fn(s)
		o.last = s.Last(100)
		return err
	})
}

// A model that panics is no call, and its run is over.
func TestPanicOfTheModel(t *testing.T) {
	store, kept := watch()
	h := newHost(t, func(t turn) *ai.Message {
		if len(t.read) == 2 {
			panic("out of memory")
		}
		return calls(call("build", "all"))
	})
	says(h, "build", "broken")
	assert.PanicsWithValue(t, "out of memory", func() {
		_, _ = h.generate(t.Context(), genkit.New(newGuard(t, config(), kept)))
	})
	assert.Empty(t, store.runs())
}

// genkit runs tools in goroutines that recover nothing. That can be seen from outside only.
func TestPanicEndsTheProcess(t *testing.T) {
	const inside = "LOOPGUARD_TEST_PANIC"
	if os.Getenv(inside) != "" {
		h := newHost(t, forever("build"))
		tool(h, "build", func(*ai.ToolContext, any) (string, error) { panic("no disk") })
		defer func() { _ = recover() }()
		_, _ = h.generate(t.Context(), genkit.New(newGuard(t, config())))
		return
	}
	command := exec.Command(os.Args[0], "-test.run=^TestPanicEndsTheProcess$")
	command.Env = append(os.Environ(), inside+"=1")
	said, err := command.CombinedOutput()
	var failure *exec.ExitError
	require.ErrorAs(t, err, &failure, "a later version that recovers needs another limit in conformance_test.go")
	assert.Contains(t, string(said), "panic: no disk")
}

// A call that its caller gave up has no outcome, whatever the tool makes of it.
func TestCancelledCalls(t *testing.T) {
	for name, gives := range map[string]func(ctx context.Context) (string, error){
		"error":         func(ctx context.Context) (string, error) { return "", fmt.Errorf("gave up: %w", ctx.Err()) },
		"another error": func(context.Context) (string, error) { return "", errors.New("interrupted") },
		"result":        func(ctx context.Context) (string, error) { return ctx.Err().Error(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			store := &outcomes{watched: watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h := newHost(t, func(t turn) *ai.Message {
				if len(t.read) > 0 {
					return answer("done")
				}
				return calls(call("wait", ""))
			})
			tool(h, "wait", func(ctx *ai.ToolContext, _ any) (string, error) {
				cancel()
				return gives(ctx)
			})
			_, _ = h.generate(ctx, genkit.New(newGuard(t, config(), middleware.WithStore(store))))
			assert.Empty(t, store.last)
			assert.Empty(t, store.runs())
		})
	}
}

// A deadline that passed is a failure like any other.
func TestDeadline(t *testing.T) {
	store := &outcomes{watched: watched{Store: middleware.NewMemoryStore(), live: map[string]bool{}}}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	h := newHost(t, forever("wait"))
	tool(h, "wait", func(ctx *ai.ToolContext, _ any) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	_, err := h.generate(ctx, genkit.New(newGuard(t, config(), middleware.WithStore(store))))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Len(t, store.last, 1)
	assert.True(t, store.last[0].Failure)
}

// Who reads the stream reads the notes, and that the run was stopped.
func TestStream(t *testing.T) {
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	store, kept := watch()
	var said []string
	var end error
	for value, err := range framework.GenerateStream(t.Context(), h.Genkit, h.options(genkit.New(newGuard(t, config(), kept)))...) {
		if err != nil {
			end = err
			break
		}
		for _, part := range value.Chunk.Content {
			if part.IsToolResponse() {
				said = append(said, textOf(part.ToolResponse.Output))
			}
		}
	}
	stopOf(t, end)
	require.Len(t, said, 9)
	assert.Equal(t, "broken", said[0])
	assert.Contains(t, said[3], "Warning")
	assert.Contains(t, said[5], "Call refused")
	assert.Equal(t, "[loopguard] The run was stopped.", said[8])
	assert.Empty(t, store.runs())
}

// Whoever leaves the stream ends the run.
func TestStreamThatIsLeft(t *testing.T) {
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	store, kept := watch()
	left := func() {
		for range framework.GenerateStream(t.Context(), h.Genkit, h.options(genkit.New(newGuard(t, config(), kept)))...) {
			break
		}
	}
	assert.Panics(t, left, "genkit 1.7.0 goes on with a loop that is over")
	assert.Empty(t, store.runs())
}

// One middleware for agents that run at the same time in one run of the host.
func TestGenerationsAtATimeInOneRun(t *testing.T) {
	guard := newGuard(t, config())
	h := newHost(t, untilRefused("build"))
	runs := says(h, "build", "broken")
	ctx := middleware.NewRun(t.Context())
	use := genkit.New(guard, genkit.WithHostRun())
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			response, err := h.generate(ctx, use)
			if !errors.Is(err, middleware.ErrLoop) { // what the others do counts, too
				assert.NoError(t, err)
				assert.Equal(t, "gave up", response.Text())
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(t, runs.count(), 5+3)
	require.NoError(t, guard.Forget(ctx))
}
