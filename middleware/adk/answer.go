package adk

import (
	"errors"
	"maps"
	"strings"

	"github.com/loopguard-go/loopguard/middleware"
)

// NoteKey is where a function response has the warning on a call, beside what the tool returned.
const NoteKey = "loopguard"

// failure is an answer in the shape that the framework gives to the errors of tools.
func failure(text string) map[string]any { return map[string]any{"error": text} }

// noted returns a result with a note. The tool may have kept its map, so that this one is another.
func noted(result map[string]any, note string) map[string]any {
	key := NoteKey
	for _, taken := result[key]; taken; _, taken = result[key] {
		key += "_"
	}
	with := make(map[string]any, len(result)+1)
	maps.Copy(with, result)
	with[key] = strings.TrimSpace(note)
	return with
}

// stopText is what stands in the history of the session for a call that the guard gave an error for. A model reads it at
// the next message of the user, when the run is long over.
func stopText(err error) string {
	said := "[loopguard] The run was stopped and the tool was not run."
	if loop, ok := errors.AsType[*middleware.LoopError](err); ok {
		said += " " + loop.Reason
	}
	return said
}
