package eino

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cloudwego/eino/schema"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// textForm is the result of most tools.
var textForm = form[string]{
	say: func(text string) string { return text },
	finish: func(said string, l listener) (string, error) {
		note, stop := l.done(middleware.Text(said), nil)
		return said + note, stop
	},
}

// unknownForm is what is said of a tool that does not exist.
var unknownForm = form[string]{
	unknown: true,
	say:     textForm.say,
	finish: func(said string, l listener) (string, error) {
		note, stop := l.done(middleware.Result{}, fmt.Errorf("%w: %s", middleware.ErrUnknownTool, said))
		return said + note, stop
	},
}

// partsForm is the result of an enhanced tool.
var partsForm = form[*schema.ToolResult]{
	say: textResult,
	finish: func(said *schema.ToolResult, l listener) (*schema.ToolResult, error) {
		note, stop := l.done(resultOf(said), nil)
		return withNote(said, note), stop
	},
}

func textResult(text string) *schema.ToolResult {
	return &schema.ToolResult{Parts: []schema.ToolOutputPart{{Type: schema.ToolPartTypeText, Text: text}}}
}

// withNote returns a result with a note, in a copy: a tool may keep what it returns. The result of a tool search has to
// stand alone.
func withNote(said *schema.ToolResult, note string) *schema.ToolResult {
	if note == "" || said != nil && slices.ContainsFunc(said.Parts, isSearch) {
		return said
	}
	noted := textResult(note)
	if said != nil {
		noted.Parts = slices.Concat(said.Parts, noted.Parts)
	}
	return noted
}

// resultOf is a result as it is compared. What is extra is for the host and its model provider, and left out.
func resultOf(said *schema.ToolResult) middleware.Result {
	var texts []string
	var others []any
	if said != nil {
		for _, p := range said.Parts {
			if p.Type == schema.ToolPartTypeText {
				texts = append(texts, p.Text)
			} else {
				others = append(others, partOf(p))
			}
		}
	}
	return middleware.Result{Result: canonical.Result{Text: strings.Join(texts, "\n"), Parts: others}}
}

// partOf is a part that is no text.
func partOf(p schema.ToolOutputPart) any {
	var common schema.MessagePartCommon
	switch {
	case p.Image != nil:
		common = p.Image.MessagePartCommon
	case p.Audio != nil:
		common = p.Audio.MessagePartCommon
	case p.Video != nil:
		common = p.Video.MessagePartCommon
	case p.File != nil:
		common = p.File.MessagePartCommon
	}
	part := map[string]any{"type": string(p.Type)}
	if common.URL != nil {
		part["url"] = *common.URL
	}
	if common.Base64Data != nil {
		part["data"] = *common.Base64Data
	}
	if common.MIMEType != "" {
		part["mimeType"] = common.MIMEType
	}
	if p.ToolSearchResult != nil {
		part["tools"] = toolNames(p.ToolSearchResult)
	}
	return part
}

func isSearch(p schema.ToolOutputPart) bool { return p.Type == schema.ToolPartTypeToolSearchResult }

// toolNames are the names of the tools that a search found.
func toolNames(found *schema.ToolSearchResult) []any {
	var names []any
	for _, t := range found.Tools {
		if t != nil {
			names = append(names, t.Name)
		}
	}
	return names
}
