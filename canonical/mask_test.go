package canonical

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// The reference: the patterns of the specification, run by the regexp package. The masks must do exactly the same.

type maskPattern struct {
	expr *regexp.Regexp
	with string
}

// replacesAll is a pattern that is replaced as a whole; of a replacesEnd, the first two groups stay.
func replacesAll(expr string) maskPattern { return newMaskPattern(expr, masked) }
func replacesEnd(expr string) maskPattern { return newMaskPattern(expr, "${1}${2}"+masked) }

func newMaskPattern(expr, with string) maskPattern {
	return maskPattern{regexp.MustCompile("(?i)" + expr), with}
}

var failurePatterns = []maskPattern{
	replacesAll(`\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?`),
	replacesAll(`\b\d{1,2}:\d{2}:\d{2}(\.\d+)?\b`),
	replacesAll(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`),
	replacesAll(`\b0x[0-9a-f]+\b`),
	replacesEnd(`\b(pid|ppid|attempt|retry|retries|try)(\s*[=:#]?\s*)\d+\b`),
	replacesAll(`\b\d+(\.\d+)?\s?(ns|us|µs|ms|s|sec|secs|seconds|m|min|minutes|h)\b`),
}

var execPatterns = []maskPattern{
	replacesEnd(`\b(p?pid)(\s*[=:#]?\s*)\d+\b`),
	replacesEnd(`\b(session(?:[ _-]?id)?)(\s*[=:]\s*|\s+)[\w-]+`),
	replacesEnd(`\b(took|duration|elapsed)(\s*[=:]?\s*)\d[\w.:]*(\s?(ms|s|sec|seconds|m|min|minutes))?\b`),
}

func replacePatterns(s string, patterns []maskPattern) string {
	for _, p := range patterns {
		s = p.expr.ReplaceAllString(s, p.with)
	}
	return s
}

var (
	deliveryWord  = regexp.MustCompile(`[\p{L}\p{Nd}_.:@-]+`)
	deliveryDigit = regexp.MustCompile(`\p{Nd}`)
)

// A maskScanner is one of the three functions, with its reference.
type maskScanner struct {
	name      string
	mask      mask
	reference func(string) string
}

// apply returns what a mask makes of a text, and whether it made a copy.
func (m mask) apply(s string) (masked string, copied bool) {
	var r rewriter
	r.start(s)
	m(&r)
	return string(r.out) + r.rest(), r.done > 0
}

var (
	failureScanner = maskScanner{"maskFailure", maskFailure, func(s string) string {
		return strings.TrimSpace(replacePatterns(s, failurePatterns))
	}}
	execScanner = maskScanner{"maskExecText", maskExecText, func(s string) string {
		return replacePatterns(s, execPatterns)
	}}
	deliveryScanner = maskScanner{"maskDelivery", maskDelivery, func(s string) string {
		return deliveryWord.ReplaceAllStringFunc(s, func(word string) string {
			if utf8.RuneCountInString(word) < 5 || !deliveryDigit.MatchString(word) {
				return word
			}
			return masked
		})
	}}
	maskScanners = []maskScanner{failureScanner, execScanner, deliveryScanner}
)

// check compares a scanner with its reference.
func (c maskScanner) check(t *testing.T, s string) {
	t.Helper()
	got, copied := c.mask.apply(s)
	if want := c.reference(s); got != want {
		t.Fatalf("%s(%q)\n got %q\nwant %q", c.name, s, got, want)
	}
	if copied && strings.HasSuffix(s, got) {
		t.Fatalf("%s(%q) was copied", c.name, s)
	}
	if len(got) > len(s) {
		t.Fatalf("%s(%q) is longer", c.name, s)
	}
}

// maskCases are texts and what becomes of them; • is what is masked.
type maskCases []struct{ in, want string }

func runMaskCases(t *testing.T, c maskScanner, about map[string]maskCases) {
	for name, cases := range about {
		t.Run(name, func(t *testing.T) {
			for _, test := range cases {
				c.check(t, test.in)
				got, _ := c.mask.apply(test.in)
				assert.Equal(t, strings.ReplaceAll(test.want, "•", masked), got, "%q", test.in)
			}
		})
	}
}

var failureCases = map[string]maskCases{
	"date-times": {
		{"at 2026-01-02T03:04:05.678Z", "at •"},
		{"at 2026-01-02 03:04:05", "at •"},
		{"2026-01-02t03:04z", "•"},
		{"2026-01-02T03:04", "•"},
		{"2026-01-02T03:04:05+0200", "•"},
		{"2026-01-02T03:04:05-02:00", "•"},
		{"2026-01-02T03:04+02", "•+02"},
		{"2026-01-02T03:04:05.Z", "•.Z"},
		{"2026-01-02T03:04:5", "•:5"},
		{"2026-01-02", "2026-01-02"},
		{"2026-01-02T03", "2026-01-02T03"},
		{"2026-01-02  03:04", "2026-01-02  03:04"},
		{"2026-01-02\n03:04", "2026-01-02\n03:04"},
		{"12026-01-02T03:04", "12026-01-02T03:04"},
		{"x2026-01-02T03:04", "x2026-01-02T03:04"},
		{"_2026-01-02T03:04", "_2026-01-02T03:04"},
		{"é2026-01-02T03:04", "é•"},
		{"-2026-01-02T03:04", "-•"},
		{"2026-01-02T03:04Zulu", "•ulu"},                          // no \b at the end
		{"2026-01-01T10:00ms", "•ms"},                             // nor here
		{"2026-01-02T03:042026-01-02T03:04", "•2026-01-02T03:04"}, // so the second has none at its beginning
		{"2026-01-02T03:04:05.6-07-08T09:00", "•-07-08T09:00"},
		{"2026-01-02T03:04:05.1234-05-06T07:08", "•-05-06T07:08"}, // a match does not begin within another
		{"2026-01-02T03:04:05.12345678-1234-1234-1234-123456789012", "•-1234-1234-123456789012"},
	},
	"clock times": {
		{"at 03:04:05", "at •"},
		{"3:04:05.678", "•"},
		{"103:04:05", "103:04:05"},
		{"03:04", "03:04"},
		{"03:4:05", "03:4:05"},
		{"03:04:056", "03:04:056"},
		{"03:04:05x", "03:04:05x"},
		{"03:04:05.6x", "•.6x"}, // the fraction is given back
		{"03:04:05.", "•."},
		{"03:04:05:06", "•:06"},
		{"01:02:03:04:05:06", "•:•"},
		{"x03:04:05", "x03:04:05"},
		{"03:04:05.2026-01-02T03:04", "•.•"}, // the fraction was part of a date-time
		{"2026-01-02T03:045:06:07", "••"},    // behind a date-time, \b holds
		{"03:04:05.12345678-1234-1234-1234-123456789012", "•-1234-1234-1234-123456789012"},
	},
	"UUIDs": {
		{"id 123e4567-e89b-12d3-a456-426614174000.", "id •."},
		{"123E4567-E89B-12D3-A456-426614174000", "•"},
		{"abcdefab-abcd-abcd-abcd-abcdefabcdef", "•"}, // not one digit
		{"1abcdefab-abcd-abcd-abcd-abcdefabcdef", "1abcdefab-abcd-abcd-abcd-abcdefabcdef"},
		{"abcdefab-abcd-abcd-abcd-abcdefabcdef0", "abcdefab-abcd-abcd-abcd-abcdefabcdef0"},
		{"abcdefab-abcd-abcd-abcd-abcdefabcdeg", "abcdefab-abcd-abcd-abcd-abcdefabcdeg"},
		{"abcdefab-abcd-abcd-abcd-abcdefabcdef-abcd", "•-abcd"},
		{"abcd-abcdefab-abcd-abcd-abcd-abcdefabcdef", "abcd-•"},
		{"pid 12345678-1234-1234-1234-123456789012", "pid •"},
		{"2026-01-02T03:04abcdefab-abcd-abcd-abcd-abcdefabcdef", "••"},
	},
	"addresses": {
		{"at 0x7ffde4a0+0x1F", "at •+•"},
		{"0XABC", "•"},
		{"0x", "0x"},
		{"0xg", "0xg"},
		{"0xfg", "0xfg"},
		{"00x1", "00x1"},
		{"a0x1", "a0x1"},
		{"0x0x0", "0x0x0"},
		{"0x1-0x2", "•-•"},
		{"try 0x1f", "try •"},
	},
	"counters": {
		{"pid 4711 PPID=1 attempt #3", "pid • PPID=• attempt #•"},
		{"retry: 2, retries:3, try4", "retry: •, retries:•, try•"},
		{"pid \t=\r\n 5", "pid \t=\r\n •"},
		{"pid == 5", "pid == 5"},
		{"pid\v5", "pid\v5"}, // no \s
		{"pid 5th", "pid 5th"},
		{"pid 5.5", "pid •.5"},
		{"pid 5é", "pid •é"},
		{"rapid 5", "rapid 5"},
		{"pid_5", "pid_5"},
		{"pid-5", "pid-5"},
		{"pidpid5", "pidpid5"},
		{"retrieſ 5", "retrieſ •"}, // ſ is an s in another case
		{"retrieſ5", "retrieſ•"},
		{"ſtry 5", "ſtry •"}, // but no part of a word
		{"attempt 3 of 5", "attempt • of 5"},
		{"try try 5", "try try •"},
		{"pid 5 s", "pid • s"},    // no duration any more
		{"try 10:11:12", "try •"}, // a clock time before
		{"2026-01-02T03:04try5", "•try•"},
	},
	"durations": {
		{"after 5s, 5 ms, 1.5 min and 12MINUTES", "after •, •, • and •"},
		{"5 secs 5 sec 5 seconds 5 s 5 h 5 m", "• • • • • •"},
		{"5 ns 5 us", "• •"},
		{"5µs 5μs 5ΜS", "• • •"}, // micro sign, small mu, capital mu
		{"5 secsx", "5 secsx"},
		{"5  s", "5  s"},
		{"5\ns", "•"},
		{"5\vs", "5\vs"},
		{"5 hours", "5 hours"},
		{"x5 s", "x5 s"},
		{"5", "5"},
		{"1.5.3 s", "1.•"},
		{"1.5. s", "1.5. s"},
		{".5s", ".•"},
		{"-5s", "-•"},
		{"5s5s", "5s5s"},
		{"5 s 5", "• 5"},
		{"5 s-5 m", "•-•"},
		{"5ſ", "5ſ"}, // behind an ſ, \b holds only where a word begins
		{"5 ſx", "•x"},
		{"5 ſec", "•ec"},
		{"5 secſ", "•ſ"},
		{"5 mſ", "•ſ"},
		{"5 mſx", "•x"},
		{"5 ſ2026-01-02T03:04", "5 ſ•"}, // and none begins where something is masked
		{"5 mſ0x1", "•ſ•"},
		{"5 ſpid 5", "•pid •"},
		{"5 ſ5 s", "••"},
	},
	"others": {
		{"", ""},
		{"no such file or directory - really", "no such file or directory - really"},
		{"line 42, column 7", "line 42, column 7"},
		{" \n5 s\t ", "•"}, // trimmed
		{"\xff5 s\xff\xc5", "\xff•\xff\xc5"},
		{"\xc55 s\xbf", "\xc5•\xbf"},
		{"5 \xc5s", "5 \xc5s"},
		{"5 s\xe2\x84", "•\xe2\x84"},
	},
}

func TestMaskFailure(t *testing.T) { runMaskCases(t, failureScanner, failureCases) }

var execCases = map[string]maskCases{
	"process numbers": {
		{"started, pid 4711, ppid: 1", "started, pid •, ppid: •"},
		{"attempt 3", "attempt 3"},
		{"pppid 5", "pppid 5"},
		{"pid #5x", "pid #5x"},
	},
	"sessions": {
		{"session brisk-otter started", "session • started"},
		{"Session: a_b-c", "Session: •"},
		{"session = \n x", "session = \n •"},
		{"session\nx", "session\n•"},
		{"session id 7f", "session id •"},
		{"session_id=7f", "session_id=•"},
		{"session-ID 7f", "session-ID •"},
		{"sessionid 7f", "sessionid •"},
		{"session id", "session •"},   // "id" is the name
		{"session id=", "session •="}, // and here
		{"session id = ", "session • = "},
		{"session  id 7", "session  • 7"},
		{"session -id 7", "session • 7"},
		{"session idx 7", "session • 7"},
		{"sessionid", "sessionid"},
		{"session_idx", "session_idx"},
		{"session-id", "session-id"},
		{"session", "session"},
		{"session =", "session ="},
		{"session == x", "session == x"},
		{"session (x)", "session (x)"},
		{"session -", "session •"},
		{"sessions x", "sessions x"},
		{"subsession x", "subsession x"},
		{"sub-session x", "sub-session •"},
		{"session session session x", "session • session •"},
		{"session élan", "session élan"},
		{"session x\xff", "session •\xff"},
		{"xſeſſion x", "xſeſſion •"}, // the \b before is one between x and ſ
		{"ſeſſion x", "ſeſſion x"},
		{"session xſ\u212ay", "session •"}, // in brackets, \w is subject to folding
		{"session pid 5", "session • •"},
		{"session pid5", "session ••"},
	},
	"figures": {
		{"took 5s", "took •"},
		{"Duration: 1.25 seconds.", "Duration: •."},
		{"elapsed=00:01:02.5", "elapsed=•"},
		{"took 1m30s", "took •"},
		{"took 5 ms, 6 ms", "took •, 6 ms"},
		{"took 5 minutes", "took •"},
		{"took 5 hours", "took • hours"},
		{"took 5  s", "took •  s"},
		{"took 5.", "took •."},
		{"took 5...:", "took •...:"},
		{"took 5. s", "took •"},
		{"took 5. sx", "took •. sx"},
		{"took #5", "took #5"},
		{"took about 5 s", "took about 5 s"},
		{"mistook 5", "mistook 5"},
		{"too\u212a5", "too\u212a•"}, // the Kelvin sign is a k
		{"elapſed 5", "elapſed •"},
		{"took 5ſ", "took •ſ"},
		{"took 5ſx", "took •"},
		{"took 5.ſ s", "took •"},
		{"took 5 ſ", "took • ſ"},
		{"took 5 ſx", "took •x"},
		{"took 5 ſtook 6", "took •took •"},
		{"took 5:took6 took 7", "took • took •"},
		{"took 5:took 6", "took • 6"},
		{"took 5\u212a.\u212a", "took •\u212a.\u212a"},
		{"took 5é", "took •é"},
		{"took:pid 5", "took:pid •"},
	},
	"others": {
		{"", ""},
		{" session x ", " session • "},
		{"2026-01-02T03:04:05Z 0x1f 5 s", "2026-01-02T03:04:05Z 0x1f 5 s"},
	},
}

func TestMaskExecText(t *testing.T) { runMaskCases(t, execScanner, execCases) }

var deliveryCases = map[string]maskCases{"words": {
	{"sent as 1234.5678 to C0123ABC", "sent as • to •"},
	{"sent to #general", "sent to #general"},
	{"1234", "1234"},
	{"12345", "•"},
	{"1___é", "•"},
	{"abcde", "abcde"},
	{"abcd5", "•"},
	{"a@b.c:5-_", "•"},
	{"a/b/c/1", "a/b/c/1"},
	{"٣abcd", "•"}, // digits are those of Unicode
	{"ⅷabcd", "ⅷabcd"},
	{"名前名前1", "•"},
	{"名前1", "名前1"}, // characters are counted, not bytes
	{"ab1\xffcd2", "ab1\xffcd2"},
	{"abc12\xff", "•\xff"},
	{" 12345 ", " • "},
	{"e\u03011234", "e\u03011234"}, // an accent of its own is no letter
	{"", ""},
}}

func TestMaskDelivery(t *testing.T) { runMaskCases(t, deliveryScanner, deliveryCases) }

func TestMaskLeavesTextAlone(t *testing.T) {
	var r rewriter
	for _, s := range []string{"", "nothing", "a line: 42 - or 43, of 0 bytes - at 5:12, no session", prose[:len(prose)-1]} {
		for _, c := range maskScanners {
			allocations := testing.AllocsPerRun(10, func() {
				r.start(s)
				c.mask(&r)
				if len(r.out) > 0 || unsafe.StringData(r.rest()) != unsafe.StringData(s) || len(r.rest()) != len(s) {
					t.Errorf("%s(%q) is not what it was", c.name, s)
				}
			})
			assert.Zero(t, allocations, "%s(%q)", c.name, s)
		}
	}
}

// maskFragments are what random texts are made of: what the patterns consist of, and what nearly is the same.
var maskFragments = []string{
	"0", "1", "5", "12", "123", "1234", "12345678", "2026", "2026-01-02", "2026-01-02T03:04", "2026-01-02 03:04:05",
	"T", "t", "Z", "z", "-", "-", ":", ":", ".", ".", "+", "=", "#", "_", "@", " ", " ", " ", "\n", "\t", "\v", "\r\n",
	":04", ":05", "03:04", "03:04:05", ".5", "+02:00", "+0200", "-07", "-0700",
	"a", "f", "g", "x", "X", "0x", "0X", "abcd", "-abcd", "abcdef01", "abcdefabcdef", "0123456789ab",
	"123e4567-e89b-12d3-a456-426614174000", "ABCDEFAB-ABCD-ABCD-ABCD-ABCDEFABCDEF", "-1234-1234-1234-123456789012",
	"pid", "PPID", "p", "attempt", "retry", "Retries", "retrieſ", "try",
	"ns", "us", "µs", "μs", "Μſ", "µ", "ms", "mſ", "s", "S", "ſ", "sec", "ſec", "secs", "secſ", "seconds", "secondſ",
	"m", "min", "minutes", "minuteſ", "h",
	"session", "Session", "seſſion", "sessi", "on", "id", "ID", " id", "_id", "-id", "sessionid",
	"took", "too", "k", "\u212a", "too\u212a", "duration", "Elapsed", "elapſed",
	"é", "ß", "名", "٣", "\u0301", "\xff", "\xc5", "\xbf", "\xe2\x84", "\xaa", "\xc2", "\xb5", "\ufffd", "\x00",
}

// randomMaskText puts a text together from a few fragments, so that each of them often meets each other, or from pieces of
// matches, so that matches overlap.
func randomMaskText(random *rand.Rand) string {
	few := make([]string, 2+random.IntN(10))
	overlapping := random.IntN(2) == 0
	for i := range few {
		if few[i] = maskFragments[random.IntN(len(maskFragments))]; overlapping {
			few[i] = piece(random, maskMatches[random.IntN(len(maskMatches))])
		}
	}
	var b strings.Builder
	for range 1 + random.IntN(14) {
		b.WriteString(few[random.IntN(len(few))])
	}
	return b.String()
}

// maskMatches are matches of each pattern, in as few different characters as they can be, so that the pieces of one fit
// another.
var maskMatches = []string{
	"1111-11-11T11:11:11.1111Z", "1111-11-11 11:11:11+11:11", "1111-11-11T11:11-1111", "1:11:11.1111", "11:11:11",
	"11111111-1111-1111-1111-111111111111", "a1111111-1111-1111-1111-11111111111a", "0x1", "0x11111111",
	"pid 1111", "PPID=11", "attempt #1", "try1", "retries : 11111111", "retrieſ1", "1s", "1.1111 mſ", "11 secſ", "1ſ", "1111.1 µs",
	"session 1111-11", "session-id: a1", "ſession_id = ſ1", "sessionid pid1", "took 11:11:11.1 s", "elapſed=1 ſ", "duration: pid 1",
	"too\u212a1\u212a", "took:1.session:1", ".", ":", "-", " ", "",
}

// piece returns a piece of a text, which often is the whole.
func piece(random *rand.Rand, s string) string {
	from, to := 0, len(s)
	if random.IntN(3) == 0 {
		from = random.IntN(len(s) + 1)
	}
	if random.IntN(3) == 0 {
		to = from + random.IntN(len(s)+1-from)
	}
	return s[from:to]
}

var randomTexts = flag.Int("texts", 20_000, "the number of random texts on which scanners are compared with their references")

func TestMaskRandomTexts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	for range *randomTexts {
		s := randomMaskText(random)
		for _, c := range maskScanners {
			c.check(t, s)
		}
	}
}

func fuzzMask(f *testing.F, c maskScanner, seeds map[string]maskCases) {
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		for _, test := range seeds[name] {
			f.Add(test.in)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		f.Add(randomMaskText(random))
	}
	f.Fuzz(func(t *testing.T, s string) { c.check(t, s) })
}

func FuzzMaskFailure(f *testing.F)  { fuzzMask(f, failureScanner, failureCases) }
func FuzzMaskExecText(f *testing.F) { fuzzMask(f, execScanner, execCases) }
func FuzzMaskDelivery(f *testing.F) { fuzzMask(f, deliveryScanner, deliveryCases) }

const (
	logLines = "2026-01-15T10:23:45.123Z ERROR worker pid=4312 attempt 3 of 5: request " +
		"123e4567-e89b-12d3-a456-426614174000 failed after 120ms at 0x7ffde4a0 (line 42, 3 files changed)\n" +
		"    at handler.process (/srv/app/lib/handler.js:118:23) with status code 503 and no retry\n"
	prose = "The quick brown fox jumps over the lazy dog, and nothing - as ever - was found in its well-known place.\n"
)

// hostileUnits are texts that, repeated, make a scanner quadratic if it looks too far, or again and again.
var hostileUnits = []string{
	"1", "1.", "1.1.1.1 ", "1:", "1 ", "1 s", "1ſ", "12:34:56.", "2026-", "1234-05-06T07:08:09.",
	"0", "0x", "0x0", "f", "abcdefab-", "-", ":", " ", "pid ", "pid 1 ", "try = ", "retrieſ",
	"session ", "session id ", "session = ", "session\n\n\n", "sessio",
	"took ", "took 1", "took 1:", "took 1ſ", "took 1.took ", "ſ", "\xff", "é1",
}

// The texts are as large as the reference can bear; the benchmarks have the megabytes.
func TestMaskHostileTexts(t *testing.T) {
	for _, unit := range hostileUnits {
		for _, c := range maskScanners {
			text := strings.Repeat(unit, 4<<10/len(unit))
			c.check(t, text)
			c.check(t, "pid"+text+"1")
			c.check(t, "session"+text+"x")
			c.check(t, "took 1"+text)
			c.check(t, "1"+text+"s")
		}
	}
}

func mebibyte(unit string) string { return strings.Repeat(unit, 1<<20/len(unit)+1)[:1<<20] }

func benchmarkMask(b *testing.B, mask mask) {
	run := func(name, text string) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var r rewriter
			for b.Loop() {
				r.start(text)
				mask(&r)
			}
		})
	}
	run("log", mebibyte(logLines))
	run("prose", mebibyte(prose))
	run("prose with a digit", mebibyte(prose)+"1")
	for _, unit := range hostileUnits {
		run(fmt.Sprintf("hostile %+q", unit), mebibyte(unit))
	}
	run("hostile spaces between", "pid"+mebibyte(" ")+"1")
}

func BenchmarkMaskFailure(b *testing.B)  { benchmarkMask(b, maskFailure) }
func BenchmarkMaskExecText(b *testing.B) { benchmarkMask(b, maskExecText) }
func BenchmarkMaskDelivery(b *testing.B) { benchmarkMask(b, maskDelivery) }

// BenchmarkMaskYardstick is what masking is measured by: one pass of SHA-256 over the same text.
func BenchmarkMaskYardstick(b *testing.B) {
	text := []byte(mebibyte(logLines))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		sha256.Sum256(text)
	}
}
