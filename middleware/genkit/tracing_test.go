package genkit_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core/tracing"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/genkit"
)

// recordGenkit records the spans that genkit opens.
func recordGenkit(t *testing.T) *tracetest.SpanRecorder {
	recorder := tracetest.NewSpanRecorder()
	tracing.TracerProvider().RegisterSpanProcessor(recorder)
	t.Cleanup(func() { tracing.TracerProvider().UnregisterSpanProcessor(recorder) })
	return recorder
}

// story tells the spans in the order in which they ended: the name, the id of the call, how it ended, and what was detected.
func story(spans []sdk.ReadOnlySpan) (lines []string) {
	for _, span := range spans {
		line := span.Name()
		values := attribute.NewSet(span.Attributes()...)
		for _, key := range []attribute.Key{
			middleware.AttrToolCallID, middleware.AttrErrorType, middleware.AttrAction, middleware.AttrDetector,
		} {
			if v, ok := values.Value(key); ok {
				line += " " + v.AsString()
			}
		}
		for _, event := range span.Events() {
			if event.Name == middleware.EventDetection {
				line += " +" + event.Name
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestSpans(t *testing.T) {
	own := tracetest.NewSpanRecorder()
	genkits := recordGenkit(t)
	h := newHost(t, forever("build"))
	says(h, "build", "broken")
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(own))
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config()), genkit.WithTracing(provider)))
	stopOf(t, err)
	assert.Equal(t, []string{
		"execute_tool build call_1",
		"execute_tool build call_2",
		"execute_tool build call_3",
		"execute_tool build call_4 warn generic_repeat +loopguard.detection",
		"execute_tool build call_5",
		"execute_tool build call_6 loopguard.block block generic_repeat +loopguard.detection",
		"execute_tool build call_7 loopguard.block block generic_repeat +loopguard.detection",
		"execute_tool build call_8 loopguard.block block generic_repeat +loopguard.detection",
		"execute_tool build call_9 loopguard.abort abort global_circuit_breaker +loopguard.detection",
	}, story(own.Ended()))

	// genkit's spans of tools are below ours, and ours below genkit's of the turn.
	var below []string
	for _, span := range genkits.Ended() {
		assert.NotContains(t, story([]sdk.ReadOnlySpan{span})[0], "loopguard")
		if i := slices.IndexFunc(own.Ended(), func(s sdk.ReadOnlySpan) bool {
			return s.SpanContext().SpanID() == span.Parent().SpanID()
		}); i >= 0 {
			below = append(below, fmt.Sprint(span.Name(), " ", i+1))
		}
	}
	assert.Equal(t, []string{"build 1", "build 2", "build 3", "build 4", "build 5"}, below)
	for _, span := range own.Ended() {
		i := slices.IndexFunc(genkits.Ended(), func(s sdk.ReadOnlySpan) bool {
			return s.SpanContext().SpanID() == span.Parent().SpanID()
		})
		require.GreaterOrEqual(t, i, 0)
		assert.Equal(t, "generate", genkits.Ended()[i].Name())
	}
}

// Without the option detections are on genkit's span of the turn.
func TestSpansOfGenkit(t *testing.T) {
	genkits := recordGenkit(t)
	h := newHost(t, untilRefused("build"))
	says(h, "build", "broken")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config())))
	require.NoError(t, err)
	var found []string
	for _, line := range story(genkits.Ended()) {
		if strings.Contains(line, "loopguard") {
			found = append(found, line)
		}
	}
	assert.Equal(t, []string{ // the turns are nested, and the last ends first
		"generate block generic_repeat +loopguard.detection",
		"generate warn generic_repeat +loopguard.detection",
	}, found)
}

// The global provider is the one that genkit takes, whoever comes first.
func TestGlobalProvider(t *testing.T) {
	genkits := recordGenkit(t)
	h := newHost(t, times(1, "build"))
	says(h, "build", "broken")
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config()), genkit.WithTracing(nil)))
	require.NoError(t, err)
	assert.Contains(t, story(genkits.Ended()), "execute_tool build call_1")
}

// How calls end that have no result.
func TestSpansOfCallsThatFail(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(ctx *ai.ToolContext, _ any) (string, error)
		want string
	}{
		"error":     {func(*ai.ToolContext, any) (string, error) { return "", errors.New("no disk") }, "execute_tool build call_1 *fmt.wrapError"},
		"interrupt": {func(ctx *ai.ToolContext, _ any) (string, error) { return "", ctx.Interrupt(nil) }, "execute_tool build call_1 context.Canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			own := tracetest.NewSpanRecorder()
			h := newHost(t, forever("build"))
			tool(h, "build", test.run)
			provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(own))
			_, _ = h.generate(t.Context(), genkit.New(newGuard(t, config()), genkit.WithTracing(provider)))
			assert.Equal(t, []string{test.want}, story(own.Ended()))
		})
	}
}

// genkit writes arguments and results on its spans; the guard does not.
func TestSecretsAreOnNoSpanOfOurs(t *testing.T) {
	secret := rand.Text()
	own, genkits := tracetest.NewSpanRecorder(), recordGenkit(t)
	h := newHost(t, func(turn) *ai.Message { return calls(call("login", secret)) })
	says(h, "login", "not "+secret)
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(own))
	_, err := h.generate(t.Context(), genkit.New(newGuard(t, config()), genkit.WithTracing(provider)))
	stopOf(t, err)
	assert.NotContains(t, err.Error(), secret)
	assert.NotContains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(own.Ended())), secret)
	assert.Contains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(genkits.Ended())), secret,
		"a later version that does not needs another text in doc.go")
}
