package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// report tells on the terminal what happens.
type report struct {
	out       io.Writer
	scenarios int

	// The call under way.
	calls   int
	tool    string
	verdict policy.Action

	told policy.Action // what the model was told last, so that it need not be printed in full again
}

const (
	mark   = "[loopguard]" // before all words of the guard
	margin = "                          "
	width  = 95 // of what is beside the margin
)

func (r *report) printf(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format, args...) }

func (r *report) start(name, task string) {
	r.scenarios++
	r.calls, r.told = 0, policy.Allow
	r.printf("%d. %s\n   The task: %s\n\n", r.scenarios, strings.ToUpper(name[:1])+name[1:], task)
	r.printf("call  guard  tool         what the model reads\n")
}

// called says that the model asked for a call.
func (r *report) called(tool string) {
	r.calls++
	r.tool, r.verdict = tool, policy.Allow
}

// detected is what the guard says of the call, if it says anything.
func (r *report) detected(_ context.Context, d middleware.Detection) { r.verdict = d.Action }

// read is what the model reads of the call: the result, and the words of the guard. Here both are abridged, but for what
// the guard says the first time.
func (r *report) read(observation string) {
	result, words, _ := strings.Cut(observation, mark)
	lines := []string{}
	if result != "" {
		lines = append(lines, abridge(result))
	}
	switch {
	case words == "":
	case r.verdict == r.told:
		lines = append(lines, abridge(mark+words))
	default:
		lines = append(lines, wrap(strings.Fields(mark+words), width)...)
		r.told = r.verdict
	}
	r.row(lines...)
}

func (r *report) row(lines ...string) {
	r.printf("%4d  %-5s  %-11s  %s\n", r.calls, r.verdict, r.tool, strings.Join(lines, "\n"+margin))
}

func (r *report) finished(answer string) { r.printf("\n   The run finished: %s\n\n\n", answer) }

func (r *report) stopped(loop *middleware.LoopError) {
	r.row("nothing: the run is over")
	r.printf("\n   The run was stopped. errors.As gives a *middleware.LoopError:\n")
	r.printf("   detector %s, count %d, threshold %d, tool %s\n", loop.Detector, loop.Count, loop.Threshold, loop.Tool)
	r.printf("   %s\n   The last calls:\n", loop.Reason)
	for _, c := range loop.Calls {
		r.printf("     %s\n", c)
	}
	r.printf("\n\n")
}

// traces shows what was recorded: a tree of spans for each scenario, with the events under their span.
func (r *report) traces(spans tracetest.SpanStubs) {
	r.printf("What the traces hold: a span for each tool call, and on it an event if the guard spoke.\n")
	children := map[trace.SpanID][]tracetest.SpanStub{} // in their order: here, one ends before the next starts
	for _, span := range spans {
		children[span.Parent.SpanID()] = append(children[span.Parent.SpanID()], span)
	}
	for _, root := range children[trace.SpanID{}] {
		r.printf("\n")
		r.span("   ", root, children)
	}
}

// span shows a span and those under it. Tool calls that the guard had nothing to say about are counted.
func (r *report) span(indent string, span tracetest.SpanStub, children map[trace.SpanID][]tracetest.SpanStub) {
	r.printf("%sspan %q\n", indent, span.Name)
	indent += "  "
	if span.Status.Code == codes.Error {
		r.printf("%sstatus: Error, %s\n", indent, span.Status.Description)
	}
	r.attributes(indent, span.Attributes)
	for _, event := range span.Events {
		r.printf("%sevent %s\n", indent, event.Name)
		r.attributes(indent+"  ", event.Attributes)
	}
	quiet := 0
	fold := func() {
		if quiet > 0 {
			r.printf("%s(%d × execute_tool without events)\n", indent, quiet)
		}
		quiet = 0
	}
	for _, child := range children[span.SpanContext.SpanID()] {
		if strings.HasPrefix(child.Name, middleware.OperationExecuteTool) && len(child.Events) == 0 {
			quiet++
			continue
		}
		fold()
		r.span(indent, child, children)
	}
	fold()
}

func (r *report) attributes(indent string, attributes []attribute.KeyValue) {
	pairs := make([]string, len(attributes))
	for i, a := range attributes {
		pairs[i] = fmt.Sprintf("%s=%s", a.Key, a.Value.String())
	}
	for _, line := range wrap(pairs, len(margin)+width-len(indent)) {
		r.printf("%s%s\n", indent, line)
	}
}

func (r *report) sent(endpoint string) {
	r.printf("The traces were sent to %s: one for each run, of the service %s.\n", endpoint, serviceName)
	r.printf("Search there for the tag loopguard.action=block.\n")
}

// abridge makes one line of a text that is not too long.
func abridge(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// wrap lays words out in lines.
func wrap(words []string, width int) []string {
	var lines []string
	for _, word := range words {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= width {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
