package canonical

// pair is two letters, side by side and in whatever case, each of them eight times. Neither is an s or a k, of which Unicode
// has a third case.
type pair [2]eight

func newPair(letters string) pair { return pair{each * eight(letters[0]), each * eight(letters[1])} }

// nextPair returns where the next of some pairs stands from i on, or len(s).
func nextPair(s string, i int, pairs []pair) int {
	const lower = each * 0x20
	for ; i+9 <= len(s); i += 8 {
		first, second := eightAt(s, i)|lower, eightAt(s, i+1)|lower
		test := eight(0)
		for _, p := range pairs {
			test |= ((first ^ p[0]) | (second ^ p[1])).below(1)
		}
		if hits := (first | second).hits(test); hits != 0 {
			return i + hits.first()
		}
	}
	for ; i+2 <= len(s); i++ {
		for _, p := range pairs {
			if s[i]|0x20 == byte(p[0]) && s[i+1]|0x20 == byte(p[1]) {
				return i
			}
		}
	}
	return len(s)
}
