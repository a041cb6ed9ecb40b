package replay

import (
	"encoding/json"
	"io"

	"github.com/loopguard-go/loopguard/policy"
)

// JSONLines writes each judgement as a line of JSON.
type JSONLines struct{ encoder *json.Encoder }

// NewJSONLines makes a writer of JSON lines.
func NewJSONLines(out io.Writer) *JSONLines {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &JSONLines{encoder}
}

// jsonLine is one line. Where the call is allowed there is nothing to say but that.
type jsonLine struct {
	Line   int           `json:"line"`
	Run    string        `json:"run"`
	Tool   string        `json:"tool"`
	Action policy.Action `json:"action"`
	*jsonFinding
}

type jsonFinding struct {
	Detector   string  `json:"detector"`
	Count      int     `json:"count"`
	Threshold  int     `json:"threshold"`
	Enforced   bool    `json:"enforced"`
	Reason     string  `json:"reason"`
	PairedTool *string `json:"pairedTool,omitempty"`
}

// Write writes a line.
func (w *JSONLines) Write(j Judgement) error {
	line := jsonLine{Line: j.Line, Run: j.Run, Tool: j.Tool, Action: j.Action}
	if j.Action != policy.Allow {
		line.jsonFinding = &jsonFinding{
			Detector: j.Detector, Count: j.Count, Threshold: j.Threshold, Enforced: j.Enforced, Reason: j.Reason,
		}
		if j.Detector == policy.PingPong {
			line.PairedTool = &j.PairedTool
		}
	}
	return w.encoder.Encode(line)
}

// End does nothing: every line is whole by itself.
func (w *JSONLines) End(bool) error { return nil }
