package eino

import (
	"context"
	"fmt"
	"slices"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/middleware"
)

// Tools returns a configuration in which all tool calls are guarded, also those of tools that do not exist. The
// configuration itself stays as it is. The result is for compose.NewToolNode and compose.NewAgenticToolsNode, for
// react.AgentConfig and for adk.ToolsConfig. The context of each call must name a run, see [middleware.WithRun]; [NewRunner]
// opens one.
//
// The guard stands around the ToolCallMiddlewares of the configuration: what it says reaches the model, and an abort the
// host, whatever they do to results and errors. It stands a second time between them and the tools, where it only listens:
// what it compares is what the tools said.
//
// Where eino ends a run with an error because there is no tool of a name and no UnknownToolsHandler, the model now reads
// that there is no such tool, see [UnknownTools].
func Tools(guard *middleware.Guard, conf compose.ToolsNodeConfig, options ...Option) compose.ToolsNodeConfig {
	g := newGate(guard, options)
	around := []compose.ToolMiddleware{g.middleware()}
	if len(conf.ToolCallMiddlewares) > 0 {
		around = slices.Concat(around, conf.ToolCallMiddlewares, around)
	}
	conf.ToolCallMiddlewares = around
	conf.UnknownToolsHandler = g.unknownTools(conf.UnknownToolsHandler)
	return conf
}

// Middleware is the part of [Tools] that stands around tools, of all four kinds, for hosts that order their middlewares
// themselves. It may stand around a call several times, also together with [Handler]: the outermost judges and speaks, the
// innermost listens, and the call counts once. It is safe for concurrent use.
func Middleware(guard *middleware.Guard, options ...Option) compose.ToolMiddleware {
	return newGate(guard, options).middleware()
}

// UnknownTools is the part of [Tools] that takes the place of compose.ToolsNodeConfig.UnknownToolsHandler: it judges the
// call of a tool that does not exist, and the handler says what the model reads. Without a handler, nil, that is that there
// is no such tool. A handler that runs tools by itself is not for it: each of its results would be such a failure.
func UnknownTools(
	guard *middleware.Guard, handler func(ctx context.Context, name, input string) (string, error), options ...Option,
) func(ctx context.Context, name, input string) (string, error) {
	return newGate(guard, options).unknownTools(handler)
}

func (g *gate) middleware() compose.ToolMiddleware {
	return compose.ToolMiddleware{
		Invokable: func(next compose.InvokableToolEndpoint) compose.InvokableToolEndpoint {
			return wrap(g, textForm, next, func(out *compose.ToolOutput) *string { return &out.Result })
		},
		Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
			return wrap(g, textStreamForm, next, func(out *compose.StreamToolOutput) **schema.StreamReader[string] {
				return &out.Result
			})
		},
		EnhancedInvokable: func(next compose.EnhancedInvokableToolEndpoint) compose.EnhancedInvokableToolEndpoint {
			return wrap(g, partsForm, next, func(out *compose.EnhancedInvokableToolOutput) **schema.ToolResult {
				return &out.Result
			})
		},
		EnhancedStreamable: func(next compose.EnhancedStreamableToolEndpoint) compose.EnhancedStreamableToolEndpoint {
			return wrap(g, partsStreamForm, next,
				func(out *compose.EnhancedStreamableToolOutput) **schema.StreamReader[*schema.ToolResult] {
					return &out.Result
				})
		},
	}
}

// wrap guards an endpoint of which eino packs the result into an output.
func wrap[O, R any](
	g *gate, f form[R], next func(context.Context, *compose.ToolInput) (*O, error), result func(*O) *R,
) func(context.Context, *compose.ToolInput) (*O, error) {
	run := guarded(g, f, func(ctx context.Context, in *compose.ToolInput) (said R, err error) {
		out, err := next(ctx, in)
		if out != nil {
			said = *result(out)
		}
		return said, err
	})
	return func(ctx context.Context, in *compose.ToolInput) (*O, error) {
		said, err := run(ctx, in)
		if err != nil {
			return nil, err
		}
		out := new(O)
		*result(out) = said
		return out, nil
	}
}

func (g *gate) unknownTools(
	handler func(ctx context.Context, name, input string) (string, error),
) func(ctx context.Context, name, input string) (string, error) {
	if handler == nil {
		handler = func(_ context.Context, name, _ string) (string, error) {
			return fmt.Sprintf("there is no tool %q", name), nil
		}
	}
	run := guarded(g, unknownForm, func(ctx context.Context, in *compose.ToolInput) (string, error) {
		return handler(ctx, in.Name, in.Arguments)
	})
	return func(ctx context.Context, name, input string) (string, error) {
		return run(ctx, &compose.ToolInput{Name: name, Arguments: input, CallID: compose.GetToolCallID(ctx)})
	}
}
