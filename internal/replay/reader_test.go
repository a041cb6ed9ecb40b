package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/middleware"
)

// readAll reads a transcript to its end or first fault.
func readAll(input io.Reader) (all []replay.Line, err error) {
	reader, err := replay.NewReader(input)
	if err != nil {
		return nil, err
	}
	for {
		line, err := reader.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, line)
	}
}

func pack(t *testing.T, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func TestLinesAreReadWithTheirNumbers(t *testing.T) {
	got, err := readAll(strings.NewReader("\uFEFF" + `{"run":"r1","id":"c1","tool":"exec","args":{"n": 1.0},"result":null}` + "\r\n" +
		"\n  \t\r\n" +
		` { "run" : "r1" , "t\u006fol":"x","id":"c2","registered":false,"note":{"a":1,"a":2},"error":null } ` + "\n" +
		`{"id":"c2","run":"r1","error":"no such tool"}` + "\n" +
		`{"run":"r1","event":"compaction","at":"noon"}`))
	require.NoError(t, err)
	require.Len(t, got, 4)

	assert.Equal(t, 1, got[0].Number)
	assert.Equal(t, &middleware.Call{ID: "c1", Tool: "exec", Args: `{"n": 1.0}`, ArgsJSON: true}, got[0].Call)
	assert.Equal(t, json.RawMessage("null"), got[0].Outcome.Result.Details, "null is a result")

	assert.Equal(t, 4, got[1].Number)
	assert.Equal(t, &middleware.Call{ID: "c2", Tool: "x", Unknown: true}, got[1].Call)
	assert.Nil(t, got[1].Outcome, "a null error is no error")

	assert.Equal(t, 5, got[2].Number)
	assert.Nil(t, got[2].Call)
	assert.EqualError(t, got[2].Outcome.Err, "no such tool")

	assert.Equal(t, replay.Line{Number: 6, Run: "r1", Compaction: true}, got[3])
}

func TestWhatIsInsideAValueIsNotRepaired(t *testing.T) {
	for _, raw := range []string{
		`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `{"a":{"b":[{"c":1,"c":1}]}}`, `1e400`, `"\u0041"`, `[ 1 , 2 ]`, "{\"\xff\":1}",
	} {
		got, err := readAll(strings.NewReader(`{"tool":"f","args":` + raw + `,"result":` + raw + `}`))
		require.NoError(t, err, raw)
		assert.Equal(t, raw, got[0].Call.Args)
		assert.Equal(t, json.RawMessage(raw), got[0].Outcome.Result.Details)
	}
	for _, raw := range []string{`"\ud800"`, "\"\xff\"", "\"\xfe\""} {
		got, err := readAll(strings.NewReader(`{"tool":"f","error":` + raw + `}`))
		require.NoError(t, err, raw)
		assert.EqualError(t, got[0].Outcome.Err, raw)
	}
}

func TestLinesMayBeLong(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	got, err := readAll(strings.NewReader(lines(1, `{"tool":"a"}`, `{"tool":"b","args":"`+long+`"}`, `{"tool":"c"}`)))
	require.NoError(t, err)
	require.Len(t, got, 3)
	assert.Equal(t, len(long)+2, len(got[1].Call.Args))
	assert.Equal(t, "c", got[2].Call.Tool)
}

func TestCompressedTranscriptsAreKnownByTheirStart(t *testing.T) {
	text := lines(3, `{"tool":"a"}`)
	packed := pack(t, text)
	for name, input := range map[string]io.Reader{
		"at once":       bytes.NewReader(packed),
		"byte by byte":  iotest.OneByteReader(bytes.NewReader(packed)),
		"in two pieces": bytes.NewReader(append(pack(t, text), pack(t, text)...)),
		"with a mark":   bytes.NewReader(pack(t, "\uFEFF"+text)),
	} {
		got, err := readAll(input)
		require.NoError(t, err, name)
		assert.GreaterOrEqual(t, len(got), 3, name)
	}
}

func TestWhatCannotBeReadIsAFault(t *testing.T) {
	packed := pack(t, strings.Repeat(`{"tool":"a"}`+"\n", 10))
	broken := bytes.Clone(packed)
	broken[len(broken)-6] ^= 1 // the checksum
	tests := map[string]struct {
		input io.Reader
		line  int
		words string
	}{
		"header only":  {bytes.NewReader(packed[:5]), 1, "cut off"},
		"cut off":      {bytes.NewReader(packed[:len(packed)-8]), 11, "cut off"},
		"damaged":      {bytes.NewReader(broken), 11, "checksum"},
		"followed":     {bytes.NewReader(append(bytes.Clone(packed), "what is this?"...)), 11, "gzip"},
		"failing":      {iotest.ErrReader(errors.New("the disk is on fire")), 1, "the disk is on fire"},
		"failing late": {io.MultiReader(strings.NewReader(lines(2, `{"tool":"a"}`)), iotest.ErrReader(errors.New("fire"))), 3, "fire"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(test.input)
			var fault *replay.Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, test.line, fault.Line)
			assert.Contains(t, fault.Message, test.words)
		})
	}
}

// TestFaultyLines has lines that come third, after one that is right and one that is blank.
func TestFaultyLines(t *testing.T) {
	tests := []struct {
		line  string
		words string
	}{
		// no JSON
		{`x`, `cannot be read as JSON: invalid character 'x' at start of value in column 1`},
		{`{"tool":"f",}`, `in column 12`},
		{`{tool:"f"}`, `in column 3`},
		{`{'tool':"f"}`, `in column 2`},
		{`{"tool":"f" "id":"c"}`, `expecting ',' or '}'`},
		{`{"tool" "f"}`, `expecting ':'`},
		{`{"é":1,"tool":f}`, `in column 16`},
		{`{"tool":"f","args":NaN}`, `invalid character 'N'`},
		{`{"tool":"f","args":01}`, `invalid character '1'`},
		{`{"tool":"f","args":'x'}`, `invalid character '\''`},
		{`{"tool":"f","args":+1}`, `invalid character '+'`},
		{`{"tool":"f","args":tru}`, `literal true`},
		{`{"tool":"f","args":"\q"}`, `escape sequence`},
		{"{\"tool\":\"f\",\"args\":\"\x01\"}", `invalid character '\x01'`},
		{"{\"tool\":\"f\",\"args\":\x00}", `invalid character '\x00'`},
		{`{"tool":"f","args":[1,}`, `invalid character '}'`},
		{`{"tool":"f","args":{1:2}}`, `invalid character '1'`},
		{`{1:2}`, `must be a string`},
		{`// a comment`, `invalid character '/'`},
		{"\uFEFF{}", `invalid character '\ufeff'`},
		{`{"tool":"f","args":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, `exceeded max depth`},
		{`{"tool":"f","args":` + strings.Repeat(`{"a":`, 20_000), `exceeded max depth`},

		// not one object
		{`{`, `ends before its JSON object does, must be one whole object`},
		{`{"tool":"f"`, `ends before`},
		{`{"tool":"f","args":{`, `ends before`},
		{`{"tool":"f","args":"`, `ends before`},
		{`{"tool":`, `ends before`},
		{`{"tool":"f"} {"tool":"g"}`, `goes on after its JSON object, must be that one object only`},
		{`{"tool":"f"}}`, `goes on after`},
		{`{"tool":"f"} x`, `goes on after`},
		{`{"tool":"f"},`, `goes on after`},
		{`[{"tool":"f"}]`, `starts with a list, must be one JSON object`},
		{`[`, `starts with a list`},
		{`"tool"`, `starts with a string`},
		{`null`, `starts with null`},
		{`17`, `starts with a number`},
		{`true`, `starts with true`},

		// keys
		{`{"tool":"f","tool":"f"}`, `has the key "tool" twice, must have it once`},
		{`{"tool":"f","args":1,"args":1}`, `has the key "args" twice`},
		{`{"tool":"f","t\u006fol":"f"}`, `has the key "tool" twice`},
		{`{"tool":"f","other":1,"more":2,"other":3}`, `has the key "other" twice`},
		{`{"tool":"f","error":null,"error":null}`, `has the key "error" twice`},
		{"{\"tool\":\"f\",\"\xff\":1,\"\xff\":1}", `twice`},
		{`{"tool":"f","` + strings.Repeat("k", 500) + `":1,"` + strings.Repeat("k", 500) + `":1}`, "kkk…kkk"},

		// values
		{`{"tool":1}`, `"tool" is a number, must be a string`},
		{`{"tool":null,"args":1}`, `none of the three kinds`},
		{`{"tool":["f"]}`, `"tool" is a list, must be a string`},
		{`{"tool":"\ud800"}`, `"tool" is not valid Unicode`},
		{"{\"tool\":\"\xff\"}", `"tool" is not valid Unicode`},
		{`{"tool":"f","run":1}`, `"run" is a number, must be a string`},
		{`{"tool":"f","id":7}`, `"id" is a number, must be a string`},
		{`{"tool":"f","id":{}}`, `"id" is an object, must be a string`},
		{`{"tool":"f","registered":"no"}`, `"registered" is a string, must be true or false`},
		{`{"tool":"f","registered":0}`, `"registered" is a number, must be true or false`},
		{`{"tool":"f","error":{}}`, `"error" is an object, must be a string, or null for no error`},
		{`{"tool":"f","error":false}`, `"error" is false, must be a string`},
		{`{"id":"c","error":5}`, `"error" is a number`},
		{`{"event":"resume"}`, `"event" is "resume", must be "compaction"`},
		{`{"event":"Compaction"}`, `"event" is "Compaction"`},
		{`{"event":""}`, `"event" is ""`},
		{`{"event":true}`, `"event" is true, must be a string`},
		{`{"event":null}`, `none of the three kinds`},

		// kinds
		{`{}`, `is none of the three kinds: a call has "tool", an outcome "result" or "error", a compaction "event"`},
		{`{"run":"r1"}`, `none of the three kinds`},
		{`{"run":"r1","id":"c1"}`, `none of the three kinds`},
		{`{"id":"c1","error":null}`, `none of the three kinds`},
		{`{"Tool":"f"}`, `none of the three kinds`},
		{`{"name":"f","args":{}}`, `none of the three kinds`},
		{`{"args":{}}`, `none of the three kinds`},
		{`{"registered":false}`, `none of the three kinds`},
		{`{"tool":"f","result":1,"error":"e"}`, `has both "result" and "error", must have one of them`},
		{`{"id":"c","result":null,"error":"e"}`, `has both "result" and "error"`},
		{`{"tool":"f","event":"compaction"}`, `has both "event" and "tool", must be either a compaction or a call`},
		{`{"event":"compaction","result":1}`, `has both "event" and an outcome`},
	}
	for _, test := range tests {
		t.Run(test.line[:min(len(test.line), 40)], func(t *testing.T) {
			got, err := readAll(strings.NewReader("{\"tool\":\"f\"}\n\n" + test.line + "\n{\"tool\":\"f\"}\n"))
			var fault *replay.Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, 3, fault.Line)
			assert.Contains(t, fault.Message, test.words)
			assert.Len(t, got, 1, "what comes before is read")
			assert.Less(t, len(err.Error()), 250)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}
