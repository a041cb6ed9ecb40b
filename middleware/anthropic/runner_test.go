package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
	"github.com/loopguard-go/loopguard/policy"
)

// eachRunner runs a test with each kind of runner.
func eachRunner(t *testing.T, test func(t *testing.T, start starter)) {
	for name, start := range map[string]starter{
		"message by message": func(g *middleware.Guard, c *sdk.Client, tools []sdk.BetaTool, p sdk.BetaToolRunnerParams) agent {
			r := anthropic.NewToolRunner(g, &c.Beta.Messages, tools, p)
			return agent{r, func(ctx context.Context) error {
				_, err := r.RunToCompletion(ctx)
				return err
			}}
		},
		"all": func(g *middleware.Guard, c *sdk.Client, tools []sdk.BetaTool, p sdk.BetaToolRunnerParams) agent {
			r := anthropic.NewToolRunner(g, &c.Beta.Messages, tools, p)
			return agent{r, func(ctx context.Context) error { return drain(r.All(ctx)) }}
		},
		"streaming": func(g *middleware.Guard, c *sdk.Client, tools []sdk.BetaTool, p sdk.BetaToolRunnerParams) agent {
			r := anthropic.NewToolRunnerStreaming(g, &c.Beta.Messages, tools, p)
			return agent{r, func(ctx context.Context) error {
				for !r.IsCompleted() {
					if err := drain(r.NextStreaming(ctx)); err != nil {
						return err
					}
				}
				return nil
			}}
		},
		"all streaming": func(g *middleware.Guard, c *sdk.Client, tools []sdk.BetaTool, p sdk.BetaToolRunnerParams) agent {
			r := anthropic.NewToolRunnerStreaming(g, &c.Beta.Messages, tools, p)
			return agent{r, func(ctx context.Context) error {
				for message := range r.AllStreaming(ctx) {
					if err := drain(message); err != nil {
						return err
					}
				}
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) { test(t, start) })
	}
}

type starter func(*middleware.Guard, *sdk.Client, []sdk.BetaTool, sdk.BetaToolRunnerParams) agent

// agent is a runner of some kind.
type agent struct {
	runner
	complete func(context.Context) error
}

type runner interface {
	IsCompleted() bool
	Err() error
	Messages() []sdk.BetaMessageParam
	AddTools(...sdk.BetaTool)
	RemoveToolsByNames(...string)
	CompactBeforeNextTurn(sdk.BetaCompactionConfigUnionParam)
}

// again asks for the same call in each turn.
func again(tool, input string) func(int, []result) message {
	return func(turn int, _ []result) message { return asks(use(fmt.Sprint("call_", turn), tool, input)) }
}

// untilRefused is again until the model reads that it should not.
func untilRefused(tool, input string) func(int, []result) message {
	return func(turn int, read []result) message {
		for _, r := range read {
			if strings.Contains(r.text(), "Call refused") {
				return answers("I was told to stop.")
			}
		}
		return again(tool, input)(turn, read)
	}
}

// command is a shell in which nothing works. What it says differs each time, but not in what matters.
func command(runs *int) sdk.BetaTool {
	return newTool("exec", func(context.Context, json.RawMessage) (blocks, error) {
		*runs++
		return text(fmt.Sprintf(`{"status":"failed","exitCode":2,"pid":%d,"durationMs":%d,"messageId":"m-%d","output":"no rule"}`,
			4000+*runs, 7**runs, *runs)), nil
	})
}

func TestALoopIsWarnedRefusedAndStopped(t *testing.T) {
	eachRunner(t, func(t *testing.T, start starter) {
		runs := 0
		model := startAPI(t, again("exec", `{"command":"make"}`))
		client := model.client()
		r := start(newGuard(t, policy.Default()), &client, []sdk.BetaTool{command(&runs)}, params())

		err := r.complete(t.Context())
		loop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok, err)
		assert.Same(t, loop, err, "nothing is wrapped around it")
		assert.Equal(t, policy.Abort, loop.Action)
		assert.Equal(t, 20, runs)
		sent := model.sent()
		require.Len(t, sent, 31, "the request with the result of call 31 is never made")
		for call := 1; call <= 30; call++ {
			read := sent[call].results([]string{fmt.Sprint("call_", call)})[0]
			switch {
			case call >= 21:
				assert.True(t, read.IsError)
				assert.Len(t, read.Content, 1)
				assert.Regexp(t, `^Error: \[loopguard\] Call refused: the tool was not run\.`, read.text())
			case call == 11:
				assert.False(t, read.IsError)
				require.Len(t, read.Content, 2)
				assert.Contains(t, read.Content[0]["text"], `"pid":4011,`)
				assert.Regexp(t, `^\[loopguard\] Warning: `, read.Content[1]["text"])
			default:
				assert.False(t, read.IsError)
				assert.Len(t, read.Content, 1)
				assert.NotContains(t, read.text(), "loopguard")
			}
		}

		assert.True(t, r.IsCompleted())
		assert.Same(t, err, r.Err())
		if err := r.complete(t.Context()); err != nil { // a host that asks IsCompleted does not even try
			assert.Same(t, loop, err, "and stays stopped")
		}
		assert.Len(t, model.sent(), 31)
		assert.Equal(t, 20, runs)
	})
}

// What is sent to the API is the same, byte for byte, and so is what the tools are given.
func TestAHealthyAgentIsLeftUntouched(t *testing.T) {
	script := func(turn int, _ []result) message {
		if turn > 31 {
			return answers("done")
		}
		id := fmt.Sprint("call_", turn)
		return asks(use(id+"a", "exec", fmt.Sprintf(`{"command":"make part-%d"}`, turn%8)), use(id+"b", "read", fmt.Sprintf(`{"line":%d}`, turn)))
	}
	tools := func() []sdk.BetaTool {
		state := 0
		return []sdk.BetaTool{
			newTool("exec", func(context.Context, json.RawMessage) (blocks, error) {
				state++
				return text(fmt.Sprintf(`{"exitCode":0,"stdout":"%d of 31"}`, state)), nil
			}),
			newTool("read", func(_ context.Context, input json.RawMessage) (blocks, error) {
				return text("line of " + string(input)), nil
			}),
		}
	}
	for name, p := range map[string]sdk.BetaToolRunnerParams{"on a thread": params(), "without thread": unthreaded()} {
		t.Run(name, func(t *testing.T) {
			plain, streamed := startAPI(t, script), startAPI(t, script)
			client := plain.client()
			require.NoError(t, drain(client.Beta.Messages.NewToolRunner(tools(), p).All(t.Context())))
			client = streamed.client()
			for message := range client.Beta.Messages.NewToolRunnerStreaming(tools(), p).AllStreaming(t.Context()) {
				require.NoError(t, drain(message))
			}
			bodies := func(a *api) (all []string) {
				for _, r := range a.sent() {
					all = append(all, r.body)
				}
				return all
			}
			eachRunner(t, func(t *testing.T, start starter) {
				model := startAPI(t, script)
				client := model.client()
				var found detections
				guard := newGuard(t, policy.Default(), found.option())
				require.NoError(t, start(guard, &client, tools(), p).complete(t.Context()))
				want := plain
				if model.sent()[0].Stream {
					want = streamed
				}
				assert.True(t, slices.Equal(bodies(want), bodies(model)), "what was sent differs")
				assert.Empty(t, found.words())
			})
		})
	}
}

func TestUnknownToolsAreSeen(t *testing.T) {
	const answer = "Error: Tool 'grep' not found"
	for name, p := range map[string]sdk.BetaToolRunnerParams{"on a thread": params(), "without thread": unthreaded()} {
		t.Run(name, func(t *testing.T) {
			eachRunner(t, func(t *testing.T, start starter) {
				var found detections
				model := startAPI(t, func(turn int, _ []result) message {
					id := fmt.Sprint("call_", turn)
					switch turn {
					case 9:
						return asks(use(id, "read", `{}`))
					case 10:
						return answers("done")
					}
					return asks(use(id, "grep", `{"for":"<it>"}`), use(id+"b", "read", fmt.Sprintf(`{"line":%d}`, turn)))
				})
				client := model.client()
				read := newTool("read", func(_ context.Context, input json.RawMessage) (blocks, error) { return text(string(input)), nil })
				c := config()
				c.Detectors.PingPong = new(false) // with thresholds as low as these it sees one in any two tools
				r := start(newGuard(t, c, found.option()), &client, []sdk.BetaTool{read}, p)

				require.NoError(t, r.complete(t.Context()))
				sent := model.sent()
				require.Len(t, sent, 10)
				for turn := 1; turn < 9; turn++ {
					results := sent[turn].results([]string{fmt.Sprint("call_", turn), fmt.Sprint("call_", turn, "b")})
					require.Len(t, results, 2)
					assert.True(t, results[0].IsError)
					if turn > 3 {
						assert.Regexp(t, `^\[loopguard\] Call refused: `, results[0].text())
					} else {
						assert.Equal(t, answer, results[0].text())
					}
					assert.Equal(t, fmt.Sprintf(`{"line":%d}`, turn), results[1].text(), "the call beside it")
				}
				assert.Equal(t, "block unknown_tool_repeat grep call_4", found.words()[0])
				assert.Len(t, found.words(), 5)
				if p.DisableThread { // what was said once is said again
					for turn := 5; turn < len(sent); turn++ {
						again := sent[turn].results([]string{"call_4"})
						assert.Equal(t, sent[4].results([]string{"call_4"}), again)
					}
				}

				kept, err := json.Marshal(r.Messages())
				require.NoError(t, err)
				assert.NotContains(t, string(kept), "loopguard", "the history of the runner is what happened")
				assert.Contains(t, string(kept), answer)
			})
		})
	}
}

func TestAWarningOfAnUnknownToolIsReadAfterTheAnswer(t *testing.T) {
	c := config()
	c.UnknownToolThreshold = 20
	model := startAPI(t, func(turn int, read []result) message {
		if turn == 5 {
			return answers("done")
		}
		return again("grep", `{}`)(turn, read)
	})
	client := model.client()
	_, err := anthropic.NewToolRunner(newGuard(t, c), &client.Beta.Messages, nil, params()).RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "Error: Tool 'grep' not found", model.read(3)[0].text())
	assert.Regexp(t, `^Error: Tool 'grep' not found\n\n\[loopguard\] Warning: `, model.read(4)[0].text())
	assert.True(t, model.read(4)[0].IsError)
}

func TestToolsThatComeAndGo(t *testing.T) {
	eachRunner(t, func(t *testing.T, start starter) {
		var found detections
		var r agent
		model := startAPI(t, func(turn int, read []result) message {
			switch turn { // the tools change between two requests, as in the body of a host's iteration
			case 1:
				r.AddTools(says("build", "broken"))
			case 7:
				r.RemoveToolsByNames("build")
			}
			return again("build", `{}`)(turn, read)
		})
		client := model.client()
		r = start(newGuard(t, config(), found.option()), &client, nil, unthreaded())
		require.ErrorIs(t, r.complete(t.Context()), middleware.ErrLoop)
		words := found.words()
		assert.Equal(t, "warn generic_repeat build call_4", words[0], "a tool that was added is guarded")
		assert.Equal(t, "block generic_repeat build call_6", words[1])
		assert.Contains(t, words[2], "build call_7", "a call of a tool that was removed is judged")
		assert.Len(t, model.sent(), 9)
	})
}

// A host that goes around the guard has its way: what its tool says is no answer to an unknown tool.
func TestAToolThatIsNotGuarded(t *testing.T) {
	var found detections
	model := startAPI(t, func(turn int, read []result) message {
		if turn == 12 {
			return answers("done")
		}
		return again("build", `{}`)(turn, read)
	})
	client := model.client()
	r := anthropic.NewToolRunner(newGuard(t, config(), found.option()), &client.Beta.Messages, nil, unthreaded())
	r.BetaToolRunner.AddTools(says("build", "broken"))
	_, err := r.RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found.words())
	assert.Equal(t, "broken", model.sent()[11].results([]string{"call_11"})[0].text())
}

// A client that signs its requests does so before what is given to a thread or to a runner sees them, but not before what
// is given to the service first.
func TestASignedRequestIsNotChanged(t *testing.T) {
	signing := option.WithMiddleware(func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=none")
		return next(req)
	})
	run := func(make func(*middleware.Guard, *sdk.Client) *anthropic.ToolRunner) *api {
		model := startAPI(t, again("grep", `{}`))
		client := model.client(signing)
		_, err := make(newGuard(t, config()), &client).RunToCompletion(t.Context())
		require.ErrorIs(t, err, middleware.ErrLoop)
		require.Len(t, model.sent(), 9)
		return model
	}
	model := run(func(g *middleware.Guard, c *sdk.Client) *anthropic.ToolRunner {
		return anthropic.NewThreadToolRunner(g, thread(*c), nil)
	})
	assert.Equal(t, "Error: Tool 'grep' not found", model.read(8)[0].text())
	model = run(func(g *middleware.Guard, c *sdk.Client) *anthropic.ToolRunner {
		return anthropic.NewToolRunner(g, &c.Beta.Messages, nil, params())
	})
	assert.Contains(t, model.read(8)[0].text(), "Call refused")
}

// A request may be sent again, by the client of the SDK and by that of net/http.
func TestARequestThatIsSentAgain(t *testing.T) {
	var found detections
	model := startAPI(t, untilRefused("grep", `{}`))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, model.URL+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer front.Close()
	attempts := 0
	client := model.client(option.WithBaseURL(front.URL), option.WithMiddleware(
		func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			if attempts++; attempts%2 == 1 {
				return &http.Response{
					StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After-Ms": {"1"}}, Body: http.NoBody,
				}, nil
			}
			return next(req)
		}))
	_, err := anthropic.NewToolRunner(newGuard(t, config(), found.option()), &client.Beta.Messages, nil, unthreaded()).
		RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"block unknown_tool_repeat grep call_4"}, found.words())
	assert.Len(t, model.sent(), 5)
	assert.Equal(t, 10, attempts)
}

// The client takes an error on the way to the API for a broken connection, and tries again.
func TestAnAbortIsNotTriedAgain(t *testing.T) {
	attempts := 0
	model := startAPI(t, again("build", `{}`))
	on := thread(model.client())
	on.Options = append(on.Options, option.WithMiddleware(
		func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
			attempts++
			return next(req)
		}))
	_, err := anthropic.NewThreadToolRunner(newGuard(t, config()), on, []sdk.BetaTool{says("build", "broken")}).
		RunToCompletion(t.Context())
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Equal(t, 9+1, attempts)
	assert.Len(t, model.sent(), 9)
}

func TestRunsAreForgottenHoweverTheyEnd(t *testing.T) {
	failing := func(turn int, read []result) message {
		if turn == 3 {
			return message{"tool_use", []string{"{"}} // no JSON
		}
		return again("build", `{}`)(turn, read)
	}
	for name, end := range map[string]struct {
		script func(int, []result) message
		want   func(*testing.T, error)
	}{
		"answer": {untilRefused("build", `{}`), func(t *testing.T, err error) { assert.NoError(t, err) }},
		"abort":  {again("build", `{}`), func(t *testing.T, err error) { assert.ErrorIs(t, err, middleware.ErrLoop) }},
		"error": {failing, func(t *testing.T, err error) {
			assert.Error(t, err)
			assert.NotErrorIs(t, err, middleware.ErrLoop)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			eachRunner(t, func(t *testing.T, start starter) {
				store := middleware.NewMemoryStore()
				runs := -1
				model := startAPI(t, end.script)
				client := model.client(option.WithMaxRetries(0))
				build := newTool("build", func(context.Context, json.RawMessage) (blocks, error) {
					runs = store.Runs()
					return text("broken"), nil
				})
				guard := newGuard(t, config(), middleware.WithStore(store))
				end.want(t, start(guard, &client, []sdk.BetaTool{build}, params()).complete(t.Context()))
				assert.Equal(t, 1, runs, "while it ran")
				assert.Zero(t, store.Runs(), "and after it")
			})
		})
	}
	t.Run("broken off", func(t *testing.T) {
		store := middleware.NewMemoryStore()
		guard := newGuard(t, config(), middleware.WithStore(store))
		tools := []sdk.BetaTool{says("build", "broken")}
		client := startAPI(t, again("build", `{}`)).client()
		turns := 0
		for range anthropic.NewToolRunner(guard, &client.Beta.Messages, tools, params()).All(t.Context()) {
			if turns++; turns == 3 {
				break
			}
		}
		client = startAPI(t, again("build", `{}`)).client()
		for message := range anthropic.NewToolRunnerStreaming(guard, &client.Beta.Messages, tools, params()).AllStreaming(t.Context()) {
			require.NoError(t, drain(message))
			if turns++; turns == 6 {
				break
			}
		}
		assert.Zero(t, store.Runs())
	})
}

// A message whose events are not read to the end is none to the SDK: it runs the calls of the one before it again.
func TestAMessageThatIsBrokenOff(t *testing.T) {
	model := startAPI(t, func(int, []result) message { return asks(use("call_1", "look", `{"id":9007199254740993}`)) })
	client := model.client()
	var given []string
	var found detections
	look := newTool("look", func(_ context.Context, input json.RawMessage) (blocks, error) {
		given = append(given, string(input))
		return text("nothing"), nil
	})
	r := anthropic.NewToolRunnerStreaming(newGuard(t, config(), found.option()), &client.Beta.Messages, []sdk.BetaTool{look}, unthreaded())
	require.NoError(t, drain(r.NextStreaming(t.Context())))
	for range 4 {
		for _, err := range r.NextStreaming(t.Context()) {
			require.NoError(t, err)
			break
		}
		r.Params.Messages = r.Params.Messages[:2] // or there would be two results of one call
	}
	assert.Equal(t, slices.Repeat([]string{`{"id":9007199254740993}`}, 4), given)
	assert.Equal(t, []string{"warn generic_repeat look call_1"}, found.words())
}

func TestTheRunOfTheHostIsTheParent(t *testing.T) {
	eachRunner(t, func(t *testing.T, start starter) {
		var ids []string
		client := startAPI(t, untilRefused("build", `{}`)).client()
		build := newTool("build", func(ctx context.Context, _ json.RawMessage) (blocks, error) {
			id, _ := middleware.RunID(ctx)
			ids = append(ids, id)
			return text("broken"), nil
		})
		ctx := middleware.WithRun(t.Context(), "request-7")
		require.NoError(t, start(newGuard(t, config()), &client, []sdk.BetaTool{build}, params()).complete(ctx))
		require.Len(t, ids, 5)
		assert.Regexp(t, `^request-7/[A-Z2-7]+$`, ids[0])
		assert.Equal(t, ids[0], ids[4])
	})
}

func TestAnAgentThatIsAToolHasAChildRun(t *testing.T) {
	guard := newGuard(t, config())
	var parent, child string
	inner := startAPI(t, again("build", `{}`))
	research := newTool("research", func(ctx context.Context, _ json.RawMessage) (blocks, error) {
		parent, _ = middleware.RunID(ctx)
		client := inner.client()
		build := newTool("build", func(ctx context.Context, _ json.RawMessage) (blocks, error) {
			child, _ = middleware.RunID(ctx)
			return text("broken"), nil
		})
		_, err := anthropic.NewToolRunner(guard, &client.Beta.Messages, []sdk.BetaTool{build}, params()).RunToCompletion(ctx)
		return nil, err
	})
	outer := startAPI(t, func(turn int, read []result) message {
		if turn == 2 {
			return answers("it was stopped")
		}
		return again("research", `{}`)(turn, read)
	})
	client := outer.client()
	_, err := anthropic.NewToolRunner(guard, &client.Beta.Messages, []sdk.BetaTool{research}, params()).RunToCompletion(t.Context())
	require.NoError(t, err, "to the parent it is the failure of a tool")
	assert.Regexp(t, `^Error: loopguard: run stopped by global_circuit_breaker`, outer.read(1)[0].text())
	assert.True(t, strings.HasPrefix(child, parent+"/"), child)
}

// A run that a tool opens is not the run of the runner.
func TestAnAbortInsideAToolEndsNothingElse(t *testing.T) {
	guard := newGuard(t, config())
	build := anthropic.Tool(guard, says("build", "broken"))
	delegate := newTool("delegate", func(ctx context.Context, input json.RawMessage) (content blocks, err error) {
		ctx = middleware.ChildRun(ctx, "")
		defer func() { _ = guard.Forget(ctx) }()
		for range 9 {
			content, err = build.Execute(ctx, input)
		}
		return content, err
	})
	model := startAPI(t, func(turn int, read []result) message {
		if turn == 2 {
			return answers("it was stopped")
		}
		return again("delegate", `{}`)(turn, read)
	})
	client := model.client()
	_, err := anthropic.NewToolRunner(guard, &client.Beta.Messages, []sdk.BetaTool{delegate}, params()).RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Contains(t, model.read(1)[0].text(), "run stopped")
}

func TestWhatIsLeftOfAStoppedRunner(t *testing.T) {
	tools := []sdk.BetaTool{says("build", "broken")}
	model := startAPI(t, again("build", `{}`))
	client := model.client()
	r := anthropic.NewToolRunner(newGuard(t, config()), &client.Beta.Messages, tools, params())
	_, stop := r.RunToCompletion(t.Context())
	require.ErrorIs(t, stop, middleware.ErrLoop)
	_, err := r.NextMessage(t.Context())
	assert.Same(t, stop, err)
	assert.Same(t, stop, drain(r.All(t.Context())))
	assert.Len(t, model.sent(), 9)

	model = startAPI(t, again("build", `{}`))
	client = model.client()
	s := anthropic.NewToolRunnerStreaming(newGuard(t, config()), &client.Beta.Messages, tools, params())
	turns := 0
	for message := range s.AllStreaming(t.Context()) { // by a host that does not look at errors
		turns++
		for event := range message {
			_ = event
		}
	}
	assert.Equal(t, 9+1, turns)
	assert.ErrorIs(t, s.Err(), middleware.ErrLoop)
	assert.Same(t, s.Err(), drain(s.NextStreaming(t.Context())))
	for message := range s.AllStreaming(t.Context()) {
		assert.Same(t, s.Err(), drain(message))
	}
	assert.Len(t, model.sent(), 9)
}

// What the API does when the context gets too long, or the host asks for.
func TestTheGuardAfterCompaction(t *testing.T) {
	const summary = `{"type":"compaction","content":"It was about a build."}`
	t.Run("in a message", func(t *testing.T) {
		eachRunner(t, func(t *testing.T, start starter) {
			runs := 0
			model := startAPI(t, func(turn int, read []result) message {
				m := again("exec", `{}`)(turn, read)
				if turn == 8 {
					m.blocks = append([]string{summary}, m.blocks...)
				}
				return m
			})
			client := model.client()
			r := start(newGuard(t, policy.Config{}), &client, []sdk.BetaTool{command(&runs)}, params()) // in which it is all that is on
			loop, ok := errors.AsType[*middleware.LoopError](r.complete(t.Context()))
			require.True(t, ok)
			assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
			assert.Equal(t, 7+3, runs)
			assert.Len(t, model.sent(), 10)
		})
	})
	t.Run("of its own", func(t *testing.T) {
		eachRunner(t, func(t *testing.T, start starter) {
			runs := 0
			var r agent
			model := startAPI(t, func(turn int, read []result) message {
				switch turn {
				case 7:
					r.CompactBeforeNextTurn(sdk.BetaCompactionConfigUnionParam{})
				case 8:
					return message{"compaction", []string{summary}}
				}
				return again("exec", `{}`)(turn, read)
			})
			client := model.client()
			r = start(newGuard(t, policy.Config{}), &client, []sdk.BetaTool{command(&runs)}, unthreaded())
			loop, ok := errors.AsType[*middleware.LoopError](r.complete(t.Context()))
			require.True(t, ok)
			assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
			assert.Equal(t, 7+3, runs)
		})
	})
	t.Run("that failed", func(t *testing.T) {
		runs := 0
		client := startAPI(t, func(turn int, read []result) message {
			if turn == 20 {
				return answers("done")
			}
			m := again("exec", `{}`)(turn, read)
			if turn == 8 {
				m.blocks = append([]string{`{"type":"compaction","content":null}`}, m.blocks...)
			}
			return m
		}).client()
		_, err := anthropic.NewToolRunner(newGuard(t, policy.Config{}), &client.Beta.Messages, []sdk.BetaTool{command(&runs)}, params()).
			RunToCompletion(t.Context())
		assert.NoError(t, err)
	})
}

// The SDK rounds the numbers of arguments. Nothing is lost on the way through a guarded runner.
func TestArgumentsAreAsTheModelWroteThem(t *testing.T) {
	const written = `{"z": 1, "id": 9007199254740993}`
	var given string
	look := newTool("look", func(_ context.Context, input json.RawMessage) (blocks, error) {
		given = string(input)
		return nil, nil
	})
	script := func(turn int, read []result) message {
		if turn == 2 {
			return answers("done")
		}
		return asks(use("a", "look", written))
	}
	eachRunner(t, func(t *testing.T, start starter) {
		given = ""
		client := startAPI(t, script).client()
		require.NoError(t, start(newGuard(t, config()), &client, []sdk.BetaTool{look}, params()).complete(t.Context()))
		assert.JSONEq(t, written, given)
		assert.Contains(t, given, "9007199254740993")
	})
	t.Run("the SDK itself", func(t *testing.T) {
		client := startAPI(t, script).client()
		require.NoError(t, drain(client.Beta.Messages.NewToolRunner([]sdk.BetaTool{look}, params()).All(t.Context())))
		assert.Equal(t, `{"id":9007199254740992,"z":1}`, given)
	})
}

// Calls of one tool in one message keep their inputs and results, in whatever order they are started. Those that rounding has
// made equal are rounded, since each might be the other.
func TestCallsOfOneMessageAreNotMixedUp(t *testing.T) {
	inputs := []string{
		`{"id":9007199254740993}`, `{"id":1}`, `{"id":2}`, `{"id":18014398509481985}`, `{"id":3}`, `{"id":18014398509481984}`, `{"id":4}`,
	}
	model := startAPI(t, func(turn int, read []result) message {
		if turn == 2 {
			return answers("done")
		}
		var uses []string
		for i, input := range inputs {
			uses = append(uses, use(fmt.Sprint("call_", i), "look", input))
		}
		return asks(uses...)
	})
	client := model.client()
	look := newTool("look", func(_ context.Context, input json.RawMessage) (blocks, error) { return text(string(input)), nil })
	_, err := anthropic.NewToolRunner(newGuard(t, policy.Default()), &client.Beta.Messages, []sdk.BetaTool{look}, params()).
		RunToCompletion(t.Context())
	require.NoError(t, err)
	inputs[3] = inputs[5]
	for i, r := range model.read(1) {
		assert.Equal(t, fmt.Sprint("call_", i), r.ID)
		assert.Equal(t, inputs[i], r.text())
	}
}

func TestACallWithoutInput(t *testing.T) {
	given := []string{}
	look := newTool("look", func(_ context.Context, input json.RawMessage) (blocks, error) {
		given = append(given, string(input))
		return nil, nil
	})
	script := func(turn int, _ []result) message {
		if turn == 2 {
			return answers("done")
		}
		return asks(`{"type":"tool_use","id":"a","name":"look"}`)
	}
	client := startAPI(t, script).client()
	require.NoError(t, drain(client.Beta.Messages.NewToolRunner([]sdk.BetaTool{look}, params()).All(t.Context())))
	client = startAPI(t, script).client()
	r := anthropic.NewToolRunner(newGuard(t, config()), &client.Beta.Messages, []sdk.BetaTool{look}, params())
	require.NoError(t, drain(r.All(t.Context())))
	require.Len(t, given, 2)
	assert.Equal(t, given[0], given[1])
}

// What is called back may ask the runner how it is.
func TestACallbackMayUseTheRunner(t *testing.T) {
	var r *anthropic.ToolRunner
	asked := 0
	guard := newGuard(t, config(), middleware.WithOnDetection(func(context.Context, middleware.Detection) {
		assert.False(t, r.IsCompleted())
		asked++
	}))
	client := startAPI(t, untilRefused("grep", `{}`)).client()
	r = anthropic.NewToolRunner(guard, &client.Beta.Messages, nil, params())
	_, err := r.RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, asked)
}

// Two calls whose numbers differ only beyond what a float64 holds are two.
func TestBigNumbersAreToldApart(t *testing.T) {
	var found detections
	client := startAPI(t, func(turn int, _ []result) message {
		if turn == 30 {
			return answers("done")
		}
		return asks(use(fmt.Sprint("call_", turn), "look", fmt.Sprintf(`{"id":90071992547409930%02d}`, turn)))
	}).client()
	look := newTool("look", func(_ context.Context, input json.RawMessage) (blocks, error) { return text(string(input)), nil })
	_, err := anthropic.NewToolRunner(newGuard(t, config(), found.option()), &client.Beta.Messages, []sdk.BetaTool{look}, params()).
		RunToCompletion(t.Context())
	require.NoError(t, err)
	assert.Empty(t, found.words())
}

func TestCallsThatAreNotRunAreNotJudged(t *testing.T) {
	for name, last := range map[string]message{
		"cut off":  {"max_tokens", []string{use("b", "build", `{}`)}},
		"refused":  {"refusal", []string{use("b", "build", `{}`)}},
		"replaced": {"tool_use", []string{use("b", "build", `{}`), `{"type":"fallback","from":{"model":"a"},"to":{"model":"b"}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			judged := 0
			guard := newGuard(t, config(), middleware.WithKey("build", func(c canonical.Call) string {
				judged++
				return c.Args
			}))
			client := startAPI(t, func(turn int, _ []result) message {
				if turn == 1 {
					return asks(use("a", "build", `{}`))
				}
				return last
			}).client()
			_, err := anthropic.NewToolRunner(guard, &client.Beta.Messages, []sdk.BetaTool{says("build", "broken")}, params()).
				RunToCompletion(t.Context())
			require.NoError(t, err)
			assert.Equal(t, 1, judged)
		})
	}
}

func TestABlockAsAnErrorEndsTheRun(t *testing.T) {
	eachRunner(t, func(t *testing.T, start starter) {
		model := startAPI(t, again("build", `{}`))
		client := model.client()
		guard := newGuard(t, config(), middleware.WithBlocksAsErrors())
		loop, ok := errors.AsType[*middleware.LoopError](
			start(guard, &client, []sdk.BetaTool{says("build", "broken")}, params()).complete(t.Context()))
		require.True(t, ok)
		assert.Equal(t, policy.Block, loop.Action)
		assert.Len(t, model.sent(), 6)
	})
}

// With the tools alone there is nothing that could end the run: an abort is one more answer.
func TestGuardedToolsInARunnerOfTheSDK(t *testing.T) {
	var runs atomic.Int32
	model := startAPI(t, func(turn int, read []result) message {
		if turn == 12 {
			return answers("done")
		}
		return again("build", `{}`)(turn, read)
	})
	client := model.client()
	guard := newGuard(t, config())
	build := newTool("build", func(context.Context, json.RawMessage) (blocks, error) {
		runs.Add(1)
		return text("broken"), nil
	})
	ctx := middleware.NewRun(t.Context())
	require.NoError(t, drain(client.Beta.Messages.NewToolRunner(anthropic.Tools(guard, []sdk.BetaTool{build}), unthreaded()).All(ctx)))
	assert.EqualValues(t, 5, runs.Load())
	assert.Regexp(t, `^Error: loopguard: run stopped`, model.sent()[11].results([]string{"call_11"})[0].text())
}

func TestAStreamingRunnerOfTheSDKThatFailedGoesOn(t *testing.T) {
	model := startAPI(t, func(int, []result) message { return message{"", []string{"{"}} }) // no JSON
	client := model.client(option.WithMaxRetries(0))
	failures := 0
	for message := range client.Beta.Messages.NewToolRunnerStreaming(nil, unthreaded()).AllStreaming(t.Context()) {
		assert.Error(t, drain(message))
		if failures++; failures == 5 {
			break
		}
	}
	assert.Len(t, model.sent(), 5)
}

func TestAClientWithoutCredentials(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	model := startAPI(t, func(int, []result) message { return answers("who are you?") })
	client := sdk.NewClient(option.WithBaseURL(model.URL))
	assert.ErrorContains(t, drain(client.Beta.Messages.NewToolRunner(nil, params()).All(t.Context())), "credentials")
	assert.Empty(t, model.sent())

	_, err := anthropic.NewToolRunner(newGuard(t, config()), &client.Beta.Messages, nil, params()).RunToCompletion(t.Context())
	assert.NoError(t, err)
	require.Len(t, model.sent(), 1)
	assert.Empty(t, model.sent()[0].header.Get("X-Api-Key"))
}
