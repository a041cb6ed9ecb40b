// Package mcp puts a loop guard into servers and clients of the Model Context Protocol that are made with
// github.com/modelcontextprotocol/go-sdk. As that package has the same name, import this one under another, such as guardmcp.
//
// [Middleware] is the whole installation, of a server or of a client:
//
//	loops, err := guardmcp.Middleware(guard)
//	...
//	server.AddReceivingMiddleware(loops) // or client.AddSendingMiddleware(loops)
//
// # What becomes of a verdict
//
// A warning is one more text in the content of a copy of the result; of an error it is a part of the message. A host that
// shows its model only the structured content of results does not show it warnings.
//
// A refusal is a result with IsError, whose text the model reads. The agent goes on.
//
// An abort is an error. At a client, CallTool returns the [*middleware.LoopError]. From a server it goes over the wire as a
// JSON-RPC error with the code [CodeLoop], which tells the model to stop; other middleware of the server finds the
// [*middleware.LoopError] in it. A server cannot end an agent: every later call of the run has the same answer. With
// [middleware.WithBlocksAsErrors] a refusal is such an error, too. What a store said that failed stays with the server.
//
// # Runs
//
// A call belongs to the run that [WithRun] or [WithRunFromMeta] names, else to that of the context, see
// [middleware.WithRun], else to that of the session. The context of a tool's handler names it: an agent in there is a
// sub-agent with [middleware.ChildRun].
//
// A session may last for many questions of a user, and nothing tells where one ends. So its run is over after five minutes
// without calls, and with it a stop, see [WithIdleTime]; the same goes for runs that have a name. It is forgotten when others
// have calls, and 65,536 are known at most. Runs that the context names are left to whoever opened them.
//
//   - A host of agents knows its runs and opens them itself ([middleware.NewRun], and Guard.Forget at the end): several may
//     share a session of its client, and one may use several sessions. Only then can it tell of a compaction, too.
//   - A stateless server over HTTP has a session for each request. So has a server whose GetSessionID returns nothing, and any
//     over HTTP that speaks the protocol of 2026-07-28. By session nothing ever comes together there: name the runs.
//   - A session over HTTP has the context of the request that opened it. What middleware of the web server puts into the
//     contexts of later requests is not seen; their headers and tokens are, by [WithRun].
//   - In one process, the context that is given to Server.Connect is that of all calls of the session, with its run.
//   - A server whose tools call another server hands the run on with the context. Guard one of the two sides, or each call
//     counts twice.
//
// # What is compared
//
// The guard has each result as the JSON that goes over the wire, without metadata, in the Details of a canonical.Result, and
// so has a function of [middleware.WithCanonicalizer]. A client of the SDK rounds the numbers in structured content. Where
// the server repeats that as text, as servers should, the guard reads it there. Typed handlers are given and give rounded
// numbers as well; arguments are taken as the client wrote them.
//
// A result that asks the client for input is no outcome. The call is one with the one that brings the input.
//
// An error, or a result, that says that there is no such tool is known by its words. Nothing tells of it before, so that the
// call is judged again, as one of an unknown tool, when it has come back: metrics count it twice.
//
// # What is not seen
//
//   - The id that a model gave a call is not in the protocol.
//   - A client whose time is over tells a server no more than that it gave the call up, which leaves no outcome. At a client it
//     is a failure like any other. A stateless server is not even told that, unless it is made with
//     PropagateRequestCancellation; nor is a server over HTTP if the client closes the session at once.
//   - A call that only ever asks for input has no outcome at a server. At a client it is a failure.
//   - What the SDK refuses itself, such as a request that cannot be read, never comes to middleware.
//   - Nothing of the SDK recovers a panic of a handler. The guard remembers it, and it goes on.
package mcp
