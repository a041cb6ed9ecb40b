package guardtest

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// checkSpans: a detection is on the span of the tool call that it is about. That is the span in the context of the tool, or
// one above it that no other call has a part in.
func checkSpans(f Framework, found *findings) error {
	exec, s, _, err := loop(f)
	if err != nil {
		return err
	}
	parents := map[trace.SpanID]trace.SpanID{}
	events := map[trace.SpanID]string{} // the actions of the detections on each span
	for _, span := range s.spans.Ended() {
		id := span.SpanContext().SpanID()
		parents[id] = span.Parent().SpanID()
		for _, event := range span.Events() {
			for _, a := range event.Attributes {
				if event.Name == middleware.EventDetection && a.Key == middleware.AttrAction {
					events[id] += a.Value.AsString()
				}
			}
		}
	}
	callsOn := map[trace.SpanID][]int{} // the calls that were run, by the spans above them
	for i, run := range exec.executions() {
		for id := run.span.SpanID(); id.IsValid(); id = parents[id] {
			callsOn[id] = append(callsOn[id], i+1)
		}
	}
	warnings, refusals := 0, 0
	for id, actions := range events {
		calls := callsOn[id]
		switch {
		case actions == policy.Warn.String() && len(calls) == 1 && calls[0] == warned:
			warnings++
		case actions == policy.Block.String() && len(calls) == 0:
			refusals++
		}
	}
	found.expect(warnings == 1, "the warning of call %d is not on a span of its own: detections are on the spans %v", warned, events)
	found.expect(refusals == stopped-refused, "%d spans have a refusal and nothing else, want one for each of %d calls", refusals, stopped-refused)
	return nil
}

// checkCallIDs: a detection names the call by the id that the model gave it.
func checkCallIDs(f Framework, found *findings) error {
	_, s, _, err := loop(f)
	if err != nil {
		return err
	}
	turns := repeated(stopped, "exec", "")
	ids := map[string]bool{}
	for _, d := range s.detections() {
		ids[d.CallID] = true
	}
	for _, turn := range []int{warned, refused, stopped} {
		id := turns[turn-1][0].ID
		found.expect(ids[id] != f.UnseenCallIDs, "there is a detection with the id of call %d: %t; Limits.UnseenCallIDs: %t", turn, ids[id], f.UnseenCallIDs)
	}
	return nil
}
