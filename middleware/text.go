package middleware

import "github.com/loopguard-go/loopguard/policy"

// What the model reads. The words are for a model: what happened, how often, and what to do instead. They hold a count,
// so that they differ from call to call, and never arguments or results.

const mark = "[loopguard] "

// refusalText is what the model reads instead of a result.
func refusalText(v policy.Verdict) string {
	return mark + "Call refused: the tool was not run. " + v.Reason + " " + v.Advice()
}

// noteText is what the model reads after a result: a paragraph of its own.
func noteText(v policy.Verdict) string {
	return "\n\n" + mark + "Warning: " + v.Reason + " " + v.Advice() + " If nothing new comes of it, calls will be refused."
}
