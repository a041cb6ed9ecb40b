package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/loopguard-go/loopguard/middleware"
)

// promised is what the guard finds in each scenario.
var promised = map[string][]string{
	"reader":   nil, // not a single event
	"searcher": nil,
	"watcher":  nil,
	"fixer":    nil,

	"same call": append(append([]string{"warn generic_repeat"}, slices.Repeat([]string{"block generic_repeat"}, 5)...),
		"abort global_circuit_breaker"),
	"alternation":  {"warn ping_pong", "block ping_pong"},
	"failing tool": {"warn error_streak", "block error_streak"},
	"unknown tool": {"block unknown_tool_repeat"},
	"cycle of three": append(append([]string{"warn stagnation"}, slices.Repeat([]string{"block stagnation"}, 5)...),
		"abort global_circuit_breaker"),
	"after compaction": {"warn generic_repeat", "abort compaction_loop_persisted"},
}

func TestTracesAndMetricsArrive(t *testing.T) {
	sink := newSink(t)
	t.Setenv(endpointVariable, sink.url)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))

	t.Run("a trace for each run, with its detections", func(t *testing.T) {
		traces := map[string][]*tracepb.Span{}
		for _, span := range sink.spans() {
			id := hex.EncodeToString(span.TraceId)
			traces[id] = append(traces[id], span)
		}
		found := map[string][]string{}
		for id, spans := range traces {
			name, detections := story(t, spans)
			found[name] = detections
			assert.Contains(t, out.String(), id, "the trace of %s", name)
			assert.Contains(t, out.String(), values(spans[0].Attributes)[middleware.AttrRunID], "the run of %s", name)
		}
		assert.Equal(t, promised, found)
	})

	t.Run("metrics", func(t *testing.T) {
		sums := sink.sums()
		stopped := sums[middleware.MetricRunsStopped]
		assert.Equal(t, map[string]int64{"global_circuit_breaker": 2, "compaction_loop_persisted": 1}, stopped)
		detections := map[string]int64{}
		for _, list := range promised {
			for _, d := range list {
				_, detector, _ := strings.Cut(d, " ")
				detections[detector]++
			}
		}
		assert.Equal(t, detections, sums[middleware.MetricDetections])
		calls := 0
		for _, span := range sink.spans() {
			if strings.HasPrefix(span.Name, middleware.OperationExecuteTool) {
				calls++
			}
		}
		assert.Equal(t, map[string]int64{"": int64(calls)}, sums[middleware.MetricCalls])
	})

	t.Run("no arguments and no results", func(t *testing.T) {
		for _, secret := range []string{"select 3", "word 3", `"page"`, "connection refused", "the text of"} {
			assert.NotContains(t, sink.received(), secret)
		}
	})
}

// story reads a trace: an agent, the calls under it, and what the guard found, in order.
func story(t *testing.T, spans []*tracepb.Span) (agent string, detections []string) {
	t.Helper()
	slices.SortFunc(spans, func(a, b *tracepb.Span) int { return int(a.StartTimeUnixNano) - int(b.StartTimeUnixNano) })
	root := spans[0]
	agent, isAgent := strings.CutPrefix(root.Name, middleware.OperationInvokeAgent+" ")
	assert.True(t, isAgent, root.Name)
	assert.Empty(t, root.ParentSpanId)
	assert.Empty(t, root.Events)
	stopped := false
	for _, call := range spans[1:] {
		assert.True(t, strings.HasPrefix(call.Name, middleware.OperationExecuteTool+" "), call.Name)
		assert.Equal(t, root.SpanId, call.ParentSpanId, call.Name)
		for _, event := range call.Events {
			assert.Equal(t, middleware.EventDetection, event.Name)
			of := values(event.Attributes)
			assert.Equal(t, values(root.Attributes)[middleware.AttrRunID], of[middleware.AttrRunID])
			assert.Equal(t, values(call.Attributes)[middleware.AttrAction], of[middleware.AttrAction])
			detections = append(detections, of[middleware.AttrAction]+" "+of[middleware.AttrDetector])
			stopped = of[middleware.AttrAction] == "abort"
		}
	}
	assert.Equal(t, stopped, root.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR, agent)
	return agent, detections
}

func TestABackendThatKeepsTracesOnly(t *testing.T) {
	sink := newSink(t)
	sink.tracesOnly = true
	t.Setenv(endpointVariable, sink.url)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	assert.NotEmpty(t, sink.spans())
	assert.Contains(t, out.String(), "The metrics were not taken there")
}

func TestWithoutAnEndpoint(t *testing.T) {
	t.Setenv(endpointVariable, "")
	require.ErrorContains(t, run(t.Context(), io.Discard), "nowhere to send to: set "+endpointVariable)
}

func TestAnEndpointThatIsNotThere(t *testing.T) {
	refuses := httptest.NewServer(nil)
	refuses.Close()
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	for name, endpoint := range map[string]string{"refuses": refuses.URL, "hangs": hangs.URL} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(endpointVariable, endpoint)
			started := time.Now()
			require.ErrorContains(t, run(t.Context(), io.Discard), "the traces could not be sent to "+endpoint)
			assert.Less(t, time.Since(started), patience+2*time.Second)
		})
	}
}
