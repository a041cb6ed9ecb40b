package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracespb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/loopguard-go/loopguard/middleware"
)

// sink takes OTLP over HTTP and keeps it.
type sink struct {
	url        string
	tracesOnly bool

	mu      sync.Mutex
	raw     []byte
	traces  tracespb.ExportTraceServiceRequest // all requests, merged
	metrics metricspb.ExportMetricsServiceRequest
}

func newSink(t *testing.T) *sink {
	s := &sink{}
	take := func(into proto.Message) http.HandlerFunc {
		return func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.raw = append(s.raw, body...)
			assert.NoError(t, proto.UnmarshalOptions{Merge: true}.Unmarshal(body, into))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", take(&s.traces))
	metrics := take(&s.metrics)
	mux.HandleFunc("POST /v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		if s.tracesOnly {
			http.NotFound(w, r)
			return
		}
		metrics(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *sink) received() string { return string(s.raw) }

func (s *sink) spans() (all []*tracepb.Span) {
	for _, resource := range s.traces.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			all = append(all, scope.Spans...)
		}
	}
	return all
}

// sums returns the counters, by name and detector.
func (s *sink) sums() map[string]map[string]int64 {
	sums := map[string]map[string]int64{}
	for _, resource := range s.metrics.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				by := map[string]int64{}
				for _, point := range metric.GetSum().GetDataPoints() {
					by[values(point.Attributes)[middleware.AttrDetector]] += point.GetAsInt()
				}
				sums[metric.Name] = by
			}
		}
	}
	return sums
}

// values returns the attributes that are texts.
func values(attributes []*commonpb.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range attributes {
		texts[a.Key] = a.Value.GetStringValue()
	}
	return texts
}
