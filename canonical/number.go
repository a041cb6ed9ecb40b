package canonical

import (
	"bytes"
	"strconv"
	"strings"
)

// appendNumber appends the exact decimal value of a JSON number to dst: a sign, the significant digits without zeros on
// either end, and the power of ten, such as "12e3" for 12000, 1.2e4 and 0.12E5. Numbers that have the same value get the
// same form, and numbers that differ, in whatever digit or exponent, do not: nothing goes through floating point. A
// literal that is not a JSON number, which a Go value can hold, is not ok.
func appendNumber(dst []byte, literal string) (_ []byte, ok bool) {
	mantissa, exponent, ok := splitNumber(literal)
	if !ok {
		return dst, false
	}
	negative := strings.HasPrefix(mantissa, "-")
	mantissa = strings.TrimPrefix(mantissa, "-")
	integer, fraction, _ := strings.Cut(mantissa, ".")

	// The digits are integer and fraction in a row, and the power of ten says where the point was.
	shift := -len(fraction)
	if trimmed := strings.TrimRight(fraction, "0"); trimmed != "" {
		shift += len(fraction) - len(trimmed)
		fraction = trimmed
	} else {
		trimmed := strings.TrimRight(integer, "0")
		shift += len(fraction) + len(integer) - len(trimmed)
		integer, fraction = trimmed, ""
	}
	integer = strings.TrimLeft(integer, "0")
	if integer == "" {
		fraction = strings.TrimLeft(fraction, "0")
	}
	if integer == "" && fraction == "" {
		return append(dst, '0'), true
	}

	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, integer...)
	dst = append(dst, fraction...)
	dst = append(dst, 'e')
	return appendSum(dst, exponent, int64(shift)), true
}

// splitNumber splits a JSON number at its exponent, whose sign '+' and leading zeros it removes.
func splitNumber(literal string) (mantissa, exponent string, ok bool) {
	mantissa, exponent = literal, "0"
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], literal[i+1:]
		sign := ""
		switch {
		case strings.HasPrefix(exponent, "+"):
			exponent = exponent[1:]
		case strings.HasPrefix(exponent, "-"):
			sign, exponent = "-", exponent[1:]
		}
		if !allDigits(exponent) {
			return "", "", false
		}
		if exponent = strings.TrimLeft(exponent, "0"); exponent == "" {
			sign, exponent = "", "0"
		}
		exponent = sign + exponent
	}
	integer, fraction, hasPoint := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	return mantissa, exponent, allDigits(integer) && (!hasPoint || allDigits(fraction))
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// appendSum appends the sum of a decimal integer of any length (no leading zeros) and a small one. Exponents are the
// model's words, so they may have a million digits; then only the low ones are added, with a carry into the rest.
func appendSum(dst []byte, decimal string, small int64) []byte {
	const window = 18 // digits that an int64 holds, with room for the sum
	if len(decimal) <= window {
		n, _ := strconv.ParseInt(decimal, 10, 64)
		return strconv.AppendInt(dst, n+small, 10)
	}
	if strings.HasPrefix(decimal, "-") {
		dst, decimal, small = append(dst, '-'), decimal[1:], -small
	}
	const unit = int64(1e17)
	cut := len(decimal) - 17
	low, _ := strconv.ParseInt(decimal[cut:], 10, 64)
	low += small // |small| is bounded by the length of a literal, far below unit
	high := []byte(decimal[:cut])
	switch {
	case low < 0:
		low += unit
		high = decrement(high)
	case low >= unit:
		low -= unit
		high = increment(high)
	}
	dst = append(dst, high...)
	digits := strconv.FormatInt(low, 10)
	if len(high) > 0 {
		dst = append(dst, bytes.Repeat([]byte{'0'}, 17-len(digits))...)
	}
	return append(dst, digits...)
}

// increment adds one to a decimal number, in place where it can.
func increment(digits []byte) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] != '9' {
			digits[i]++
			return digits
		}
		digits[i] = '0'
	}
	return append([]byte{'1'}, digits...)
}

// decrement takes one from a decimal number above zero and removes leading zeros.
func decrement(digits []byte) []byte {
	for i := len(digits) - 1; i >= 0; i-- {
		if digits[i] != '0' {
			digits[i]--
			break
		}
		digits[i] = '9'
	}
	return bytes.TrimLeft(digits, "0")
}

// isZeroNumber reports whether a literal is a JSON number with the value zero.
func isZeroNumber(literal string) bool {
	mantissa, _, ok := splitNumber(literal)
	return ok && strings.Trim(mantissa, "-0.") == ""
}
