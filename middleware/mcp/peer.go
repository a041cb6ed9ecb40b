package mcp

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// CodeLoop is the code of the JSON-RPC error that a server answers with if the run was stopped. It is none of those that
// JSON-RPC reserves; HTTP has the same for a loop.
const CodeLoop = 508

// peer is who gets the answer.
type peer struct {
	remote   bool // it is at the other end of the wire
	complete bool // it speaks a version of the protocol in which a result says whether it is complete
}

// peerOf returns who gets the answer to a request: the client of a server, or the host of a client.
func peerOf(req sdk.Request) peer {
	r, ok := req.(*sdk.CallToolRequest)
	return peer{remote: ok, complete: ok && r.ProtocolVersion() >= "2026-07-28"}
}

// refusal returns what the model reads in place of the result of a tool.
func (p peer) refusal(said string) sdk.Result {
	var result sdk.CallToolResult
	if p.complete {
		// The SDK says it of the results of tools only, and lets nobody else say it but in this way.
		_ = json.Unmarshal([]byte(`{"resultType":"complete"}`), &result)
	}
	result.Content, result.IsError = []sdk.Content{text(said)}, true
	return &result
}

// failure returns the error of a guard as the peer is to have it.
func (p peer) failure(err error) error {
	if !p.remote {
		return err
	}
	loop, isLoop := errors.AsType[*middleware.LoopError](err)
	switch {
	case isLoop && loop.Action == policy.Abort:
		return &wireError{CodeLoop, fmt.Sprintf("loopguard: run stopped by %s at %d (threshold %d), tool %q: %s All further tool "+
			"calls of this run are refused. Stop calling tools, and say what is in the way.",
			loop.Detector, loop.Count, loop.Threshold, loop.Tool, loop.Reason), err}
	case isLoop:
		return &wireError{CodeLoop, fmt.Sprintf("loopguard: call refused by %s at %d (threshold %d), tool %q: %s %s",
			loop.Detector, loop.Count, loop.Threshold, loop.Tool, loop.Reason, loop.Advice()), err}
	case errors.Is(err, middleware.ErrStore):
		// What the store said is not for everybody.
		return &wireError{jsonrpc.CodeInternalError, "loopguard: the store failed, and the call was not run", err}
	}
	return err
}

// wireError is an error that other middleware of a server sees as what it is, and its client as a JSON-RPC error.
type wireError struct {
	code    int64
	message string
	cause   error
}

func (e *wireError) Error() string { return e.message }

// Unwrap returns the cause, and what the SDK takes the code from.
func (e *wireError) Unwrap() []error {
	return []error{e.cause, &jsonrpc.Error{Code: e.code, Message: e.message}}
}

// noteError returns an error that also has a note for the model. On the wire a JSON-RPC error keeps its code and its data.
func noteError(err error, note string) error {
	if wire, ok := err.(*jsonrpc.Error); ok {
		noted := *wire
		noted.Message += note
		return &noted
	}
	return &notedError{err, note}
}

// notedError is an error with a note for the model.
type notedError struct {
	error
	note string
}

func (e *notedError) Error() string { return e.error.Error() + e.note }
func (e *notedError) Unwrap() error { return e.error }
