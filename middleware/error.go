package middleware

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

var (
	// ErrLoop matches every [*LoopError] with [errors.Is].
	ErrLoop = errors.New("loopguard: the agent is in a loop")

	// ErrNoRun is the error of a call whose context names no run.
	ErrNoRun = errors.New("loopguard: the context of the tool call names no run: open one with middleware.WithRun or " +
		"middleware.NewRun where the agent starts, or name a default with middleware.WithDefaultRun")

	// ErrStore matches the error of a call that was not run because the store failed and the guard fails closed.
	ErrStore = errors.New("loopguard: the store failed")

	// ErrStateLost matches the error of a [Store] that kept a step, but in a run that starts afresh with it: what the store had of
	// the run could not be read. The guard reports it as a failure of the store and goes on.
	ErrStateLost = errors.New("loopguard: the history of the run is lost")

	// ErrPanic stands for a panic, of a tool or of an agent, where its end is remembered or shown. What was said in the
	// panic is not.
	ErrPanic = errors.New("panic")

	// ErrUnknownTool marks the failure of a call whose tool does not exist. Handlers return it, wrapped or not.
	ErrUnknownTool = canonical.ErrUnknownTool
)

// lastCalls is how many calls a LoopError carries.
const lastCalls = 5

// LoopError says that a call was refused and why. It never unwraps to an error of a tool or a parser, so that no host
// takes it for one that it retries.
type LoopError struct {
	policy.Verdict

	// Tool is the name of the tool that was called; one longer than 128 bytes is replaced by its digest.
	Tool string
	// Run is the id of the run.
	Run string
	// Calls are the newest calls of the run, oldest first, up to and with the refused one if the history holds it.
	Calls []policy.Record
}

// Error says what was refused, by which detector, at which count, why, and what to do.
func (e *LoopError) Error() string {
	what, hint := "call refused", e.Advice()
	if e.Action == policy.Abort {
		what, hint = "run stopped", "It stays stopped until it is forgotten (Guard.Forget)."
	}
	tool := fmt.Sprintf("tool %q", e.Tool)
	if e.PairedTool != "" {
		tool += fmt.Sprintf(" in turn with %q", e.PairedTool)
	}
	return fmt.Sprintf("loopguard: %s by %s at %d (threshold %d), %s, run %q: %s %s",
		what, e.Detector, e.Count, e.Threshold, tool, e.Run, e.Reason, hint)
}

// Is makes every LoopError match [ErrLoop].
func (e *LoopError) Is(target error) bool { return target == ErrLoop }

// LogValue makes the error a group of attributes in a structured log.
func (e *LoopError) LogValue() slog.Value {
	calls := make([]string, len(e.Calls))
	for i, c := range e.Calls {
		calls[i] = c.String()
	}
	return slog.GroupValue(
		slog.String("action", e.Action.String()),
		slog.String("detector", e.Detector),
		slog.Int("count", e.Count),
		slog.Int("threshold", e.Threshold),
		slog.String("tool", e.Tool),
		slog.String("run", e.Run),
		slog.String("paired_tool", e.PairedTool),
		slog.String("reason", e.Reason),
		slog.Any("calls", calls),
	)
}
