package guardtest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware/guardtest"
)

func TestALoopWithoutFlawsPasses(t *testing.T) {
	guardtest.Run(t, framework(guardtest.Limits{}))
	require.NoError(t, guardtest.Check(framework(guardtest.Limits{})))
	require.NoError(t, guardtest.Check(framework(guardtest.Limits{Sequential: true}, oneAtATime)))
}

// Each flaw is found, by the check that is for it.
func TestEveryFlawIsFound(t *testing.T) {
	for broken, check := range map[flaw]string{
		dropsNotes:         "warning",
		notesHealthy:       "healthy agent",
		hashesNotes:        "warning",
		runsRefused:        "refusal",
		hidesRefusals:      "refusal",
		endsOnRefusal:      "refusal",
		ignoresAborts:      "abort",
		hidesAborts:        "abort",
		neverEnds:          "healthy agent",
		losesErrors:        "tool errors",
		losesPanics:        "panic",
		losesCancellations: "cancellation",
		roundsNumbers:      "healthy agent",
		swapsResults:       "parallel results",
		oneTicket:          "parallel calls",
		oneAtATime:         "parallel calls",
		sharesRuns:         "runs",
		runPerCall:         "runs",
		keepsRuns:          "runs",
		missesUnknown:      "unknown tool",
		forgetsUnknown:     "unknown tools by many names",
		hidesUnknown:       "unknown tool",
		detachesSpans:      "spans",
		losesIDs:           "call ids",
		defiesStore:        "failing store",
		hangsAtEnd:         "cancellation",
		hangsWithoutStore:  "failing store",
	} {
		t.Run(string(broken), func(t *testing.T) {
			t.Parallel()
			err := guardtest.Check(framework(guardtest.Limits{}, broken))
			require.Error(t, err)
			found := strings.Split(err.Error(), "\n")
			t.Log(found[0])
			assert.Condition(t, func() bool {
				for _, fault := range found {
					if strings.HasPrefix(fault, check+": ") {
						return true
					}
				}
				return false
			}, "not by the check %q: %v", check, err)
		})
	}
}

// A limit that does not exist is found as well: nobody can switch a check off that the framework could pass.
func TestEveryFalseLimitIsFound(t *testing.T) {
	for _, test := range []struct {
		limit  string
		limits guardtest.Limits
	}{
		{"Sequential", guardtest.Limits{Sequential: true}},
		{"ToolErrorsEndRuns", guardtest.Limits{ToolErrorsEndRuns: true}},
		{"RoundedNumbers", guardtest.Limits{RoundedNumbers: true}},
		{"UnseenUnknownTools", guardtest.Limits{UnseenUnknownTools: true}},
		{"UnseenCallIDs", guardtest.Limits{UnseenCallIDs: true}},
		{"OpaqueAborts", guardtest.Limits{OpaqueAborts: true}},
		{"KeptRuns", guardtest.Limits{KeptRuns: true}},
	} {
		t.Run(test.limit, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, guardtest.Check(framework(test.limits)), "Limits."+test.limit)
		})
	}
}
