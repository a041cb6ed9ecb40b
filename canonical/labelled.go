package canonical

import "slices"

// labelled is a pattern that begins with a label, such as "pid". What is replaced is the value behind it, up to the end of
// the match.
type labelled struct {
	labels []label
	hinges []pair
	// value returns where the value stands behind a label that ends at i. It is empty if the pattern does not match.
	value func(s string, i int) (from, to int)
}

// label is a word, in two parts. The second begins with its hinge.
type label struct{ before, after string }

func newLabelled(value func(s string, i int) (from, to int), labels ...label) *labelled {
	l := &labelled{labels: labels, value: value}
	for _, label := range labels {
		if hinge := newPair(label.after); !slices.Contains(l.hinges, hinge) {
			l.hinges = append(l.hinges, hinge)
		}
	}
	return l
}

// mask replaces the values.
func (l *labelled) mask(r *rewriter) {
	for i := nextPair(r.s, 0, l.hinges); i < len(r.s); i = nextPair(r.s, i, l.hinges) {
		if from, to := l.at(r, i); from < to {
			r.replace(from, to)
			i = to
		} else {
			i++
		}
	}
}

// at finds the value behind a label that has its hinge at i.
func (l *labelled) at(r *rewriter, i int) (from, to int) {
	for _, label := range l.labels {
		begin, ok := wordBefore(r.s, i, label.before)
		if !ok || begin < r.done || !boundary(r.s, begin) {
			continue
		}
		if end, ok := wordAt(r.s, i, label.after); ok {
			return l.value(r.s, end)
		}
	}
	return 0, 0
}
