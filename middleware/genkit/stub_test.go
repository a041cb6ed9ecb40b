package genkit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/firebase/genkit/go/ai"
	framework "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// config acts early: the same call with the same result is warned of at the 4th call, refused from the 6th on, and stops
// the run at the 9th.
func config() policy.Config {
	return policy.Config{
		Enabled:                       new(true),
		WarningThreshold:              3,
		CriticalThreshold:             5,
		UnknownToolThreshold:          3,
		GlobalCircuitBreakerThreshold: 8,
	}
}

func newGuard(t *testing.T, c policy.Config, options ...middleware.Option) *middleware.Guard {
	t.Helper()
	guard, err := middleware.New(c, options...)
	require.NoError(t, err)
	return guard
}

// detections keeps what a guard reports.
type detections struct {
	mu  sync.Mutex
	all []middleware.Detection
}

func (d *detections) option() middleware.Option {
	return middleware.WithOnDetection(func(_ context.Context, found middleware.Detection) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.all = append(d.all, found)
	})
}

// runs returns the runs of what was reported, in the order of the reports.
func (d *detections) runs() (runs []string) {
	for _, found := range d.all {
		runs = append(runs, found.Run)
	}
	return runs
}

// turn is what a model is given: the whole request, and what it reads of its calls so far, in the order in which it made them.
type turn struct {
	ctx     context.Context
	request *ai.ModelRequest
	read    []*ai.ToolResponse
}

// texts returns what the model reads, each result as text or else as JSON.
func (t turn) texts() []string {
	texts := make([]string, len(t.read))
	for i, r := range t.read {
		texts[i] = textOf(r.Output)
	}
	return texts
}

// lastTexts returns what the model reads of the calls of its last turn.
func (t turn) lastTexts() []string {
	made := 0
	for _, m := range t.request.Messages {
		if m.Role == ai.RoleModel {
			made = len(requestsOf(m))
		}
	}
	texts := t.texts()
	return texts[len(texts)-min(made, len(texts)):]
}

func requestsOf(m *ai.Message) (requests []*ai.ToolRequest) {
	for _, part := range m.Content {
		if part.IsToolRequest() {
			requests = append(requests, part.ToolRequest)
		}
	}
	return requests
}

func textOf(output any) string {
	if text, ok := output.(string); ok {
		return text
	}
	text, _ := json.Marshal(output)
	return string(text)
}

// readsRefusal reports whether any of the calls was refused.
func (t turn) readsRefusal() bool {
	return strings.Contains(strings.Join(t.texts(), "\n"), "Call refused")
}

// model is a scripted model. Its answer is a function of what it is given, so that it can serve many runs at a time.
type model struct {
	script func(turn) *ai.Message

	mu   sync.Mutex
	last turn
}

const modelName = "test/scripted"

// define registers a model. Its calls that have no ids get some.
func (m *model) define(g *framework.Genkit) ai.Model {
	options := &ai.ModelOptions{Supports: &ai.ModelSupports{Tools: true, Multiturn: true, SystemRole: true, Media: true}}
	return framework.DefineModel(g, modelName, options,
		func(ctx context.Context, r *ai.ModelRequest, stream ai.ModelStreamCallback) (*ai.ModelResponse, error) {
			given := turn{ctx, r, readBy(r.Messages)}
			said := m.script(given)
			m.mu.Lock()
			m.last = given
			m.mu.Unlock()
			for i, r := range requestsOf(said) {
				if r.Ref == "" {
					r.Ref = fmt.Sprintf("call_%d", len(given.read)+i+1)
				}
			}
			if stream != nil {
				if err := stream(ctx, &ai.ModelResponseChunk{Content: said.Content}); err != nil {
					return nil, err
				}
			}
			return &ai.ModelResponse{Request: r, Message: said, FinishReason: ai.FinishReasonStop}, nil
		})
}

// readBy returns what a model reads of its calls. The responses of a turn come in the order in which the calls ended, and are
// told apart by their ids.
func readBy(messages []*ai.Message) (read []*ai.ToolResponse) {
	byID := map[string]*ai.ToolResponse{}
	for _, m := range messages {
		for _, part := range m.Content {
			if part.IsToolResponse() {
				byID[part.ToolResponse.Ref] = part.ToolResponse
			}
		}
	}
	for _, m := range messages {
		for _, r := range requestsOf(m) {
			if byID[r.Ref] != nil {
				read = append(read, byID[r.Ref])
			}
		}
	}
	return read
}

func call(tool string, input any) *ai.Part {
	return ai.NewToolRequestPart(&ai.ToolRequest{Name: tool, Input: input})
}

func calls(parts ...*ai.Part) *ai.Message { return ai.NewModelMessage(parts...) }

func answer(text string) *ai.Message { return ai.NewModelTextMessage(text) }
