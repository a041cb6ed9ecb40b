package canonical

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Two numbers have one form if and only if they have one value.
func TestNumbersByValue(t *testing.T) {
	literal := rapid.StringMatching(`-?(0|[19]0{0,3}[0-9]{0,3})(\.[0-9]{1,3}0{0,3})?([eE][+-]?0{0,2}[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := literal.Draw(t, "a"), literal.Draw(t, "b")
		x, ok := new(big.Rat).SetString(a)
		require.True(t, ok)
		y, ok := new(big.Rat).SetString(b)
		require.True(t, ok)
		assert.Equal(t, x.Cmp(y) == 0, form(t, a) == form(t, b), "%s is %s, %s is %s", a, form(t, a), b, form(t, b))
		// The same value in other words.
		value, _ := new(big.Rat).SetString(form(t, a))
		assert.Zero(t, x.Cmp(value))
	})
}

func TestHugeExponents(t *testing.T) {
	const huge = "99999999999999999999"
	for literal, want := range map[string]string{
		"1e" + huge: "1e" + huge, "10e99999999999999999998": "1e" + huge, "0.1e100000000000000000000": "1e" + huge,
		"1e-" + huge: "1e-" + huge, "10e-100000000000000000000": "1e-" + huge, "0e" + huge: "0", "-0.00e-" + huge: "0",
		"1e1000000000000000000": "1e1000000000000000000", "10e999999999999999999": "1e1000000000000000000",
		"0.1e1000000000000000000": "1e999999999999999999", "-1.50e0000000000000000000000000": "-15e-1",
	} {
		assert.Equal(t, want, form(t, literal), literal)
	}
	million := strings.Repeat("9", 1_000_000)
	assert.Equal(t, "1e1"+strings.Repeat("0", 1_000_000), form(t, "10e"+million))
	assert.Equal(t, million+"e0", form(t, million+".000"))
}

func TestNoNumbers(t *testing.T) {
	for _, literal := range []string{"", "-", "NaN", "+Inf", "1.", ".5", "1e", "1e+-1", "0x10", "1_000", "--1", "1-"} {
		_, ok := appendNumber(nil, literal)
		assert.False(t, ok, literal)
		assert.False(t, isZeroNumber(literal), literal)
	}
}

func form(t require.TestingT, literal string) string {
	b, ok := appendNumber(nil, literal)
	require.True(t, ok, literal)
	return string(b)
}
