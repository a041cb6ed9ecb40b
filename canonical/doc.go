// Package canonical decides what counts as the same: it turns tool calls and their outcomes into digests, so that two
// calls are equal if and only if their digests are.
//
// Arguments are compared by value and not by spelling: neither the order of keys nor white space nor the way a number is
// written matters, and no number is ever rounded. Results are compared by what they tell the agent: depending on the
// [Kind] of tool, process ids, durations, message ids and the like are left out, and in failures the volatile parts
// (times, ids, addresses) are masked. Nothing is compared by a prefix: a difference in the last byte of a large output
// is a difference.
//
// The work is done in three steps. A value, JSON text or a Go value, becomes a tape: a flat list of nodes. The rules
// strike out the nodes that play no part. What is left is encoded into SHA-256. Input is hostile: whatever it is,
// nothing panics and the cost stays linear in its size (but for the sorting of keys).
//
// The package does no I/O, has no clock and keeps no state between calls. All of it is safe for concurrent use.
package canonical
