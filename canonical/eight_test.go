package canonical

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What looks at eight bytes at once finds what looking at one after the other finds, wherever it stands and whatever is
// around it.
func TestEight(t *testing.T) {
	labels := []pair{newPair("io"), newPair("ap")}
	searches := map[string]struct {
		next func(s string, i int) int
		is   func(s string, i int) bool
	}{
		"digit or hyphen": {nextDigitOrHyphen, func(s string, i int) bool { return s[i] >= '0' && s[i] <= '9' || s[i] == '-' }},
		"digit or beyond": {nextDigit, func(s string, i int) bool { return s[i] >= '0' && s[i] <= '9' || s[i] >= 0x80 }},
		"plain":           {skipPlain, func(s string, i int) bool { return s[i] == '"' || s[i] == '\\' || s[i] < ' ' }},
		"pair": {func(s string, i int) int { return nextPair(s, i, labels) }, func(s string, i int) bool {
			const lower = 0x20
			return i+1 < len(s) && (s[i]|lower == 'i' && s[i+1]|lower == 'o' || s[i]|lower == 'a' && s[i+1]|lower == 'p')
		}},
	}
	random := rand.New(rand.NewPCG(5, 6))
	for name, search := range searches {
		for range 5_000 {
			near := []byte("09-/:,.01\"\\!]#\x1f \x00\x7f\x80\xb0\xad\xa2\xdc\xffioIOhnapAP`q")
			text := make([]byte, random.IntN(40))
			for i := range text {
				if text[i] = near[random.IntN(len(near))]; random.IntN(3) > 0 {
					text[i] = byte(random.Uint32())
				}
			}
			s := string(text)
			for from := range len(s) + 1 {
				want := from
				for want < len(s) && !search.is(s, want) {
					want++
				}
				require.Equal(t, want, search.next(s, from), "%s in %q from %d", name, s, from)
			}
		}
	}
}
