package backends

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

const service = "an-agent"

// tracing is a real pipeline: the SDK, batches, and the exporter.
type tracing struct {
	api.Tracer

	provider *sdk.TracerProvider
}

func (j *jaeger) tracing(t *testing.T, options ...sdk.TracerProviderOption) tracing {
	t.Helper()
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(j.otlp+"/v1/traces"))
	require.NoError(t, err)
	provider := sdk.NewTracerProvider(append(options, sdk.WithBatcher(exporter),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))...)
	t.Cleanup(func() { assert.NoError(t, provider.Shutdown(context.Background())) })
	return tracing{provider.Tracer("loopguard/integration_test/backends"), provider}
}

func (tr tracing) flush(t *testing.T) {
	t.Helper()
	require.NoError(t, tr.provider.ForceFlush(t.Context()))
}

// quick is a configuration that acts soon.
func quick() policy.Config {
	c := policy.Default()
	c.WarningThreshold, c.CriticalThreshold, c.GlobalCircuitBreakerThreshold = 1, 2, 3
	return c
}

func newGuard(t *testing.T, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
}

// same makes a call again and again, in one run, and returns what the last one came to.
func same(ctx context.Context, guard *middleware.Guard, times int) error {
	ctx = middleware.NewRun(ctx)
	for range times - 1 {
		_, _ = guard.Do(ctx, middleware.Call{Tool: "status", Args: `{}`}, unchanged)
	}
	_, err := guard.Do(ctx, middleware.Call{Tool: "status", Args: `{}`}, unchanged)
	return err
}

func unchanged(context.Context, middleware.Call) (middleware.Result, error) {
	return middleware.Text("pending"), nil
}

func echo(_ context.Context, call middleware.Call) (middleware.Result, error) {
	return middleware.Text("this is about " + call.Args), nil
}

func TestAHealthyRunHasNoEvent(t *testing.T) {
	j := startJaeger(t)
	tracing, guard := j.tracing(t), newGuard(t, policy.Default())

	ctx, span := tracing.Start(middleware.NewRun(t.Context()), "healthy")
	for i := range 10 {
		call := middleware.Call{ID: fmt.Sprint("call_", i), Tool: "read_file", Args: fmt.Sprintf(`{"path": "%d.txt"}`, i)}
		_, err := guard.Do(ctx, call, echo)
		require.NoError(t, err)
	}
	span.End()
	tracing.flush(t)

	found := j.wait(t, service, 1)[0]
	require.Len(t, found.Spans, 1)
	assert.Empty(t, found.Spans[0].Events)
	for key := range found.Spans[0].Attributes {
		assert.False(t, strings.HasPrefix(key, "loopguard."), key)
	}
	for _, action := range []string{"warn", "block", "abort"} {
		assert.Empty(t, j.search(t, service, map[string]string{"loopguard.action": action}))
	}
}

// The quickstart has no alternation, no store that fails and no observer; here are the attributes that these have.
func TestRarerAttributes(t *testing.T) {
	j := startJaeger(t)
	tracing := j.tracing(t)

	t.Run("an alternation names the other tool", func(t *testing.T) {
		guard := newGuard(t, policy.Tight())
		ctx, span := tracing.Start(middleware.NewRun(t.Context()), "alternating")
		for range 3 {
			for _, tool := range []string{"open", "close"} {
				_, err := guard.Do(ctx, middleware.Call{Tool: tool, Args: `{"door": 1}`}, echo)
				require.NoError(t, err)
			}
		}
		span.End()
		tracing.flush(t)
		j.wait(t, service, 1)
		found := j.search(t, service, map[string]string{middleware.AttrPairedTool: "close"})
		require.Equal(t, []string{"alternating"}, roots(found))
		require.Len(t, found[0].Spans[0].Events, 1)
		event := found[0].Spans[0].Events[0].Attributes
		assert.Equal(t, "ping_pong", event[middleware.AttrDetector])
		assert.Equal(t, "open", event[middleware.AttrToolName])
		assert.Equal(t, "close", event[middleware.AttrPairedTool])
		assert.NotContains(t, event, middleware.AttrToolCallID, "the model gave none")
	})

	t.Run("an observer says so on the event and on the span", func(t *testing.T) {
		config := quick()
		config.Mode = policy.Observe
		ctx, span := tracing.Start(t.Context(), "observed")
		require.NoError(t, same(ctx, newGuard(t, config), 4))
		span.End()
		tracing.flush(t)
		j.wait(t, service, 2)
		found := j.search(t, service, map[string]string{middleware.AttrEnforced: "false"})
		require.Equal(t, []string{"observed"}, roots(found))
		assert.Equal(t, false, found[0].Spans[0].Attributes[middleware.AttrEnforced])
		assert.Equal(t, "abort", found[0].Spans[0].Attributes[middleware.AttrAction])
		for _, event := range found[0].Spans[0].Events {
			assert.Equal(t, false, event.Attributes[middleware.AttrEnforced])
		}
	})

	t.Run("a store that fails", func(t *testing.T) {
		guard := newGuard(t, policy.Default(), middleware.WithStore(brokenStore{}))
		ctx, span := tracing.Start(middleware.WithRun(t.Context(), "run-7"), "broken store")
		_, err := guard.Do(ctx, middleware.Call{Tool: "status"}, unchanged)
		require.NoError(t, err)
		span.End()
		tracing.flush(t)
		j.wait(t, service, 3)
		found := j.search(t, service, map[string]string{middleware.AttrStoreOperation: "begin"})
		require.Equal(t, []string{"broken store"}, roots(found))
		assert.Equal(t, attributes{
			"event":                         middleware.EventStoreFailure,
			middleware.AttrStoreOperation:   "begin",
			middleware.AttrRunID:            "run-7",
			middleware.AttrExceptionMessage: "the disk is full",
		}, found[0].Spans[0].Events[0].Attributes)
	})
}

type brokenStore struct{}

func (brokenStore) Update(context.Context, string, func(*policy.State) error) error {
	return errors.New("the disk is full")
}
func (brokenStore) Forget(context.Context, string) error { return nil }

// An SDK keeps 128 events of a span, the last ones. What matters most can be among those that it drops.
func TestAThousandDetectionsOnOneSpan(t *testing.T) {
	j := startJaeger(t)
	tracing, guard := j.tracing(t), newGuard(t, quick())

	ctx, span := tracing.Start(t.Context(), "crowded")
	require.ErrorIs(t, same(ctx, guard, 4), middleware.ErrLoop) // a warning, a block and an abort
	for range 1000 {
		require.NoError(t, same(ctx, guard, 2)) // and a warning each
	}
	span.End()
	tracing.flush(t)

	j.wait(t, service, 1)
	found := j.search(t, service, map[string]string{"loopguard.action": "abort"})
	require.Equal(t, []string{"crowded"}, roots(found), "the search finds it")
	assert.Equal(t, "abort", found[0].Spans[0].Attributes[middleware.AttrAction])
	assert.Equal(t, "global_circuit_breaker", found[0].Spans[0].Attributes[middleware.AttrDetector])
	assert.Len(t, found[0].Spans[0].Events, 128)
	for _, event := range found[0].Spans[0].Events {
		assert.Equal(t, "warn", event.Attributes[middleware.AttrAction])
	}
	assert.Empty(t, j.search(t, service, map[string]string{"loopguard.threshold": "3"}), "the event of the abort is lost")

	body, err := fetch(j.query + "/api/v3/traces/" + found[0].ID)
	require.NoError(t, err)
	assert.Equal(t, 1003-128, droppedEvents(t, body), "and the newer query API says how many were")
}

// droppedEvents reads a trace with one span from the newer query API, which answers in OTLP.
func droppedEvents(t *testing.T, body []byte) int {
	t.Helper()
	var answer struct {
		Result struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct{ DroppedEventsCount int }
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &answer), string(body))
	return answer.Result.ResourceSpans[0].ScopeSpans[0].Spans[0].DroppedEventsCount
}

func TestSpansThatTakeNoEvents(t *testing.T) {
	j := startJaeger(t)
	guard := newGuard(t, quick())
	sampler := sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample()))
	tracing, unsampled := j.tracing(t, sampler), j.tracing(t, sdk.WithSampler(sdk.NeverSample()))

	t.Run("no span", func(t *testing.T) {
		require.ErrorIs(t, same(t.Context(), guard, 4), middleware.ErrLoop)
	})

	ctx, span := unsampled.Start(t.Context(), "not sampled")
	require.ErrorIs(t, same(ctx, guard, 4), middleware.ErrLoop)
	_, child := tracing.Start(ctx, "a child of what was not sampled")
	require.False(t, child.IsRecording())
	require.ErrorIs(t, same(api.ContextWithSpan(ctx, child), guard, 4), middleware.ErrLoop)
	child.End()
	span.End()
	unsampled.flush(t)

	ctx, span = tracing.Start(t.Context(), "ended before")
	span.End()
	require.ErrorIs(t, same(ctx, guard, 4), middleware.ErrLoop)

	ctx, span = tracing.Start(t.Context(), "ended in between")
	run := middleware.NewRun(ctx)
	for i := range 3 {
		_, err := guard.Do(run, middleware.Call{Tool: "status", Args: `{}`}, unchanged)
		require.NoError(t, err)
		if i == 1 { // it was warned
			span.End()
		}
	}

	_, span = tracing.Start(t.Context(), "the last one") // once it is there, all have had their chance
	span.End()
	tracing.flush(t)

	found := j.wait(t, service, 3)
	assert.Equal(t, []string{"ended before", "ended in between", "the last one"}, roots(found))
	for _, trace := range found {
		require.Len(t, trace.Spans, 1)
		span := trace.Spans[0]
		if span.Name == "ended in between" {
			require.Len(t, span.Events, 1)
			assert.Equal(t, "warn", span.Attributes[middleware.AttrAction])
			continue
		}
		assert.Empty(t, span.Events, span.Name)
		assert.NotContains(t, span.Attributes, middleware.AttrAction, span.Name)
	}
	assert.Empty(t, j.search(t, service, map[string]string{"loopguard.action": "abort"}))
}
