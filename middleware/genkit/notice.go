package genkit

import (
	"fmt"

	"github.com/firebase/genkit/go/ai"

	"github.com/loopguard-go/loopguard/policy"
)

// defaultMaxTurns is what genkit takes where nothing is set.
const defaultMaxTurns = 5

// notice logs, once, that a generation is over before the guard's warnings or refusals could be read. It goes by the guard's
// thresholds for tools without rules and by one call a turn.
func (g *generation) notice(params *ai.GenerateParams) {
	t, judging := g.guard.Thresholds()
	o := params.Options
	if !judging || g.hostRun || o.ReturnToolRequests || len(params.Request.Tools) == 0 {
		return
	}
	turns := o.MaxTurns
	if turns == 0 {
		turns = defaultMaxTurns
	}
	if turns > t.Critical { // the model reads the results of the last turn, too
		return
	}
	never := "refusals"
	if turns <= t.Warning {
		never = "warnings and refusals"
	}
	g.noticed.Do(func() {
		g.guard.LogNotice(policy.Notice{
			Path: "MaxTurns",
			Message: fmt.Sprintf("is %d, so that %s never reach the model: it reads warnings after turn %d and refusals after "+
				"turn %d; set it above %d, as with ai.WithMaxTurns(%d), for the guard to see a loop to its end",
				turns, never, t.Warning+1, t.Critical+1, t.Breaker, t.Breaker+10),
		})
	})
}
