package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// answer is what comes of a request. It is never changed: a handler may return one result many times.
type answer struct {
	result sdk.Result
	err    error
}

// toolResult returns the result of a tool call, or nil if there is none.
func (a answer) toolResult() *sdk.CallToolResult {
	result, _ := a.result.(*sdk.CallToolResult)
	return result
}

// asksForInput reports whether the call has not come to its end, but asks the client for something.
func (a answer) asksForInput() bool {
	result := a.toolResult()
	return a.err == nil && result != nil && (result.InputRequests != nil || result.NeedsInput())
}

// outcome returns what the guard is to remember. A result is given to it as the peer would read it, in the JSON that the
// guard knows, without the metadata.
func (a answer) outcome(tool string) (middleware.Result, error) {
	if a.err != nil {
		return middleware.Result{}, markUnknown(tool, a.err)
	}
	result := a.toolResult()
	if result == nil {
		return middleware.Result{}, nil
	}
	// The SDK makes the error of a handler a result, but keeps it on the server's side.
	if err := result.GetError(); hasMeaning(err) {
		return middleware.Result{}, err
	}
	wire := struct {
		Content    []sdk.Content `json:"content"`
		Structured any           `json:"structuredContent,omitempty"`
		IsError    bool          `json:"isError,omitempty"`
	}{result.Content, exact(result), result.IsError}
	if wire.Content == nil {
		wire.Content = []sdk.Content{} // a list, as on the wire
	}
	details, err := json.Marshal(wire)
	if err != nil {
		return middleware.Result{}, err // and the peer gets an error as well
	}
	return middleware.Result{Result: canonical.Result{Details: json.RawMessage(details), IsError: result.IsError}}, nil
}

// noted returns the answer with a note for the model.
func (a answer) noted(note string) answer {
	switch result := a.toolResult(); {
	case note == "":
	case a.err != nil:
		a.err = noteError(a.err, note)
	case result != nil:
		noted := *result
		noted.Content = slices.Concat(result.Content, []sdk.Content{text(note)})
		a.result = &noted
	}
	return a
}

// hasMeaning reports whether an error says more to the guard than its words do.
func hasMeaning(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, middleware.ErrLoop) || errors.Is(err, middleware.ErrUnknownTool)
}

// markUnknown marks the error of a server of this SDK that has no such tool, whatever the name is: a quoted name may not
// look like itself.
func markUnknown(tool string, err error) error {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if ok && wire.Code == jsonrpc.CodeInvalidParams && wire.Message == fmt.Sprintf("unknown tool %q", tool) {
		return fmt.Errorf("%w: %w", middleware.ErrUnknownTool, err)
	}
	return err
}

// exact returns the structured content of a result. A client of this SDK has rounded its numbers, but servers repeat it as
// text, with the numbers that they sent.
func exact(result *sdk.CallToolResult) any {
	switch result.StructuredContent.(type) {
	case map[string]any, []any:
	default:
		return result.StructuredContent
	}
	said := textOf(result)
	var rounded any
	if json.Unmarshal([]byte(said), &rounded) == nil && reflect.DeepEqual(rounded, result.StructuredContent) {
		return json.RawMessage(said)
	}
	return result.StructuredContent
}

// textOf returns the text of a result.
func textOf(result *sdk.CallToolResult) string {
	var texts []string
	for _, part := range result.Content {
		if t, ok := part.(*sdk.TextContent); ok && t != nil {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func text(s string) sdk.Content { return &sdk.TextContent{Text: s} }
