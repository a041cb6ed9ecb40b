package anthropic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// blocks is how to deal with the content blocks of a tool result. The SDK has two types of them, which are alike.
type blocks[B any] struct {
	text   func(string) B
	textOf func(B) (said string, ok bool)
}

var (
	stableBlocks = blocks[sdk.ToolResultBlockParamContentUnion]{
		text: func(said string) sdk.ToolResultBlockParamContentUnion {
			return sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: said}}
		},
		textOf: func(b sdk.ToolResultBlockParamContentUnion) (string, bool) {
			if b.OfText == nil {
				return "", false
			}
			return b.OfText.Text, true
		},
	}
	betaBlocks = blocks[sdk.BetaToolResultBlockParamContentUnion]{
		text: func(said string) sdk.BetaToolResultBlockParamContentUnion {
			return sdk.BetaToolResultBlockParamContentUnion{OfText: &sdk.BetaTextBlockParam{Text: said}}
		},
		textOf: func(b sdk.BetaToolResultBlockParamContentUnion) (string, bool) {
			if b.OfText == nil {
				return "", false
			}
			return b.OfText.Text, true
		},
	}
)

// perform runs a call that may run and tells the guard what came of it. It returns what the model is to read, which is the
// error if it is not nil, and apart from that the error that stops the run.
func (k blocks[B]) perform(
	ctx context.Context, ticket *middleware.Ticket, run func() ([]B, error),
) (content []B, err, stop error) {
	// If the tool panics or ends the goroutine; else the ticket is ended by then. Without recover the trace stays whole.
	defer func() { _ = ticket.End(ctx, middleware.Result{}, middleware.ErrPanic) }()

	content, err = run()
	outcome := err
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		outcome = ctx.Err() // whatever the tool calls it
	}
	if stop := ticket.End(ctx, k.result(content), outcome); stop != nil {
		return nil, nil, stop
	}
	switch note := ticket.Note(); {
	case note == "":
	case err != nil:
		err = fmt.Errorf("%w%s", err, note)
	default: // in a block of its own, as tools may return the same blocks again
		content = append(slices.Clip(content), k.text(strings.TrimLeft(note, "\n")))
	}
	return content, err, nil
}

// result is what the guard is told of a content.
func (k blocks[B]) result(content []B) middleware.Result {
	var texts []string
	var parts []any
	for _, b := range content {
		if said, ok := k.textOf(b); ok {
			texts = append(texts, said)
		} else {
			parts = append(parts, b)
		}
	}
	return middleware.Result{Result: canonical.Result{Text: strings.Join(texts, "\n"), Parts: parts}}
}
