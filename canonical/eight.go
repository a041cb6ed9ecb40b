package canonical

import "math/bits"

// eight is eight bytes of a text, tested all at once. A test sets the top bit of each byte that passes, and perhaps of some
// that do not, which hits sorts out. Tests are put together with |.
type eight uint64

const (
	each eight = 0x0101010101010101 // times a byte: that byte eight times
	tops       = each * 0x80
)

// eightAt returns the bytes s[i:i+8]. The compiler makes it a single load.
func eightAt(s string, i int) eight {
	s = s[i : i+8]
	return eight(s[0]) | eight(s[1])<<8 | eight(s[2])<<16 | eight(s[3])<<24 |
		eight(s[4])<<32 | eight(s[5])<<40 | eight(s[6])<<48 | eight(s[7])<<56
}

// below tests for bytes less than n.
func (e eight) below(n byte) eight { return e - each*eight(n) }

// equal tests for a byte.
func (e eight) equal(c byte) eight { return (e ^ each*eight(c)).below(1) }

// digit tests for digits, which are what gives less than ten when xor-ed with the first of them.
func (e eight) digit() eight { return (e ^ each*'0').below(10) }

// hits returns the bytes of ASCII that passed a test. Only the first is certain, because its subtraction may have borrowed
// from the one behind it.
func (e eight) hits(test eight) eight { return test &^ e & tops }

// first returns the index of the first hit, if there is one.
func (hits eight) first() int { return bits.TrailingZeros64(uint64(hits)) / 8 }
