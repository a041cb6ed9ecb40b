// Package guardtest tests adapters: what puts a loop guard into a framework for agents.
//
// The author of an adapter says how an agent of the framework is made and run, see [Framework]. The model of that agent is
// scripted: it asks a [Script] what to do, and tells it what a real model would have read. Then [Run] in a test, or [Check],
// finds out whether the adapter does what it is for, with the real framework in between: warnings reach the model, a refusal
// is an answer that the model reads, an abort ends the run and says why, parallel calls are judged right, panics and
// cancellations leave nothing behind, runs stay apart, unknown tools are seen, and detections are on the span of their call.
//
//	func TestConformance(t *testing.T) {
//		guardtest.Run(t, guardtest.Framework{New: newAgent})
//	}
//
// Run it with the race detector.
package guardtest
