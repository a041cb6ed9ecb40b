package canonical

import "strings"

// maskExecText masks process numbers, names of sessions, and how long something took.
func maskExecText(r *rewriter) {
	pids.mask(r)
	r.again()
	sessions.mask(r)
	r.again()
	figures.mask(r)
}

var (
	pids     = newLabelled(pid, label{"", "pid"}, label{"p", "pid"})
	sessions = newLabelled(session, label{"sess", "ion"})
	figures  = newLabelled(figure, label{"t", "ook"}, label{"durat", "ion"}, label{"el", "apsed"})
)

// pid is \b(p?pid)(\s*[=:#]?\s*)\d+\b behind the label. The number is replaced.
func pid(s string, i int) (from, to int) {
	from = skipGap(s, i, anEqualsSign|aColon|aNumberSign)
	to = skip(s, from, aDigit)
	if !boundary(s, to) {
		return from, from
	}
	return from, to
}

// session is \b(session(?:[ _-]?id)?)(\s*[=:]\s*|\s+)[\w-]+ behind "session". The name at the end is replaced. If no name
// follows "session id", the name is "id".
func session(s string, i int) (from, to int) {
	id := i
	if is(s, id, aBlank|anUnderscore|aHyphen) {
		id++
	}
	if end, ok := wordAt(s, id, "id"); ok {
		if from, to := sessionName(s, end); from < to {
			return from, to
		}
	}
	return sessionName(s, i)
}

// sessionName is (\s*[=:]\s*|\s+)[\w-]+ at i, of which the name is s[from:to].
func sessionName(s string, i int) (from, to int) {
	from = skipGap(s, i, anEqualsSign|aColon)
	if from == i {
		return i, i
	}
	return from, skipFolded(s, from, aWordByte|aHyphen)
}

var figureUnits = byFirst("ms", "s", "sec", "seconds", "m", "min", "minutes")

// figure is \b(took|duration|elapsed)(\s*[=:]?\s*)\d[\w.:]*(\s?(ms|s|sec|seconds|m|min|minutes))?\b behind the label. All
// that begins with the digit is replaced.
func figure(s string, i int) (from, to int) {
	from = skipGap(s, i, anEqualsSign|aColon)
	if !is(s, from, aDigit) {
		return from, from
	}
	to = skipFolded(s, from, aWordByte|aPoint|aColon)
	// A unit that is not swallowed by [\w.:]* already comes after a space.
	if is(s, to, aSpace) {
		if end, ok := figureUnits.at(s, to+1); ok {
			return from, end
		}
	}
	// Otherwise the figure gives back what it swallowed behind its last letter or digit.
	for !boundary(s, to) {
		to--
	}
	return from, to
}

// skipGap is \s*[signs]?\s*
func skipGap(s string, i int, signs class) int {
	i = skip(s, i, aSpace)
	if is(s, i, signs) {
		i = skip(s, i+1, aSpace)
	}
	return i
}

// skipFolded skips bytes of a class that comes from brackets with \w in them. There, unlike in \b, folding makes ſ and
// the Kelvin sign letters too.
func skipFolded(s string, i int, c class) int {
	for {
		i = skip(s, i, c)
		switch {
		case strings.HasPrefix(s[i:], "\u017f"):
			i += len("\u017f")
		case strings.HasPrefix(s[i:], "\u212a"):
			i += len("\u212a")
		default:
			return i
		}
	}
}
