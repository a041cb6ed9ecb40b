package canonical_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/loopguard-go/loopguard/canonical"
)

// Digests outlive the process: stores keep them, and several processes compare theirs. If this test fails, some call or
// outcome has another digest than before. Where that is meant, raise IdentityVersion and change the sum here.
func TestIdentityVersion(t *testing.T) {
	assert.Equal(t, 1, canonical.IdentityVersion)
	assert.Equal(t, "ff8fe211c01b623219156ed36d15fa8e", digestOfDigests())
}

// digestOfDigests sums up the digests of calls and outcomes of every kind, in every shape, and with everything in them that
// is dropped, masked or told apart.
func digestOfDigests() string {
	c := canonical.New(canonical.WithRules(func(tool string) canonical.Rule {
		if tool == "ruled" {
			return canonical.Rule{
				Kind: canonical.Message, IdentityArgs: []string{"a", "b"}, IgnoreArgs: []string{"b"}, IgnoreResult: []string{"noise"},
			}
		}
		return canonical.Rule{}
	}))
	sum := sha256.New()
	add := func(o canonical.Outcome) {
		sum.Write(o.Digest[:])
		for _, is := range []bool{o.Failure, o.UnknownTool} {
			sum.Write([]byte{map[bool]byte{true: 1}[is]})
		}
	}
	texts := []string{
		``, `null`, `plain text`, `{}`, `[1, 2.0, 3e0, "4", null, true]`, `{"b": 1e400, "a": "\u00e9"}`, `{"broken":`, `{"a":1,"a":1}`,
		`{"action":"poll","sessionId":"s"}`, `{"action":"send","to":"x","text":"hello"}`, `{"a":1,"b":2,"noise":3}`,
		`{"status":"running","tail":" line 7 ","pid":1}`, `{"status":"approval-pending","command":"ls","id":9}`,
		`{"status":"failed","exitCode":2,"aggregated":"2026-03-14T15:09:26Z pid 42 failed after 12ms at 0xc000"}`,
		`{"exit_code":0,"stdout":"took 12ms","stderr":"warn"}`, `pid 17, session abc-1, took 3.2s`,
		`{"ok":true,"messageId":"identifier-1","channel":{"id":"C1"},"message":{"id":"identifier-2","text":"re: identifier-1"}}`,
		`{"content":[{"type":"text","text":"one"},{"type":"image","data":"AAAA"},{"type":"text","text":"two"}],"isError":true}`,
		`{"content":[{"type":"text","text":"{\"k\":1}"}],"structuredContent":{"k":1},"_meta":{"x":1}}`,
		`{"status":"completed","totalLines":3,"output":"x","truncated":false,"startedAt":1}`,
		`read ECONNRESET, attempt 3 of 5, request 3f2a9c1e-77b0-4d11-9e55-0123456789ab at 12:34:56.7`,
		`unknown tool: exec`, `delivered msg-20391 to #general`,
	}
	for _, tool := range []string{"exec", " Process", "command_status", "message", "sessions_send", "ruled", "read", "Ünïcode"} {
		for _, text := range texts {
			for _, unregistered := range []bool{false, true} {
				id := c.Identify(canonical.Call{Tool: tool, Args: text, Unregistered: unregistered})
				sum.Write(id.Signature[:])
				add(id.Result(canonical.Result{Text: text}))
				add(id.Result(canonical.Result{Text: text, IsError: true}))
				add(id.Error(errors.New(text)))
			}
		}
	}
	sum.Write([]byte(canonical.Bound(string(make([]byte, 200)))))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
