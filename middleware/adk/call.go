package adk

import (
	"encoding/json"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// arguments returns the arguments of a call as JSON.
func arguments(args map[string]any) string {
	if len(args) == 0 {
		return ""
	}
	encoded, err := json.Marshal(args)
	if err != nil { // no JSON ever was like that: another callback put something in
		return err.Error()
	}
	return string(encoded)
}

// outcome returns a result as it is to be compared with others. What is no object the framework puts into one, under
// "result" or "output", and so do failures that tools report themselves, under "error".
func outcome(result map[string]any) middleware.Result {
	r := canonical.Result{Details: result}
	if len(result) == 1 {
		for key, value := range result {
			switch key {
			case "result", "output":
				r.Details = value
			case "error":
				r.Details, r.IsError = value, true
			}
		}
	}
	if err, ok := r.Details.(error); ok {
		r.Details = err.Error()
	}
	return middleware.Result{Result: r}
}

// exists reports whether there is a tool to be called; in place of one that does not exist the framework has one that
// cannot be run.
func exists(t tool.Tool) bool {
	_, ok := t.(interface {
		Run(agent.Context, any) (map[string]any, error)
	})
	return ok
}

// awaitsApproval reports whether the user is asked if a call may run. If so it is made again.
func awaitsApproval(ctx agent.Context) bool {
	_, asked := ctx.Actions().RequestedToolConfirmations[ctx.FunctionCallID()]
	return asked
}

// endsWork reports whether a call was the end of what an agent had to do. It is no step on its way: however often an agent is
// put to work, and ends in the same words, that is no loop.
func endsWork(t tool.Tool, result map[string]any) bool {
	switch t.Name() {
	case "exit_loop", "set_model_response":
		return true
	case "finish_task":
		_, failed := result["error"]
		return !failed
	}
	return false
}
