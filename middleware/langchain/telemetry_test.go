package langchain_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
)

func TestDetectionsAreOnTheSpanInTheContext(t *testing.T) {
	const secret = "hunter2"
	recorder := tracetest.NewSpanRecorder()
	tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test")

	runs := 0
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) < 4 {
			return functions.call("grep", secret)
		}
		return functions.call("login", secret)
	}}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("login", "not "+secret, &runs)}))
	err := func() error {
		ctx, span := tracer.Start(t.Context(), "agent")
		defer span.End()
		_, err := chains.Run(ctx, executor, secret)
		return err
	}()
	require.ErrorIs(t, err, middleware.ErrLoop)

	spans := recorder.Ended()
	require.Len(t, spans, 1)
	var found []string
	for _, event := range spans[0].Events() {
		require.Equal(t, middleware.EventDetection, event.Name)
		values := attribute.NewSet(event.Attributes...)
		value := func(key string) string {
			v, ok := values.Value(attribute.Key(key))
			assert.True(t, ok, key)
			return v.AsString()
		}
		found = append(found, value(middleware.AttrAction)+" "+value(middleware.AttrDetector)+" "+
			value(middleware.AttrToolName)+" "+value(middleware.AttrToolCallID))
		for _, a := range event.Attributes {
			assert.NotContains(t, a.Value.String(), secret)
		}
	}
	assert.Equal(t, "block unknown_tool_repeat grep call_4", found[0])
	assert.Contains(t, found, "block generic_repeat login call_10")
	assert.Contains(t, found[len(found)-1], "abort global_circuit_breaker login ")
	assert.Contains(t, spans[0].Attributes(), attribute.String(middleware.AttrAction, "abort"))
	assert.Contains(t, spans[0].Attributes(), attribute.String(middleware.AttrDetector, "global_circuit_breaker"))
	for _, a := range spans[0].Attributes() {
		assert.NotContains(t, a.Value.String(), secret)
	}
}
