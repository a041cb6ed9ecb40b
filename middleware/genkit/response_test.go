package genkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	framework "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/policy"
)

// Whatever a tool returns, a warning is read with it, and nothing else is changed.
func TestNotesOfEveryKindOfOutput(t *testing.T) {
	for name, test := range map[string]struct {
		output any
		want   string // with NOTE
	}{
		"text":            {"broken", `"broken\n\nNOTE"`},
		"empty text":      {"", `"\n\nNOTE"`},
		"text that is {}": {"{}", `"{}\n\nNOTE"`},
		"object":          {map[string]any{"ok": false, "n": 1}, `{"loopguard":"NOTE","n":1,"ok":false}`},
		"empty object":    {map[string]any{}, `{"loopguard":"NOTE"}`},
		"taken":           {map[string]any{"loopguard": 1}, `{"loopguard":"NOTE","output":{"loopguard":1}}`},
		"struct":          {struct{ N int }{1}, `{"N":1,"loopguard":"NOTE"}`},
		"list":            {[]string{"a", "b"}, `{"loopguard":"NOTE","output":["a","b"]}`},
		"number":          {42, `{"loopguard":"NOTE","output":42}`},
		"bool":            {false, `{"loopguard":"NOTE","output":false}`},
		"nothing":         {nil, `"NOTE"`},
	} {
		t.Run(name, func(t *testing.T) {
			plain, err := json.Marshal(test.output)
			require.NoError(t, err)
			h := newHost(t, untilRefused("build"))
			runs := says(h, "build", test.output)
			_, err = h.generate(t.Context(), genkit.New(newGuard(t, config())))
			require.NoError(t, err)
			assert.Equal(t, 5, runs.count())
			require.Len(t, h.last.read, 6)
			for i, r := range h.last.read {
				output, err := json.Marshal(r.Output)
				require.NoError(t, err)
				switch i {
				case 3:
					note := output[strings.Index(string(output), "[loopguard] Warning: "):]
					note = note[:strings.Index(string(note), `"`)]
					assert.Equal(t, test.want, strings.ReplaceAll(string(output), string(note), "NOTE"))
				case 5:
					assert.Regexp(t, `^\[loopguard\] Call refused: `, r.Output)
				default:
					assert.JSONEq(t, string(plain), string(output))
				}
			}
		})
	}
}

// A response that a tool uses again is not changed.
func TestResponsesAreNotChanged(t *testing.T) {
	output := map[string]any{"ok": false}
	response := &ai.MultipartToolResponse{Output: output, Metadata: map[string]any{"m": 1}}
	h := newHost(t, untilRefused("build"))
	says(h, "build", "never")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config())), answers(response))
	require.NoError(t, err)
	assert.Contains(t, h.last.texts()[3], "Warning")
	assert.Equal(t, &ai.MultipartToolResponse{Output: map[string]any{"ok": false}, Metadata: map[string]any{"m": 1}}, response)
}

// What another middleware answers is compared like what a tool says. Even if it is nothing.
func TestNoResponse(t *testing.T) {
	h := newHost(t, untilRefused("build"))
	says(h, "build", "never")
	_, err := h.generate(t.Context(), notNil(), genkit.New(newGuard(t, config())), answers(nil))
	require.NoError(t, err)
	read := h.last.texts()
	require.Len(t, read, 6)
	assert.Equal(t, "nil", read[2])
	assert.Regexp(t, `^\[loopguard\] Warning`, read[3])
	assert.Regexp(t, `^\[loopguard\] Call refused`, read[5])
}

// Whatever kind of output a tool has: if it is new each time, the agent gets on.
func TestOutputIsCompared(t *testing.T) {
	for name, output := range map[string]func(n int) any{
		"text":   func(n int) any { return fmt.Sprint("line ", n) },
		"object": func(n int) any { return map[string]any{"n": n} },
		"report": func(n int) any { return map[string]any{"status": "failed", "exitCode": n, "pid": 1} },
		"struct": func(n int) any { return struct{ N int }{n} },
		"list":   func(n int) any { return []int{n} },
		"number": func(n int) any { return n },
	} {
		t.Run(name, func(t *testing.T) {
			var seen detections
			h := newHost(t, times(7, "exec"))
			var runs counter
			tool(h, "exec", func(*ai.ToolContext, any) (any, error) { return output(runs.add()), nil })
			_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), seen.option())))
			require.NoError(t, err)
			for _, d := range seen.all {
				assert.Equal(t, policy.Warn, d.Action, d.Reason)
			}
		})
	}
}

func part(kind string, n int) *ai.Part {
	switch kind {
	case "image":
		return ai.NewMediaPart("image/png", fmt.Sprintf("data:image/png;base64,AAA%d", n))
	case "text":
		return ai.NewTextPart(fmt.Sprint("text ", n))
	}
	p := ai.NewTextPart("text")
	p.Metadata = map[string]any{"n": n}
	return p
}

// The parts of a response count: with a new image a call has brought something new.
func TestContentIsCompared(t *testing.T) {
	for _, kind := range []string{"image", "text", "metadata"} {
		for _, news := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " ", news), func(t *testing.T) {
				var seen detections
				h := newHost(t, times(7, "look"))
				var runs counter
				h.tools = append(h.tools, framework.DefineMultipartTool(h.Genkit, "look", "looks",
					func(*ai.ToolContext, any) (*ai.MultipartToolResponse, error) {
						n := runs.add()
						if !news {
							n = 1
						}
						return &ai.MultipartToolResponse{Output: map[string]any{"ok": true}, Content: []*ai.Part{part(kind, n)},
							Metadata: map[string]any{"took": runs.count()}}, nil
					}))
				_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), seen.option())))
				require.NoError(t, err)
				refused := 0
				for _, d := range seen.all {
					if d.Action == policy.Block {
						refused++
					}
				}
				assert.Equal(t, !news, refused > 0)
				for i, r := range h.last.read[:5] {
					assert.Len(t, r.Content, 1, "call %d", i+1)
				}
			})
		}
	}
}

// Results of the Model Context Protocol, as genkit's plugin returns them, are known for what they are.
func TestResultsOfTheModelContextProtocol(t *testing.T) {
	type text struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type result struct {
		Content []text         `json:"content"`
		IsError bool           `json:"isError"`
		Meta    map[string]any `json:"_meta"`
	}
	var seen detections
	h := newHost(t, untilRefused("fetch"))
	var runs counter
	tool(h, "fetch", func(*ai.ToolContext, any) (*result, error) {
		n := runs.add()
		return &result{[]text{{"text", fmt.Sprintf("timeout after %d ms", n)}}, true, map[string]any{"n": n}}, nil
	})
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), seen.option())))
	require.NoError(t, err)
	assert.Equal(t, 5, runs.count(), "the same failure each time")
}

// genkit reads numbers as floating point before a hook or a tool has them, and before the model has what the tool says. The
// guard compares what they get.
func TestBigNumbers(t *testing.T) {
	h := newHost(t, func(t turn) *ai.Message {
		if len(t.read) == 1 {
			return answer("done")
		}
		return calls(call("count", map[string]any{"from": json.Number("9007199254740993")}))
	})
	var given any
	tool(h, "count", func(_ *ai.ToolContext, input any) (int64, error) {
		given = input
		return 9007199254740993, nil
	})
	_, err := h.generate(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"from": 9007199254740992.0}, given)
	assert.Equal(t, []string{"9007199254740992"}, h.last.texts())

	// As text they stay what they are.
	var seen detections
	h = newHost(t, func(t turn) *ai.Message {
		if len(t.read) == 8 {
			return answer("done")
		}
		return calls(call("count", map[string]any{"from": fmt.Sprint(9007199254740992 + len(t.read))}))
	})
	tool(h, "count", func(_ *ai.ToolContext, input any) (string, error) {
		return fmt.Sprintf(`{"next":%v}`, input.(map[string]any)["from"]), nil
	})
	_, err = h.generate(t.Context(), genkit.New(newGuard(t, config(), seen.option())))
	require.NoError(t, err)
	assert.Empty(t, seen.all)
}

// Arguments of any kind are told apart.
func TestArgumentsOfEveryKind(t *testing.T) {
	inputs := []any{nil, "a", "1", 1.0, true, []any{"a"}, map[string]any{"a": 1}, map[string]any{"a": "<&>"}, "{}x", "{"}
	var seen detections
	h := newHost(t, func(t turn) *ai.Message {
		if len(t.read) == 3*len(inputs)+1 {
			return answer("done")
		}
		return calls(call("build", inputs[len(t.read)%len(inputs)]))
	})
	var runs counter
	tool(h, "build", func(*ai.ToolContext, any) (string, error) { return fmt.Sprint("result ", runs.add()), nil })
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config(), seen.option())))
	require.NoError(t, err)
	require.Len(t, seen.all, 1, "the first is made a fourth time")
	assert.Equal(t, fmt.Sprint("call_", 3*len(inputs)+1), seen.all[0].CallID)
}

// answers is a middleware that answers in place of every tool.
func answers(response *ai.MultipartToolResponse) ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(context.Context, *ai.ToolParams, ai.ToolNext) (*ai.MultipartToolResponse, error) {
			return response, nil
		}}, nil
	})
}

// notNil is a middleware that makes something of a response that is nothing, which genkit cannot take.
func notNil() ai.Middleware {
	return ai.MiddlewareFunc(func(context.Context) (*ai.Hooks, error) {
		return &ai.Hooks{WrapTool: func(ctx context.Context, params *ai.ToolParams, next ai.ToolNext) (*ai.MultipartToolResponse, error) {
			response, err := next(ctx, params)
			if response == nil {
				response = &ai.MultipartToolResponse{Output: "nil"}
			}
			return response, err
		}}, nil
	})
}
