// Package policy decides when the same again is a loop. It keeps the history of a run, a [State], and judges every call
// against it: [Policy.Begin] before the tool runs, [Policy.End] when its outcome is there.
//
// The package is pure: it does no I/O, has no clock, no randomness and no goroutines, and a verdict depends on nothing
// but the configuration, the state and the call. Where a State is kept is therefore for others to say. It has a binary form,
// [State.MarshalBinary], by which processes can share one.
//
// Each detector is one file: a function of what it sees (history, call and limits) to a finding. All counts are counts of
// earlier calls, so they do not include the call that is judged, except those of ping_pong, which counts the whole
// alternation.
package policy
