package eino_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
	"github.com/loopguard-go/loopguard/policy"
)

func eachKind(t *testing.T, test func(*testing.T, kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// node makes a node of guarded tools. It is not run in a graph, so that nothing is between it and the test.
func node(t *testing.T, conf compose.ToolsNodeConfig) *compose.ToolsNode {
	t.Helper()
	n, err := compose.NewToolNode(t.Context(), &conf)
	require.NoError(t, err)
	return n
}

// invoke makes one call.
func invoke(ctx context.Context, n *compose.ToolsNode, id, name, args string) (string, error) {
	said, err := n.Invoke(ctx, call(id, name, args))
	if err != nil {
		return "", err
	}
	return strings.Join(turnOf(ctx, said).read, ""), nil
}

func TestTheModelIsWarnedAndRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		guard := newGuard(t, config())
		runs := 0
		var read []string
		build := k.tool("build", func(context.Context, string) (string, error) {
			runs++
			return "broken", nil
		})
		m := func(t turn) *schema.Message {
			read = t.read
			return untilRefused("build", `{"target":"all"}`)(t)
		}
		answer, err := generate(t, guard, newReact(t, m, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{build}})))
		require.NoError(t, err)
		assert.Equal(t, "gave up", answer.Content)
		assert.Equal(t, 5, runs, "the sixth call is refused")
		require.Len(t, read, 6)
		for _, i := range []int{0, 1, 2, 4} {
			assert.Equal(t, "broken", read[i])
		}
		assert.Regexp(t, `^broken\n\n\[loopguard\] Warning: .* 3 times`, read[3])
		assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\. .* 5 times`, read[5])
	})
}

func TestAnAbortEndsTheRun(t *testing.T) {
	ends := map[string]func(*testing.T, *middleware.Guard, compose.ToolsNodeConfig, scripted) error{
		"generate": func(t *testing.T, guard *middleware.Guard, conf compose.ToolsNodeConfig, m scripted) error {
			_, err := generate(t, guard, newReact(t, m, conf))
			return err
		},
		"stream": func(t *testing.T, guard *middleware.Guard, conf compose.ToolsNodeConfig, m scripted) error {
			_, err := newReact(t, m, conf).Stream(middleware.NewRun(t.Context()), []*schema.Message{schema.UserMessage("go")})
			return err
		},
		"agent kit": func(t *testing.T, guard *middleware.Guard, conf compose.ToolsNodeConfig, m scripted) error {
			r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", m, conf)})
			_, _, err := drain(r.Query(t.Context(), "go"))
			return err
		},
	}
	for name, run := range ends {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, config())
			runs, turns := 0, 0
			conf := compose.ToolsNodeConfig{
				Tools:               []tool.BaseTool{says("build", "broken", &runs)},
				ToolCallMiddlewares: []compose.ToolMiddleware{errorsAsAnswers},
			}
			err := run(t, guard, eino.Tools(guard, conf), func(t turn) *schema.Message {
				turns++
				return forever("build", "{}")(t)
			})
			require.ErrorIs(t, err, middleware.ErrLoop)
			loop, ok := errors.AsType[*middleware.LoopError](err)
			require.True(t, ok)
			assert.Equal(t, policy.Abort, loop.Action)
			assert.Equal(t, policy.GlobalCircuitBreaker, loop.Detector)
			assert.Equal(t, "build", loop.Tool)
			assert.NotEmpty(t, loop.Run)
			assert.NotEmpty(t, loop.Calls)
			assert.Equal(t, 5, runs)
			assert.Equal(t, 9, turns, "the ninth call stops the run, whatever a middleware of the host does to errors")
		})
	}
}

func TestBlocksAsErrorsEndTheRun(t *testing.T) {
	for _, name := range []string{"build", "grep"} {
		runs := 0
		guard := newGuard(t, config(), middleware.WithBlocksAsErrors())
		conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})
		_, err := generate(t, guard, newReact(t, forever(name, "{}"), conf))
		loop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok, err)
		assert.Equal(t, policy.Block, loop.Action)
	}
}

func TestACallNeedsARun(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	n := node(t, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}}))
	for _, name := range []string{"build", "grep"} {
		_, err := invoke(t.Context(), n, "1", name, "{}")
		require.ErrorIs(t, err, middleware.ErrNoRun)
	}
	assert.Zero(t, runs)
}

func TestTheGivenConfigurationStaysAsItIs(t *testing.T) {
	runs := 0
	mine := make([]compose.ToolMiddleware, 1, 5)
	mine[0] = errorsAsAnswers
	conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}, ToolCallMiddlewares: mine}
	guarded := eino.Tools(newGuard(t, config()), conf)
	assert.Len(t, conf.ToolCallMiddlewares, 1)
	assert.Nil(t, mine[:2][1].Invokable, "nor is anything written behind it")
	assert.Nil(t, conf.UnknownToolsHandler)
	assert.Len(t, guarded.ToolCallMiddlewares, 3)

	n := node(t, conf)
	for range 20 {
		said, err := invoke(middleware.NewRun(t.Context()), n, "1", "build", "{}")
		require.NoError(t, err)
		assert.Equal(t, "broken", said)
	}
}

// What the guard is told is what the tool said, and not what others make of it.
func TestTheGuardHearsTheTool(t *testing.T) {
	failing := func(kind kind) tool.BaseTool {
		n := 0
		return kind.tool("fetch", func(context.Context, string) (string, error) {
			n++
			return "", fmt.Errorf("connection refused at 10:00:%02d", n)
		})
	}
	eachKind(t, func(t *testing.T, k kind) {
		guard := newGuard(t, config())
		var read []string
		conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{failing(k)}, ToolCallMiddlewares: []compose.ToolMiddleware{errorsAsAnswers}}
		_, err := generate(t, guard, newReact(t, times(7, "fetch", "{}", &read), eino.Tools(guard, conf)))
		require.NoError(t, err)
		require.Len(t, read, 7)
		assert.Equal(t, strings.TrimSuffix(strings.Repeat("[tool error] connection refused at 10:00:0x|", 3), "|"),
			strings.NewReplacer(":01", ":0x", ":02", ":0x", ":03", ":0x").Replace(strings.Join(read[:3], "|")))
		assert.Regexp(t, `^\[tool error\] connection refused at 10:00:04\n\n\[loopguard\] Warning: `, read[3])
		assert.Contains(t, read[5], "Call refused", "one failure, whatever the time")

		// Further out alone, the guard would take them for results, of which each is new.
		guard = newGuard(t, config())
		conf.Tools = []tool.BaseTool{failing(k)}
		conf.ToolCallMiddlewares = []compose.ToolMiddleware{eino.Middleware(guard), errorsAsAnswers}
		_, err = generate(t, guard, newReact(t, times(7, "fetch", "{}", &read), conf))
		require.NoError(t, err)
		assert.NotContains(t, strings.Join(read, ""), "Call refused")
	})
}

// What eino itself makes of an error, in the tool, is a text to everybody.
func TestErrorsThatToolsHide(t *testing.T) {
	guard := newGuard(t, config())
	n := 0
	fetch := utils.WrapToolWithErrorHandler(invokable{named{"fetch"}, func(context.Context, string) (string, error) {
		n++
		return "", fmt.Errorf("connection refused at 10:00:%02d", n)
	}}, func(_ context.Context, err error) string { return err.Error() })
	var read []string
	_, err := generate(t, guard, newReact(t, times(7, "fetch", "{}", &read), eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{fetch}})))
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(read, ""), "Call refused", "each is new")
}

func TestANoteIsOnAnErrorToo(t *testing.T) {
	failure := errors.New("no disk")
	eachKind(t, func(t *testing.T, k kind) {
		guard := newGuard(t, config())
		n := node(t, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
			k.tool("build", func(context.Context, string) (string, error) { return "", failure }),
		}}))
		ctx := middleware.NewRun(t.Context())
		for i := 1; i <= 5; i++ {
			_, err := invoke(ctx, n, "1", "build", "{}")
			require.ErrorIs(t, err, failure)
			require.NotErrorIs(t, err, middleware.ErrLoop)
			assert.Equal(t, i == 4, strings.Contains(err.Error(), "no disk\n\n[loopguard] Warning: "), "call %d: %v", i, err)
		}
		said, err := invoke(ctx, n, "1", "build", "{}")
		require.NoError(t, err)
		assert.Contains(t, said, "Call refused")
	})
}

// Wherever the guard stands, and how often, a call counts once.
func TestACallCountsOnce(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}}
	twice := eino.Tools(guard, eino.Tools(guard, conf))
	twice.ToolCallMiddlewares = append(twice.ToolCallMiddlewares, eino.Middleware(guard))
	for _, name := range []string{"build", "grep"} {
		runs = 0
		var read []string
		r := eino.NewRunner(guard, adk.RunnerConfig{
			Agent: newChatModelAgent(t, "builder", times(6, name, "{}", &read), twice, eino.Handler[adk.Message](guard)),
		})
		_, _, err := drain(r.Query(t.Context(), "go"))
		require.NoError(t, err)
		refused := 6
		if name == "grep" {
			refused = 4
		} else {
			assert.Equal(t, 5, runs)
			assert.Equal(t, 1, strings.Count(read[3], "Warning"))
		}
		for i, said := range read {
			assert.Equal(t, i+1 >= refused, strings.Contains(said, "Call refused"), "call %d of %s: %s", i+1, name, said)
		}
	}
}

// A tool may call others, also one of its own name with an id that was used before: each is a call of its own.
func TestCallsInCalls(t *testing.T) {
	for name, node := range map[string]func(*middleware.Guard, string, run) func(context.Context) (string, error){
		"nodes": func(guard *middleware.Guard, name string, do run) func(context.Context) (string, error) {
			n := node(t, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{invokable{named{name}, do}}}))
			return func(ctx context.Context) (string, error) { return invoke(ctx, n, "1", "build", "{}") }
		},
		"endpoints": func(guard *middleware.Guard, name string, do run) func(context.Context) (string, error) {
			m := eino.Middleware(guard).Invokable(func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
				said, err := do(ctx, in.Arguments)
				return &compose.ToolOutput{Result: said}, err
			})
			return func(ctx context.Context) (string, error) {
				said, err := m(ctx, &compose.ToolInput{Name: name, CallID: name})
				return said.Result, err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newHistory()
			guard := newGuard(t, config(), middleware.WithStore(store))
			inside := "build"
			if name == "endpoints" {
				inside = "test"
			}
			var counts []int
			inner := node(guard, inside, func(ctx context.Context, _ string) (string, error) {
				counts = append(counts, len(store.records(ctx)))
				return "broken", nil
			})
			outer := node(guard, "build", func(ctx context.Context, _ string) (string, error) {
				counts = append(counts, len(store.records(ctx)))
				_, err := inner(ctx)
				if err == nil {
					_, err = inner(ctx)
				}
				return "done", err
			})
			ctx := middleware.NewRun(t.Context())
			_, err := outer(ctx)
			require.NoError(t, err)
			assert.Equal(t, []int{1, 1, 2}, counts, "in a run of their own")
			assert.Len(t, store.records(ctx), 1)
			require.NoError(t, guard.Forget(ctx))
			assert.Zero(t, store.Runs())
		})
	}
}

// Another guard is another guard: both judge, each by its own history.
func TestTwoGuards(t *testing.T) {
	strict, lax := newGuard(t, config()), newGuard(t, policy.Default())
	runs := 0
	n := node(t, eino.Tools(lax, eino.Tools(strict, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})))
	ctx := middleware.NewRun(t.Context())
	for range 8 {
		_, err := invoke(ctx, n, "1", "build", "{}")
		require.NoError(t, err)
	}
	_, err := invoke(ctx, n, "1", "build", "{}")
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Equal(t, 5, runs)
}

// between is a middleware of the host for tools that return texts.
func between(do func(ctx context.Context, run func() (string, error)) (string, error)) compose.ToolMiddleware {
	return compose.ToolMiddleware{Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.ToolOutput, error) {
			said, err := do(ctx, func() (string, error) {
				out, err := next(ctx, in)
				if err != nil {
					return "", err
				}
				return out.Result, nil
			})
			if err != nil {
				return nil, err
			}
			return &compose.ToolOutput{Result: said}, nil
		}
	}}
}

// A middleware may run a tool again: only what came of it in the end counts.
func TestRetries(t *testing.T) {
	guard := newGuard(t, config())
	n := 0
	fetch := invokable{named{"fetch"}, func(context.Context, string) (string, error) {
		if n++; n%2 == 1 {
			return "", errors.New("try again")
		}
		return fmt.Sprint("page ", n), nil
	}}
	retry := between(func(_ context.Context, run func() (string, error)) (string, error) {
		if said, err := run(); err == nil {
			return said, nil
		}
		return run()
	})
	var read []string
	conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{fetch}, ToolCallMiddlewares: []compose.ToolMiddleware{retry}}
	_, err := generate(t, guard, newReact(t, times(8, "fetch", "{}", &read), eino.Tools(guard, conf)))
	require.NoError(t, err)
	assert.NotContains(t, strings.Join(read, ""), "Call refused", "it always failed first, and brought something new in the end")
	assert.Equal(t, 16, n)
}

// A middleware may answer for a tool: then that counts.
func TestAnswersThatNoToolGave(t *testing.T) {
	guard := newGuard(t, config())
	runs := 0
	cached := between(func(context.Context, func() (string, error)) (string, error) { return "as before", nil })
	conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("fetch", "page", &runs)}, ToolCallMiddlewares: []compose.ToolMiddleware{cached}}
	var read []string
	_, err := generate(t, guard, newReact(t, times(6, "fetch", "{}", &read), eino.Tools(guard, conf)))
	require.NoError(t, err)
	assert.Contains(t, read[3], "as before\n\n[loopguard] Warning")
	assert.Contains(t, read[5], "Call refused")
	assert.Zero(t, runs)
}

func TestUnknownTools(t *testing.T) {
	handler := func(_ context.Context, name, input string) (string, error) {
		return "no " + name + " for " + input, nil
	}
	for name, test := range map[string]struct {
		handler func(context.Context, string, string) (string, error)
		said    string
	}{
		"without a handler": {nil, `there is no tool "grep"`},
		"with a handler":    {handler, "no grep for needle"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			c.UnknownToolThreshold = 5
			var seen detections
			guard := newGuard(t, c, seen.option())
			var read []string
			conf := eino.Tools(guard, compose.ToolsNodeConfig{UnknownToolsHandler: test.handler})
			conf.Tools = []tool.BaseTool{invokable{named: named{"build"}}}
			_, err := generate(t, guard, newReact(t, times(7, "grep", "needle", &read), conf))
			require.NoError(t, err)
			require.Len(t, read, 7)
			for _, i := range []int{0, 1, 2, 4} {
				assert.Equal(t, test.said, read[i])
			}
			assert.Regexp(t, `^`+test.said+`\n\n\[loopguard\] Warning`, read[3])
			assert.Contains(t, read[5], "Call refused")
			assert.Contains(t, read[6], "there is no such tool")
			assert.Equal(t, []string{"grep warn generic_repeat", "grep block unknown_tool_repeat", "grep block unknown_tool_repeat"}, seen.words())
			assert.Equal(t, "call_4", seen.all[0].CallID)
		})
	}
}

// An agent may hunt for one tool under many names.
func TestUnknownToolsUnderSeveralNames(t *testing.T) {
	names := []string{"grep", "rg", "ag", "ack"}
	guard := newGuard(t, config())
	var read []string
	agent := newReact(t, func(given turn) *schema.Message {
		read = given.read
		if len(read) == len(names) {
			return final("none of them")
		}
		return forever(names[len(read)], "needle")(given)
	}, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{invokable{named: named{"build"}}}}))
	_, err := generate(t, guard, agent)
	require.NoError(t, err)
	assert.Equal(t, `there is no tool "ag"`, read[2])
	assert.Contains(t, read[3], "Call refused")
}

func TestAnUnknownToolMayEndTheRun(t *testing.T) {
	failure := errors.New("enough")
	guard := newGuard(t, config())
	conf := eino.Tools(guard, compose.ToolsNodeConfig{
		UnknownToolsHandler: func(context.Context, string, string) (string, error) { return "", failure },
	})
	_, err := generate(t, guard, newReact(t, forever("grep", "{}"), conf))
	require.ErrorIs(t, err, failure)
}

// What eino does of itself: an unknown tool ends the run, before any other call of the turn is made.
func TestUnguardedUnknownToolsEndTheRun(t *testing.T) {
	runs := 0
	n := node(t, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})
	_, err := n.Invoke(t.Context(), together(toolCall("1", "build", "{}"), toolCall("2", "grep", "{}")))
	require.ErrorContains(t, err, "tool grep not found")
	assert.Zero(t, runs)
}

// The guard sees the name that the model wrote, but the arguments as the tool gets them.
func TestAliases(t *testing.T) {
	var seen detections
	guard := newGuard(t, config(), seen.option())
	runs := 0
	n := 0
	conf := eino.Tools(guard, compose.ToolsNodeConfig{
		Tools: []tool.BaseTool{says("search", "nothing", &runs)},
		ToolAliases: map[string]compose.ToolAliasConfig{
			"search": {NameAliases: []string{"find"}, ArgumentsAliases: map[string][]string{"query": {"q"}}},
		},
	})
	ctx := middleware.NewRun(t.Context())
	tools := node(t, conf)
	for _, args := range []string{`{"q":"x"}`, `{"query":"x"}`, `{"q":"x"}`, `{"query":"x"}`} {
		_, err := invoke(ctx, tools, "1", "search", args)
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"search warn generic_repeat"}, seen.words(), "two names of an argument are one")
	_, err := invoke(ctx, tools, "1", "find", `{"q":"x"}`)
	require.NoError(t, err)
	assert.Len(t, seen.all, 1, "two names of a tool are two tools")

	conf.ToolArgumentsHandler = func(_ context.Context, _, args string) (string, error) {
		n++
		return fmt.Sprintf(`{"query":"x","nonce":%d}`, n), nil
	}
	ctx, tools, seen.all = middleware.NewRun(t.Context()), node(t, conf), nil
	for range 8 {
		_, err := invoke(ctx, tools, "1", "search", `{"query":"x"}`)
		require.NoError(t, err)
	}
	assert.NotContains(t, strings.Join(seen.words(), ""), "block generic_repeat", "each call is another one")
}

func TestStructuredResults(t *testing.T) {
	for name, test := range map[string]struct {
		tool   string
		answer func(n int) string
		same   bool
	}{
		"noise of a command": {"exec", func(n int) string {
			return fmt.Sprintf(`{"status":"failed","exitCode":1,"pid":%d,"durationMs":%d,"output":"no such file"}`, 4000+n, n)
		}, true},
		"large numbers": {"query", func(n int) string { return fmt.Sprintf(`{"id":%d}`, 9007199254740992+n) }, false},
		"order of keys": {"query", func(n int) string {
			if n%2 == 0 {
				return `{"a":1,"b":2}`
			}
			return `{ "b" : 2.0, "a" : 1 }`
		}, true},
	} {
		eachKind(t, func(t *testing.T, k kind) {
			t.Run(name, func(t *testing.T) {
				guard := newGuard(t, config())
				n := 0
				var read []string
				conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{k.tool(test.tool, func(context.Context, string) (string, error) {
					n++
					return test.answer(n), nil
				})}})
				_, err := generate(t, guard, newReact(t, times(7, test.tool, `{"id":9007199254740993}`, &read), conf))
				require.NoError(t, err)
				assert.Equal(t, test.same, strings.Contains(strings.Join(read, ""), "Call refused"))
			})
		})
	}
}

// A command that fails in the same way, whatever changes by itself, at the thresholds that users have.
func TestALoopAtTheDefaults(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		var seen detections
		guard := newGuard(t, policy.Default(), seen.option())
		n, turns := 0, 0
		exec := k.tool("exec", func(context.Context, string) (string, error) {
			n++
			return fmt.Sprintf(`{"status":"failed","exitCode":2,"pid":%d,"durationMs":%d,"sessionId":"s-%d","output":"make: *** No rule (pid %d) after %d ms"}`,
				100+n, 10*n, n, 100+n, 10*n), nil
		})
		agent := newReact(t, func(t turn) *schema.Message {
			turns++
			return forever("exec", `{"command":"make"}`)(t)
		}, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{exec}}))
		_, err := generate(t, guard, agent)
		require.ErrorIs(t, err, middleware.ErrLoop)
		assert.Equal(t, 20, n, "refused from call 21 on")
		assert.Equal(t, 31, turns, "stopped at call 31")
		assert.Equal(t, "call_11", seen.all[0].CallID, "warned at call 11")
		assert.Equal(t, policy.Warn, seen.all[0].Action)
		assert.Equal(t, "call_21", seen.all[1].CallID)
		assert.Equal(t, "call_31", seen.all[len(seen.all)-1].CallID)
	})
}

// An agent that gets on with its work reads what it would read without a guard, and so does who listens to it.
func TestAHealthyAgentIsLeftAlone(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		play := func(guard *middleware.Guard, streaming bool, conf compose.ToolsNodeConfig) (read []string, events []string) {
			n := 0
			conf.Tools = []tool.BaseTool{k.tool("exec", func(_ context.Context, args string) (string, error) {
				n++
				return fmt.Sprintf(`{"status":"completed","exitCode":0,"pid":%d,"output":"step %s done"}`, n, args), nil
			})}
			agent := newChatModelAgent(t, "builder", func(t turn) *schema.Message {
				read = t.read
				if len(t.read) == 31 {
					return final("done")
				}
				return forever("exec", fmt.Sprintf(`{"step":%d}`, len(t.read)))(t)
			}, conf)
			all := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}).Query(t.Context(), "go")
			for event, ok := all.Next(); ok; event, ok = all.Next() {
				require.NoError(t, event.Err)
				message, err := event.Output.MessageOutput.GetMessage()
				require.NoError(t, err)
				message.Extra = nil // new ids
				events = append(events, fmt.Sprint(event.AgentName, event.RunPath, message))
			}
			return read, events
		}
		for _, streaming := range []bool{false, true} {
			guard := newGuard(t, policy.Default())
			without, withoutEvents := play(guard, streaming, compose.ToolsNodeConfig{})
			with, withEvents := play(guard, streaming, eino.Tools(guard, compose.ToolsNodeConfig{}))
			assert.Equal(t, without, with)
			assert.Equal(t, withoutEvents, withEvents)
			assert.Len(t, with, 31)
		}
	})
}

// What ends a run before a loop can be seen.
func TestLimitsOfEino(t *testing.T) {
	guard := newGuard(t, policy.Default())
	runs, turns := 0, 0
	m := scripted(func(t turn) *schema.Message {
		turns++
		return forever("build", "{}")(t)
	})
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}})
	agent, err := adk.NewChatModelAgent(t.Context(), &adk.ChatModelAgentConfig{Model: m, ToolsConfig: adk.ToolsConfig{ToolsNodeConfig: conf}})
	require.NoError(t, err)
	_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: agent}).Query(t.Context(), "go"))
	require.ErrorIs(t, err, adk.ErrExceedMaxIterations)
	assert.Equal(t, 20, turns)

	turns = 0
	short, err := reactAgentOf(m, conf)
	require.NoError(t, err)
	_, err = generate(t, guard, short)
	require.ErrorIs(t, err, compose.ErrExceedMaxSteps)
	assert.Equal(t, 7, turns)
}
