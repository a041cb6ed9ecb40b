package adk_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/loopguard-go/loopguard/middleware"
)

// The spans are the framework's. A refusal looks to it like an error of the tool; what it is, the guard says.
func TestSpansOfCalls(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracing.RegisterSpanProcessor(recorder)
	defer tracing.UnregisterSpanProcessor(recorder)

	secret := rand.Text()
	runs := 0
	m := scripted(func(t turn) *genai.Content {
		if len(t.read) < 4 {
			return call("grep", `{}`)
		}
		return untilRefused("build", fmt.Sprintf(`{"token":%q}`, secret))(turn{read: t.read[4:]})
	})
	_, err := run(t.Context(), guarded(t, newGuard(t, config()), llm(t, "worker", m, []tool.Tool{says(t, "build", secret, &runs)})), "s", message("go"))
	require.NoError(t, err)

	var told []string
	for _, span := range recorder.Ended() {
		name, isCall := strings.CutPrefix(span.Name(), "execute_tool ")
		if !isCall {
			assert.Empty(t, span.Events())
			continue
		}
		action, _ := new(attribute.NewSet(span.Attributes()...)).Value(middleware.AttrAction)
		for _, event := range span.Events() {
			assert.NotContains(t, fmt.Sprint(event.Attributes), secret)
			if event.Name == middleware.EventDetection {
				name += " " + action.AsString()
			}
		}
		if span.Status().Code == codes.Error {
			name += " (error)"
		}
		told = append(told, name)
	}
	assert.Equal(t, []string{
		"grep (error)", "grep (error)", "grep (error)", "grep block (error)",
		"build", "build", "build", "build warn", "build", "build block (error)",
	}, told)
}
