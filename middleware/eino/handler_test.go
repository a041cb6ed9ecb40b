package eino_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/adk/filesystem"
	"github.com/cloudwego/eino/adk/middlewares/reduction"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/eino"
)

// Long results are put into files that are named after their calls, so that none is like another.
func TestLongResultsThatAreReduced(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		for _, streaming := range []bool{false, true} {
			play := func(installed bool) []string {
				guard := newGuard(t, config())
				reduce, err := reduction.New(t.Context(), &reduction.Config{
					Backend: filesystem.NewInMemoryBackend(), MaxLengthForTrunc: 100, SkipClear: true,
				})
				require.NoError(t, err)
				handlers := []adk.ChatModelAgentMiddleware{reduce}
				if installed {
					handlers = append(handlers, eino.Handler[adk.Message](guard))
				}
				var read []string
				conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
					k.tool("log", func(context.Context, string) (string, error) { return strings.Repeat("the same line\n", 100), nil }),
				}})
				agent := newChatModelAgent(t, "reader", times(6, "log", "{}", &read), conf, handlers...)
				_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}).Query(t.Context(), "go"))
				require.NoError(t, err)
				require.Len(t, read, 6)
				assert.Contains(t, read[0], "call_1", "the name of the file")
				return read
			}
			assert.NotContains(t, strings.Join(play(false), ""), "Call refused", "streaming: %t", streaming)

			read := play(true)
			assert.Contains(t, read[3], "call_4")
			assert.Contains(t, read[3], "\n\n[loopguard] Warning", "the note is on what the handler made of it; streaming: %t", streaming)
			assert.Contains(t, read[5], "Call refused")
		}
	})
}

// A handler alone is as good as any other place, but for tools that do not exist and errors that become answers further out.
func TestAHandlerAlone(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind) {
		for _, streaming := range []bool{false, true} {
			guard := newGuard(t, config())
			var read []string
			given := ""
			conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{k.tool("build", func(_ context.Context, args string) (string, error) {
				given = args
				return "broken", nil
			})}}
			agent := newChatModelAgent(t, "builder", times(6, "build", `{"n":9007199254740993}`, &read), conf, eino.Handler[adk.Message](guard))
			_, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}).Query(t.Context(), "go"))
			require.NoError(t, err)
			assert.Equal(t, "broken", read[0])
			assert.Contains(t, read[3], "broken\n\n[loopguard] Warning")
			assert.Contains(t, read[5], "Call refused")
			assert.Equal(t, `{"n":9007199254740993}`, given)

			seen := detections{}
			guard = newGuard(t, config(), seen.option())
			agent = newChatModelAgent(t, "builder", func(given turn) *schema.Message {
				if len(given.read) == 4 {
					return final("done")
				}
				return forever("build", fmt.Sprintf(`{"n":%d}`, len(given.read)))(given)
			}, conf, eino.Handler[adk.Message](guard))
			_, _, err = drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}).Query(t.Context(), "go"))
			require.NoError(t, err)
			assert.NotContains(t, seen.words(), "build warn generic_repeat", "the arguments are part of a call")
		}
	})
}

func TestAHandlerWithoutArguments(t *testing.T) {
	guard := newGuard(t, config())
	run, err := eino.Handler[adk.Message](guard).WrapEnhancedInvokableToolCall(t.Context(), enhanced{named{"build"}, nil}.InvokableRun,
		&adk.ToolContext{Name: "build"})
	require.NoError(t, err)
	_, err = run(t.Context(), nil)
	require.Error(t, err)
}
