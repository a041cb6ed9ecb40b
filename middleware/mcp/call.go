package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/middleware"
)

// callOf returns the tool call that a request asks for, if it asks for one. The protocol carries no id that a model gave it.
func callOf(method string, req sdk.Request) (call middleware.Call, ok bool) {
	if method != "tools/call" {
		return call, false
	}
	switch p := req.GetParams().(type) {
	case *sdk.CallToolParamsRaw: // as a server receives them, and as the client wrote them
		if p == nil {
			return call, false
		}
		return middleware.Call{Tool: p.Name, Args: string(p.Arguments), ArgsJSON: true}, true
	case *sdk.CallToolParams: // as a client sends them
		if p == nil {
			return call, false
		}
		args, _ := json.Marshal(p.Arguments) // what cannot be JSON cannot be sent either, and is an error then
		return middleware.Call{Tool: p.Name, Args: string(args), ArgsJSON: true}, true
	}
	return call, false
}
