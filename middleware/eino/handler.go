package eino

import (
	"context"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/middleware"
)

// Handler is [Middleware] for the Handlers of an adk.ChatModelAgent, which stand nearer to the tools than
// ToolsConfig.ToolCallMiddlewares do. Beside [Tools], and as the last of the Handlers, it listens to what the tools say
// before other handlers make something else of it: those of the packages reduction and filesystem put what is long into a
// file whose name has the id of the call, so that no result would be like another.
//
//	Handlers: []adk.ChatModelAgentMiddleware{reduction, eino.Handler[adk.Message](guard)}
//
// It sees no calls of tools that do not exist. It is safe for concurrent use.
func Handler[M adk.MessageType](guard *middleware.Guard, options ...Option) adk.TypedChatModelAgentMiddleware[M] {
	return &handler[M]{gate: newGate(guard, options)}
}

type handler[M adk.MessageType] struct {
	*adk.TypedBaseChatModelAgentMiddleware[M]
	gate *gate
}

// WrapInvokableToolCall guards a tool that returns a text.
func (h *handler[M]) WrapInvokableToolCall(
	_ context.Context, next adk.InvokableToolCallEndpoint, t *adk.ToolContext,
) (adk.InvokableToolCallEndpoint, error) {
	return wrapCall(h.gate, textForm, next, t, textOf), nil
}

// WrapStreamableToolCall guards a tool that streams a text.
func (h *handler[M]) WrapStreamableToolCall(
	_ context.Context, next adk.StreamableToolCallEndpoint, t *adk.ToolContext,
) (adk.StreamableToolCallEndpoint, error) {
	return wrapCall(h.gate, textStreamForm, next, t, textOf), nil
}

// WrapEnhancedInvokableToolCall guards a tool that returns parts.
func (h *handler[M]) WrapEnhancedInvokableToolCall(
	_ context.Context, next adk.EnhancedInvokableToolCallEndpoint, t *adk.ToolContext,
) (adk.EnhancedInvokableToolCallEndpoint, error) {
	return wrapCall(h.gate, partsForm, next, t, textOfArgument), nil
}

// WrapEnhancedStreamableToolCall guards a tool that streams parts.
func (h *handler[M]) WrapEnhancedStreamableToolCall(
	_ context.Context, next adk.EnhancedStreamableToolCallEndpoint, t *adk.ToolContext,
) (adk.EnhancedStreamableToolCallEndpoint, error) {
	return wrapCall(h.gate, partsStreamForm, next, t, textOfArgument), nil
}

// wrapCall guards one call. A is what its arguments come in.
func wrapCall[A, R any](
	g *gate, f form[R], next func(context.Context, A, ...tool.Option) (R, error), t *adk.ToolContext, args func(A) string,
) func(context.Context, A, ...tool.Option) (R, error) {
	return func(ctx context.Context, a A, options ...tool.Option) (R, error) {
		run := guarded(g, f, func(ctx context.Context, _ *compose.ToolInput) (R, error) { return next(ctx, a, options...) })
		return run(ctx, &compose.ToolInput{Name: t.Name, CallID: t.CallID, Arguments: args(a)})
	}
}

func textOf(args string) string { return args }

func textOfArgument(args *schema.ToolArgument) string {
	if args == nil {
		return ""
	}
	return args.Text
}
