package anthropic

import (
	"context"
	"iter"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"github.com/loopguard-go/loopguard/middleware"
)

// ToolRunner is a tool runner of the SDK with a guard around its tools. It is used like that one, by one goroutine, and each
// is one run: its first step opens it, as a child if the context names a run already, and its end, an error or the end of an
// iteration closes it. A host that steps with NextMessage and gives up in between leaves it to the store to forget the run.
//
// If the guard ends the run, the error is a [*middleware.LoopError], no further request is made, and all further steps
// return the error again.
type ToolRunner struct {
	*sdk.BetaToolRunner
	conversation *conversation
}

// NewToolRunner takes the place of service.NewToolRunner, where service is &client.Beta.Messages.
func NewToolRunner(
	guard *middleware.Guard, service *sdk.BetaMessageService, tools []sdk.BetaTool, params sdk.BetaToolRunnerParams,
	options ...option.RequestOption,
) *ToolRunner {
	c := &conversation{guard: guard}
	return &ToolRunner{c.service(service).NewToolRunner(Tools(guard, tools), params, options...), c}
}

// NewThreadToolRunner takes the place of thread.NewToolRunner.
func NewThreadToolRunner(
	guard *middleware.Guard, thread *sdk.BetaMessageThread, tools []sdk.BetaTool, options ...option.RequestOption,
) *ToolRunner {
	c := &conversation{guard: guard}
	return &ToolRunner{thread.NewToolRunner(Tools(guard, tools), append(slices.Clip(options), c.option())...), c}
}

// service returns a copy of a service whose requests pass the conversation first: a client may have middleware that signs
// what it is given.
func (c *conversation) service(service *sdk.BetaMessageService) *sdk.BetaMessageService {
	watched := *service
	watched.Options = append([]option.RequestOption{c.option()}, service.Options...)
	return &watched
}

func (c *conversation) option() option.RequestOption { return option.WithMiddleware(c.send) }

// NextMessage runs the tools that the last message asked for, guarded, and returns the next message of the model.
func (r *ToolRunner) NextMessage(ctx context.Context) (message *sdk.BetaMessage, err error) {
	if err := r.conversation.stopped(); err != nil {
		return nil, err
	}
	ctx, leave := r.conversation.enter(ctx)
	defer func() { leave(message == nil) }()
	r.conversation.meet(ctx, r.LastMessage())
	message, err = r.BetaToolRunner.NextMessage(ctx)
	return message, r.conversation.reason(err)
}

// RunToCompletion runs the agent to its end and returns the last message.
func (r *ToolRunner) RunToCompletion(ctx context.Context) (*sdk.BetaMessage, error) {
	for {
		switch message, err := r.NextMessage(ctx); {
		case err != nil:
			return nil, err
		case message == nil:
			return r.LastMessage(), nil
		}
	}
}

// All iterates over the messages of the agent, to its end. With the iteration the run is over, also where the host breaks it
// off.
func (r *ToolRunner) All(ctx context.Context) iter.Seq2[*sdk.BetaMessage, error] {
	return func(yield func(*sdk.BetaMessage, error) bool) {
		if err := r.conversation.stopped(); err != nil {
			yield(nil, err)
			return
		}
		ctx, leave := r.conversation.enter(ctx)
		defer leave(true)
		for message, err := range r.BetaToolRunner.All(ctx) {
			r.conversation.meet(ctx, message)
			if !yield(message, r.conversation.reason(err)) {
				return
			}
		}
	}
}

// IsCompleted reports whether the agent has come to its end, or was stopped.
func (r *ToolRunner) IsCompleted() bool {
	return r.conversation.stopped() != nil || r.BetaToolRunner.IsCompleted()
}

// Err returns the error with which the last step ended.
func (r *ToolRunner) Err() error { return r.conversation.reason(r.BetaToolRunner.Err()) }

// AddTools gives the agent more tools, guarded.
func (r *ToolRunner) AddTools(tools ...sdk.BetaTool) {
	r.BetaToolRunner.AddTools(Tools(r.conversation.guard, tools)...)
}
