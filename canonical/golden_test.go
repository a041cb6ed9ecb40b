package canonical_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/loopguard-go/loopguard/canonical"
)

// Digests outlive a process, in stores and in recordings. So these stay what they are, until the rules of identity change.
func TestDigestsStay(t *testing.T) {
	const failed = `{"status":"failed","exitCode":1,"pid":4711,"aggregated":"2026-01-02T03:04:05Z worker[7]: try 3 took 12ms,` +
		` clock 10:00:02.5,\n\tat 0x7ffee4 of 3f2b8c1e-0d4a-4e5f-9a6b-7c8d9e0f1a2b \u2014 \"caf\u00e9\" \ud83d\ude00\n"}`
	const parts = `{"content":[{"type":"text","text":"a"},{"type":"image","data":"x"},{"type":"text","text":"b"}],"next":1}`
	long := strings.Repeat("line 12 of a long output: 10.0.0.7:5432 refused after 3 s\n", 2_000)
	values := map[string]any{"f": 0.1, "n": -7, "c": make(chan int)}
	mixed := canonical.Result{Text: "no such file, pid 7", Details: map[string]any{"took": "5 ms"}, IsError: true}

	for _, golden := range []struct{ digest, args string }{
		{"af6dcce958bb3854f2e20dd973901d70", ``},
		{"014355e7fcf741ec0f94060158ca36d2", ` /etc/hosts`},
		{"594d1395f37c7bf55e0cd71112e1923d", `{"path":"\u002fetc","lines":[1.50,-2e3,1e999],"all":true,"none":null,"":{}}`},
		{"5b26be09621cb8671636444895f9c2a2", `{"path":1,"path":2}`},
	} {
		assert.Equal(t, "sha256:"+golden.digest, signature("read", golden.args).String(), golden.args)
	}

	id := canonical.New().Identify(canonical.Call{Tool: "read"})
	failure := id.Error(errors.New("attempt 3: no route to host after 1.5 s (0x1f)"))
	assert.Equal(t, "sha256:f526a4455fa30360a1c9ac984de492b3", failure.Digest.String())

	for _, golden := range []struct {
		digest, tool string
		result       canonical.Result
	}{
		{"8f9f545e00d3deeef0ddd79aa7ead4d7", "read", said(" Grüße\xff\n")},
		{"d86d7af026dccb198b4e1d3f256178bb", "read", raw(`[1,"2",[3.0e0]]`)},
		{"efd3446d2f08b5aa69d50d2dd4b73789", "read", raw(`{"b":[{"y":1,"x":""}],"a":"1 s"}`)},
		{"92c38675bae5d9b88df2d07e59c936ac", "read", canonical.Result{Details: values}},
		{"608d4978b20938882b84bd128451f5cb", "read", raw(parts)},
		{"64091aee9a1c9f6126208f86a95b9eeb", "read", mixed},
		{"a5c25aff89debc5a823e508144cb67d4", "exec", raw(`{"exitCode":0,"stdout":"out 5 s","stderr":"err","durationMs":5}`)},
		{"ff8ef69d39723fee423a0da3abab2e9e", "exec", raw(failed)},
		{"059b362cf87b54fbdf7de64210e2c86d", "exec", raw(`{"status":"running","tail":"...\n50%","pid":7}`)},
		{"7f28e3c09a7809a618312bd81ed7c7fb", "exec", raw(`{"status":"approval-pending","host":"a","command":"rm"}`)},
		{"56c2a0d93ebafafbe5b4434dbb6a8bd5", "exec", said("session brisk-otter, PID: 4711, took 1.5 s")},
		{"b75682b41baaa3af6814c3031c1524d0", "command_status", raw(`{"status":"running","totalLines":7,"at":1}`)},
		{"26d8399b121d9ac375e5f9bd27f32db8", "send_message", raw(`{"ok":true,"messageId":"m-000001","url":"/m-000001","chat":{"id":"c1"}}`)},
		{"da52dad2d268098f2a24196d436a3e08", "send_message", said("sent as 1234.5678 to C0123ABC")},
		{"2a064af7a5c6d87fbca7ef14e79492b6", "read", said(long)},
		{"669b55f752803ad8d4dbc61e3412e3d3", "read", canonical.Result{Text: long, IsError: true}},
		{"4a3bb4c0f0d6c9ff886fd4bc862898f6", "exec", said(long + "took 5 s")},
	} {
		got := outcome(golden.tool, golden.result).Digest
		assert.Equal(t, "sha256:"+golden.digest, got.String(), "%s: %.100v", golden.tool, golden.result)
	}
}
