package langchain

import (
	"fmt"

	"github.com/loopguard-go/loopguard/policy"
)

// Notices returns what the author of the agent will want to know: that MaxIterations ends every run before the guard's
// warnings or refusals could be read. It goes by the guard's thresholds for tools without rules and by one call a turn.
func (e *Executor) Notices() []policy.Notice {
	t, judging := e.guard.Thresholds()
	// After n equal calls comes the one that is warned of or refused, and then the turn in which the model reads that.
	readsWarning, readsRefusal := t.Warning+2, t.Critical+2
	if !judging || e.MaxIterations >= readsRefusal {
		return nil
	}
	never := "refusals"
	if e.MaxIterations < readsWarning {
		never = "warnings and refusals"
	}
	return []policy.Notice{{
		Path: "MaxIterations",
		Message: fmt.Sprintf("is %d, so that %s never reach the model: it reads warnings from turn %d on and refusals from "+
			"turn %d; set it above %d, as with agents.WithMaxIterations(%d), for the guard to see a loop to its end",
			e.MaxIterations, never, readsWarning, readsRefusal, t.Breaker, t.Breaker+10),
	}}
}
