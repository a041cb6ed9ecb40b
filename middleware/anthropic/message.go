package anthropic

import sdk "github.com/anthropics/anthropic-sdk-go/v2"

// toolUses returns the calls that a message asks for. There are some only if it stopped for them: one that was cut off or
// refused may hold calls that must not be run.
func toolUses(message *sdk.Message) (uses []sdk.ContentBlockUnion) {
	if message == nil || message.StopReason != sdk.StopReasonToolUse {
		return nil
	}
	for _, block := range message.Content {
		if block.Type == "tool_use" {
			uses = append(uses, block)
		}
	}
	return uses
}

// betaToolUses is toolUses for a message of the beta. What stands before a fallback block is of a model that refused.
func betaToolUses(message *sdk.BetaMessage) (uses []sdk.BetaContentBlockUnion) {
	if message == nil || message.StopReason != sdk.BetaStopReasonToolUse {
		return nil
	}
	for _, block := range message.Content {
		switch block.Type {
		case "tool_use":
			uses = append(uses, block)
		case "fallback":
			uses = nil
		}
	}
	return uses
}

// compacted reports whether the context of the model was compacted before it went on, or in this message. A compaction
// that failed has no content.
func compacted(message *sdk.BetaMessage) bool {
	for _, block := range message.Content {
		if block.Type == "compaction" && block.Content.OfString != "" {
			return true
		}
	}
	return false
}
