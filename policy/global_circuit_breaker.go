package policy

import "fmt"

// GlobalCircuitBreaker is the detector that ends a run in which nothing new has come up for long, across all calls and
// tools.
const GlobalCircuitBreaker = "global_circuit_breaker"

var globalCircuitBreaker = detector{
	name: GlobalCircuitBreaker,
	judge: func(v view) finding {
		count := v.streak
		if v.known && !v.poll {
			count = max(count, v.stale)
		}
		if count < v.limits.breaker {
			return finding{}
		}
		return finding{action: Abort, count: count, threshold: v.limits.breaker}
	},
	reason: func(f finding) string {
		return fmt.Sprintf("%d calls brought nothing new.", f.count)
	},
	advice: "The run was stopped. Report what was done and what is missing.",
}
