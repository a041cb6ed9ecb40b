package canonical

var (
	dateTimes = mask{onHyphen, dateTime}
	clocks    = mask{onColon, clock}
	uuids     = mask{onHyphen, uuid}
	addresses = mask{onZero, address}
	numbers   = mask{onDigits, counterOrDuration}
)

// maskFailure masks what differs between two failures of one kind: times, ids, addresses, attempts and durations. The
// order matters: what one mask has replaced is nothing but the end of a word to the next.
func maskFailure(s string) string {
	if onDigits.next(s, 0) == len(s) {
		return uuids.apply(s) // nothing else can do without a digit
	}
	s = dateTimes.apply(s)
	s = clocks.apply(s)
	s = uuids.apply(s)
	s = addresses.apply(s)
	return numbers.apply(s)
}

var (
	toMinutes = newLayout("0000-00-00T00:00")
	toSeconds = newLayout(":00")
	zones     = [...]layout{newLayout("Z"), newLayout("+0000"), newLayout("+00:00")}
)

// dateTime is \b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?
func dateTime(s string, hyphen, _ int) match {
	begin := hyphen - len("0000")
	end, ok := toMinutes.at(s, begin)
	if !ok || !boundary(s, begin) {
		return match{}
	}
	if seconds, ok := toSeconds.at(s, end); ok {
		end = skipFraction(s, seconds)
	}
	for _, zone := range zones {
		if zoned, ok := zone.at(s, end); ok {
			return whole(begin, zoned)
		}
	}
	return whole(begin, end)
}

var clockRest = newLayout(":00:00")

// clock is \b\d{1,2}:\d{2}:\d{2}(\.\d+)?\b
func clock(s string, colon, _ int) match {
	end, ok := clockRest.at(s, colon)
	if !ok {
		return match{}
	}
	begin := skipBack(s, colon, aDigit)
	if hours := colon - begin; hours < 1 || hours > 2 || !boundary(s, begin) {
		return match{}
	}
	if fraction := skipFraction(s, end); boundary(s, fraction) {
		return whole(begin, fraction)
	}
	if boundary(s, end) {
		return whole(begin, end)
	}
	return match{}
}

var uuidLayout = newLayout("ffffffff-ffff-ffff-ffff-ffffffffffff")

// uuid is \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
func uuid(s string, hyphen, _ int) match {
	begin := hyphen - len("ffffffff")
	end, ok := uuidLayout.at(s, begin)
	if !ok || !boundary(s, begin) || !boundary(s, end) {
		return match{}
	}
	return whole(begin, end)
}

// address is \b0x[0-9a-f]+\b
func address(s string, zero, _ int) match {
	if !is(s, zero+1, anX) || !boundary(s, zero) {
		return match{}
	}
	digits := zero + len("0x")
	end := skip(s, digits, aHexDigit)
	if end == digits || !boundary(s, end) {
		return match{}
	}
	return whole(zero, end)
}

// counterOrDuration is counter, or else duration. To the specification these are two patterns, one after the other. One
// pass over the digits does the same: where both patterns begin with a number the counter has it, and no duration
// contains or touches the number of a counter otherwise.
func counterOrDuration(s string, number, end int) match {
	if found := counter(s, number, end); found.to > 0 {
		return found
	}
	return duration(s, number, end)
}

var counterNames = byLast("pid", "ppid", "attempt", "retry", "retries", "try")

// counter is \b(pid|ppid|attempt|retry|retries|try)(\s*[=:#]?\s*)\d+\b, of which the number is replaced.
func counter(s string, number, end int) match { return numberOf(counterNames, s, number, end) }

// numberOf is \b(names)(\s*[=:#]?\s*)\d+\b, of which the number is replaced.
func numberOf(names *words, s string, number, end int) match {
	begin, ok := label(names, s, number, anEqualsSign|aColon|aNumberSign)
	if !ok || !boundary(s, end) {
		return match{}
	}
	return match{begin, number, end}
}

// label is \b(names)(\s*[signs]?\s*) before i.
func label(names *words, s string, i int, signs class) (begin int, ok bool) {
	i = skipBack(s, i, aSpace)
	if is(s, i-1, signs) {
		i = skipBack(s, i-1, aSpace)
	}
	return names.before(s, i)
}

var durationUnits = byFirst("ns", "us", "µs", "ms", "s", "sec", "secs", "seconds", "m", "min", "minutes", "h")

// duration is \b\d+(\.\d+)?\s?(ns|us|µs|ms|s|sec|secs|seconds|m|min|minutes|h)\b
func duration(s string, begin, end int) match {
	unit := skipFraction(s, end)
	if is(s, unit, aSpace) {
		unit++
	}
	end, ok := durationUnits.at(s, unit)
	if !ok || !boundary(s, begin) {
		return match{}
	}
	return whole(begin, end)
}
