package canonical

import "strings"

var (
	pids     = mask{onDigits, pid}
	sessions = mask{onO, session}
	figures  = mask{onDigits, figure}
)

// maskExecText masks process numbers, names of sessions, and how long something took.
func maskExecText(s string) string {
	if onDigits.next(s, 0) == len(s) {
		return sessions.apply(s) // nothing else can do without a digit
	}
	s = pids.apply(s)
	s = sessions.apply(s)
	return figures.apply(s)
}

var pidNames = byLast("pid", "ppid")

// pid is \b(p?pid)(\s*[=:#]?\s*)\d+\b, of which the number is replaced.
func pid(s string, number, end int) match { return numberOf(pidNames, s, number, end) }

// session is \b(session(?:[ _-]?id)?)(\s*[=:]\s*|\s+)[\w-]+, of which the name at the end is replaced. The o is that of
// "session". If no name follows "session id", the name is "id".
func session(s string, o, _ int) match {
	begin, ok := wordBefore(s, o, "sessi")
	if !ok || !boundary(s, begin) {
		return match{}
	}
	end, ok := wordAt(s, o, "on")
	if !ok {
		return match{}
	}
	id := end
	if is(s, id, aBlank|anUnderscore|aHyphen) {
		id++
	}
	if afterID, ok := wordAt(s, id, "id"); ok {
		if from, to := sessionName(s, afterID); from < to {
			return match{begin, from, to}
		}
	}
	if from, to := sessionName(s, end); from < to {
		return match{begin, from, to}
	}
	return match{}
}

// sessionName is (\s*[=:]\s*|\s+)[\w-]+ at i, of which the name is s[from:to].
func sessionName(s string, i int) (from, to int) {
	from = skip(s, i, aSpace)
	if is(s, from, anEqualsSign|aColon) {
		from = skip(s, from+1, aSpace)
	}
	if from == i {
		return i, i
	}
	return from, skipFolded(s, from, aWordByte|aHyphen)
}

var (
	figureNames = byLast("took", "duration", "elapsed")
	figureUnits = byFirst("ms", "s", "sec", "seconds", "m", "min", "minutes")
)

// figure is \b(took|duration|elapsed)(\s*[=:]?\s*)\d[\w.:]*(\s?(ms|s|sec|seconds|m|min|minutes))?\b, of which all that
// begins with the digit is replaced.
func figure(s string, number, _ int) match {
	begin, ok := label(figureNames, s, number, anEqualsSign|aColon)
	if !ok {
		return match{}
	}
	end := skipFolded(s, number, aWordByte|aPoint|aColon)
	// A unit that is not swallowed by [\w.:]* already comes after a space.
	if is(s, end, aSpace) {
		if end, ok := figureUnits.at(s, end+1); ok {
			return match{begin, number, end}
		}
	}
	// Otherwise the figure gives back what it swallowed behind its last letter or digit.
	for !boundary(s, end) {
		end--
	}
	return match{begin, number, end}
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
