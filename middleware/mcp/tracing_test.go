package mcp_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/mcp"
)

func newSpans() (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), recorder
}

// story tells of each span what it was, in the order in which they ended.
func story(recorder *tracetest.SpanRecorder) (lines []string) {
	for _, span := range recorder.Ended() {
		line := span.Name()
		values := attribute.NewSet(span.Attributes()...)
		for _, key := range []attribute.Key{middleware.AttrErrorType, middleware.AttrAction, middleware.AttrDetector} {
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
	}
	return lines
}

func TestSpansTellTheStory(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		provider, recorder := newSpans()
		server, client := newServer(nil), newClient(nil)
		failed := textResult("broken")
		failed.IsError = true
		addRaw(server, "build", says(failed, &runs))
		addRaw(server, "ask", asking(new(int)))
		install(server, client, newLoops(t, newGuard(t, config()), mcp.WithTracing(provider)))
		session := connect(t, inMemory, server, client)
		hunt(t, session, "grep", "rg")
		_, _ = call(t.Context(), session, "ask", `{}`, nil)
		_, err := repeat(session, 9, "build", `{}`)
		require.Error(t, err)
		told := story(recorder)
		require.Len(t, told, 3+9)
		assert.Equal(t, []string{"execute_tool grep unknown_tool", "execute_tool rg unknown_tool"}, told[:2])
		assert.Contains(t, told[2], "execute_tool ask") // at a client, which answers no questions, a failure
		assert.Equal(t, []string{
			"execute_tool build tool_error",
			"execute_tool build tool_error",
			"execute_tool build tool_error",
			"execute_tool build tool_error warn generic_repeat +loopguard.detection",
			"execute_tool build tool_error",
			"execute_tool build loopguard.block block generic_repeat +loopguard.detection",
			"execute_tool build loopguard.block block generic_repeat +loopguard.detection",
			"execute_tool build loopguard.block block generic_repeat +loopguard.detection",
			"execute_tool build loopguard.abort abort global_circuit_breaker +loopguard.detection (stopped by global_circuit_breaker)",
		}, told[3:])
	})
}

// TestSpanOfTheHost has the detections where no option asks for spans.
func TestSpanOfTheHost(t *testing.T) {
	provider, recorder := newSpans()
	runs := 0
	server, client := newServer(nil), newClient(nil)
	addRaw(server, "build", says(textResult("broken"), &runs))
	client.AddSendingMiddleware(newLoops(t, newGuard(t, config())))
	session := connect(t, inMemory, server, client)
	ctx, span := provider.Tracer("host").Start(t.Context(), "host")
	for range 9 {
		_, _ = call(ctx, session, "build", `{}`, nil)
	}
	span.End()
	assert.Equal(t, []string{"host abort global_circuit_breaker" +
		" +loopguard.detection +loopguard.detection +loopguard.detection +loopguard.detection +loopguard.detection"}, story(recorder))
}

func TestSecretsAreOnNoSpan(t *testing.T) {
	secret := rand.Text()
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		provider, recorder := newSpans()
		server, client := newServer(nil), newClient(nil)
		for name, run := range map[string]func() (string, error){
			"login": func() (string, error) { return "not " + secret, nil },
			"fail":  func() (string, error) { return "", errors.New(secret) },
		} {
			addText(server, name, func(context.Context, string) (string, error) { return run() })
		}
		install(server, client, newLoops(t, newGuard(t, config()), mcp.WithTracing(provider)))
		session := connect(t, inMemory, server, client)
		for _, tool := range []string{"login", "fail", "no such tool"} {
			for range 9 {
				_, _ = call(t.Context(), session, tool, fmt.Sprintf(`{"a":%q}`, secret), sdk.Meta{"a": secret})
			}
		}
		assert.NotContains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())), secret)
		assert.Len(t, recorder.Ended(), 27)
	})
}
