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
	// Call is the digest of the call, equal for equal calls.
	Call canonical.Digest
}

// reporter tells the world: the span in the context, the log, and the callbacks.
type reporter struct {
	callbacks []func(context.Context, Detection)
	logger    *slog.Logger
}

// marking is locked while a span is marked, by whatever guard, see markSpan.
var marking sync.Mutex

func (r *reporter) detection(ctx context.Context, d Detection) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(EventDetection, trace.WithAttributes(d.attributes()...))
		markSpan(span, d)
	}
	level := slog.LevelWarn
	if d.Action == policy.Abort {
		level = slog.LevelError
	}
	if r.logger != nil && r.logger.Enabled(ctx, level) {
		r.logger.LogAttrs(ctx, level, "loopguard: "+d.Action.String(), d.logAttributes()...)
	}
	for _, callback := range r.callbacks {
		callback(ctx, d)
	}
}

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

// storeFailure reports that a store failed.
func (r *reporter) storeFailure(ctx context.Context, operation, run string, err error) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.AddEvent(EventStoreFailure, trace.WithAttributes(
			attribute.String(AttrStoreOperation, operation),
			attribute.String(AttrRunID, run),
			attribute.String(AttrExceptionMessage, clean(err.Error())),
		))
	}
	if r.logger != nil {
		r.logger.LogAttrs(ctx, slog.LevelWarn, "loopguard: store failed",
			slog.String("operation", operation), slog.String("run", run), slog.Any("error", err))
	}
}

// clean makes a text valid UTF-8. Exporters refuse anything else, and with it all spans that they were about to send.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// notice reports something about the configuration.
func (r *reporter) notice(n policy.Notice) {
	if r.logger != nil {
		r.logger.Warn("loopguard: configuration", slog.String("path", n.Path), slog.String("message", n.Message))
	}
}
