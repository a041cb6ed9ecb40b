package anthropic_test

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
)

// The SDK opens the spans of a runner: one around each call of a tool, and one around each request.
func TestDetectionsAreOnTheSpansOfTheSDK(t *testing.T) {
	const secret = "hunter2"
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	model := startAPI(t, func(turn int, read []result) message {
		if turn <= 4 {
			return again("grep", `{"for":"`+secret+`"}`)(turn, read)
		}
		return again("login", `{"password":"`+secret+`"}`)(turn, read)
	})
	client := model.client(option.WithTracerProvider(provider))
	tools := []sdk.BetaTool{says("login", "not "+secret)}
	_, err := anthropic.NewToolRunner(newGuard(t, config()), &client.Beta.Messages, tools, params()).RunToCompletion(t.Context())
	require.ErrorIs(t, err, middleware.ErrLoop)

	var found []string
	for _, span := range recorder.Ended() {
		for _, event := range span.Events() {
			if event.Name != middleware.EventDetection {
				continue
			}
			values := attribute.NewSet(event.Attributes...)
			value := func(key string) string {
				v, _ := values.Value(attribute.Key(key))
				return v.AsString()
			}
			found = append(found, strings.Join([]string{
				span.Name(), value(middleware.AttrAction), value(middleware.AttrDetector), value(middleware.AttrToolCallID),
			}, " "))
		}
		for _, event := range span.Events() {
			for _, a := range event.Attributes {
				assert.NotContains(t, a.Value.String(), secret)
			}
		}
		for _, a := range span.Attributes() {
			assert.NotContains(t, a.Value.String(), secret, span.Name())
		}
	}
	assert.Equal(t, []string{
		"anthropic.messages.create block unknown_tool_repeat call_4",
		"anthropic.custom_tool_use login warn generic_repeat call_8",
	}, found[:2])
	assert.Contains(t, found[len(found)-1], "anthropic.custom_tool_use login abort global_circuit_breaker")
}

func TestDetectionsAreOnTheSpanOfTheHost(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	model := startAPI(t, func(turn int, read []result) message {
		return asks(use(fmt.Sprint("a", turn), "build", `{}`), use(fmt.Sprint("b", turn), "grep", `{}`))
	})
	client := model.client(option.WithoutOpenTelemetry())
	ctx, span := provider.Tracer("test").Start(t.Context(), "agent")
	_, err := anthropic.NewToolRunner(newGuard(t, config()), &client.Beta.Messages, []sdk.BetaTool{says("build", "broken")}, params()).
		RunToCompletion(ctx)
	span.End()
	require.ErrorIs(t, err, middleware.ErrLoop)
	require.Len(t, recorder.Ended(), 1)
	tools := map[string]bool{}
	for _, event := range recorder.Ended()[0].Events() {
		values := attribute.NewSet(event.Attributes...)
		v, _ := values.Value(middleware.AttrToolName)
		tools[v.AsString()] = true
	}
	assert.Equal(t, map[string]bool{"build": true, "grep": true}, tools)
}
