// Package replay judges recorded transcripts of agents with the code that guards live ones: it reads a transcript line by
// line, plays each line to a [middleware.Guard], and writes down what the guard says.
//
// Input is hostile: whatever it is, nothing panics, and memory does not grow with the transcript beyond its runs and the
// calls that are open.
package replay
