package eino_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
)

// results are calls of an enhanced tool, as a whole or streamed, without a graph around it.
func results(t *testing.T, streaming bool, answer func(n int) *schema.ToolResult) func() *schema.ToolResult {
	t.Helper()
	m := eino.Middleware(newGuard(t, config()))
	ctx := middleware.NewRun(t.Context())
	in := &compose.ToolInput{Name: "draw", CallID: "1"}
	n := 0
	return func() *schema.ToolResult {
		if !streaming {
			out, err := m.EnhancedInvokable(func(context.Context, *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
				n++
				return &compose.EnhancedInvokableToolOutput{Result: answer(n)}, nil
			})(ctx, in)
			require.NoError(t, err)
			return out.Result
		}
		out, err := m.EnhancedStreamable(func(context.Context, *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
			n++
			var pieces []*schema.ToolResult
			for _, p := range answer(n).Parts {
				pieces = append(pieces, &schema.ToolResult{Parts: []schema.ToolOutputPart{p}})
			}
			return &compose.EnhancedStreamableToolOutput{Result: stream(pieces, nil)}, nil
		})(ctx, in)
		require.NoError(t, err)
		whole, err := schema.ConcatToolResults(readResults(t, out.Result))
		require.NoError(t, err)
		return whole
	}
}

func image(url, data string, extra map[string]any) schema.ToolOutputPart {
	common := schema.MessagePartCommon{URL: &url, Base64Data: &data, MIMEType: "image/png"}
	//lint:ignore SA1019 tools may still set it
	common.Extra = extra
	return schema.ToolOutputPart{Type: schema.ToolPartTypeImage, Image: &schema.ToolOutputImage{MessagePartCommon: common}, Extra: extra}
}

func textPart(said string) schema.ToolOutputPart {
	return schema.ToolOutputPart{Type: schema.ToolPartTypeText, Text: said}
}

func TestPartsAreCompared(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, test := range map[string]struct {
		parts func(n int) []schema.ToolOutputPart
		same  bool
	}{
		"the same image": {func(int) []schema.ToolOutputPart {
			return []schema.ToolOutputPart{textPart("here"), image("u", "d", nil)}
		}, true},
		"another text": {func(n int) []schema.ToolOutputPart {
			return []schema.ToolOutputPart{textPart(fmt.Sprint("here ", n)), image("u", "d", nil)}
		}, false},
		"another url": {func(n int) []schema.ToolOutputPart { return []schema.ToolOutputPart{image(fmt.Sprint(n), "d", nil)} }, false},
		"other data":  {func(n int) []schema.ToolOutputPart { return []schema.ToolOutputPart{image("u", fmt.Sprint(n), nil)} }, false},
		"long data":   {func(int) []schema.ToolOutputPart { return []schema.ToolOutputPart{image("u", long, nil)} }, true},
		"other, long": {func(n int) []schema.ToolOutputPart {
			return []schema.ToolOutputPart{image("u", fmt.Sprint(long, n), nil)}
		}, false},
		"what is extra": {func(n int) []schema.ToolOutputPart {
			return []schema.ToolOutputPart{image("u", "d", map[string]any{"id": n})}
		}, true},
		"another kind": {func(n int) []schema.ToolOutputPart {
			url := "u"
			common := schema.MessagePartCommon{URL: &url}
			return []schema.ToolOutputPart{[]schema.ToolOutputPart{
				{Type: schema.ToolPartTypeAudio, Audio: &schema.ToolOutputAudio{MessagePartCommon: common}},
				{Type: schema.ToolPartTypeVideo, Video: &schema.ToolOutputVideo{MessagePartCommon: common}},
				{Type: schema.ToolPartTypeFile, File: &schema.ToolOutputFile{MessagePartCommon: common}},
				{Type: schema.ToolPartTypeImage},
			}[n%4]}
		}, false},
	} {
		for _, streaming := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", streaming ", streaming), func(t *testing.T) {
				draw := results(t, streaming, func(n int) *schema.ToolResult { return &schema.ToolResult{Parts: test.parts(n)} })
				var last *schema.ToolResult
				for range 6 {
					last = draw()
				}
				assert.Equal(t, test.same, strings.Contains(last.Parts[0].Text, "Call refused"), "%+v", last.Parts[0].Text)
			})
		}
	}
}

func TestANoteIsAPartOfItsOwn(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		kept := &schema.ToolResult{Parts: append(make([]schema.ToolOutputPart, 0, 5), textPart("here"), image("u", "d", nil))}
		draw := results(t, streaming, func(int) *schema.ToolResult { return kept })
		for call := 1; call <= 5; call++ {
			said := draw()
			require.Equal(t, kept.Parts, said.Parts[:2])
			if call != 4 {
				require.Len(t, said.Parts, 2)
				continue
			}
			require.Len(t, said.Parts, 3)
			assert.Equal(t, schema.ToolPartTypeText, said.Parts[2].Type)
			assert.Regexp(t, `^\n\n\[loopguard\] Warning`, said.Parts[2].Text)
		}
		assert.Len(t, kept.Parts, 2, "what the tool keeps is not changed")
		assert.Empty(t, kept.Parts[:3][2], "nor is anything written behind it")
	}
}

// eino takes the result of a tool search for one only if it stands alone.
func TestASearchForToolsStandsAlone(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		search := results(t, streaming, func(int) *schema.ToolResult {
			return &schema.ToolResult{Parts: []schema.ToolOutputPart{{
				Type:             schema.ToolPartTypeToolSearchResult,
				ToolSearchResult: &schema.ToolSearchResult{Tools: []*schema.ToolInfo{{Name: "build"}, nil}},
			}}}
		})
		for range 5 {
			require.Len(t, search().Parts, 1)
		}
		assert.Contains(t, search().Parts[0].Text, "Call refused")
	}
	search := results(t, false, func(n int) *schema.ToolResult {
		return &schema.ToolResult{Parts: []schema.ToolOutputPart{{
			Type:             schema.ToolPartTypeToolSearchResult,
			ToolSearchResult: &schema.ToolSearchResult{Tools: []*schema.ToolInfo{{Name: fmt.Sprint("build", n)}}},
		}}}
	})
	for range 8 {
		assert.Empty(t, search().Parts[0].Text, "other tools are found")
	}
}
