package guardtest

import (
	"context"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
)

// Framework is a framework with the adapter under test.
type Framework struct {
	// New makes an agent. It is called once for each check.
	New func(Setup) (Agent, error)

	// Limits are what the framework does not allow. They are checked as well: a limit that does not exist is a fault.
	Limits
}

// Setup is what an agent is made of.
type Setup struct {
	// Guard is the guard to install.
	Guard *middleware.Guard
	// Tools are the tools of the agent.
	Tools []Tool
	// Tracing is where spans of tool calls go, if it is the adapter that opens them.
	Tracing trace.TracerProvider
	// Spans is what is to see the spans of tool calls, if it is the framework that opens them, with a provider of its own.
	Spans sdktrace.SpanProcessor
}

// Tool is a tool of the agent. It takes any JSON object.
type Tool struct {
	Name, Description string
	// Run runs the tool. The context is the one that the framework gives to its tools, the arguments are JSON as the model
	// wrote it. It may be called by several goroutines at once.
	Run func(ctx context.Context, args string) (string, error)
}

// Agent runs the agent once, with a model that does what the script says, and returns the error with which the run ended. It
// may be called several times, also by several goroutines at once. It opens a run of the guard, or has the adapter do that,
// and returns when the run is over, whatever the end is. It need not recover panics.
type Agent func(ctx context.Context, script *Script) error

// Limits are what a framework does not allow. The zero value is a framework that allows everything.
type Limits struct {
	// Sequential: the calls of one turn run one after the other.
	Sequential bool
	// ToolErrorsEndRuns: an error of a tool is no answer that the model reads. It ends the run.
	ToolErrorsEndRuns bool
	// PanicsKill: the framework runs tools in goroutines of its own and recovers no panics there, so that one ends the
	// process. It is not tried.
	PanicsKill bool
	// RoundedNumbers: the framework reads the numbers of arguments as floating point, before any adapter has them.
	RoundedNumbers bool
	// UnseenUnknownTools: no adapter sees a call of a tool that does not exist.
	UnseenUnknownTools bool
	// UnseenCallIDs: the adapter does not learn the id that the model gave a call.
	UnseenCallIDs bool
	// OpaqueAborts: the error of a run that was stopped is none in which errors.As finds the *LoopError, such as one that
	// came over a wire.
	OpaqueAborts bool
	// KeptRuns: the framework does not tell when a run is over, so that the store has to forget it by its age.
	KeptRuns bool
}
