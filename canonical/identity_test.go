package canonical_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
)

// signature returns the signature of a call with arguments.
func signature(tool, args string) canonical.Digest {
	id := canonical.New().Identify(canonical.Call{Tool: tool, Args: args})
	return id.Signature
}

// outcome returns the outcome of a call of a tool.
func outcome(tool string, r canonical.Result, options ...canonical.Option) canonical.Outcome {
	id := canonical.New(options...).Identify(canonical.Call{Tool: tool})
	return id.Result(r)
}

// said is a result that is one text.
func said(s string) canonical.Result { return canonical.Result{Text: s} }

// raw is a result that is one JSON value.
func raw(s string) canonical.Result { return canonical.Result{Details: json.RawMessage(s)} }

func TestSignatureSame(t *testing.T) {
	for _, same := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"b\" : 2.0, \"a\":1e0 } ", `{"\u0061":1,"b":20e-1}`},
		{`{"n":0}`, `{"n":-0}`, `{"n":0.000}`, `{"n":0e99999999999999999999999}`},
		{`{"n":12000}`, `{"n":1.2e4}`, `{"n":0.12E+5}`, `{"n":120000e-1}`},
		{`[{"x":{"c":3,"a":[1,2]}}]`, `[{"x":{"a":[1.0,2],"c":3}}]`},
		{``, ` `, "\n", `{}`, ` { } `},
		{`{"s":"é\n"}`, `{"s":"\u00e9\u000a"}`},
	} {
		for _, args := range same[1:] {
			assert.Equal(t, signature("f", same[0]), signature("f", args), "%s and %s", same[0], args)
		}
	}
	assert.Equal(t, signature("Read", `{}`), signature(" read\n", ``), "names fold")
}

func TestSignatureDiffers(t *testing.T) {
	different := []string{
		``, `[]`, `x`, ` x`, `null`, `{"a":null}`, `{"a":1}`, `{"a":"1"}`, `{"a":true}`, `{"a":[1]}`, `{"a":[]}`, `{"a":{}}`,
		`{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":9007199254740992}`, `{"a":9007199254740993}`, `{"a":1e400}`, `{"a":1e401}`,
		`{"a":1e99999999999999999999}`, `{"a":1e99999999999999999998}`, `{"a":-1}`, `{"a":""}`, `{"b":1}`, `{"a":1,"b":1}`,
		`{"a":1,"a":1}`, `{"a":2,"a":1}`, `{"a":1`, `{"a":1}}`, `{"a":"\ud800"}`, `{"a":"\ud801"}`, "{\"a\":\"\xff\"}",
		"{\"a\":\"\xfe\"}", `{"a":"é"}`, `{"a":"e` + "\u0301" + `"}`, `{"A":1}`, `[[],[]]`, `[[[]]]`,
	}
	seen := map[canonical.Digest]string{}
	for _, args := range different {
		s := signature("f", args)
		require.NotContains(t, seen, s, "%s and %s", args, seen[s])
		seen[s] = args
	}
	assert.NotEqual(t, signature("f", `{}`), signature("g", `{}`))
	assert.NotEqual(t, signature("f", `g`), signature("fg", ``), "a name does not run into the arguments")
}

func TestRecordedArguments(t *testing.T) {
	recorded := func(args string) canonical.Digest {
		id := canonical.New().Identify(canonical.Call{Tool: "f", Args: args, ArgsJSON: true})
		return id.Signature
	}
	assert.Equal(t, recorded(`1`), recorded(`1.0`))
	assert.NotEqual(t, recorded(`1`), recorded(`"1"`))
	assert.Equal(t, signature("f", ``), recorded(`null`))
	assert.Equal(t, signature("f", ``), recorded(`""`))
	assert.Equal(t, signature("f", ``), recorded(``))
	assert.Equal(t, signature("f", `null`), recorded(`"null"`), "as text it is text")
	assert.Equal(t, signature("f", `{"a":1}`), recorded(`"{\"a\":1.0}"`), "JSON in a string is JSON")
	assert.Equal(t, signature("f", `{"a":1,"a":2}`), recorded(`{"a":1,"a":2}`), "what is not strict is text")
}

// An identity is kept for as long as the call takes, while others are identified in the same memory.
func TestActionIsKept(t *testing.T) {
	first := canonical.New().Identify(canonical.Call{Tool: "message", Args: `{"action":"re\u0070ly","text":"\n"}`})
	for range 10 {
		canonical.New().Identify(canonical.Call{Tool: "message", Args: `{"action":"\u0070oll","text":"\n"}`})
	}
	assert.Equal(t, "reply", first.Action)
}

func TestRules(t *testing.T) {
	with := func(r canonical.Rule, args string) canonical.Identity {
		c := canonical.New(canonical.WithRules(func(string) canonical.Rule { return r }))
		return c.Identify(canonical.Call{Tool: "f", Args: args})
	}
	ignore := canonical.Rule{IgnoreArgs: []string{"note", "action"}}
	a, b := with(ignore, `{"x":1,"note":"first","action":"go"}`), with(ignore, `{"x":1}`)
	assert.Equal(t, a.Signature, b.Signature)
	assert.Equal(t, "go", a.Action, "the action is read before it is dropped")
	assert.NotEqual(t, with(ignore, `{"Note":1}`).Signature, with(ignore, `{}`).Signature, "matched exactly")
	assert.NotEqual(t, with(ignore, `{"x":{"note":1}}`).Signature, with(ignore, `{"x":{}}`).Signature, "top level only")

	only := canonical.Rule{IdentityArgs: []string{"url", "trace"}, IgnoreArgs: []string{"trace"}}
	assert.Equal(t, with(only, `{"url":"u","trace":1,"x":2}`).Signature, with(only, `{"url":"u"}`).Signature)
	assert.Equal(t, with(only, `{"x":2}`).Signature, with(only, ``).Signature, "nothing left is no arguments")
	assert.NotEqual(t, with(only, `[1]`).Signature, with(only, `[2]`).Signature, "rules are for objects")
}

func TestHooks(t *testing.T) {
	c := canonical.New(
		canonical.WithKey("Search", func(call canonical.Call) string { return strings.ToLower(call.Args) }),
		canonical.WithResult("search", func(_ canonical.Call, r canonical.Result) canonical.Result {
			r.Text, _, _ = strings.Cut(r.Text, " in ")
			return r
		}),
	)
	a, b := c.Identify(canonical.Call{Tool: "search", Args: "Paris"}), c.Identify(canonical.Call{Tool: "SEARCH", Args: "PARIS"})
	assert.Equal(t, a.Signature, b.Signature)
	assert.Equal(t, a.Result(said("3 hits in 5 ms")), b.Result(said("3 hits in 9 ms")))
	assert.NotEqual(t, a.Result(said("3 hits in 5 ms")), b.Result(said("4 hits in 5 ms")))
	other := c.Identify(canonical.Call{Tool: "find", Args: "Paris"})
	assert.NotEqual(t, a.Signature, other.Signature)
}

func TestLongToolNames(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	a := canonical.New().Identify(canonical.Call{Tool: long})
	assert.Equal(t, long, a.Tool, "rules are found by it")
	assert.Regexp(t, `^sha256:[0-9a-f]{32}$`, a.Name, "what is kept and reported")
	b := canonical.New().Identify(canonical.Call{Tool: strings.ToUpper(long)})
	assert.Equal(t, a.Signature, b.Signature)
	assert.Equal(t, a.Tool, b.Tool)
	assert.True(t, a.Error(errors.New("Tool "+long+" not found")).UnknownTool)
}

func TestOutcomeSame(t *testing.T) {
	for _, c := range []struct {
		tool string
		same []canonical.Result
	}{
		{"f", []canonical.Result{said("x"), said(" x\n"), raw(`"x"`), raw(`{"content":[{"type":"text","text":"x"}]}`),
			said(`{"content":[{"type":"text","text":" x "}],"_meta":{"id":7},"isError":false}`), {Details: "x"}}},
		{"f", []canonical.Result{raw(`{"a":1}`), said(`{"a":1.0}`), {Details: map[string]any{"a": 1}},
			{Details: struct {
				A float64 `json:"a"`
			}{1}}, raw(`{"content":[{"type":"text","text":"{\"a\":1}"}]}`),
			raw(`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`),
			raw(`{"content":[],"details":{"a":1}}`),
			{Text: `{"a":1}`, Details: map[string]any{"a": json.Number("1.0")}}}},
		{"f", []canonical.Result{said(`[1,2]`), raw(`[1.0,2]`), {Details: []any{1, 2}}, {Details: []int{1, 2}}}},
		{"f", []canonical.Result{raw(`null`), {Details: json.RawMessage("null")}}},
		{"f", []canonical.Result{
			raw(`{"content":[{"type":"image","data":"A"},{"type":"text","text":"x"}]}`),
			{Text: "x", Parts: []any{map[string]any{"type": "image", "data": "A"}}}}},
		{"bash", []canonical.Result{
			raw(`{"exit_code":0,"output":"a\n","pid":1}`), raw(`{"Exit-Code":0.0,"aggregated":"a","pid":2}`),
			raw(`{"returncode":0,"aggregated":" ","output":"a","cwd":"/"}`)}},
		{"bash", []canonical.Result{
			raw(`{"status":"failed","exitCode":1,"output":"at 10:00:00: no"}`),
			raw(`{"status":"failed","exitCode":1,"output":"at 11:00:00: no"}`)}},
		{"bash", []canonical.Result{
			raw(`{"status":"running","tail":"x","pid":1}`), raw(`{"status":"running","tail":"","stdout":"x","exitCode":null}`)}},
		{"sh", []canonical.Result{said("Process started, PID: 12, took 3.5s"), said("Process started, PID: 99, took 1m2s")}},
		{"command_status", []canonical.Result{raw(`{"status":"running","at":1}`), raw(`{"status":"running","at":2,"output":null}`)}},
		{"send_message", []canonical.Result{
			raw(`{"ok":true,"message":{"id":"m-000001","text":"hi"},"link":"x/m-000001"}`),
			raw(`{"ok":true,"message":{"id":"m-000002","text":"hi"},"link":"x/m-000002"}`)}},
	} {
		for _, r := range c.same[1:] {
			assert.Equal(t, outcome(c.tool, c.same[0]), outcome(c.tool, r), "%s: %v and %v", c.tool, c.same[0], r)
		}
	}
}

func TestOutcomeDiffers(t *testing.T) {
	for tool, different := range map[string][]canonical.Result{
		"f": {
			said(""), said("x"), raw("null"), raw("[]"), raw("{}"), raw("0"), raw("false"), said("0"), raw(`{"a":1}`),
			{Text: "x", IsError: true}, raw(`{"content":[{"type":"text","text":"x"}],"cursor":1}`),
			raw(`{"content":["x"]}`), raw(`{"content":[{"type":"image","data":"A"}]}`),
			raw(`{"content":[{"type":"image","data":"B"}]}`),
			{Text: "x", Parts: []any{"p"}}, {Text: "x", Parts: []any{"q"}}, {Text: "x", Details: map[string]any{"a": 1}},
			raw(`{"content":[{"type":"text","text":"[1,2]"}]}`), said("[1,2]"),
			{Details: map[string]any{"f": make(chan int)}},
		},
		"bash": {
			raw(`{"exitCode":0,"output":"a"}`), raw(`{"exitCode":1,"output":"a"}`), raw(`{"exitCode":0,"output":"b"}`),
			raw(`{"exitCode":0,"stdout":"a"}`), raw(`{"exitCode":0,"stderr":"a"}`), raw(`{"exitCode":0,"output":"a","timedOut":true}`),
			raw(`{"status":"completed","exitCode":0,"output":"a"}`), raw(`{"status":"running","tail":"a"}`),
			raw(`{"status":"approval-pending","command":"a"}`), raw(`{"status":"approval-pending","command":"b"}`),
			said("a"), said("copied 1 of 9"), said("copied 2 of 9"),
			raw(`{"exitCode":0,"output":"10:00:00"}`), raw(`{"exitCode":0,"output":"11:00:00"}`),
		},
		"send_message": {
			raw(`{"messageId":"m1","route":{"id":"r1"}}`), raw(`{"messageId":"m1","route":{"id":"r2"}}`),
			raw(`{"messageId":"m1","chat":"c"}`), raw(`{"messageId":"m1","error":"x"}`), said("sent"),
		},
	} {
		seen := map[canonical.Digest]canonical.Result{}
		for _, r := range different {
			o := outcome(tool, r)
			require.NotContains(t, seen, o.Digest, "%s: %v and %v", tool, r, seen[o.Digest])
			seen[o.Digest] = r
		}
	}
}

func TestLastByteCounts(t *testing.T) {
	large := strings.Repeat("x", 10<<20)
	for _, tool := range []string{"f", "bash"} {
		assert.NotEqual(t, outcome(tool, said(large+"a")), outcome(tool, said(large+"b")))
		assert.NotEqual(t, outcome(tool, raw(`{"exitCode":1,"output":"`+large+`a"}`)), outcome(tool, raw(`{"exitCode":1,"output":"`+large+`b"}`)))
	}
}

func TestFailures(t *testing.T) {
	id := canonical.New().Identify(canonical.Call{Tool: "api"})
	a := id.Error(errors.New("2026-01-01T00:00:00Z request 3f2b8c1e-0d4a-4e5f-9a6b-7c8d9e0f1a2b failed after 3 ms (attempt 1)"))
	b := id.Error(errors.New("2026-01-02T00:00:00Z request 4f2b8c1e-0d4a-4e5f-9a6b-7c8d9e0f1a2b failed after 5 ms (attempt 2)"))
	assert.Equal(t, a, b)
	assert.True(t, a.Failure)
	assert.NotEqual(t, a.Digest, id.Error(errors.New("another")).Digest)

	words := errors.New("no such host")
	assert.NotEqual(t, id.Error(words).Digest, id.Result(said("no such host")).Digest)
	assert.NotEqual(t, id.Error(words).Digest, id.Result(canonical.Result{Text: "no such host", IsError: true}).Digest)
	assert.True(t, outcome("f", canonical.Result{Text: "x", IsError: true}).Failure)
	assert.True(t, outcome("bash", raw(`{"exitCode":2}`)).Failure)
	assert.True(t, outcome("bash", raw(`{"exitCode":0,"timedOut":true}`)).Failure)
	assert.False(t, outcome("bash", raw(`{"exitCode":"0"}`)).Failure, "an exit code in quotes")
	assert.False(t, outcome("f", raw(`{"exitCode":2}`)).Failure, "only of tools that run commands")
}

func TestUnknownTool(t *testing.T) {
	id := canonical.New().Identify(canonical.Call{Tool: "Weather"})
	for _, text := range []string{
		"unknown tool: weather", "Unknown tool 'weather'.", "Tool \"weather\" is not available", "tool  weather\tnot found",
		"WEATHER is not a valid tool, try another one", "`weather` is not a valid tool", "error: unknown tool:weather (sorry)",
		"unknown tool weather. Try again", "x; tool weather not found", "unknown tool: “Weather”",
	} {
		assert.True(t, id.Error(errors.New(text)).UnknownTool, text)
		assert.True(t, id.Result(canonical.Result{Text: text, IsError: true}).UnknownTool, text)
		assert.False(t, id.Result(said(text)).UnknownTool, "a success: %s", text)
	}
	for _, text := range []string{
		"weather", "unknown tool: weather_v2", "unknown tool: my-weather", "tool jq not found", "tool weather.v2 not found",
		"the toolweather not found", "unknowntool weather", "weather is not a valid city", "tool weather was not found", "",
		"unknown tool: weather/today", "unknown tool: big weather",
	} {
		assert.False(t, id.Error(errors.New(text)).UnknownTool, text)
	}
	assert.True(t, id.Error(fmt.Errorf("sorry: %w", canonical.ErrUnknownTool)).UnknownTool)

	unregistered := canonical.New().Identify(canonical.Call{Tool: "bash", Unregistered: true})
	assert.True(t, unregistered.Error(errors.New("nothing by that name")).UnknownTool)
	assert.True(t, unregistered.Result(raw(`{"exitCode":1}`)).UnknownTool)
	assert.False(t, unregistered.Result(said("fine")).UnknownTool)

	bash := canonical.New().Identify(canonical.Call{Tool: "bash"})
	assert.False(t, bash.Result(raw(`{"exitCode":127,"output":"tool bash not found","isError":true}`)).UnknownTool)
	assert.False(t, bash.Result(raw(`{"content":[{"type":"text","text":"tool bash not found"}],"details":{"exitCode":1},"isError":true}`)).UnknownTool)
}

func TestIgnoreResult(t *testing.T) {
	ignore := canonical.WithRules(func(string) canonical.Rule { return canonical.Rule{IgnoreResult: []string{"requestId", "Größe"}} })
	same := outcome("f", raw(`{"n":1}`), ignore)
	assert.Equal(t, same, outcome("f", raw(`{"n":1,"request_id":1,"REQUEST-ID":2}`), ignore))
	assert.Equal(t, same, outcome("f", raw(`{"n":1,"GRÖSSE":1,"größe":2}`), canonical.WithRules(func(string) canonical.Rule {
		return canonical.Rule{IgnoreResult: []string{"größe", "grösse"}}
	})))
	assert.Equal(t, outcome("f", raw(`{"l":[{"a":[{}]}]}`), ignore), outcome("f", raw(`{"l":[{"a":[{"requestId":{"deep":1}}]}]}`), ignore))
	assert.NotEqual(t, same, outcome("f", raw(`{"n":1,"requestIdent":1}`), ignore))
}

// jsonValue generates values that JSON can express.
func jsonValue(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), toAny[bool]), rapid.Map(rapid.String(), toAny[string]),
		rapid.Map(rapid.Int64(), toAny[int64]), rapid.Map(rapid.Float64Range(-1e300, 1e300), toAny[float64]),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(jsonValue(depth-1), 0, 4), toAny[[]any]),
		rapid.Map(rapid.MapOfN(rapid.StringN(0, 6, -1), jsonValue(depth-1), 0, 4), toAny[map[string]any]),
	)
}

func toAny[T any](v T) any { return v }

// A value is the same however it is spelled and however it comes: as a Go value, as JSON, indented, or as text.
func TestSpellingNeverMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := map[string]any{"v": jsonValue(3).Draw(t, "value")}
		compact, err := json.Marshal(v)
		require.NoError(t, err)
		indented, err := json.MarshalIndent(v, "\t", " ")
		require.NoError(t, err)
		assert.Equal(t, signature("f", string(compact)), signature("f", string(indented)))
		want := outcome("f", raw(string(compact)))
		assert.Equal(t, want, outcome("f", said(string(indented))))
		assert.Equal(t, want, outcome("f", canonical.Result{Details: v}))
	})
}

// Two values that differ have two digests.
func TestDifferentValuesDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := jsonValue(2).Draw(t, "a"), jsonValue(2).Draw(t, "b")
		one, _ := json.Marshal([]any{a})
		two, _ := json.Marshal([]any{b})
		var x, y any
		require.NoError(t, json.Unmarshal(one, &x))
		require.NoError(t, json.Unmarshal(two, &y))
		same := assert.ObjectsAreEqual(x, y)
		assert.Equal(t, same, signature("f", string(one)) == signature("f", string(two)), "%s and %s", one, two)
	})
}
