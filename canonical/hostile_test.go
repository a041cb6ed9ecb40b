package canonical_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/loopguard-go/loopguard/canonical"
)

// hostile are inputs that would hurt a careless reader, made as large as asked for.
var hostile = map[string]func(size int) string{
	"arrays in arrays": func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"deep but allowed": func(n int) string {
		return "[" + repeat(strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+",", n) + "1]"
	},
	"objects in objects":     func(n int) string { return strings.Repeat(`{"a":`, n/6) + "1" + strings.Repeat("}", n/6) },
	"never closed":           func(n int) string { return strings.Repeat(`{"a":[`, n/6) },
	"many small values":      func(n int) string { return "[" + repeat("1,", n) + "1]" },
	"empty strings":          func(n int) string { return "[" + repeat(`"",`, n) + "1]" },
	"many keys":              func(n int) string { return "{" + numbered(`"k%d":1,`, n) + `"z":1}` },
	"keys with one prefix":   func(n int) string { return "{" + numbered(`"`+strings.Repeat("k", 100)+`%d":1,`, n) + `"z":1}` },
	"a key twice at the end": func(n int) string { return "{" + numbered(`"k%d":1,`, n) + `"k1":1}` },
	"digits":                 func(n int) string { return `{"n":1` + strings.Repeat("0", n) + "1}" },
	"an exponent of digits":  func(n int) string { return `{"n":1e` + strings.Repeat("9", n) + "}" },
	"huge exponents":         func(n int) string { return `[` + repeat("1e999999999,", n) + "1]" },
	"escapes":                func(n int) string { return `{"s":"` + repeat(`\u00e9`, n) + `"}` },
	"broken at the end":      func(n int) string { return `{"s":"` + repeat(`\u00e9`, n) + `\ud800"}` },
	"invalid UTF-8":          func(n int) string { return `{"s":"` + repeat("\xff", n) + `"}` },
	"JSON in JSON":           func(n int) string { return `{"content":[{"type":"text","text":"{` + repeat(`\"a\":`, n) + `"}]}` },
	"text parts": func(n int) string {
		return `{"content":[` + repeat(`{"type":"text","text":"x"},`, n) + `{"type":"text","text":"y"}]}`
	},
	"white space": func(n int) string { return strings.Repeat(" \n\t\r", n/4) + "{}" },
	"names of ids": func(n int) string {
		return "{" + numbered(`"k%d":{"messageId":"identifier-%[1]d"},`, n) + `"text":"identifier"}`
	},
	"one long id": func(n int) string {
		return `{"messageId":"` + strings.Repeat("a", n/2) + `","link":"` + strings.Repeat("a", n/2) + `"}`
	},
	"status in many cases": func(n int) string { return "{" + numbered(`"s_%d":1,"S-%[1]d":2,`, n) + `"status":"failed"}` },
	"masks that almost match": func(n int) string {
		return `{"exitCode":1,"output":"` + repeat("2026-01-01T10:00 0x pid pid 12:34: 1.5.1.5 attempt session ", n) + `"}`
	},
	"many ids and nothing": func(n int) string {
		return `{"m":[` + numbered(`{"messageId":"i%05d"},`, n/2) + repeat(`"",`, n/2) + `"x"]}`
	},
	"ids beside a part": func(n int) string {
		return `{"content":[{"type":"image","data":"` + strings.Repeat("a", n/2) + `"}],"details":{"m":[` +
			numbered(`{"messageId":"`+strings.Repeat("a", 60)+`%d"},`, n/2) + `1]}}`
	},
	"colons": func(n int) string { return strings.Repeat(":", n) },
	"an unknown tool": func(n int) string {
		return `{"isError":true,"content":[{"type":"text","text":"` + repeat("tool tool ", n) + `"}]}`
	},
}

// repeat repeats a piece until it has a size.
func repeat(piece string, size int) string { return strings.Repeat(piece, max(1, size/len(piece))) }

// numbered repeats a format with numbers until it has a size.
func numbered(format string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// digest takes the identity of an input as arguments, as a result in several shapes, and as an error, for a tool of each
// kind. It returns how long that took.
func digest(tool, input string) time.Duration {
	start := time.Now()
	id := canonical.New(canonical.WithRules(func(string) canonical.Rule {
		return canonical.Rule{IgnoreResult: []string{"requestId"}}
	})).Identify(canonical.Call{Tool: tool, Args: input})
	id.Result(canonical.Result{Text: input})
	id.Result(canonical.Result{Details: json.RawMessage(input), IsError: true})
	id.Error(errors.New(input))
	return time.Since(start)
}

var tools = []string{"f", "exec", "command_status", "send_message", "tool tool", ":"}

// Whatever the input, eight times as much of it takes about eight times as long, and it costs no more than a multiple of
// what benign input of its size costs. The bounds are generous: what they are there for is cost that grows with the square
// of the size. A busy machine can make any measurement look bad, so the best of several tries counts.
func TestHostileInputIsNotDear(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	const small, large, mostGrowth, mostMultiple, tries = 24 << 10, 192 << 10, 40, 80, 20
	benign := `{"status":"completed","lines":[` + numbered(`{"n":%d,"text":"a line of some log, with words"},`, large) + `1]}`
	for _, tool := range tools {
		for name, make := range hostile {
			best := map[string]time.Duration{}
			var growth, multiple float64
			for range tries {
				for size, input := range map[string]string{"small": make(small), "large": make(large), "benign": benign} {
					if took := digest(tool, input); best[size] == 0 || took < best[size] {
						best[size] = took
					}
				}
				growth = best["large"].Seconds() / best["small"].Seconds()
				multiple = best["large"].Seconds() / best["benign"].Seconds()
				if growth < mostGrowth && multiple < mostMultiple {
					break
				}
			}
			assert.Less(t, growth, float64(mostGrowth), "%s: %s, eight times as much", tool, name)
			assert.Less(t, multiple, float64(mostMultiple), "%s: %s, against benign input", tool, name)
			t.Logf("%-15s %-25s %5.1f times as long for 8 times as much, %5.1f times benign", tool, name, growth, multiple)
		}
	}
}

// Go values that JSON cannot express, or that contain themselves, do no harm.
func TestHostileGoValues(t *testing.T) {
	type list struct{ Next *list }
	cyclic := &list{}
	cyclic.Next = cyclic
	branching := map[string]any{}
	branching["a"], branching["b"], branching["c"] = branching, []any{branching, branching}, 1
	for _, v := range []any{cyclic, branching, make(chan int), func() {}, json.RawMessage(`{"a":`), json.Number("x"), []any{nil, cyclic}} {
		assert.Equal(t, outcome("f", canonical.Result{Details: v}), outcome("f", canonical.Result{Details: v}), "%T", v)
	}
	assert.NotEqual(t, outcome("f", canonical.Result{Details: json.Number("x")}), outcome("f", canonical.Result{Details: json.Number("y")}))
}

func FuzzIdentify(f *testing.F) {
	for _, make := range hostile {
		f.Add("exec", make(64), false)
		f.Add("message", make(64), true)
	}
	f.Add("process", `{"action":"poll"}`, false)
	f.Fuzz(func(t *testing.T, tool, args string, recorded bool) {
		call := canonical.Call{Tool: tool, Args: args, ArgsJSON: recorded}
		a, b := canonical.New().Identify(call), canonical.New().Identify(call)
		assert.Equal(t, a.Signature, b.Signature)
		assert.LessOrEqual(t, len(a.Name), 128)

		// Spelled anew, JSON is the same.
		var v any
		decoder := json.NewDecoder(strings.NewReader(args))
		decoder.UseNumber()
		if a.Signature != signature(tool, args) || decoder.Decode(&v) != nil || decoder.More() {
			return
		}
		if object, ok := v.(map[string]any); ok && len(object) > 0 && json.Valid([]byte(args)) {
			if spelled, err := json.Marshal(object); err == nil && isStrict(args) {
				assert.Equal(t, a.Signature, signature(tool, string(spelled)))
			}
		}
	})
}

// isStrict reports whether a JSON text has nothing that encoding/json repairs silently.
func isStrict(s string) bool {
	return !strings.Contains(strings.ToLower(s), `\ud`) && strings.ToValidUTF8(s, "") == s && !hasDuplicates(s)
}

func hasDuplicates(s string) bool {
	decoder := json.NewDecoder(strings.NewReader(s))
	var stack []map[string]bool
	isKey := []bool{false}
	for {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		last := len(isKey) - 1
		switch token {
		case json.Delim('{'):
			stack, isKey = append(stack, map[string]bool{}), append(isKey, true)
			continue
		case json.Delim('['):
			stack, isKey = append(stack, nil), append(isKey, false)
			continue
		case json.Delim('}'), json.Delim(']'):
			stack, isKey = stack[:len(stack)-1], isKey[:last]
			last--
		default:
			if isKey[last] {
				name := token.(string)
				if stack[len(stack)-1][name] {
					return true
				}
				stack[len(stack)-1][name] = true
				isKey[last] = false
				continue
			}
		}
		if len(stack) > 0 && stack[len(stack)-1] != nil {
			isKey[last] = true
		}
	}
}

func FuzzOutcome(f *testing.F) {
	for _, make := range hostile {
		for _, tool := range tools {
			f.Add(tool, make(64))
		}
	}
	f.Fuzz(func(t *testing.T, tool, input string) {
		id := canonical.New().Identify(canonical.Call{Tool: tool})
		assert.Equal(t, id.Result(canonical.Result{Text: input}), id.Result(canonical.Result{Text: " " + input + "\n"}))
		assert.Equal(t, id.Error(errors.New(input)), id.Error(errors.New(input)))
		assert.True(t, id.Result(canonical.Result{Text: input, IsError: true}).Failure)
		var v any
		if json.Unmarshal([]byte(input), &v) == nil {
			id.Result(canonical.Result{Details: v})
			id.Result(canonical.Result{Details: json.RawMessage(input), Parts: []any{v}})
		}
	})
}
