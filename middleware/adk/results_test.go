package adk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"
	"google.golang.org/adk/v2/tool/geminitool"
	"google.golang.org/adk/v2/tool/mcptoolset"
	"google.golang.org/adk/v2/tool/toolconfirmation"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/adk"
	"github.com/loopguard-go/loopguard/policy"
)

// What is the same to the guard: a call that is refused the sixth time has brought one and the same result five times.
func TestOutcomes(t *testing.T) {
	type report struct {
		Status     string `json:"status"`
		ExitCode   int    `json:"exitCode"`
		PID        int    `json:"pid"`
		DurationMs int    `json:"durationMs"`
		Output     string `json:"output"`
	}
	for name, test := range map[string]struct {
		tool string
		run  func(n int) (any, error)
		same bool
	}{
		"a struct": {"exec", func(n int) (any, error) {
			return report{"completed", 0, 4000 + n, 10 * n, "done"}, nil
		}, true},
		"a struct that says something else": {"exec", func(n int) (any, error) {
			return report{"completed", 0, 4000, 10, fmt.Sprint("done ", n)}, nil
		}, false},
		"a map": {"exec", func(n int) (any, error) {
			return map[string]any{"exit_code": 1, "pid": n, "stderr": fmt.Sprintf("no such file, took %d ms", n)}, nil
		}, true},
		"a text": {"exec", func(n int) (any, error) { return fmt.Sprintf("pid %d: took %d ms", n, n), nil }, true},
		"a text that is JSON": {"exec", func(n int) (any, error) {
			encoded, _ := json.Marshal(report{"completed", 0, 4000 + n, 10 * n, "done"})
			return string(encoded), nil
		}, true},
		"another text": {"build", func(n int) (any, error) { return fmt.Sprintf("pid %d", n), nil }, false},
		"a list":       {"build", func(n int) (any, error) { return []int{1, 2}, nil }, true},
		"another list": {"build", func(n int) (any, error) { return []int{1, n}, nil }, false},
		"a number":     {"build", func(n int) (any, error) { return n, nil }, false},
		"nothing":      {"build", func(n int) (any, error) { return nil, nil }, true},
		"a delivery": {"send_message", func(n int) (any, error) {
			return map[string]any{"messageId": fmt.Sprintf("m-%06d", n), "ok": true}, nil
		}, true},
		"an error":           {"build", func(n int) (any, error) { return nil, fmt.Errorf("no disk, attempt %d", n) }, true},
		"another error":      {"build", func(n int) (any, error) { return nil, fmt.Errorf("no disk %c", 'a'+n) }, false},
		"a reported failure": {"build", func(n int) (any, error) { return map[string]any{"error": fmt.Sprintf("no disk, attempt %d", n)}, nil }, true},
		"a failure that is an object": {"build", func(n int) (any, error) {
			return map[string]any{"error": map[string]any{"why": fmt.Sprintf("no disk, attempt %d", n)}}, nil
		}, true},
		"an error among others": {"build", func(n int) (any, error) {
			return map[string]any{"error": "none", "at": fmt.Sprintf("attempt %d", n)}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			made := function(t, functiontool.Config{Name: test.tool}, func(agent.Context, string) (any, error) {
				n++
				return test.run(n)
			})
			m := func(turn turn) *genai.Content {
				if len(turn.read) == 6 {
					return say("enough")
				}
				return call(test.tool, `{"command":"make"}`)
			}
			_, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", scripted(m), []tool.Tool{made})), "s", message("go"))
			require.NoError(t, err)
			if test.same {
				assert.Equal(t, 5, n)
			} else {
				assert.Equal(t, 6, n)
			}
		})
	}
}

// Some tools put Go values into their results.
func TestResultsThatAreNoJSON(t *testing.T) {
	for name, test := range map[string]struct {
		result func(n int) map[string]any
		runs   int
	}{
		"error":         {func(int) map[string]any { return map[string]any{"error": errors.New("no disk")} }, 5},
		"another error": {func(n int) map[string]any { return map[string]any{"error": fmt.Errorf("no disk %c", 'a'+n)} }, 6},
		"NaN":           {func(int) map[string]any { return map[string]any{"result": math.NaN()} }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			made := plain{name: "build", run: func() (map[string]any, error) { n++; return test.result(n), nil }}
			turns := 0
			m := scripted(func(turn) *genai.Content {
				if turns++; turns > 6 {
					return say("enough")
				}
				return call("build", `{}`)
			})
			_, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", m, []tool.Tool{made})), "s", message("go"))
			require.NoError(t, err)
			assert.Equal(t, test.runs, n)
		})
	}
}

// Numbers in arguments are as exact as the model's client decodes them.
func TestBigNumbers(t *testing.T) {
	runs := 0
	guard := newGuard(t, config())
	m := scripted(func(turn turn) *genai.Content {
		if len(turn.read) == 6 {
			return say("enough")
		}
		return call("fetch", fmt.Sprintf(`{"id":%d}`, 9007199254740993+len(turn.read)))
	})
	_, err := run(t.Context(), guarded(t, guard, llm(t, "worker", m, []tool.Tool{says(t, "fetch", "gone", &runs)})), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, 6, runs)
	assert.Empty(t, guard.found(), "they are all different calls")
}

// Arguments that no JSON ever was: another callback may put them there.
func TestArgumentsThatAreNoJSON(t *testing.T) {
	runs := 0
	spoil := func(_ agent.Context, _ tool.Tool, args map[string]any) (map[string]any, error) {
		args["f"] = func() {}
		return map[string]any{"result": "no"}, nil
	}
	root := llm(t, "worker", untilRefused("build", `{}`), []tool.Tool{says(t, "build", "broken", &runs)})
	p := other(t, plugin.Config{BeforeToolCallback: spoil})
	guard := newGuard(t, config())
	loops, err := adk.Plugin(guard.Guard)
	require.NoError(t, err)
	events, err := run(t.Context(), newRunner(t, root, p, loops), "s", message("go"))
	require.NoError(t, err)
	assert.Len(t, responsesIn(events), 6)
}

func TestToolsOfAnMCPServer(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "server", Version: "1"}, nil)
	n := 0
	add := func(name string, result func() *mcp.CallToolResult) {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				n++
				return result(), nil
			})
	}
	add("exec", func() *mcp.CallToolResult {
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: "done"}},
			StructuredContent: map[string]any{"exitCode": 0, "pid": n, "output": "done"},
		}
	})
	add("bash", func() *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(`{"exitCode":0,"pid":%d,"output":"done"}`, n)}}}
	})
	add("fails", func() *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("no disk, attempt %d", n)}}}
	})
	add("draws", func() *mcp.CallToolResult { // the framework leaves out what is no text, and to the guard these are one
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "here you are"}, &mcp.ImageContent{Data: []byte{byte(n)}, MIMEType: "image/png"},
		}}
	})
	for _, name := range []string{"exec", "bash", "fails", "draws"} {
		t.Run(name, func(t *testing.T) {
			n = 0
			here, there := mcp.NewInMemoryTransports()
			session, err := server.Connect(t.Context(), there, nil)
			require.NoError(t, err)
			defer func() { _ = session.Close() }()
			set, err := mcptoolset.New(mcptoolset.Config{Transport: here})
			require.NoError(t, err)
			var read []string
			root := llm(t, "worker", reading(&read, untilRefused(name, `{}`)), nil,
				func(c *llmagent.Config) { c.Toolsets = []tool.Toolset{set} })
			_, err = run(t.Context(), guarded(t, newGuard(t, config()), root), "s", message("go"))
			require.NoError(t, err)
			assert.Equal(t, 5, n)
			require.Len(t, read, 6)
			assert.Contains(t, read[3], "[loopguard] Warning")
			assert.Contains(t, read[5], "Call refused")
		})
	}
}

// The framework answers for a tool that does not exist with a list of those that do, in an order that changes. To the guard
// it is one failure.
func TestUnknownToolsAreOneFailure(t *testing.T) {
	var tools []tool.Tool
	for i := range 40 {
		tools = append(tools, says(t, fmt.Sprint("tool_", i), "fine", new(int)))
	}
	c := config()
	c.UnknownToolThreshold = 20
	var read []string
	guard := newGuard(t, c)
	_, err := run(t.Context(), guarded(t, guard, llm(t, "worker", reading(&read, untilRefused("grep", `{}`)), tools)), "s", message("go"))
	require.NoError(t, err)
	require.Len(t, read, 6)
	different := map[string]bool{}
	for _, said := range read[:5] {
		said, _, _ = strings.Cut(said, "Possible causes")
		different[said] = true
	}
	assert.Greater(t, len(different), 1, "or the framework has mended it")
	assert.Contains(t, read[3], "tool 'grep' not found")
	assert.Contains(t, read[3], "[loopguard] Warning")
	assert.Contains(t, read[5], "Call refused")
	assert.Equal(t, policy.GenericRepeat, guard.all[1].Detector, "the same call with the same result")
}

func TestUnknownToolsUnderSeveralNames(t *testing.T) {
	names := []string{"grep", "rg", "ag", "ack"}
	var read []string
	m := reading(&read, func(t turn) *genai.Content {
		if len(t.read) == len(names) {
			return say("none of them")
		}
		return call(names[len(t.read)], `{}`)
	})
	_, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", m, nil)), "s", message("go"))
	require.NoError(t, err)
	require.Len(t, read, 4)
	assert.Contains(t, read[2], "tool 'ag' not found")
	assert.Contains(t, read[3], "Call refused")
}

// What the model's own side runs is no tool of the agent: to call it is to call one that does not exist.
func TestAToolThatCannotBeCalled(t *testing.T) {
	var read []string
	root := llm(t, "worker", reading(&read, untilRefused("google_search", `{}`)), []tool.Tool{geminitool.GoogleSearch{}})
	guard := newGuard(t, config())
	_, err := run(t.Context(), guarded(t, guard, root), "s", message("go"))
	require.NoError(t, err)
	require.Len(t, read, 4)
	assert.Contains(t, read[3], "there is no such tool")
}

// A callback behind this plugin may have its own answer for a tool that does not exist; it is given leave to.
func TestAnAnswerForAToolThatDoesNotExist(t *testing.T) {
	help := func(agent.Context, tool.Tool, map[string]any, error) (map[string]any, error) {
		return map[string]any{"result": "use rg"}, nil
	}
	var read []string
	root := llm(t, "worker", reading(&read, untilRefused("grep", `{}`)), nil,
		func(c *llmagent.Config) { c.OnToolErrorCallbacks = []llmagent.OnToolErrorCallback{help} })
	_, err := run(t.Context(), guarded(t, newGuard(t, config()), root), "s", message("go"))
	require.NoError(t, err)
	require.Len(t, read, 4)
	assert.Equal(t, "use rg", read[2])
	assert.Contains(t, read[3], "Call refused")
}

// The framework runs a tool that streams without any callback.
func TestStreamingToolsAreNotSeen(t *testing.T) {
	n := 0
	stream, err := functiontool.NewStreaming(functiontool.Config{Name: "watch"}, func(agent.Context, map[string]any) iter.Seq2[string, error] {
		n++
		return func(yield func(string, error) bool) { yield("nothing", nil) }
	})
	require.NoError(t, err)
	guard := newGuard(t, config())
	_, err = run(t.Context(), guarded(t, guard, llm(t, "worker", times(12, "watch", `{}`), []tool.Tool{stream})), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, 12, n)
	assert.Empty(t, guard.found())
}

// The first result of a tool that takes long is its outcome; if there is none yet, the framework waits without answer.
func TestToolsThatTakeLong(t *testing.T) {
	n := 0
	var read []string
	deploy := plain{name: "deploy", long: true, run: func() (map[string]any, error) {
		n++
		return map[string]any{"status": "pending"}, nil
	}}
	guard := newGuard(t, config())
	m := reading(&read, untilRefused("deploy", `{}`))
	_, err := run(t.Context(), guarded(t, guard, llm(t, "worker", m, []tool.Tool{deploy})), "s", message("go"))
	require.NoError(t, err)
	assert.Equal(t, 5, n)
	assert.Contains(t, read[3], "[loopguard] Warning")

	wait := plain{name: "wait", long: true, run: func() (map[string]any, error) { n++; return nil, nil }}
	events, err := run(t.Context(), guarded(t, guard, llm(t, "worker", forever("wait", `{}`), []tool.Tool{wait})), "s", message("go"))
	require.NoError(t, err)
	assert.Empty(t, responsesIn(events))
	assert.Equal(t, 6, n)
	assert.Zero(t, guard.store.Runs())
}

// A call that waits for the leave of the user did not run. It is made again when there is leave, in a run that starts afresh.
func TestCallsThatNeedLeave(t *testing.T) {
	for _, leave := range []bool{true, false} {
		t.Run(fmt.Sprint(leave), func(t *testing.T) {
			n := 0
			store := &historian{Store: middleware.NewMemoryStore(), runs: map[string][]policy.Record{}}
			guard := newGuard(t, config(), middleware.WithStore(store))
			deploy := function(t, functiontool.Config{Name: "deploy", RequireConfirmation: true},
				func(agent.Context, string) (string, error) { n++; return "done", nil })
			r := guarded(t, guard, llm(t, "worker", times(1, "deploy", `{}`), []tool.Tool{deploy}))
			events, err := run(t.Context(), r, "s", message("go"))
			require.NoError(t, err)
			assert.Zero(t, n)
			assert.Zero(t, store.records(), "the call left no trace")

			asked := callsIn(events[len(events)-1].Content)
			require.Len(t, asked, 1)
			answer, err := json.Marshal(toolconfirmation.ToolConfirmation{Confirmed: leave})
			require.NoError(t, err)
			_, err = run(t.Context(), r, "s", &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{
				FunctionResponse: &genai.FunctionResponse{
					ID: asked[0].ID, Name: asked[0].Name, Response: map[string]any{"response": string(answer)},
				},
			}}})
			require.NoError(t, err)
			assert.Equal(t, leave, n == 1)
			assert.Equal(t, 1, store.records())
			assert.Equal(t, 2, store.forgotten, "the run that asked, and the one that was answered")
		})
	}
}
