package middleware

import "go.opentelemetry.io/otel/attribute"

// The names on traces. Those that start with gen_ai are from the OpenTelemetry semantic conventions for generative AI, and
// those of errors and exceptions are from the general ones.
const (
	// EventDetection is the event of a detection that was reported: a warning, a block or an abort.
	EventDetection = "loopguard.detection"
	// EventStoreFailure is the event of a store that failed.
	EventStoreFailure = "loopguard.store_failure"

	// AttrDetector is the name of the detector. It is on the event, and on the span for its severest detection.
	AttrDetector = "loopguard.detector"
	// AttrAction is "warn", "block" or "abort". It is on the event, and on the span for its severest detection.
	AttrAction = "loopguard.action"
	// AttrEnforced says whether the action took effect. It is on the event, and in observe mode, where it is false, on the
	// span too.
	AttrEnforced = "loopguard.enforced"
	// AttrCount is what the detector counted, in calls.
	AttrCount = "loopguard.count"
	// AttrThreshold is the count from which the detector acts.
	AttrThreshold = "loopguard.threshold"
	// AttrPairedTool is the name of the tool on the other side of an alternation.
	AttrPairedTool = "loopguard.paired_tool"
	// AttrReason says in a sentence what was found.
	AttrReason = "loopguard.reason"
	// AttrRunID is the id of the run.
	AttrRunID = "loopguard.run.id"
	// AttrCallDigest is the digest of the call, equal for equal calls.
	AttrCallDigest = "loopguard.call.digest"
	// AttrStoreOperation is what the guard wanted of the store: begin, end, cancel, compacted or forget.
	AttrStoreOperation = "loopguard.store.operation"

	// AttrStep is what a duration is about: begin or end.
	AttrStep = "loopguard.step"

	// AttrOperationName is what a span is about: execute_tool or invoke_agent.
	AttrOperationName = "gen_ai.operation.name"
	// AttrAgentName is the name of an agent.
	AttrAgentName = "gen_ai.agent.name"
	// AttrToolName is the name of the tool that was called.
	AttrToolName = "gen_ai.tool.name"
	// AttrToolType is the type of the tool; it is always "function".
	AttrToolType = "gen_ai.tool.type"
	// AttrToolCallID is the id that the model gave the call.
	AttrToolCallID = "gen_ai.tool.call.id"
	// AttrErrorType is the class of a failure.
	AttrErrorType = "error.type"
	// AttrExceptionMessage is what an error says.
	AttrExceptionMessage = "exception.message"
)

// The values of AttrOperationName.
const (
	OperationExecuteTool = "execute_tool"
	OperationInvokeAgent = "invoke_agent"
)

// attributes returns what a trace says of a detection.
func (d Detection) attributes() []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, 11)
	attributes = append(attributes,
		attribute.String(AttrDetector, d.Detector),
		attribute.String(AttrAction, d.Action.String()),
		attribute.Bool(AttrEnforced, d.Enforced),
		attribute.Int(AttrCount, d.Count),
		attribute.Int(AttrThreshold, d.Threshold),
		attribute.String(AttrReason, d.Reason),
		attribute.String(AttrRunID, d.Run),
		attribute.String(AttrCallDigest, d.Call.String()),
		attribute.String(AttrToolName, d.Tool),
	)
	if d.PairedTool != "" {
		attributes = append(attributes, attribute.String(AttrPairedTool, d.PairedTool))
	}
	if d.CallID != "" {
		attributes = append(attributes, attribute.String(AttrToolCallID, d.CallID))
	}
	return attributes
}
