package canonical

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The reference of the parser is jsontext: it must accept the same texts, and read the same from them.

// parseByReference reads a text onto a tape.
func parseByReference(s string) (nodes []node, ok bool) {
	var t tape
	var open []int
	decoder := jsontext.NewDecoder(strings.NewReader(s))
	for done := false; !done; done = len(open) == 0 {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, false
		}
		switch kind := token.Kind(); kind {
		case 'n':
			t.scalar(nullNode, "")
		case 'f':
			t.scalar(falseNode, "")
		case 't':
			t.scalar(trueNode, "")
		case '0':
			t.scalar(numberNode, token.String())
		case '"':
			t.scalar(textNode, token.String())
		case '[':
			open = append(open, t.open(arrayNode))
		case '{':
			open = append(open, t.open(objectNode))
		default:
			t.close(open[len(open)-1])
			open = open[:len(open)-1]
		}
	}
	if _, err := decoder.ReadToken(); err != io.EOF {
		return nil, false
	}
	return t.nodes, true
}

// checkParse compares the parser with its reference.
func checkParse(t require.TestingT, s string) {
	var got tape
	at, ok := got.parse(s)
	want, wanted := parseByReference(s)
	const enough = 200 // of a text, to know it by
	require.Equal(t, wanted, ok, "%.*q", enough, s)
	require.True(t, slices.Equal(want, got.nodes), "%.*q", enough, s)
	require.Empty(t, got.members, "%.*q", enough, s)
	require.Equal(t, ok, at == 0, "%.*q", enough, s)
}

// parseCases are texts that are JSON, and texts that are not although they nearly are.
var parseCases = []string{
	`null`, `true`, `false`, `nul`, `nullx`, `True`, `null null`, ` null `, "\ufeffnull", "\v1", "\u00a01", "1\x00", "\x00",
	`0`, `-0`, `-`, `01`, `-01`, `1.`, `.5`, `1.5`, `1.5.5`, `1e5`, `1E+5`, `1e-05`, `1e`, `1e+`, `1ee5`, `+1`, `1_0`, `0x1`,
	`NaN`, `Infinity`, `1e5e5`, `--1`, `1-`, `1 2`, `0.0`, `00`, `-1.0e-10`,
	`""`, `"`, `"a`, `"a" `, `"a"b`, `"\"`, `"\""`, `"\\"`, `"\\\"`, `"\x"`, `"\`, `"\/\b\f\n\r\t"`, `"\B"`, `"\u"`, `"\u12"`,
	`"\u123"`, `"\u123g"`, `"\U1234"`, `"\u+123"`, `"\u_123"`, `"\u0041"`, `"\u00e9\u20ac\u0000"`, `"\ud83d\ude00"`,
	`"\uD83D\uDE00"`, `"\ud83d"`, `"\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, `"\ud83d\ud83d"`, `"\ud83d\u0041"`, `"\ud83d\ude0"`,
	`"\ud83d\`, `"\ud83d\u`, `"\ud83d"\ude00`, `"\ufffd"`, `"\uffff"`, "\"\ufffd\"", "\"\xff\"", "\"a\xc3\"", "\"\xed\xa0\x80\"",
	"\"\xc0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\\\xff\"", "\"\\n\xff\"", "\"\t\"", "\"\x1f\"", "\"\x7f\"", "\"\n\"", "\xff", "[\xff]",
	"\"\u2028\"", `"12345678"`, `"1234567\"`, `"1234567"`, `"123456789012345\n"`, "\"1234567\x00\"", `"!!!!!!!!!"`, `"]]]]]]]]]"`,
	`[]`, `[`, `]`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `[1,2]`, ` [ 1 , 2 ] `, `[[]]`, `[[]`, `[]]`, `[}`, `[1}`, `[null,true,false]`,
	`{}`, `{`, `}`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a",1}`, `{"a" 1}`, `{a:1}`, `{1:1}`, `{null:1}`,
	` { "a" : 1 , "b" : [ ] } `, `{"a":{}}`, `{"a":1]`, `{"a":1 "b":2}`, `{"a"::1}`, `{"a":1,,"b":2}`, `{"":0}`, `{"a":}`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"a":1,"b":{"a":2}}`, `[{"a":1},{"a":2}]`, `{"a":{"b":1,"b":1}}`, `{"":1,"":1}`,
	`{"a":1,"A":2}`, `{"é":1,"e` + "\u0301" + `":2}`, `{"b":1,"a":1,"c":1,"b":2}`, `{"ab":1,"a":1,"b":1}`, `{"\n":1,"\n":1}`,
	`// 1`, `/**/1`, `[1/**/]`, `'a'`, `{"a":undefined}`, `[1]x`, ``, ` `,
}

func TestParse(t *testing.T) {
	for _, s := range parseCases {
		checkParse(t, s)
		checkParse(t, "["+s+"]")
		checkParse(t, `{"a":`+s+`,"b":[`+s+`]}`)
		checkParse(t, `{`+s+`:1}`)
		checkParse(t, s[:len(s)/2])
	}
}

func TestParseDepth(t *testing.T) {
	for _, depth := range []int{maxDepth - 1, maxDepth, maxDepth + 1, 100_000} {
		for _, unit := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {`{"a":[`, "]}"}} {
			opened, closed := strings.Repeat(unit[0], depth), strings.Repeat(unit[1], depth)
			checkParse(t, opened+"1"+closed)
			checkParse(t, opened)
			checkParse(t, "["+opened+"1"+closed+"]")
		}
	}
}

// Many names, of which perhaps two are the same.
func TestParseNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[ab]{0,6}|key[0-9]{1,3}`), 1, 100).Draw(t, "names")
		var b strings.Builder
		for _, name := range names {
			b.WriteString(`,"` + name + `":0`)
		}
		checkParse(t, "{"+b.String()[1:]+"}")
	})
}

// randomParseText is JSON, or what was JSON until a few bytes of it were changed.
func randomParseText(random *rand.Rand) string {
	pieces := []string{
		"{", "}", "[", "]", ",", ":", `"`, `\`, "1", "-", "e", ".", "null", "true", " ", "\n", `"a"`, `"b":`, `\u00e9`, `\ud83d`, `\ude00`,
		"é", "😀", "\xff", "\x01", "aaaaaaaa", `\\`, `\"`, "{}", "[]", "0",
	}
	valid := parseCases[random.IntN(len(parseCases))]
	if random.IntN(2) == 0 {
		text, _ := json.Marshal(map[string]any{"a": []any{valid, 1.5, nil, true}, "b": map[string]any{valid: -1e-7, "é": ""}})
		valid = string(text)
	}
	for range random.IntN(4) {
		i := random.IntN(len(valid) + 1)
		valid = valid[:i] + pieces[random.IntN(len(pieces))] + valid[min(len(valid), i+random.IntN(3)):]
	}
	return valid
}

func TestParseRandomTexts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range *randomTexts {
		checkParse(t, randomParseText(random))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range parseCases {
		f.Add(s)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f.Add(randomParseText(random))
	}
	f.Fuzz(func(t *testing.T, s string) { checkParse(t, s) })
}

// What strings with escapes say stays as it is while others are read behind it.
func TestParseManyEscapes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var said []string
	for range 1_000 {
		said = append(said, strings.Repeat("é\n", random.IntN(20))+"\t")
	}
	text, err := json.Marshal(said)
	require.NoError(t, err)
	var got tape
	_, ok := got.parse(string(text))
	require.True(t, ok)
	for i, n := range got.nodes[1:] {
		assert.Equal(t, said[i], n.text)
	}
}
