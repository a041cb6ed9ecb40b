package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

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

// trace shows what was recorded of the spans.
func (r *report) trace(spans tracetest.SpanStubs) {
	r.printf("What the trace holds: a span for each run, and on it an event for each time that the guard spoke.\n")
	for _, span := range spans {
		r.printf("\n   span %q\n", span.Name)
		r.attributes("   ", span.Attributes)
		for _, event := range span.Events {
			r.printf("     %s\n", event.Name)
			r.attributes("       ", event.Attributes)
		}
	}
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
	r.printf("The trace was sent to %s: a span for each run of the service %s.\n", endpoint, serviceName)
	r.printf("Search there for spans with loopguard.action=block.\n")
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
