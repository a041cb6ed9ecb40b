package canonical

// number reads -?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)? as it is written.
func (p *parser) number() bool {
	integer := p.i
	if is(p.s, integer, aHyphen) {
		integer++
	}
	end := skip(p.s, integer, aDigit)
	if end == integer || end > integer+1 && p.s[integer] == '0' {
		return false
	}
	end = skipFraction(p.s, end)
	if is(p.s, end, anE) {
		exponent := end + 1
		if is(p.s, exponent, aPlus|aHyphen) {
			exponent++
		}
		if end = skip(p.s, exponent, aDigit); end == exponent {
			return false
		}
	}
	p.scalar(numberNode, p.s[p.i:end])
	p.i = end
	return true
}
