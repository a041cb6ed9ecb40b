package anthropic

import (
	"context"
	"iter"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loopguard-go/loopguard/middleware"
)

// ToolRunnerStreaming is [ToolRunner] for messages that are streamed.
type ToolRunnerStreaming struct {
	*sdk.BetaToolRunnerStreaming
	conversation *conversation
}

// NewToolRunnerStreaming takes the place of service.NewToolRunnerStreaming, where service is &client.Beta.Messages.
func NewToolRunnerStreaming(
	guard *middleware.Guard, service *sdk.BetaMessageService, tools []sdk.BetaTool, params sdk.BetaToolRunnerParams,
	options ...option.RequestOption,
) *ToolRunnerStreaming {
	c := &conversation{guard: guard}
	return &ToolRunnerStreaming{c.service(service).NewToolRunnerStreaming(Tools(guard, tools), params, options...), c}
}

// NewThreadToolRunnerStreaming takes the place of thread.NewToolRunnerStreaming.
func NewThreadToolRunnerStreaming(
	guard *middleware.Guard, thread *sdk.BetaMessageThread, tools []sdk.BetaTool, options ...option.RequestOption,
) *ToolRunnerStreaming {
	c := &conversation{guard: guard}
	return &ToolRunnerStreaming{
		thread.NewToolRunnerStreaming(Tools(guard, tools), append(slices.Clip(options), c.option())...), c,
	}
}

// events is a message of the model as it comes in.
type events = iter.Seq2[sdk.BetaRawMessageStreamEventUnion, error]

// NextStreaming runs the tools that the last message asked for, guarded, and iterates over the events of the next message.
func (r *ToolRunnerStreaming) NextStreaming(ctx context.Context) events {
	return func(yield func(sdk.BetaRawMessageStreamEventUnion, error) bool) {
		if err := r.conversation.stopped(); err != nil {
			yield(sdk.BetaRawMessageStreamEventUnion{}, err)
			return
		}
		ctx, leave := r.conversation.enter(ctx)
		failed := false
		defer func() { leave(failed || r.IsCompleted()) }()
		for event, err := range r.watch(ctx, r.BetaToolRunnerStreaming.NextStreaming(ctx)) {
			failed = failed || err != nil
			if !yield(event, err) {
				return
			}
		}
	}
}

// AllStreaming iterates over the messages of the agent, each of which is an iteration over its events. With the iteration the
// run is over, also where the host breaks it off.
func (r *ToolRunnerStreaming) AllStreaming(ctx context.Context) iter.Seq2[events, error] {
	return func(yield func(events, error) bool) {
		if r.conversation.stopped() != nil {
			yield(r.NextStreaming(ctx), nil)
			return
		}
		ctx, leave := r.conversation.enter(ctx)
		defer leave(true)
		for message, err := range r.BetaToolRunnerStreaming.AllStreaming(ctx) {
			if !yield(r.watch(ctx, message), err) || r.conversation.stopped() != nil {
				return
			}
		}
	}
}

// watch returns the events of a message. Before they come the runner runs the calls of the last one.
func (r *ToolRunnerStreaming) watch(ctx context.Context, message events) events {
	return func(yield func(sdk.BetaRawMessageStreamEventUnion, error) bool) {
		r.conversation.meet(ctx, r.LastMessage())
		for event, err := range message {
			if !yield(event, r.conversation.reason(err)) {
				return
			}
		}
	}
}

// IsCompleted reports whether the agent has come to its end, or was stopped.
func (r *ToolRunnerStreaming) IsCompleted() bool {
	return r.conversation.stopped() != nil || r.BetaToolRunnerStreaming.IsCompleted()
}

// Err returns the error with which the last step ended.
func (r *ToolRunnerStreaming) Err() error {
	return r.conversation.reason(r.BetaToolRunnerStreaming.Err())
}

// AddTools gives the agent more tools, guarded.
func (r *ToolRunnerStreaming) AddTools(tools ...sdk.BetaTool) {
	r.BetaToolRunnerStreaming.AddTools(Tools(r.conversation.guard, tools)...)
}
