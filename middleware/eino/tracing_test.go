package eino_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	flow "github.com/cloudwego/eino/flow/agent"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
)

func newSpans() (*sdk.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)), recorder
}

// story tells the spans that have ended, each under its parent.
func story(t *testing.T, recorder *tracetest.SpanRecorder) []string {
	t.Helper()
	assert.Len(t, recorder.Ended(), len(recorder.Started()), "all spans have ended")
	var lines []string
	var tell func(parent trace.SpanID, indent string)
	tell = func(parent trace.SpanID, indent string) {
		for _, span := range recorder.Started() {
			if span.Parent().SpanID() != parent {
				continue
			}
			line := indent + span.Name()
			values := attribute.NewSet(span.Attributes()...)
			for _, key := range []attribute.Key{middleware.AttrToolCallID, middleware.AttrErrorType, middleware.AttrAction} {
				if v, ok := values.Value(key); ok {
					line += " " + v.AsString()
				}
			}
			for _, event := range span.Events() {
				line += " +" + event.Name
			}
			if span.Status().Code == codes.Error {
				line += " (" + span.Status().Description + ")"
			}
			lines = append(lines, line)
			tell(span.SpanContext().SpanID(), indent+"  ")
		}
	}
	tell(trace.SpanID{}, "")
	return lines
}

func TestOneTraceTellsTheStory(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		eachKind(t, func(t *testing.T, k kind) {
			provider, recorder := newSpans()
			guard := newGuard(t, config())
			conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
				k.tool("build", func(ctx context.Context, _ string) (string, error) {
					return "broken", nil
				}),
			}}, eino.WithTracing(provider))
			agent := newChatModelAgent(t, "builder", func(t turn) *schema.Message {
				name := "build"
				if len(t.read) < 4 {
					name = "grep"
				}
				return call(fmt.Sprint("call_", len(t.read)+1), name, "{}")
			}, conf)
			r := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: streaming}, eino.WithTracing(provider))
			_, _, err := drain(r.Query(t.Context(), "go"))
			require.ErrorIs(t, err, middleware.ErrLoop)
			assert.Equal(t, []string{
				"invoke_agent builder loopguard.abort (stopped by global_circuit_breaker)",
				"  execute_tool grep call_1 unknown_tool",
				"  execute_tool grep call_2 unknown_tool",
				"  execute_tool grep call_3 unknown_tool",
				"  execute_tool grep call_4 loopguard.block block +loopguard.detection",
				"  execute_tool build call_5",
				"  execute_tool build call_6",
				"  execute_tool build call_7",
				"  execute_tool build call_8 warn +loopguard.detection",
				"  execute_tool build call_9",
				"  execute_tool build call_10 loopguard.block block +loopguard.detection",
				"  execute_tool build call_11 loopguard.block block +loopguard.detection",
				"  execute_tool build call_12 loopguard.block block +loopguard.detection",
				"  execute_tool build call_13 loopguard.abort abort +loopguard.detection (stopped by global_circuit_breaker)",
			}, story(t, recorder))
		})
	}
}

func TestASpanIsThatOfOneCall(t *testing.T) {
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	failure := errors.New("no disk")
	traced := func(do run) []string {
		recorder.Reset()
		conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{invokable{named{"build"}, do}}}, eino.WithTracing(provider))
		r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", func(given turn) *schema.Message {
			if len(given.read) > 0 {
				return final("done")
			}
			return forever("build", "{}")(given)
		}, conf)}, eino.WithTracing(provider))
		_, _, _ = drain(r.Query(t.Context(), "go"))
		return story(t, recorder)
	}
	assert.Equal(t, []string{"invoke_agent builder *compose.internalError", "  execute_tool build call_1 *errors.errorString"},
		traced(func(context.Context, string) (string, error) { return "", failure }))
	assert.Equal(t, []string{"invoke_agent builder *compose.internalError", "  execute_tool build call_1 panic"},
		traced(func(context.Context, string) (string, error) { panic(failure) }))
	assert.Equal(t, []string{"invoke_agent builder", "  execute_tool build call_1"},
		traced(func(ctx context.Context, _ string) (string, error) { return "", tool.Interrupt(ctx, "may I?") }), "an interrupt is no failure")
	assert.Equal(t, []string{"invoke_agent builder context.Canceled", "  execute_tool build call_1 context.Canceled"},
		traced(func(context.Context, string) (string, error) { return "", context.Canceled }))
	assert.Equal(t, []string{"invoke_agent builder", "  execute_tool build call_1"},
		traced(func(ctx context.Context, _ string) (string, error) {
			assert.True(t, trace.SpanFromContext(ctx).IsRecording())
			return "built", nil
		}))
	assert.Empty(t, recorder.Started()[1].Status().Description)
}

// The span of a stream lasts as long as that, and not longer than anybody has it.
func TestSpansOfStreams(t *testing.T) {
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	ctx := middleware.NewRun(t.Context())
	open := func() *schema.StreamReader[string] {
		m := eino.Middleware(guard, eino.WithTracing(provider))
		out, err := m.Streamable(func(context.Context, *compose.ToolInput) (*compose.StreamToolOutput, error) {
			return &compose.StreamToolOutput{Result: stream([]string{"one"}, nil)}, nil
		})(ctx, &compose.ToolInput{Name: "tail"})
		require.NoError(t, err)
		return out.Result
	}
	reader := open()
	_, err := reader.Recv()
	require.NoError(t, err)
	assert.Empty(t, recorder.Ended())
	readAll(t, reader)
	assert.Len(t, recorder.Ended(), 1)

	open().Close()
	require.Eventually(t, func() bool {
		runtime.GC()
		return len(recorder.Ended()) == 2
	}, 10*time.Second, time.Millisecond)
	assert.Equal(t, []string{"execute_tool tail", "execute_tool tail context.Canceled"}, story(t, recorder))
}

func TestSubAgentsAreNested(t *testing.T) {
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	runs := 0
	inner := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}}, eino.WithTracing(provider))
	researcher := adk.NewAgentTool(t.Context(), newChatModelAgent(t, "researcher", forever("build", "{}"), inner))
	outer := eino.Tools(guard, compose.ToolsNodeConfig{
		Tools: []tool.BaseTool{researcher}, ToolCallMiddlewares: []compose.ToolMiddleware{errorsAsAnswers},
	}, eino.WithTracing(provider))
	var read []string
	boss := newChatModelAgent(t, "boss", times(1, "researcher", `{"request":"why?"}`, &read), outer)
	_, _, err := drain(eino.NewRunner(guard, adk.RunnerConfig{Agent: boss}, eino.WithTracing(provider)).Query(t.Context(), "go"))
	require.NoError(t, err)
	told := story(t, recorder)
	require.Len(t, told, 2+9)
	assert.Equal(t, "invoke_agent boss", told[0])
	assert.Equal(t, "  execute_tool researcher call_1 loopguard.abort (stopped by global_circuit_breaker)", told[1])
	assert.Equal(t, "    execute_tool build call_1", told[2])
}

// TestNoOptionNoSpans: then detections are on the span of the host, whatever the global provider is.
func TestNoOptionNoSpans(t *testing.T) {
	provider, recorder := newSpans()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(before)
	play := func(options ...eino.Option) {
		guard := newGuard(t, config())
		runs := 0
		conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}}, options...)
		ctx, span := provider.Tracer("test").Start(t.Context(), "root")
		defer span.End()
		r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", forever("build", "{}"), conf)}, options...)
		_, _, err := drain(r.Query(ctx, "go"))
		require.ErrorIs(t, err, middleware.ErrLoop)
	}
	play()
	assert.Equal(t, []string{"root abort" + strings.Repeat(" +loopguard.detection", 5)}, story(t, recorder))
	recorder.Reset()
	play(eino.WithTracing(nil))
	assert.Len(t, recorder.Ended(), 2+9, "nil is the global provider")
}

func TestSecretsAreOnNoSpan(t *testing.T) {
	secret := rand.Text()
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	eachKind(t, func(t *testing.T, k kind) {
		conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
			k.tool("login", func(_ context.Context, args string) (string, error) { return "not " + args, nil }),
			k.tool("fail", func(_ context.Context, args string) (string, error) { return "", errors.New(args) }),
			k.tool("crash", func(_ context.Context, args string) (string, error) { panic(args) }),
		}}, eino.WithTracing(provider))
		for _, name := range []string{"login", "fail", "crash", "grep"} {
			r := eino.NewRunner(guard, adk.RunnerConfig{Agent: newChatModelAgent(t, "builder", forever(name, secret), conf)}, eino.WithTracing(provider))
			_, _, err := drain(r.Query(t.Context(), "go"))
			require.Error(t, err)
		}
	})
	assert.NotContains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())), secret)
}

// Callbacks of eino are nearer to the tool than the guard.
func TestCallbacks(t *testing.T) {
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	runs, started := 0, 0
	var said []string
	handler := callbacks.NewHandlerBuilder().
		OnStartFn(func(ctx context.Context, info *callbacks.RunInfo, _ callbacks.CallbackInput) context.Context {
			if info.Component == components.ComponentOfTool {
				started++
			}
			ctx, _ = provider.Tracer("callbacks").Start(ctx, fmt.Sprint(info.Component, " ", info.Name))
			return ctx
		}).
		OnEndFn(func(ctx context.Context, info *callbacks.RunInfo, out callbacks.CallbackOutput) context.Context {
			if info.Component == components.ComponentOfTool {
				said = append(said, tool.ConvCallbackOutput(out).Response)
			}
			trace.SpanFromContext(ctx).End()
			return ctx
		}).Build()
	agent := newReact(t, untilRefused("build", "{}"), eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{says("build", "broken", &runs)}}))
	_, err := agent.Generate(middleware.NewRun(t.Context()), []*schema.Message{schema.UserMessage("go")},
		flow.WithComposeOptions(compose.WithCallbacks(handler)))
	require.NoError(t, err)
	assert.Equal(t, 5, started, "and not for the refused one")
	assert.Equal(t, []string{"broken", "broken", "broken", "broken", "broken"}, said)
	found := map[string]int{}
	for _, span := range recorder.Ended() {
		found[span.Name()] += len(span.Events())
	}
	assert.Equal(t, 2, found["ToolsNode Tools"], "%v", found)
	assert.Zero(t, found["Tool build"], "%v", found)
}
