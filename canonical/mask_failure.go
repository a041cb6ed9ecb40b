package canonical

import "strings"

// maskFailure trims, and masks what differs between two failures of one kind: times, ids, addresses, attempts and
// durations.
//
// To the specification these are six patterns, applied one after the other. One pass from left to right, in which they are
// tried in their order at every number, does the same: where what two of them replace overlaps or touches, that of the
// earlier one begins first, or both begin together. There are two exceptions, which clock and duration see to.
func maskFailure(r *rewriter) {
	r.start(strings.TrimSpace(r.s)) // no match begins or ends with white space
	for i := nextDigitOrHyphen(r.s, 0); i < len(r.s); {
		begin, end := volatileAt(r, i)
		if begin < end {
			r.replace(begin, end)
		}
		i = nextDigitOrHyphen(r.s, end)
	}
}

// nextDigitOrHyphen returns where the next digit or hyphen stands from i on, or len(s).
func nextDigitOrHyphen(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		e := eightAt(s, i)
		if hits := e.hits(e.digit() | e.equal('-')); hits != 0 {
			return i + hits.first()
		}
	}
	for i < len(s) && !is(s, i, aDigit|aHyphen) {
		i++
	}
	return i
}

// behindStamp is what may come behind the first digits of a stamp.
const behindStamp = aHyphen | aColon | anX | aHexDigit

// volatileAt finds what is to be replaced at a digit or hyphen. If that is nothing, begin and end are where to go on.
func volatileAt(r *rewriter, i int) (begin, end int) {
	s := r.s
	if s[i] == '-' { // of a UUID that begins with a letter; all else begins with a digit
		if begin := i - len("ffffffff"); r.boundary(begin) {
			if end, ok := uuid(s, begin); ok {
				return begin, end
			}
		}
		return i + 1, i + 1
	}
	digits, bounded := skip(s, i, aDigit), r.boundary(i)
	if bounded && is(s, digits, behindStamp) {
		if end, ok := stamp(s, i, digits); ok {
			return i, end
		}
	}
	if !is(s, digits, aWordByte) && isCounted(s[r.done:i]) {
		return i, digits
	}
	if bounded && (is(s, digits, aPoint|aSpace) || durationUnits.mayBegin(s, digits)) {
		if end, ok := duration(s, digits); ok {
			return i, end
		}
	}
	return digits, digits
}

// boundary is \b where a word begins at i, to a pattern that does not see what was replaced before.
func (r *rewriter) boundary(i int) bool {
	return i == r.done || i > r.done && !is(r.s, i-1, aWordByte)
}

// stamp is the first four patterns, of which each goes on in its own way behind its first digits.
func stamp(s string, i, digits int) (end int, ok bool) {
	switch {
	case is(s, digits, aHyphen):
		if end, ok := dateTime(s, i, digits); ok {
			return end, true
		}
		return uuid(s, i)
	case is(s, digits, aColon):
		return clock(s, i, digits)
	case is(s, digits, anX):
		return address(s, i, digits)
	case is(s, digits, aHexDigit):
		return uuid(s, i)
	}
	return 0, false
}

var (
	toMinutes = newLayout("0000-00-00T00:00")
	toSeconds = newLayout(":00")
	zones     = [...]layout{newLayout("Z"), newLayout("+0000"), newLayout("+00:00")}
)

// dateTime is \b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?
//
// It is the only pattern that may end within a word. Behind the end the others find a \b, but not another date-time, to
// which nothing is masked yet.
func dateTime(s string, i, digits int) (end int, ok bool) {
	if digits-i != len("0000") {
		return 0, false
	}
	end, ok = toMinutes.at(s, i)
	if !ok || !boundary(s, i) {
		return 0, false
	}
	if seconds, ok := toSeconds.at(s, end); ok {
		end = skipFraction(s, seconds)
	}
	for _, zone := range zones {
		if zoned, ok := zone.at(s, end); ok {
			return zoned, true
		}
	}
	return end, true
}

var clockRest = newLayout(":00:00")

// clock is \b\d{1,2}:\d{2}:\d{2}(\.\d+)?\b behind its first \b. What looks like a fraction may be the year of a date-time,
// which is masked first.
func clock(s string, i, digits int) (end int, ok bool) {
	if digits-i < 1 || digits-i > 2 {
		return 0, false
	}
	end, ok = clockRest.at(s, digits)
	if !ok {
		return 0, false
	}
	fraction := skipFraction(s, end)
	if _, ok := dateTime(s, end+1, fraction); !ok && boundary(s, fraction) {
		return fraction, true
	}
	return end, boundary(s, end)
}

var uuidLayout = newLayout("ffffffff-ffff-ffff-ffff-ffffffffffff")

// uuid is \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b behind its first \b.
func uuid(s string, i int) (end int, ok bool) {
	end, ok = uuidLayout.at(s, i)
	return end, ok && boundary(s, end)
}

// address is \b0x[0-9a-f]+\b behind its first \b.
func address(s string, i, digits int) (end int, ok bool) {
	begin := digits + len("x")
	end = skip(s, begin, aHexDigit)
	return end, s[i:digits] == "0" && end > begin && boundary(s, end)
}

var counters = byLast("pid", "ppid", "attempt", "retry", "retries", "try")

// isCounted is \b(pid|ppid|attempt|retry|retries|try)(\s*[=:#]?\s*) before a number.
func isCounted(before string) bool {
	i := skipBack(before, len(before), aSpace)
	if is(before, i-1, anEqualsSign|aColon|aNumberSign) {
		i = skipBack(before, i-1, aSpace)
	}
	return counters.end(before[:i])
}

var durationUnits = byFirst("ns", "us", "µs", "ms", "s", "sec", "secs", "seconds", "m", "min", "minutes", "h")

// duration is \b\d+(\.\d+)?\s?(ns|us|µs|ms|s|sec|secs|seconds|m|min|minutes|h)\b behind its first digits. A unit may end
// with ſ, which is no part of a word, so that there must be one behind it: one that is not masked.
func duration(s string, digits int) (end int, ok bool) {
	unit := skipFraction(s, digits)
	if is(s, unit, aSpace) {
		unit++
	}
	end, ok = durationUnits.at(s, unit)
	if ok && !is(s, end-1, aWordByte) {
		if _, isMasked := stamp(s, end, skip(s, end, aDigit)); isMasked {
			return durationUnits.at(s[:end], unit)
		}
	}
	return end, ok
}
