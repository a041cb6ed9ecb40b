package langchain_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/langchain"
)

// newSpans makes a provider and what keeps its spans.
func newSpans(options ...sdk.TracerProviderOption) (*sdk.TracerProvider, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(recorder))...), recorder
}

// inRoot does something in a span of the host.
func inRoot(t *testing.T, p *sdk.TracerProvider, do func(context.Context)) {
	t.Helper()
	ctx, span := p.Tracer("host").Start(t.Context(), "root")
	defer span.End()
	do(ctx)
}

// story tells a trace: a line for each span, indented below its parent, in the order in which they began, with what went
// wrong and what was found. All spans must have ended.
func story(t *testing.T, recorder *tracetest.SpanRecorder) []string {
	t.Helper()
	started := recorder.Started()
	require.Len(t, recorder.Ended(), len(started), "spans were left open")
	var lines []string
	var tell func(parent trace.SpanID, indent string)
	tell = func(parent trace.SpanID, indent string) {
		for _, span := range started {
			if span.Parent().SpanID() != parent {
				continue
			}
			line := indent + span.Name()
			values := attribute.NewSet(span.Attributes()...)
			for _, key := range []attribute.Key{
				middleware.AttrToolCallID, middleware.AttrErrorType, middleware.AttrAction, middleware.AttrDetector,
			} {
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
	require.Len(t, lines, len(started), "one trace")
	return lines
}

func TestOneTraceTellsTheStory(t *testing.T) {
	runs := 0
	provider, recorder := newSpans()
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) < 4 {
			return functions.call("grep", "needle")
		}
		return functions.call("build", "all")
	}}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &runs)}),
		langchain.WithName("builder"), langchain.WithTracing(provider))
	inRoot(t, provider, func(ctx context.Context) {
		_, err := chains.Run(ctx, executor, "the build")
		require.ErrorIs(t, err, middleware.ErrLoop)
	})
	assert.Equal(t, []string{
		"root",
		"  invoke_agent builder loopguard.abort (stopped by global_circuit_breaker)",
		"    execute_tool grep call_1 unknown_tool",
		"    execute_tool grep call_2 unknown_tool",
		"    execute_tool grep call_3 unknown_tool",
		"    execute_tool grep call_4 loopguard.block block unknown_tool_repeat +loopguard.detection",
		"    execute_tool build call_5",
		"    execute_tool build call_6",
		"    execute_tool build call_7",
		"    execute_tool build call_8 warn generic_repeat +loopguard.detection",
		"    execute_tool build call_9",
		"    execute_tool build call_10 loopguard.block block generic_repeat +loopguard.detection",
		"    execute_tool build call_11 loopguard.block block generic_repeat +loopguard.detection",
		"    execute_tool build call_12 loopguard.block block generic_repeat +loopguard.detection",
		"    execute_tool build call_13 loopguard.abort abort global_circuit_breaker +loopguard.detection " +
			"(stopped by global_circuit_breaker)",
	}, story(t, recorder))
	assert.Equal(t, 5, runs)

	agent := recorder.Started()[1]
	values := attribute.NewSet(agent.Attributes()...)
	assert.Equal(t, 4, values.Len())
	for key, want := range map[attribute.Key]string{
		"gen_ai.operation.name": "^invoke_agent$",
		"gen_ai.agent.name":     "^builder$",
		"loopguard.run.id":      "^builder-[A-Z2-7]+$",
		"error.type":            `^loopguard\.abort$`,
	} {
		v, _ := values.Value(key)
		assert.Regexp(t, want, v.AsString(), key)
	}
	run, _ := values.Value("loopguard.run.id")
	for _, span := range recorder.Started() {
		for _, event := range span.Events() {
			assert.Contains(t, event.Attributes, attribute.String("loopguard.run.id", run.AsString()))
		}
	}
}

func TestEveryDialectHasTheSameSpans(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		runs := 0
		provider, recorder := newSpans()
		m := &model{dialect: d, script: untilRefused(d, "BUILD", "all")}
		executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &runs)}),
			langchain.WithTracing(provider))
		answer, err := chains.Run(t.Context(), executor, "the build")
		require.NoError(t, err)
		assert.Equal(t, "gave up on the build", answer)
		var told []string
		for _, line := range story(t, recorder) {
			name, _, _ := strings.Cut(line, " call_")
			told = append(told, name)
		}
		require.Len(t, told, 7)
		assert.Equal(t, "invoke_agent", told[0], "a refusal is no error of the agent, and it has no name")
		for i, line := range told[1:] {
			assert.True(t, strings.HasPrefix(line, "  execute_tool build"), "call %d: %s", i+1, line)
		}
		last := recorder.Started()[6]
		assert.Contains(t, last.Attributes(), attribute.String("error.type", "loopguard.block"))
		assert.Contains(t, last.Attributes(), attribute.String("loopguard.action", "block"))
		assert.Equal(t, codes.Unset, last.Status().Code)
	})
}

func TestParallelCallsHaveASpanEach(t *testing.T) {
	provider, recorder := newSpans()
	runs := 0
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) > 0 {
			return functions.final("done")
		}
		return together(functionCall("build", "a"), functionCall("grep", "b"), functionCall("build", "c"))
	}}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "ok", &runs)}),
		langchain.WithTracing(provider))
	_, err := chains.Run(t.Context(), executor, "the build")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"invoke_agent",
		"  execute_tool grep call_2 unknown_tool", // judged where it is planned
		"  execute_tool build call_1",
		"  execute_tool build call_3",
	}, story(t, recorder))
}

func TestUnknownToolThatStopsTheRunOnTheTrace(t *testing.T) {
	provider, recorder := newSpans()
	m := &model{dialect: mrkl, script: forever(mrkl, "grep", "needle")}
	executor := langchain.Wrap(newGuard(t, config()), m.executor(nil), langchain.WithName("finder"), langchain.WithTracing(provider))
	_, err := chains.Run(t.Context(), executor, "find it")
	require.ErrorIs(t, err, middleware.ErrLoop)
	told := story(t, recorder)
	require.Len(t, told, 10)
	assert.Equal(t, "invoke_agent finder loopguard.abort (stopped by global_circuit_breaker)", told[0])
	for i, line := range told[1:] {
		switch {
		case i < 3:
			assert.Equal(t, "  execute_tool grep unknown_tool", line)
		case i < 8:
			assert.Equal(t, "  execute_tool grep loopguard.block block unknown_tool_repeat +loopguard.detection", line)
		default:
			assert.Equal(t, "  execute_tool grep loopguard.abort abort global_circuit_breaker +loopguard.detection "+
				"(stopped by global_circuit_breaker)", line)
		}
	}
}

func TestSubAgentsAreNested(t *testing.T) {
	provider, recorder := newSpans()
	guard := newGuard(t, config())
	runs := 0
	inner := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	researcher := langchain.Wrap(guard, inner.executor([]tools.Tool{says("build", "broken", &runs)}),
		langchain.WithName("researcher"), langchain.WithTracing(provider))
	outer := &model{dialect: mrkl, script: func(t turn) *llms.ContentChoice {
		if len(t.read) == 1 {
			return mrkl.final(t.read[0])
		}
		return mrkl.call("ask", "find out why")
	}}
	ask := stub{"ask", func(ctx context.Context, question string) (string, error) {
		answer, err := chains.Run(ctx, researcher, question)
		if errors.Is(err, middleware.ErrLoop) {
			return "the researcher was stopped", nil
		}
		return answer, err
	}}
	boss := langchain.Wrap(guard, outer.executor([]tools.Tool{ask}), langchain.WithName("boss"), langchain.WithTracing(provider))
	inRoot(t, provider, func(ctx context.Context) {
		answer, err := chains.Run(ctx, boss, "why is it broken?")
		require.NoError(t, err)
		assert.Equal(t, "the researcher was stopped", answer)
	})
	told := story(t, recorder)
	assert.Equal(t, []string{
		"root",
		"  invoke_agent boss", // it went on, and is no error
		"    execute_tool ask",
		"      invoke_agent researcher loopguard.abort (stopped by global_circuit_breaker)",
		"        execute_tool build",
	}, told[:5])
	assert.Len(t, told, 4+9)
	run := func(i int) string {
		v, _ := new(attribute.NewSet(recorder.Started()[i].Attributes()...)).Value("loopguard.run.id")
		return v.AsString()
	}
	assert.True(t, strings.HasPrefix(run(3), run(1)+"/researcher-"), "%s is below %s", run(3), run(1))
}

// TestStatusOfTheAgentIsAnErrorForAnAbortOnly: what its other failures mean is for its host to say.
func TestStatusOfTheAgentIsAnErrorForAnAbortOnly(t *testing.T) {
	failure := errors.New("no disk")
	for name, test := range map[string]struct {
		tool func() (string, error)
		want []string
	}{
		"error": {
			func() (string, error) { return "", failure },
			[]string{"invoke_agent *errors.errorString", "  execute_tool build *errors.errorString"},
		},
		"cancelled": {
			func() (string, error) { return "", context.Canceled },
			[]string{"invoke_agent context.Canceled", "  execute_tool build context.Canceled"},
		},
		"too long": {
			func() (string, error) { return "", fmt.Errorf("build: %w", context.DeadlineExceeded) },
			[]string{"invoke_agent context.DeadlineExceeded", "  execute_tool build context.DeadlineExceeded"},
		},
		"not finished": {
			func() (string, error) { return rand.Text(), nil },
			[]string{"invoke_agent *errors.errorString", "  execute_tool build", "  execute_tool build"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			provider, recorder := newSpans()
			m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
			build := stub{"build", func(context.Context, string) (string, error) { return test.tool() }}
			executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{build}, agents.WithMaxIterations(2)),
				langchain.WithTracing(provider))
			_, err := chains.Run(t.Context(), executor, "the build")
			require.Error(t, err)
			assert.Equal(t, test.want, story(t, recorder))
		})
	}
}

// TestPanicEndsTheSpans of the tool and of the agent, and neither says what it was about.
func TestPanicEndsTheSpans(t *testing.T) {
	secret := rand.Text()
	provider, recorder := newSpans()
	m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	build := stub{"build", func(context.Context, string) (string, error) { panic(secret) }}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{build}), langchain.WithTracing(provider))
	assert.PanicsWithValue(t, secret, func() { _, _ = chains.Run(t.Context(), executor, "the build") })
	assert.Equal(t, []string{"invoke_agent panic", "  execute_tool build panic"}, story(t, recorder))
	assert.NotContains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())), secret)
}

// TestNoOptionNoSpans: then detections are on the span of the host, whatever the global provider is.
func TestNoOptionNoSpans(t *testing.T) {
	provider, recorder := newSpans()
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(before)
	runs := 0
	m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
	plain := m.executor([]tools.Tool{says("build", "broken", &runs)})
	inRoot(t, provider, func(ctx context.Context) {
		_, err := chains.Run(ctx, langchain.Wrap(newGuard(t, config()), plain, langchain.WithName("builder")), "the build")
		require.ErrorIs(t, err, middleware.ErrLoop)
	})
	events := strings.Repeat(" +loopguard.detection", 5)
	assert.Equal(t, []string{"root abort global_circuit_breaker" + events}, story(t, recorder))

	_, err := chains.Run(t.Context(), langchain.Wrap(newGuard(t, config()), plain, langchain.WithTracing(nil)), "the build")
	require.ErrorIs(t, err, middleware.ErrLoop)
	assert.Len(t, recorder.Ended(), 1+10, "nil is the global provider")
}

func TestUnsampledTraceDoesNoHarm(t *testing.T) {
	runs := func(options ...langchain.Option) (int, string) {
		n := 0
		m := &model{dialect: mrkl, script: forever(mrkl, "build", "all")}
		executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{says("build", "broken", &n)}), options...)
		_, err := chains.Run(t.Context(), executor, "the build")
		var loop *middleware.LoopError
		require.ErrorAs(t, err, &loop)
		return n, loop.Verdict.Reason
	}
	provider, recorder := newSpans(sdk.WithSampler(sdk.NeverSample()))
	n, reason := runs()
	with, withReason := runs(langchain.WithTracing(provider))
	assert.Equal(t, n, with)
	assert.Equal(t, reason, withReason)
	assert.Empty(t, recorder.Ended())
}

// unforgetting is a store that fails when it is to forget.
type unforgetting struct{ *middleware.MemoryStore }

func (unforgetting) Forget(context.Context, string) error { return errors.New("connection refused") }

// TestStoreThatFailsToForgetIsOnTheTrace: the run is forgotten while its span can still say so.
func TestStoreThatFailsToForgetIsOnTheTrace(t *testing.T) {
	provider, recorder := newSpans()
	runs := 0
	m := &model{dialect: mrkl, script: untilRefused(mrkl, "build", "all")}
	guard := newGuard(t, config(), middleware.WithStore(unforgetting{middleware.NewMemoryStore()}))
	executor := langchain.Wrap(guard, m.executor([]tools.Tool{says("build", "broken", &runs)}), langchain.WithTracing(provider))
	inRoot(t, provider, func(ctx context.Context) {
		_, err := chains.Run(ctx, executor, "the build")
		require.NoError(t, err)
	})
	assert.Contains(t, strings.Join(story(t, recorder)[:2], "\n"), "+"+middleware.EventStoreFailure)
}

func TestSecretsAreOnNoSpan(t *testing.T) {
	secret := rand.Text()
	provider, recorder := newSpans()
	m := &model{dialect: functions, script: func(t turn) *llms.ContentChoice {
		if len(t.read) < 4 {
			return functions.call("grep", secret)
		}
		return functions.call("login", secret)
	}}
	login := stub{"login", func(context.Context, string) (string, error) { return "not " + secret, nil }}
	executor := langchain.Wrap(newGuard(t, config()), m.executor([]tools.Tool{login}), langchain.WithTracing(provider))
	inRoot(t, provider, func(ctx context.Context) {
		_, err := chains.Run(ctx, executor, secret)
		require.ErrorIs(t, err, middleware.ErrLoop)
	})
	assert.NotContains(t, fmt.Sprintf("%+v", tracetest.SpanStubsFromReadOnlySpans(recorder.Ended())), secret)
}

// TestManyRunsAtATime keep to their own spans.
func TestManyRunsAtATime(t *testing.T) {
	provider, recorder := newSpans()
	build := stub{"build", func(context.Context, string) (string, error) { return "broken", nil }}
	m := &model{dialect: mrkl, script: untilRefused(mrkl, "build", "all")}
	var seen detections
	executor := langchain.Wrap(newGuard(t, config(), seen.option()), m.executor([]tools.Tool{build}), langchain.WithTracing(provider))
	inputs := make([]map[string]any, 20)
	for i := range inputs {
		inputs[i] = input(fmt.Sprint("question ", i))
	}
	inRoot(t, provider, func(ctx context.Context) {
		_, err := chains.Apply(ctx, executor, inputs, 8)
		require.NoError(t, err)
	})
	told := story(t, recorder)
	require.Len(t, told, 1+20*7)
	run := ""
	for i, line := range told {
		if i == 0 {
			continue
		}
		if (i-1)%7 == 0 {
			run = line
			assert.Equal(t, "  invoke_agent", line)
		} else {
			assert.True(t, strings.HasPrefix(line, "    execute_tool build"), "%s after %s", line, run)
		}
	}
	agents := map[trace.SpanID]string{}
	for _, span := range recorder.Started() {
		if v, ok := new(attribute.NewSet(span.Attributes()...)).Value("loopguard.run.id"); ok {
			agents[span.SpanContext().SpanID()] = v.AsString()
		}
	}
	assert.Len(t, agents, 20)
	for _, span := range recorder.Started() {
		for _, event := range span.Events() {
			assert.Contains(t, event.Attributes, attribute.String("loopguard.run.id", agents[span.Parent().SpanID()]))
		}
	}
}
