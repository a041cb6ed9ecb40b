package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// verdict is what was said of a line of a transcript, in the words of "loopguard replay --json".
type verdict struct {
	Line       int    `json:"line"`
	Run        string `json:"run"`
	Tool       string `json:"tool"`
	Action     string `json:"action"`
	Detector   string `json:"detector,omitempty"`
	Count      int    `json:"count,omitempty"`
	Threshold  int    `json:"threshold,omitempty"`
	Enforced   *bool  `json:"enforced,omitempty"`
	Reason     string `json:"reason,omitempty"`
	PairedTool string `json:"pairedTool,omitempty"`
}

// refuses reports whether the verdict is that the call does not run. (The only other stop is that of the guard after
// compaction, which comes with the outcome of a call that ran.)
func (v verdict) refuses() bool { return v.Action == "block" || v.Action == "abort" }

// judgeByCommand has the command judge a transcript.
func judgeByCommand(t *testing.T, stdin []byte, args ...string) []verdict {
	t.Helper()
	got := loopguard(t, stdin, append([]string{"replay", "--json"}, args...)...)
	require.Equal(t, 0, got.status, got.err)
	var verdicts []verdict
	for line := range strings.Lines(got.out) {
		var v verdict
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&v), line)
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// recorded is a line of a transcript.
type recorded struct {
	Run        string
	ID         string
	Tool       *string
	Args       json.RawMessage
	Registered *bool
	Result     json.RawMessage
	Error      *string
	Event      string
}

// judgeByLibrary plays a transcript to a guard as a loop of one's own would: Begin, and End when the outcome comes. It
// shares no code with the command.
func judgeByLibrary(t *testing.T, config policy.Config, lines []json.RawMessage) []verdict {
	t.Helper()
	type begun struct {
		tool   string
		ticket *middleware.Ticket // nil if the run was stopped
	}
	var reported *middleware.Detection
	guard, err := middleware.New(config, middleware.WithOnDetection(
		func(_ context.Context, d middleware.Detection) { reported = &d }))
	require.NoError(t, err)

	var verdicts []verdict
	report := func(number int, run, tool string) {
		v := verdict{Line: number, Run: run, Tool: tool, Action: "allow"}
		if d := reported; d != nil {
			v.Action, v.Detector, v.Count, v.Threshold = d.Action.String(), d.Detector, d.Count, d.Threshold
			v.Enforced, v.Reason, v.PairedTool = &d.Enforced, d.Reason, d.PairedTool
		}
		verdicts = append(verdicts, v)
	}
	open := map[[2]string][]begun{}
	for i, line := range lines {
		var r recorded
		require.NoError(t, json.Unmarshal(line, &r))
		ctx := middleware.WithRun(t.Context(), "run:"+r.Run)
		key := [2]string{r.Run, r.ID}
		reported = nil

		if r.Event != "" {
			require.NoError(t, guard.Compacted(ctx))
			continue
		}
		var call begun
		if r.Tool != nil {
			call.tool = *r.Tool
			call.ticket, err = guard.Begin(ctx, middleware.Call{
				ID: r.ID, Tool: *r.Tool, Args: string(r.Args), ArgsJSON: r.Args != nil, Unknown: r.Registered != nil && !*r.Registered,
			})
			if err != nil {
				require.ErrorIs(t, err, middleware.ErrLoop)
			}
		} else {
			require.NotEmpty(t, open[key], "line %d", i+1)
			call, open[key] = open[key][0], open[key][1:]
		}
		switch hasOutcome := r.Result != nil || r.Error != nil; {
		case !hasOutcome:
			open[key] = append(open[key], call)
		case call.ticket == nil:
		case r.Error != nil:
			_ = call.ticket.End(ctx, middleware.Result{}, errors.New(*r.Error))
		default:
			_ = call.ticket.End(ctx, middleware.Result{Result: canonical.Result{Details: r.Result}}, nil)
		}
		if r.Tool != nil || reported != nil {
			report(i+1, r.Run, call.tool)
		}
	}
	return verdicts
}
