package genkit

import (
	"maps"
	"strings"

	"github.com/firebase/genkit/go/ai"

	"github.com/loopguard-go/loopguard/middleware"
)

// outcomeOf returns what a tool said as the guard compares it: all that the model reads of it, and no metadata.
func outcomeOf(r *ai.MultipartToolResponse) middleware.Result {
	var result middleware.Result
	if r == nil {
		return result
	}
	var texts []string
	switch output := r.Output.(type) {
	case nil:
	case string:
		texts = append(texts, output)
	default:
		result.Details = output
	}
	for _, part := range r.Content {
		if part.IsText() && len(part.Metadata) == 0 {
			texts = append(texts, part.Text)
		} else {
			result.Parts = append(result.Parts, part)
		}
	}
	result.Text = strings.Join(texts, "\n")
	return result
}

// The keys of a note beside structured output, and of output that had to make room for one.
const (
	noteKey   = "loopguard"
	outputKey = "output"
)

// withNote returns a response with a note for the model. It is in the output, and no part of the content, which most models
// never see and which genkit drops when an interrupted turn goes on. The response itself stays as it is.
func withNote(r *ai.MultipartToolResponse, note string) *ai.MultipartToolResponse {
	if note == "" {
		return r
	}
	var noted ai.MultipartToolResponse
	if r != nil {
		noted = *r
	}
	paragraph := strings.TrimSpace(note)
	switch output := noted.Output.(type) {
	case nil:
		noted.Output = paragraph
	case string:
		noted.Output = output + note
	case map[string]any:
		if _, taken := output[noteKey]; taken {
			noted.Output = map[string]any{outputKey: output, noteKey: paragraph}
			break
		}
		beside := map[string]any{noteKey: paragraph}
		maps.Copy(beside, output)
		noted.Output = beside
	default:
		noted.Output = map[string]any{outputKey: output, noteKey: paragraph}
	}
	return &noted
}
