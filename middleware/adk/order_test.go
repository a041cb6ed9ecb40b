package adk_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/plugin/retryandreflect"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/policy"
)

func other(t *testing.T, c plugin.Config) *plugin.Plugin {
	t.Helper()
	c.Name = "other"
	p, err := plugin.New(c)
	require.NoError(t, err)
	return p
}

// A callback that returns something ends the chain: one that blots out secrets must not be passed over for a warning.
func TestAWarningPassesOverNoOtherCallback(t *testing.T) {
	blot := func(_ agent.Context, _ tool.Tool, _, result map[string]any, err error) (map[string]any, error) {
		if said, ok := result["result"].(string); ok {
			return map[string]any{"result": strings.ReplaceAll(said, "hunter2", "***")}, err
		}
		return nil, nil
	}
	seen := 0
	watch := plugin.Config{OnEventCallback: func(agent.InvocationContext, *session.Event) (*session.Event, error) {
		seen++
		return nil, nil
	}}
	for name, install := range map[string]func(*llmagent.Config, *plugin.Config){
		"agent":  func(c *llmagent.Config, _ *plugin.Config) { c.AfterToolCallbacks = []llmagent.AfterToolCallback{blot} },
		"plugin": func(_ *llmagent.Config, p *plugin.Config) { p.AfterToolCallback = blot },
	} {
		t.Run(name, func(t *testing.T) {
			runs := 0
			var read []string
			p := watch
			m := reading(&read, untilRefused("login", `{}`))
			root := llm(t, "worker", m, []tool.Tool{says(t, "login", "not hunter2", &runs)},
				func(c *llmagent.Config) { install(c, &p) })
			seen = 0
			events, err := run(t.Context(), guarded(t, newGuard(t, config()), root, other(t, p)), "s", message("log in"))
			require.NoError(t, err)
			assert.Len(t, events, seen)
			require.Len(t, read, 6)
			assert.Equal(t, "not ***", read[2])
			assert.Regexp(t, `^not \*\*\*\n\n\[loopguard\] Warning`, read[3])
			assert.Contains(t, read[5], "Call refused")
		})
	}
}

// An answer in place of the tool is the outcome, wherever it comes from and wherever this plugin stands.
func TestAnAnswerInPlaceOfTheTool(t *testing.T) {
	cached := func(agent.Context, tool.Tool, map[string]any) (map[string]any, error) {
		return map[string]any{"result": "broken"}, nil
	}
	fails := func(agent.Context, tool.Tool, map[string]any) (map[string]any, error) {
		return nil, errors.New("not today")
	}
	for name, answer := range map[string]func(agent.Context, tool.Tool, map[string]any) (map[string]any, error){
		"result": cached, "error": fails,
	} {
		for _, where := range []string{"plugin before", "plugin after", "agent"} {
			t.Run(name+" of "+where, func(t *testing.T) {
				runs := 0
				var read []string
				guard := newGuard(t, config())
				root := llm(t, "worker", reading(&read, untilRefused("build", `{}`)), []tool.Tool{says(t, "build", "fine", &runs)},
					func(c *llmagent.Config) {
						if where == "agent" {
							c.BeforeToolCallbacks = []llmagent.BeforeToolCallback{answer}
						}
					})
				loops, err := adk.Plugin(guard.Guard)
				require.NoError(t, err)
				plugins := []*plugin.Plugin{loops}
				switch p := other(t, plugin.Config{BeforeToolCallback: answer}); where {
				case "plugin before":
					plugins = []*plugin.Plugin{p, loops}
				case "plugin after":
					plugins = []*plugin.Plugin{loops, p}
				}
				_, err = run(t.Context(), newRunner(t, root, plugins...), "s", message("build it"))
				require.NoError(t, err)
				assert.Zero(t, runs)
				require.Len(t, read, 6)
				said := map[string]string{"result": "broken", "error": "not today"}[name]
				assert.Equal(t, said, read[2])
				assert.Regexp(t, "^"+said+`\n\n\[loopguard\] Warning`, read[3])
				assert.Regexp(t, `^\[loopguard\] Call refused`, read[5])
				assert.Equal(t, []string{"warn build", "block build"}, guard.found())
				assert.Zero(t, guard.store.Runs())
			})
		}
	}
}

// What a plugin behind this one makes of an error, such as a count of retries, the guard does not see.
func TestAnErrorIsSeenBeforeItIsExplained(t *testing.T) {
	var read []string
	guard := newGuard(t, config())
	fetch := function(t, functiontool.Config{Name: "fetch"}, func(agent.Context, string) (string, error) {
		return "", errors.New("connection refused")
	})
	root := llm(t, "worker", reading(&read, untilRefused("fetch", `{}`)), []tool.Tool{fetch})
	_, err := run(t.Context(), guarded(t, guard, root, retryandreflect.MustNew(retryandreflect.WithMaxRetries(100))), "s", message("fetch it"))
	require.NoError(t, err)
	require.Len(t, read, 6)
	assert.Contains(t, read[2], `"retry_count":3`)
	assert.Contains(t, read[3], `"retry_count":4`)
	assert.Contains(t, read[3], "[loopguard] Warning")
	assert.Contains(t, read[5], "Call refused")
}

// The reason why this plugin belongs first: of what one before it returns after the tool, it is not told.
func TestAnOutcomeThatAPluginBeforeHides(t *testing.T) {
	runs := 0
	guard := newGuard(t, config())
	hides := other(t, plugin.Config{AfterToolCallback: func(
		_ agent.Context, _ tool.Tool, _, result map[string]any, err error,
	) (map[string]any, error) {
		return map[string]any{"result": result["result"]}, err
	}})
	loops, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	root := llm(t, "worker", times(12, "build", `{}`), []tool.Tool{says(t, "build", "broken", &runs)})
	_, err = run(t.Context(), newRunner(t, root, hides, loops), "s", message("build it"))
	require.NoError(t, err)
	assert.Equal(t, 12, runs, "no call has an outcome, so that none is refused")
	assert.NotContains(t, guard.found(), "block build")
	assert.Zero(t, guard.store.Runs())
}

// A warning is added to a copy: a tool may give out the same map each time.
func TestTheResultOfAToolIsNotChanged(t *testing.T) {
	shared := map[string]any{"state": "broken", adk.NoteKey: "mine", adk.NoteKey + "_": "mine too"}
	given := map[string]any{"state": "broken", adk.NoteKey: "mine", adk.NoteKey + "_": "mine too"}
	root := llm(t, "worker", times(4, "build", `{}`), []tool.Tool{plain{name: "build", run: func() (map[string]any, error) {
		return shared, nil
	}}})
	events, err := run(t.Context(), guarded(t, newGuard(t, config()), root), "s", message("build it"))
	require.NoError(t, err)
	assert.Equal(t, given, shared)
	kept := responsesIn(events)
	require.Len(t, kept, 4)
	assert.Equal(t, given, kept[2].Response)
	assert.Len(t, kept[3].Response, 4)
	assert.Regexp(t, `^\[loopguard\] Warning`, kept[3].Response[adk.NoteKey+"__"])
	delete(kept[3].Response, adk.NoteKey+"__")
	assert.Equal(t, given, kept[3].Response)
}

// Two calls of a turn may have one id. (In several turns the framework itself takes them for one another.)
func TestIDsThatAreUsedAgain(t *testing.T) {
	runs := 0
	m := scripted(func(turn turn) *genai.Content {
		if len(turn.read) == 8 {
			return say("enough")
		}
		id := fmt.Sprint("call_", len(turn.read))
		return together(functionCall(id, "build", `{}`), functionCall(id, "test", `{}`))
	})
	c := config()
	c.Detectors = policy.Detectors{PingPong: new(false), Stagnation: new(false)}
	root := llm(t, "worker", m, []tool.Tool{says(t, "build", "broken", &runs), says(t, "test", "red", new(int))})
	events, err := run(t.Context(), guarded(t, newGuard(t, c), root), "s", message("build it"))
	require.NoError(t, err)
	kept := responsesIn(events)
	require.Len(t, kept, 8)
	for i, r := range kept {
		said := "broken"
		if i%2 == 1 {
			said = "red"
		}
		assert.Equal(t, said, r.Response["result"])
		_, noted := r.Response[adk.NoteKey]
		assert.Equal(t, i >= 6, noted, "result %d", i)
	}
}

// A note on a call that failed is not left over for another one.
func TestIDsThatAreUsedAgainAfterErrors(t *testing.T) {
	turns := 0
	m := scripted(func(turn) *genai.Content {
		if turns++; turns > 5 {
			return say("enough")
		}
		return together(functionCall("call_0", "fetch", `{}`))
	})
	fetch := function(t, functiontool.Config{Name: "fetch"}, func(agent.Context, string) (string, error) {
		return "", errors.New("connection refused")
	})
	events, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", m, []tool.Tool{fetch})), "s", message("fetch it"))
	require.NoError(t, err)
	kept := responsesIn(events)
	require.Len(t, kept, 5)
	for i, r := range kept {
		_, noted := r.Response[adk.NoteKey]
		assert.Equal(t, i == 3, noted, "result %d", i)
	}
}

// A tool of another make than the framework's own, which panics where nobody recovers: that ends the process, unless the
// host runs the calls of a turn in its own way.
func TestAPanicThatTheFrameworkCatches(t *testing.T) {
	guard := newGuard(t, config())
	root := llm(t, "worker", forever("build", `{}`), []tool.Tool{plain{name: "build", run: func() (map[string]any, error) {
		panic("no disk")
	}}})
	_, err := run(oneAtATime(t.Context()), guarded(t, guard, root), "s", message("build it"))
	require.ErrorContains(t, err, "no disk")
	assert.Zero(t, guard.store.Runs())
}

func TestPanicsOfOneToolAreOneFailure(t *testing.T) {
	var read []string
	build := function(t, functiontool.Config{Name: "build"}, func(agent.Context, string) (string, error) { panic("no disk") })
	_, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", reading(&read, untilRefused("build", `{}`)),
		[]tool.Tool{build})), "s", message("build it"))
	require.NoError(t, err)
	require.Len(t, read, 6, "although each has another stack")
	assert.NotEqual(t, read[0], read[1])
	assert.Contains(t, read[0], "stack: goroutine")
}
