package langchain

import (
	"context"

	"github.com/tmc/langchaingo/tools"

	"github.com/loopguard-go/loopguard/middleware"
)

// Tool guards a tool, for hosts that open runs themselves: the context of each call must name one, see
// [middleware.WithRun]. Name and description stay, and the method Unwrap() tools.Tool gives the tool back. A tool that is
// guarded already, by whatever guard, is returned as it is.
//
// A refusal is the text that the tool returns, without error, and a warning is appended to the text; the tool's own
// callbacks see neither. An abort is an error, a [*middleware.LoopError]. The errors of the tool itself are returned as
// they are or, with a warning, unwrap to that.
func Tool(guard *middleware.Guard, t tools.Tool) tools.Tool { return guardTool(guard.Interceptor(), t) }

// Tools guards all of several tools.
func Tools(guard *middleware.Guard, all []tools.Tool) []tools.Tool {
	return guardTools(guard.Interceptor(), all)
}

func guardTool(around middleware.Interceptor, t tools.Tool) tools.Tool {
	if isGuarded(t) {
		return t
	}
	return &tool{t, around}
}

func guardTools(around middleware.Interceptor, all []tools.Tool) []tools.Tool {
	guarded := make([]tools.Tool, len(all))
	for i, t := range all {
		guarded[i] = guardTool(around, t)
	}
	return guarded
}

type tool struct {
	tools.Tool
	around middleware.Interceptor
}

// Unwrap returns the tool without guard.
func (t *tool) Unwrap() tools.Tool { return t.Tool }

// Call runs the tool, if it may run.
func (t *tool) Call(ctx context.Context, input string) (string, error) {
	call := middleware.Call{ID: callID(ctx, t.Name(), input), Tool: t.Name(), Args: input}
	result, err := t.around(t.run)(ctx, call)
	return result.Text, err
}

func (t *tool) run(ctx context.Context, call middleware.Call) (middleware.Result, error) {
	said, err := t.Tool.Call(ctx, call.Args)
	return middleware.Text(said), err
}

// isGuarded reports whether a tool is guarded, also under decorators that can be unwrapped.
func isGuarded(t tools.Tool) bool {
	for {
		if _, ok := t.(*tool); ok {
			return true
		}
		decorator, ok := t.(interface{ Unwrap() tools.Tool })
		if !ok {
			return false
		}
		t = decorator.Unwrap()
	}
}
