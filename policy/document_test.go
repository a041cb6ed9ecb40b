package policy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

const wholeDocument = `// A document of a program that has more in it than our blocks.
{
  gateway: { port: 18789, bind: null, limits: [NaN, 1e400, 0xFFFFFFFFFFFFFFFFFFFF], "": {'': 1, "": 2} },
  tools: {
    allow: ["exec", 'read'],
    loopDetection: {
      enabled: false,
      historySize: 30, warningThreshold: 10, criticalThreshold: 20.0, unknownToolThreshold: 0xA,
      globalCircuitBreakerThreshold: +3e1,
      detectors: { genericRepeat: true, knownPollNoProgress: true, pingPong: true, errorStreak: true, stagnation: false },
      postCompactionGuard: { windowSize: 3 },
      mode: 'enforce',
      tools: {
        "job_*": { poll: true, warningThreshold: 15, criticalThreshold: 25, ignoreArgs: ["nonce", "at"] },
        " Exec\t": { kind: "exec", exempt: false, identityArgs: ["command"], ignoreResult: ["took",],
          globalCircuitBreakerThreshold: 40 },
      },
    },
  },
  agents: {
    defaults: { workspace: "~" },
    list: [
      { id: "plain", name: "has no block" },
      { id: "safe-runner", tools: { allow: [], loopDetection: {
        enabled: true, warningThreshold: 8, criticalThreshold: 16,
        detectors: { pingPong: false },
        tools: { "JOB_*": { ignoreArgs: [] }, exec: { exempt: true } },
      } } },
      { tools: { profile: "without an id" } },
      { id: "quiet", tools: { loopDetection: { enabled: false, mode: "observe" } } },
      { id: "empty", tools: { loopDetection: {} } },
    ],
  },
}
`

func globalBlock() policy.Config {
	return policy.Config{
		Enabled:                       new(false),
		HistorySize:                   30,
		WarningThreshold:              10,
		CriticalThreshold:             20,
		UnknownToolThreshold:          10,
		GlobalCircuitBreakerThreshold: 30,
		Detectors: policy.Detectors{
			GenericRepeat:       new(true),
			KnownPollNoProgress: new(true),
			PingPong:            new(true),
			ErrorStreak:         new(true),
			Stagnation:          new(false),
		},
		PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 3},
		Mode:                policy.Enforce,
		Tools: map[string]policy.ToolRule{
			"job_*": {
				Poll:              new(true),
				WarningThreshold:  15,
				CriticalThreshold: 25,
				IgnoreArgs:        []string{"nonce", "at"},
			},
			"exec": {
				Kind:                          canonical.Exec,
				Exempt:                        new(false),
				IdentityArgs:                  []string{"command"},
				IgnoreResult:                  []string{"took"},
				GlobalCircuitBreakerThreshold: 40,
			},
		},
	}
}

func TestParseConfig(t *testing.T) {
	safe := globalBlock()
	safe.Enabled = new(true)
	safe.WarningThreshold = 8
	safe.CriticalThreshold = 16
	safe.Detectors.PingPong = new(false)
	safe.Tools["job_*"] = policy.ToolRule{
		Poll:              new(true),
		WarningThreshold:  15,
		CriticalThreshold: 25,
		IgnoreArgs:        []string{},
	}
	exec := safe.Tools["exec"]
	exec.Exempt = new(true)
	safe.Tools["exec"] = exec

	quiet := globalBlock()
	quiet.Mode = policy.Observe

	tests := []struct {
		agent string
		want  policy.Config
	}{
		{"", globalBlock()},
		{"nobody", globalBlock()},
		{"plain", globalBlock()},
		{"empty", globalBlock()},
		{"SAFE-RUNNER", globalBlock()},
		{"safe-runner", safe},
		{"quiet", quiet},
	}
	for _, tt := range tests {
		t.Run(tt.agent, func(t *testing.T) {
			for name, text := range map[string]string{
				"as it is":          wholeDocument,
				"CRLF":              strings.ReplaceAll(wholeDocument, "\n", "\r\n"),
				"byte order mark":   "\uFEFF" + wholeDocument,
				"no line break":     strings.TrimSpace(wholeDocument),
				"comment at an end": wholeDocument + "/* the end */ // really",
			} {
				got, err := policy.ParseConfig(strings.NewReader(text), tt.agent)
				require.NoError(t, err, name)
				assert.Equal(t, tt.want, got, name)
			}
		})
	}
}

func TestParseConfigWithoutBlock(t *testing.T) {
	for _, text := range []string{
		`{}`,
		`{ tools: {} }`,
		`{ tools: { loopdetection: 5 }, loopDetection: null }`,
		`{ agents: {} }`,
		`{ agents: { list: [] } }`,
		`{ agents: { list: [{}, { id: 5 }, { id: "a" }, { id: "a" }, { tools: {} }] } }`,
		`{ tools: { loopDetection: {} } }`,
		`{ other: 1, other: 2 }`,
		`{ agents: { list: [{ id: "b", tools: { loopDetection: { enabled: true } } }] } }`,
	} {
		got, err := policy.ParseConfig(strings.NewReader(text), "a")
		require.NoError(t, err, text)
		assert.Equal(t, policy.Config{}, got, text)
	}
}

func TestParseConfigNumbers(t *testing.T) {
	right := map[string]int{
		"1": 1, "10": 10, "+10": 10, "10.": 10, "10.0": 10, "1e1": 10, "1E+1": 10, "0.1e2": 10, ".1e2": 10, "100e-1": 10,
		"0xA": 10, "0Xa": 10, "+0x0A": 10, "0x1e": 30, "2147483647": math.MaxInt32, "0x7fffffff": math.MaxInt32,
		"2147483647.000": math.MaxInt32, "0.00000000000000000000000000000000000000001e42": 10,
		"1" + strings.Repeat("0", 1000) + "e-999": 10, "10." + strings.Repeat("0", 1000): 10,
	}
	for literal, want := range right {
		got, err := policy.ParseConfig(strings.NewReader("{tools:{loopDetection:{historySize:"+literal+"}}}"), "")
		require.NoError(t, err, literal)
		assert.Equal(t, want, got.HistorySize, literal)
	}
	wrong := []string{
		"0", "-0", "0.0", "0x0", "-1", "-0xA", "1.5", "0.99999999999999999999", "10.00000000000000000000000000001",
		"9.99999999999999999999999999999", "1e-1", "12e-1", "2147483648", "2147483647.5", "4294967297", "0x80000000",
		"18446744073709551617", "0x10000000000000001", "1e10", "1e400", "1e999999999", "1e-999999999",
		"1e99999999999999999999999", "1e-99999999999999999999999", "0e999999999", "NaN", "Infinity", "-Infinity",
		"+Infinity", "null", "true", `"10"`, "'10'", "[10]", "{}", `""`,
		".", ".e1", "+..5", "+.Infinity", // json5 lets these pass
	}
	for _, literal := range wrong {
		_, err := policy.ParseConfig(strings.NewReader("{tools:{loopDetection:{historySize:"+literal+"}}}"), "")
		assert.ErrorContains(t, err, "tools.loopDetection.historySize: found ", literal)
		assert.ErrorContains(t, err, ", must be an integer from 1 to 2147483647", literal)
	}
}

// TestParseConfigSaysWhatIsWrong has the whole text of the error, for people will read it.
func TestParseConfigSaysWhatIsWrong(t *testing.T) {
	const keys = `"enabled", "historySize", "warningThreshold", "criticalThreshold", "unknownToolThreshold", ` +
		`"globalCircuitBreakerThreshold", "detectors", "postCompactionGuard", "mode" or "tools"`
	const ruleKeys = `"kind", "poll", "exempt", "ignoreArgs", "identityArgs", "ignoreResult", "warningThreshold", ` +
		`"criticalThreshold" or "globalCircuitBreakerThreshold"`
	const integer = "must be an integer from 1 to 2147483647"

	tests := []struct {
		document string
		want     []string
	}{
		// The document.
		{``, []string{`the document is empty`}},
		{" \r\n\t// nothing\n/* at all */", []string{`the document is empty`}},
		{"\uFEFF", []string{`the document is empty`}},
		{`[]`, []string{`the document is a list, must be an object`}},
		{`"tools"`, []string{`the document is "tools", must be an object`}},
		{`null`, []string{`the document is null, must be an object`}},
		{`5`, []string{`the document is 5, must be an object`}},

		// The way to our blocks.
		{`{tools: 5}`, []string{`tools: found 5, must be an object`}},
		{`{tools: null}`, []string{`tools: found null, must be an object`}},
		{`{tools: []}`, []string{`tools: found a list, must be an object`}},
		{`{tools: {}, "tools": {}}`, []string{`tools: is given more than once`}},
		{`{tools: {loopDetection: null}}`, []string{`tools.loopDetection: found null, must be an object`}},
		{`{tools: {loopDetection: true}}`, []string{`tools.loopDetection: found true, must be an object`}},
		{`{tools: {loopDetection: {}, loopDetection: {}}}`, []string{`tools.loopDetection: is given more than once`}},
		{`{agents: []}`, []string{`agents: found a list, must be an object`}},
		{`{agents: "a"}`, []string{`agents: found "a", must be an object`}},
		{`{agents: {list: {}}}`, []string{`agents.list: found an object, must be a list`}},
		{`{agents: {list: null}}`, []string{`agents.list: found null, must be a list`}},
		{`{agents: {list: [], list: []}}`, []string{`agents.list: is given more than once`}},
		{`{agents: {list: ["a", {}, null, [], 1]}}`, []string{
			`agents.list[0]: found "a", must be an object`,
			`agents.list[2]: found null, must be an object`,
			`agents.list[3]: found a list, must be an object`,
			`agents.list[4]: found 1, must be an object`}},
		{`{agents: {list: [{id: "a", tools: false}]}}`, []string{`agents.list[0].tools: found false, must be an object`}},
		{`{agents: {list: [{id: "a", tools: {loopDetection: []}}]}}`, []string{
			`agents.list[0].tools.loopDetection: found a list, must be an object`}},
		{`{agents: {list: [{tools: {loopDetection: {}}}]}}`, []string{
			`agents.list[0].id: found nothing, must be a string, the id of the agent that tools.loopDetection is for`}},
		{`{agents: {list: [{id: "", tools: {loopDetection: {}}}, {id: 5, tools: {loopDetection: {}}}]}}`, []string{
			`agents.list[0].id: found "", must be a string, the id of the agent that tools.loopDetection is for`,
			`agents.list[1].id: found 5, must be a string, the id of the agent that tools.loopDetection is for`}},
		{`{agents: {list: [{id: "a", id: "b", tools: {loopDetection: {}}}]}}`, []string{
			`agents.list[0].id: is given more than once`}},
		{`{agents: {list: [{id: "a"}, {id: "a", tools: {loopDetection: {}}}, {id: "a", tools: {loopDetection: {}}}]}}`,
			[]string{`agents.list[2].id: found "a", which is the id of agents.list[1] too, and both have tools.loopDetection`}},

		// Keys.
		{ours(`warnings: 5`), []string{`tools.loopDetection.warnings: unknown key, must be ` + keys}},
		{ours(`historysize: 5`), []string{
			`tools.loopDetection.historysize: unknown key, must be ` + keys + `; did you mean "historySize"?`}},
		{ours(`history_size: 5`), []string{
			`tools.loopDetection.history_size: unknown key, must be ` + keys + `; did you mean "historySize"?`}},
		{ours(`"warning-treshold": 5`), []string{
			`tools.loopDetection["warning-treshold"]: unknown key, must be ` + keys + `; did you mean "warningThreshold"?`}},
		{ours(`enalbed: true`), []string{
			`tools.loopDetection.enalbed: unknown key, must be ` + keys + `; did you mean "enabled"?`}},
		{ours(`"": 1, mode: "observe"`), []string{`tools.loopDetection[""]: unknown key, must be ` + keys}},
		{ours(`windowSize: 3`), []string{`tools.loopDetection.windowSize: unknown key, must be ` + keys}},
		{ours(`"` + strings.Repeat("x", 100) + `": 3`), []string{
			`tools.loopDetection.` + strings.Repeat("x", 60) + `…: unknown key, must be ` + keys}},
		{ours(`mode: "enforce", 'mode': "observe"`), []string{`tools.loopDetection.mode: is given more than once`}},
		{ours(`mode: "x", "\u006dode": "y"`), []string{`tools.loopDetection.mode: is given more than once`}},

		// Values.
		{ours(`enabled: null`), []string{`tools.loopDetection.enabled: found null, must be true or false`}},
		{ours(`enabled: "true"`), []string{`tools.loopDetection.enabled: found "true", must be true or false`}},
		{ours(`enabled: 1`), []string{`tools.loopDetection.enabled: found 1, must be true or false`}},
		{ours(`historySize: "30"`), []string{`tools.loopDetection.historySize: found "30", ` + integer}},
		{ours(`historySize: 0`), []string{`tools.loopDetection.historySize: found 0, ` + integer}},
		{ours(`historySize: null`), []string{`tools.loopDetection.historySize: found null, ` + integer}},
		{ours(`warningThreshold: -5`), []string{`tools.loopDetection.warningThreshold: found -5, ` + integer}},
		{ours(`criticalThreshold: 1.5`), []string{`tools.loopDetection.criticalThreshold: found 1.5, ` + integer}},
		{ours(`unknownToolThreshold: {}`), []string{`tools.loopDetection.unknownToolThreshold: found an object, ` + integer}},
		{ours(`globalCircuitBreakerThreshold: 2147483648`), []string{
			`tools.loopDetection.globalCircuitBreakerThreshold: found 2147483648, ` + integer}},
		{ours(`historySize: 1` + strings.Repeat("0", 100)), []string{
			`tools.loopDetection.historySize: found 1` + strings.Repeat("0", 59) + `…, ` + integer}},
		{ours(`detectors: true`), []string{`tools.loopDetection.detectors: found true, must be an object`}},
		{ours(`detectors: {pingPong: 0, pingpong: true}`), []string{
			`tools.loopDetection.detectors.pingPong: found 0, must be true or false`,
			`tools.loopDetection.detectors.pingpong: unknown key, must be "genericRepeat", "knownPollNoProgress", ` +
				`"pingPong", "errorStreak" or "stagnation"; did you mean "pingPong"?`}},
		{ours(`postCompactionGuard: {windowSize: 1}`), []string{
			`tools.loopDetection.postCompactionGuard.windowSize: found 1, must be an integer from 2 to 2147483647`}},
		{ours(`postCompactionGuard: {window: 2}`), []string{
			`tools.loopDetection.postCompactionGuard.window: unknown key, must be "windowSize"`}},
		{ours(`mode: "Observe"`), []string{
			`tools.loopDetection.mode: found "Observe", must be "enforce" or "observe"; did you mean "observe"?`}},
		{ours(`mode: ""`), []string{`tools.loopDetection.mode: found "", must be "enforce" or "observe"`}},
		{ours(`mode: "watch\u001b[31m"`), []string{
			`tools.loopDetection.mode: found "watch\x1b[31m", must be "enforce" or "observe"`}},
		{ours(`mode: ["observe"]`), []string{`tools.loopDetection.mode: found a list, must be "enforce" or "observe"`}},

		// Tools.
		{ours(`tools: []`), []string{`tools.loopDetection.tools: found a list, must be an object`}},
		{ours(`tools: {exec: null}`), []string{`tools.loopDetection.tools["exec"]: found null, must be an object`}},
		{ours(`tools: {"job_*": {kind: "exce"}}`), []string{`tools.loopDetection.tools["job_*"].kind: found "exce", ` +
			`must be "generic", "exec", "process" or "message"; did you mean "exec"?`}},
		{ours(`tools: {a: {windowSize: 2}}`), []string{
			`tools.loopDetection.tools["a"].windowSize: unknown key, must be ` + ruleKeys}},
		{ours(`tools: {a: {ignoreArg: []}}`), []string{
			`tools.loopDetection.tools["a"].ignoreArg: unknown key, must be ` + ruleKeys + `; did you mean "ignoreArgs"?`}},
		{ours(`tools: {a: {poll: 1, exempt: null}}`), []string{
			`tools.loopDetection.tools["a"].poll: found 1, must be true or false`,
			`tools.loopDetection.tools["a"].exempt: found null, must be true or false`}},
		{ours(`tools: {a: {ignoreArgs: "x"}}`), []string{
			`tools.loopDetection.tools["a"].ignoreArgs: found "x", must be a list`}},
		{ours(`tools: {a: {identityArgs: null}}`), []string{
			`tools.loopDetection.tools["a"].identityArgs: found null, must be a list`}},
		{ours(`tools: {a: {ignoreResult: ["x", "", 5, null, ["y"]]}}`), []string{
			`tools.loopDetection.tools["a"].ignoreResult[1]: found "", must be a non-empty string`,
			`tools.loopDetection.tools["a"].ignoreResult[2]: found 5, must be a non-empty string`,
			`tools.loopDetection.tools["a"].ignoreResult[3]: found null, must be a non-empty string`,
			`tools.loopDetection.tools["a"].ignoreResult[4]: found a list, must be a non-empty string`}},
		{ours(`tools: {a: {warningThreshold: 0}}`), []string{
			`tools.loopDetection.tools["a"].warningThreshold: found 0, ` + integer}},
		{ours(`tools: {"": {}, " \t": {}}`), []string{
			`tools.loopDetection.tools[""]: must be the name of a tool, or a glob`,
			`tools.loopDetection.tools[" \t"]: must be the name of a tool, or a glob`}},
		{ours(`tools: {exec: {}, "EXEC ": {}}`), []string{
			`tools.loopDetection.tools["exec"]: is the name "EXEC " again, as names are trimmed and lower-cased`}},
		{ours(`tools: {exec: {poll: 5}, exec: {poll: 6}}`), []string{
			`tools.loopDetection.tools["exec"]: is given more than once`}},

		// Everything at once, in the order of the keys here and not there.
		{`{
			agents: {list: [
				{id: "b", tools: {loopDetection: {mode: "?", enabled: "?"}}},
				{id: "a", tools: {loopDetection: {historySize: "?"}}},
			]},
			tools: {loopDetection: {zzz: 1, tools: {b: {poll: 0}, a: {poll: 0}}, aaa: 1, mode: 0, enabled: 0}},
		}`, []string{
			`tools.loopDetection.enabled: found 0, must be true or false`,
			`tools.loopDetection.mode: found 0, must be "enforce" or "observe"`,
			`tools.loopDetection.tools["a"].poll: found 0, must be true or false`,
			`tools.loopDetection.tools["b"].poll: found 0, must be true or false`,
			`tools.loopDetection.aaa: unknown key, must be ` + keys,
			`tools.loopDetection.zzz: unknown key, must be ` + keys,
			`agents.list[0].tools.loopDetection.enabled: found "?", must be true or false`,
			`agents.list[0].tools.loopDetection.mode: found "?", must be "enforce" or "observe"`,
			`agents.list[1].tools.loopDetection.historySize: found "?", ` + integer,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.document, func(t *testing.T) {
			config, err := policy.ParseConfig(strings.NewReader(tt.document), "a")
			require.EqualError(t, err, strings.Join(tt.want, "\n"))
			assert.Zero(t, config)
		})
	}
}

// ours is a document with members of our block.
func ours(members string) string { return "{tools: {loopDetection: {" + members + "}}}" }

func TestParseConfigSyntax(t *testing.T) {
	const needsQuotes = "a key needs quotes if it has more than A-Z, a-z, 0-9, _ and $"
	tests := []struct {
		document string
		want     string
	}{
		{`{`, `line 1, column 2: the document ends before it is complete`},
		{"{\n  tools: {\n  }\n\n", `line 3, column 4: the document ends before it is complete`},
		{`{a: "x`, `line 1, column 7: the document ends before it is complete`},
		{`{a: tru`, `line 1, column 8: the document ends before it is complete`},
		{`{a: 1} b`, `line 1, column 8: found 'b', expected the end of the document`},
		{`{}{}`, `line 1, column 3: found '{', expected the end of the document`},
		{`{} /* open`, `line 1, column 5: found '*', expected a comment, // to the end of its line or /* to */`},
		{`{} /`, `line 1, column 5: the document ends before it is complete`},
		{"{a: /b/}", `line 1, column 6: found 'b', expected a comment, // to the end of its line or /* to */`},
		{"{a: 1\nb: 2}", `line 2, column 1: found 'b', expected a comma or }`},
		{"{a: [1 2]}", `line 1, column 8: found '2', expected a comma or ]`},
		{"{a 1}", `line 1, column 4: found '1', expected a colon`},
		{"{a: enforce}", `line 1, column 5: found 'e', expected a value; text needs quotes`},
		{"{a: ,}", `line 1, column 5: found ',', expected a value; text needs quotes`},
		{"{job-*: {}}", `line 1, column 5: found '-', expected a colon; ` + needsQuotes},
		{"{*: {}}", `line 1, column 2: found '*', expected a key or }; ` + needsQuotes},
		{"{\r\n\r\n  a: }", `line 3, column 6: found '}', expected a value; text needs quotes`},
		{"{\r\r  a: }", `line 3, column 6: found '}', expected a value; text needs quotes`},
		{"{a: \"x\r\n\"}", `line 1, column 7: found '\r', expected the closing quote; ` +
			`line breaks and control characters must be escaped`},
		{`{a: "\x41"}`, `line 1, column 7: found 'x', expected one of b f n r t u / \ " '`},
		{`{a: "\u00g0"}`, `line 1, column 10: found 'g' in \u hexadecimal character escape`},
		{`{a: 0x}`, `line 1, column 7: found '}' in hex number`},
		{`{a: ture}`, `line 1, column 6: found 'u' in literal true (expecting 'r')`},
		{`{a: 010}`, `line 1, column 6: found '1', expected a comma or }`},
		// Characters of several bytes, before the place and at it.
		{`{ключ: 1}`, `line 1, column 2: found 'к', expected a key or }; ` + needsQuotes},
		{"{/* 🦀🦀\n */ \"é🦀\": 'ü' 世}", `line 2, column 15: found '世', expected a comma or }`},
		{"\uFEFF{a: \u00a01}", `line 1, column 5: found '\u00a0', expected a value; text needs quotes`},
		{"{é: '\n", `line 1, column 2: found 'é', expected a key or }; ` + needsQuotes},
		{"{a: 1,\n b: '\uFFFDé\xff'}", `line 2, column 8: found a byte that is not UTF-8`},
		{"\xff\xfe{\x00}\x00", `line 1, column 1: found a byte that is not UTF-8`},
	}
	for _, tt := range tests {
		t.Run(tt.document, func(t *testing.T) {
			_, err := policy.ParseConfig(strings.NewReader(tt.document), "")
			require.EqualError(t, err, tt.want)
			var wrong *policy.ConfigError
			require.ErrorAs(t, err, &wrong)
			assert.Equal(t, tt.want, fmt.Sprintf("line %d, column %d: %s", wrong.Line, wrong.Column, wrong.Message))
			assert.Empty(t, wrong.Path)
		})
	}
}

// TestParseConfigComments begins with two documents that json5 alone does not read.
func TestParseConfigComments(t *testing.T) {
	for _, text := range []string{
		"/** See\n * https://example.org/a\n * and docs/b.md **/ {tools: {loopDetection: {historySize: 7}}}",
		"{tools/* of all agents */: {loopDetection/**/: {historySize: 7}}}",
		"{tools: {loopDetection: {historySize: 7 // it's\r}}} // \"",
		"{tools: {loopDetection: {historySize:/* \" */7/* ' */}}}",
		"{tools: {loopDetection: {historySize: 7}}, a: \"/* // \\\" /*\", b: '// \\' /*', c: '\\\n/*'}",
		"{tools: {loopDetection: {historySize: 7}}} //",
	} {
		got, err := policy.ParseConfig(strings.NewReader(text), "")
		require.NoError(t, err, text)
		assert.Equal(t, policy.Config{HistorySize: 7}, got, text)
	}
}

// TestParseConfigOfBadFaith has documents that would cost a careless reader its stack or its time.
func TestParseConfigOfBadFaith(t *testing.T) {
	const most, size = 1 << 20, 1 << 17
	fill := func(prefix, unit, suffix string) string {
		return prefix + strings.Repeat(unit, (size-len(prefix)-len(suffix))/len(unit)) + suffix
	}
	tests := map[string]struct{ text, want string }{
		"too long":          {"{" + strings.Repeat(" ", most-1) + "}", "the document is longer than 1048576 bytes"},
		"exactly as long":   {"{" + strings.Repeat(" ", most-2) + "}", ""},
		"nested lists":      {fill("{a: ", "[", ""), "ends before it is complete"},
		"nested in ours":    {ours("mode: " + strings.Repeat("[", size) + strings.Repeat("]", size)), "found a list"},
		"nested elsewhere":  {"{a: " + strings.Repeat("{a:[", size) + strings.Repeat("]}", size) + "}", ""},
		"comments":          {fill("{", "/* ", ""), "expected a comment"},
		"quotes":            {fill(`{"`, `\"`, ""), "ends before it is complete"},
		"digits":            {ours("historySize: " + strings.Repeat("9", size)), "historySize: found 9999"},
		"digits and e":      {ours("historySize: 1" + strings.Repeat("0", size) + "e-999999"), "historySize: found 1000"},
		"many keys":         {fill("{tools: {loopDetection: {", "aaaaaaa:1,", "}}}"), "aaaaaaa: unknown key"},
		"many agents":       {fill("{agents: {list: [", "{},", "]}}"), ""},
		"many bad agents":   {fill("{agents: {list: [", "1,", "]}}"), "agents.list[9]: found 1"},
		"many agents' keys": {fill("{agents: {list: [{id: 'a', tools: {", "a:[],", "}}]}}"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := policy.ParseConfig(strings.NewReader(tt.text), "")
			if tt.want == "" {
				assert.NoError(t, err)
			} else {
				require.Error(t, err)
				assert.Contains(t, err.Error(), tt.want)
			}
		})
	}
}

func TestParseConfigReadError(t *testing.T) {
	_, err := policy.ParseConfig(iotest.ErrReader(os.ErrPermission), "")
	assert.ErrorIs(t, err, os.ErrPermission)
	_, err = policy.ParseConfig(io.MultiReader(strings.NewReader("{}"), iotest.ErrReader(os.ErrClosed)), "")
	assert.ErrorIs(t, err, os.ErrClosed)
}

// TestNewChecks has the same rules for a Config that was written in Go.
func TestNewChecks(t *testing.T) {
	tests := []struct {
		config policy.Config
		want   string
	}{
		{policy.Config{HistorySize: -1}, `historySize: found -1, must be an integer from 1 to 2147483647`},
		{policy.Config{WarningThreshold: -1, Mode: "watch"},
			`warningThreshold: found -1, must be an integer from 1 to 2147483647` + "\n" +
				`mode: found "watch", must be "enforce" or "observe"`},
		{policy.Config{PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 1}},
			`postCompactionGuard.windowSize: found 1, must be an integer from 2 to 2147483647`},
		{withRule("a", policy.ToolRule{Kind: "exe"}),
			`tools["a"].kind: found "exe", must be "generic", "exec", "process" or "message"; did you mean "exec"?`},
		{withRule("a", policy.ToolRule{CriticalThreshold: -3}),
			`tools["a"].criticalThreshold: found -3, must be an integer from 1 to 2147483647`},
		{withRule("a", policy.ToolRule{IgnoreArgs: []string{"x", ""}}),
			`tools["a"].ignoreArgs[1]: found "", must be a non-empty string`},
		{withRule(" ", policy.ToolRule{}), `tools[" "]: must be the name of a tool, or a glob`},
		{policy.Config{Tools: map[string]policy.ToolRule{"Exec": {}, "exec": {}, " exec": {Poll: new(true)}}},
			`tools["Exec"]: is the name " exec" again, as names are trimmed and lower-cased` + "\n" +
				`tools["exec"]: is the name " exec" again, as names are trimmed and lower-cased`},
	}
	if strconv.IntSize > 32 {
		tooMuch := math.MaxInt32
		tooMuch++
		tests = append(tests, struct {
			config policy.Config
			want   string
		}{policy.Config{HistorySize: tooMuch}, `historySize: found 2147483648, must be an integer from 1 to 2147483647`})
	}
	for _, tt := range tests {
		_, _, err := policy.New(tt.config)
		assert.EqualError(t, err, tt.want)
		wrong, ok := errors.AsType[*policy.ConfigError](err)
		require.True(t, ok)
		assert.True(t, strings.HasPrefix(tt.want, wrong.Path+": "), wrong.Path)
	}
}

func withRule(name string, rule policy.ToolRule) policy.Config {
	return policy.Config{Tools: map[string]policy.ToolRule{name: rule}}
}

func TestNewFoldsNames(t *testing.T) {
	config := withRule(" Job_*\n", policy.ToolRule{Poll: new(true)})
	p, _, err := policy.New(config)
	require.NoError(t, err)
	assert.Equal(t, policy.ToolRule{Poll: new(true)}, p.ToolRule("job_x"))
	assert.Contains(t, config.Tools, " Job_*\n", "the caller's map has changed")
}

// TestParseConfigReadsEveryField writes any Config in some way and reads it back: with its keys in any order, in any
// spelling, and with comments anywhere.
func TestParseConfigReadsEveryField(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := policy.AnyConfig.Draw(t, "config")
		_, _, err := policy.New(config)
		require.NoError(t, err)
		w := json5Writer{t}
		block := w.value(reflect.ValueOf(config))
		text := w.object("tools", w.object("loopDetection", block, "other", "[null]"), "other", "{}")
		got, err := policy.ParseConfig(strings.NewReader(text), "x")
		require.NoError(t, err, text)
		assert.Equal(t, config, keep(got, config), text)

		// The same as the block of an agent.
		entry := w.object("id", w.text("x"), "tools", w.object("loopDetection", block))
		text = w.object("agents", w.object("list", "["+entry+"]"))
		got, err = policy.ParseConfig(strings.NewReader(text), "x")
		require.NoError(t, err, text)
		assert.Equal(t, config, keep(got, config), text)
	})
}

// keep gives the nil and the empty map of tools the same form, as laying over does not tell them apart.
func keep(got, want policy.Config) policy.Config {
	if len(got.Tools) == 0 && len(want.Tools) == 0 {
		got.Tools = want.Tools
	}
	return got
}

// json5Writer writes values as JSON5, in the ways that it draws.
type json5Writer struct{ t *rapid.T }

func (w json5Writer) pick(of ...string) string { return rapid.SampledFrom(of).Draw(w.t, "spelling") }

func (w json5Writer) space() string {
	return w.pick("", "", " ", "\n", "\r\n\t", "// it's 'a' \"comment\" /*\n", "/* 'a *{}/ \" 🦀 \n*/", "/**/")
}

func (w json5Writer) value(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return w.value(v.Elem())
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return fmt.Sprintf(w.pick("%d", "+%d", "%d.", "%d.000", "%d0e-1", "%#x", "%#X"), v.Int())
	case reflect.String:
		return w.text(v.String())
	case reflect.Slice:
		var list strings.Builder
		for i := range v.Len() {
			list.WriteString(w.space() + w.value(v.Index(i)) + w.space() + ",")
		}
		return "[" + strings.TrimSuffix(list.String(), w.pick("", ",")) + w.space() + "]"
	case reflect.Map:
		var members []string
		for _, name := range v.MapKeys() {
			members = append(members, name.String(), w.value(v.MapIndex(name)))
		}
		return w.object(members...)
	case reflect.Struct:
		var members []string
		for i := range v.NumField() {
			if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); !v.Field(i).IsZero() {
				members = append(members, name, w.value(v.Field(i)))
			}
		}
		return w.object(members...)
	default:
		panic(v.Kind())
	}
}

var bareKey = regexp.MustCompile(`^[A-Za-z_$][\w$]*$`)

func (w json5Writer) object(keysAndValues ...string) string {
	var members []string
	for i := 0; i < len(keysAndValues); i += 2 {
		key, value := keysAndValues[i], keysAndValues[i+1]
		if spelling := w.text(key); !bareKey.MatchString(key) || w.pick("bare", "quoted") == "quoted" {
			key = spelling
		}
		members = append(members, w.space()+key+w.space()+":"+w.space()+value+w.space())
	}
	members = rapid.Permutation(members).Draw(w.t, "order")
	return "{" + strings.Join(members, ",") + "}"
}

func (w json5Writer) text(s string) string {
	quoted, _ := json.Marshal(s)
	if w.pick("double", "single") == "double" {
		return string(quoted)
	}
	s = strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s)
	return "'" + w.pick("", "\\\n", "\\\r\n") + s + "'" // a line break after a backslash is nothing
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(wholeDocument), "safe-runner")
	for _, seed := range []string{
		"", "{", "null", "{}x", "\uFEFF{}", `{"":1}`, ours(`tools: {a: {}, 'A': {ignoreArgs: ["\ud800", "\xff"]}}`),
		ours(`historySize: +..5`), ours(`historySize: 1e99, /* * / */ mode: "\u0065\` + "\n" + `nforce", mode: NaN`),
		`{agents: {list: [{id: "a", tools: {loopDetection: {mode: -Infinity}}}]}}`,
	} {
		f.Add([]byte(seed), "a")
	}
	f.Fuzz(func(t *testing.T, document []byte, agent string) {
		config, err := policy.ParseConfig(strings.NewReader(string(document)), agent)
		if err == nil {
			_, _, err := policy.New(config)
			require.NoError(t, err)
			for name := range config.Tools {
				require.Equal(t, canonical.FoldTool(name), name)
			}
			return
		}
		require.Zero(t, config)
		all := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = joined.Unwrap()
		}
		for _, err := range all {
			wrong, ok := err.(*policy.ConfigError)
			require.True(t, ok, "%T", err)
			require.NotEmpty(t, wrong.Message)
			require.Equal(t, wrong.Line > 0, wrong.Column > 0)
			require.False(t, wrong.Line > 0 && wrong.Path != "")
			require.LessOrEqual(t, wrong.Line, strings.Count(string(document), "\n")+strings.Count(string(document), "\r")+1)
		}
		_, again := policy.ParseConfig(strings.NewReader(string(document)), agent)
		require.EqualError(t, again, err.Error())
	})
}
