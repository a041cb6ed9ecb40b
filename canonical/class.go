package canonical

// class is a set of bytes: one of these, or several put together.
type class uint32

const (
	aDigit class = 1 << iota // \d
	aHexDigit
	aWordByte // \w as \b understands it: letters of ASCII only
	aSpace    // \s, to which a vertical tab does not belong
	aBlank
	aHyphen
	aPlus
	aPoint
	aColon
	anEqualsSign
	aNumberSign
	anUnderscore
	anAtSign
	anE
	aT
	anX
	aZ
)

// classes has the classes that each byte belongs to.
var classes = func() (of [256]class) {
	for members, c := range map[string]class{
		"0123456789":   aDigit | aHexDigit | aWordByte,
		"abcdefABCDEF": aHexDigit | aWordByte,
		"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ_": aWordByte,
		" \t\n\f\r": aSpace,
		" ":         aBlank,
		"-":         aHyphen,
		"+":         aPlus,
		".":         aPoint,
		":":         aColon,
		"=":         anEqualsSign,
		"#":         aNumberSign,
		"_":         anUnderscore,
		"@":         anAtSign,
		"eE":        anE,
		"tT":        aT,
		"xX":        anX,
		"zZ":        aZ,
	} {
		for _, b := range []byte(members) {
			of[b] |= c
		}
	}
	return of
}()

// is reports whether there is a byte at i, of a certain class.
func is(s string, i int, c class) bool { return 0 <= i && i < len(s) && classes[s[i]]&c != 0 }

// boundary is \b: it reports whether just one of the bytes on both sides of i belongs to a word.
func boundary(s string, i int) bool { return is(s, i-1, aWordByte) != is(s, i, aWordByte) }

// skip returns the end of the bytes of a class that begin at i.
func skip(s string, i int, c class) int {
	for i < len(s) && classes[s[i]]&c != 0 {
		i++
	}
	return i
}

// skipBack returns the beginning of the bytes of a class that end at i.
func skipBack(s string, i int, c class) int {
	for i > 0 && classes[s[i-1]]&c != 0 {
		i--
	}
	return i
}

// skipFraction is (\.\d+)?
func skipFraction(s string, i int) int {
	if is(s, i, aPoint) && is(s, i+1, aDigit) {
		return skip(s, i+1, aDigit)
	}
	return i
}

// layout is a text of fixed length of which each byte is known by its class.
type layout []class

// newLayout reads a layout: 0 is any digit, f any hexadecimal digit, + either sign, and T may be a blank.
func newLayout(example string) (l layout) {
	of := map[rune]class{
		'0': aDigit, 'f': aHexDigit, '-': aHyphen, ':': aColon, 'T': aT | aBlank, '+': aPlus | aHyphen, 'Z': aZ,
	}
	for _, c := range example {
		l = append(l, of[c])
	}
	return l
}

// at reports whether a text of this layout begins at i, and where it ends.
func (l layout) at(s string, i int) (end int, ok bool) {
	end = i + len(l)
	if i < 0 || end > len(s) {
		return 0, false
	}
	for k, c := range []byte(s[i:end]) {
		if classes[c]&l[k] == 0 {
			return 0, false
		}
	}
	return end, true
}
