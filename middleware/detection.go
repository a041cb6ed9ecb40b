package middleware

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// Detection is a verdict that was reported, and the call that it is about. It holds no arguments and no results.
type Detection struct {
	policy.Verdict

	// Tool is the name that the model wrote; one longer than 128 bytes is replaced by its digest.
	Tool string
	// CallID is the id that the model gave the call, if any; one longer than 128 bytes is replaced by its digest.
	CallID string
	// Run is the id of the run.
	Run string
	// Call is the digest of the call, equal for equal calls; see [WithDigestKey].
	Call canonical.Digest
}

// reporter tells the world: the span in the context or who takes its events, metrics, the log, and the callbacks.
type reporter struct {
	events    Events // takes the events in place of the span, if it is not nil
	metrics   metrics
	logger    *slog.Logger
	callbacks []func(context.Context, Detection)
}

// effect is what a detection does not tell: the tool as the user knows it, and what came of it.
type effect struct {
	tool    string // by its whole folded name
	refuses bool   // its call: not if an outcome is what stopped the run
	stops   bool   // its run: not if that was stopped before
}

// detection reports a detection.
func (r *reporter) detection(ctx context.Context, d Detection, e effect) {
	r.event(ctx, EventDetection, func() []attribute.KeyValue { return d.attributes() })
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		markSpan(span, d)
	}
	r.metrics.detection(ctx, d, e)
	level := slog.LevelWarn
	if d.Action == policy.Abort {
		level = slog.LevelError
	}
	if r.logger != nil && r.logger.Enabled(ctx, level) {
		r.logger.LogAttrs(ctx, level, "loopguard: "+d.Action.String(), logAttributes(d.attributes())...)
	}
	for _, callback := range r.callbacks {
		callback(ctx, d)
	}
}

// storeFailure reports that a store failed.
func (r *reporter) storeFailure(ctx context.Context, operation, run string, err error) {
	attributes := func() []attribute.KeyValue {
		return []attribute.KeyValue{
			attribute.String(AttrStoreOperation, operation),
			attribute.String(AttrRunID, clean(run)),
			attribute.String(AttrExceptionMessage, clean(err.Error())),
		}
	}
	r.event(ctx, EventStoreFailure, attributes)
	r.metrics.storeFailure(ctx, operation)
	if r.logger != nil && r.logger.Enabled(ctx, slog.LevelWarn) {
		r.logger.LogAttrs(ctx, slog.LevelWarn, "loopguard: store failed", logAttributes(attributes())...)
	}
}

// notice reports something about the configuration.
func (r *reporter) notice(n policy.Notice) {
	if r.logger != nil {
		r.logger.Warn("loopguard: configuration", slog.String("path", n.Path), slog.String("message", n.Message))
	}
}

// event tells of an event: whoever takes them, if there is someone, else the span. Attributes are made only where someone
// will have them.
func (r *reporter) event(ctx context.Context, name string, attributes func() []attribute.KeyValue) {
	if r.events != nil {
		if r.events.Enabled(ctx, name) {
			r.events.Emit(ctx, name, attributes())
		}
		return
	}
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(name, trace.WithAttributes(attributes()...))
	}
}

// marking is locked while a span is marked, by whatever guard, see markSpan.
var marking sync.Mutex

// markSpan sets the attributes of the span to its severest detection. Other than events, of which an SDK keeps a limited
// number, they last, and they are what people search for. A span can have many detections: what it says already is asked
// of the span itself, which that of the OpenTelemetry SDK allows; on any other the last detection stands.
func markSpan(span trace.Span, d Detection) {
	marking.Lock()
	defer marking.Unlock()
	saysObserved := false
	if s, ok := span.(interface{ Attributes() []attribute.KeyValue }); ok {
		for _, a := range s.Attributes() {
			if a.Key == AttrAction && severity(a.Value.AsString()) >= d.Action {
				return
			}
			saysObserved = saysObserved || a.Key == AttrEnforced
		}
	}
	span.SetAttributes(
		attribute.String(AttrDetector, d.Detector),
		attribute.String(AttrAction, d.Action.String()),
	)
	if !d.Enforced || saysObserved {
		span.SetAttributes(attribute.Bool(AttrEnforced, d.Enforced))
	}
}

// severity is the action that a word stands for.
func severity(word string) policy.Action {
	for _, a := range []policy.Action{policy.Warn, policy.Block, policy.Abort} {
		if a.String() == word {
			return a
		}
	}
	return policy.Allow
}

// clean makes a text valid UTF-8. Exporters refuse anything else, and with it all spans that they were about to send.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// logAttributes makes attributes of a trace those of a log.
func logAttributes(attributes []attribute.KeyValue) []slog.Attr {
	logged := make([]slog.Attr, len(attributes))
	for i, a := range attributes {
		logged[i] = slog.Any(string(a.Key), a.Value.AsInterface())
	}
	return logged
}
