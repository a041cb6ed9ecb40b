package middleware

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// Tracing opens spans for tool calls and agents, for hosts that have none. Names and attributes are those of the
// OpenTelemetry semantic conventions for generative AI. Arguments and results are never on a span. A Tracing is safe for
// concurrent use.
type Tracing struct{ tracer trace.Tracer }

// NewTracing makes a Tracing. Where the provider is nil it is the global one.
func NewTracing(provider trace.TracerProvider) *Tracing {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return &Tracing{provider.Tracer(ScopeName, trace.WithInstrumentationVersion(Version))}
}

// Interceptor opens a span "execute_tool NAME" around each call. It belongs around the guard, so that detections are on the
// span of the call that they are about:
//
//	handle := middleware.Chain(tracing.Interceptor(), guard.Interceptor())(runTool)
func (t *Tracing) Interceptor() Interceptor {
	return func(next Handler) Handler {
		return func(ctx context.Context, call Call) (result Result, err error) {
			ctx, span := t.StartTool(ctx, call)
			err = ErrPanic // stays so if the tool panics
			defer func() {
				span.Finish(result, err)
				span.End()
			}()
			result, err = next(ctx, call)
			return result, err
		}
	}
}

// StartTool opens the span of a tool call, to be ended with [ToolSpan.End]. The context that it returns is the one to call
// [Guard.Begin] with.
func (t *Tracing) StartTool(ctx context.Context, call Call) (context.Context, ToolSpan) {
	name := clean(canonical.Bound(call.Tool))
	ctx, span := t.tracer.Start(ctx, title(OperationExecuteTool, name), trace.WithSpanKind(trace.SpanKindInternal))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String(AttrOperationName, OperationExecuteTool),
			attribute.String(AttrToolName, name),
			attribute.String(AttrToolType, "function"),
		)
		if call.ID != "" {
			span.SetAttributes(attribute.String(AttrToolCallID, clean(canonical.Bound(call.ID))))
		}
	}
	return ctx, ToolSpan{span}
}

// ToolSpan is the span of a tool call.
type ToolSpan struct{ trace.Span }

// End ends the span. It stands between a deferred call and the SDK, which would put what a tool said in its panic on the span.
func (s ToolSpan) End(options ...trace.SpanEndOption) { s.Span.End(options...) }

// Finish says on the span how the call ended. A call that failed or was refused has an error type; the status of the span
// is an error only if a run was stopped, its own or that of a sub-agent. Of a call that [Guard.Begin] refused give it
// Result{Refusal: &LoopError{Verdict: ticket.Verdict()}}.
func (s ToolSpan) Finish(result Result, err error) {
	if !s.IsRecording() {
		return
	}
	if result.Refusal != nil {
		err = result.Refusal
	}
	switch {
	case err != nil:
		s.SetAttributes(attribute.String(AttrErrorType, errorType(err)))
	case result.IsError:
		s.SetAttributes(attribute.String(AttrErrorType, "tool_error"))
	}
	setStopped(s.Span, err)
}

// StartAgent opens the span of an agent's run, "invoke_agent NAME". The context names the run, see [WithRun]. The function
// ends the span; it is given what the agent returned.
func (t *Tracing) StartAgent(ctx context.Context, name string) (context.Context, func(error)) {
	name = clean(name)
	ctx, span := t.tracer.Start(ctx, title(OperationInvokeAgent, name), trace.WithSpanKind(trace.SpanKindInternal))
	if span.IsRecording() {
		span.SetAttributes(attribute.String(AttrOperationName, OperationInvokeAgent))
		if name != "" {
			span.SetAttributes(attribute.String(AttrAgentName, name))
		}
		if run, ok := RunID(ctx); ok {
			span.SetAttributes(attribute.String(AttrRunID, clean(run)))
		}
	}
	return ctx, func(err error) {
		if err != nil && span.IsRecording() {
			span.SetAttributes(attribute.String(AttrErrorType, errorType(err)))
			setStopped(span, err)
		}
		span.End()
	}
}

// title is the name of a span.
func title(operation, name string) string {
	if name == "" {
		return operation
	}
	return operation + " " + name
}

// setStopped makes the status of a span an error if a run was stopped.
func setStopped(span trace.Span, err error) {
	if loop, ok := errors.AsType[*LoopError](err); ok && loop.Action == policy.Abort {
		span.SetStatus(codes.Error, "stopped by "+loop.Detector)
	}
}

// errorType returns the class of an error, of which there are few.
func errorType(err error) string {
	loop, isLoop := errors.AsType[*LoopError](err)
	switch {
	case isLoop:
		return "loopguard." + loop.Action.String()
	case errors.Is(err, ErrNoRun):
		return "loopguard.no_run"
	case errors.Is(err, ErrStore):
		return "loopguard.store"
	case errors.Is(err, context.Canceled):
		return "context.Canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "context.DeadlineExceeded"
	case errors.Is(err, ErrUnknownTool):
		return "unknown_tool"
	case errors.Is(err, ErrPanic):
		return "panic"
	}
	if noted, ok := errors.AsType[*notedError](err); ok {
		err = noted.error
	}
	return fmt.Sprintf("%T", err)
}
