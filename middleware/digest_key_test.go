package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// shown is where digests are shown.
type shown struct {
	span, event, log, callback string
	calls, outcomes            []canonical.Digest
}

// digestsOf runs a call into an abort and returns the digests that are shown on the way. The outcomes are those of a run that
// the guard after compaction stopped.
func digestsOf(t *testing.T, call middleware.Call, options ...middleware.Option) (s shown) {
	var w witness
	var out bytes.Buffer
	var kept events
	options = append(options, w.option(), middleware.WithLogger(slog.New(slog.NewJSONHandler(&out, nil))))
	run := func(options ...middleware.Option) *middleware.LoopError {
		guard := newGuard(t, options...)
		var stop *middleware.LoopError
		span := newTraced().during(inRun(), func(ctx context.Context) {
			require.NoError(t, guard.Compacted(ctx))
			for range 3 {
				_, err := guard.Do(ctx, call, returns("the same"))
				if err != nil {
					require.ErrorAs(t, err, &stop)
				}
			}
		})
		if len(span.Events()) > 0 {
			s.span, _ = attributesOf(span.Events()[0].Attributes)["loopguard.call.digest"].(string)
		}
		require.NotNil(t, stop)
		return stop
	}
	stop := run(options...)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	s.log, _ = line["loopguard.call.digest"].(string)
	s.callback = w.seen[0].Call.String()
	for _, c := range stop.Calls {
		s.calls, s.outcomes = append(s.calls, c.Signature), append(s.outcomes, c.Outcome)
	}
	run(append(options, middleware.WithEvents(&kept))...)
	s.event, _ = kept.seen[0].attributes["loopguard.call.digest"].(string)
	return s
}

// TestDigestsAreKeyedWhereverTheyAreShown, and the same everywhere.
func TestDigestsAreKeyedWhereverTheyAreShown(t *testing.T) {
	plain := digestsOf(t, same)
	require.Equal(t, digestOf(t, same), plain.span)
	keyed := digestsOf(t, same, middleware.WithDigestKey([]byte("key")))
	for _, s := range []shown{plain, keyed} {
		assert.Regexp(t, "^sha256:[0-9a-f]{32}$", s.span)
		assert.Equal(t, s.span, s.event)
		assert.Equal(t, s.span, s.log)
		assert.Equal(t, s.span, s.callback)
		require.Len(t, s.calls, 3)
		for i := range s.calls {
			assert.Equal(t, s.span, s.calls[i].String())
			assert.Equal(t, s.outcomes[0], s.outcomes[i])
			assert.NotEqual(t, s.span, s.outcomes[i].String())
		}
	}
	assert.NotEqual(t, plain.span, keyed.span)
	assert.NotEqual(t, plain.outcomes[0], keyed.outcomes[0], "results could be guessed too")

	assert.Equal(t, keyed, digestsOf(t, same, middleware.WithDigestKey([]byte("key"))), "another guard with the same key")
	assert.NotEqual(t, keyed.span, digestsOf(t, same, middleware.WithDigestKey([]byte("yek"))).span)
	assert.NotEqual(t, keyed.span, digestsOf(t, numbered("read", 1), middleware.WithDigestKey([]byte("key"))).span)
	same2 := middleware.Call{Tool: " READ", Args: `{ "path" : "/etc/hosts" }`}
	assert.Equal(t, keyed.span, digestsOf(t, same2, middleware.WithDigestKey([]byte("key"))).span, "an equal call")
}

// TestOutcomeThatIsNotThereStaysSo: a refused call has none, and a key does not give it one.
func TestOutcomeThatIsNotThereStaysSo(t *testing.T) {
	guard := newGuard(t, middleware.WithDigestKey([]byte("key")))
	stop := runInto(t, guard, inRun())
	require.Len(t, stop.Calls, 5)
	for _, c := range stop.Calls {
		assert.Equal(t, policy.Refused, c.Status)
		assert.True(t, c.Outcome.IsZero())
	}
	_, err := guard.Do(inRun(), same, mustNotRun(t))
	var later *middleware.LoopError
	require.ErrorAs(t, err, &later)
	assert.Equal(t, stop.Calls, later.Calls, "keyed once, not again at each call")
}

// TestKeyIsTakenOver: what its owner does with the bytes afterwards changes nothing.
func TestKeyIsTakenOver(t *testing.T) {
	key := []byte("key")
	option := middleware.WithDigestKey(key)
	clear(key)
	assert.Equal(t, digestsOf(t, same, middleware.WithDigestKey([]byte("key"))), digestsOf(t, same, option))
}

// TestHistoriesHoldDigestsWithoutKey, so that guards with other keys or none go on with them.
func TestHistoriesHoldDigestsWithoutKey(t *testing.T) {
	plain, keyed := middleware.NewMemoryStore(), middleware.NewMemoryStore()
	repeat(t, newGuard(t, middleware.WithStore(plain)), inRun(), 20)
	repeat(t, newGuard(t, middleware.WithStore(keyed), middleware.WithDigestKey([]byte("key"))), inRun(), 20)
	assert.Equal(t, history(t, plain, "r"), history(t, keyed, "r"))
	assert.Equal(t, digestOf(t, same), history(t, keyed, "r")[0].Signature.String())

	for _, option := range []middleware.Option{
		middleware.WithDigestKey([]byte("key")), middleware.WithDigestKey([]byte("another")), middleware.WithDefaultRun("none"),
	} {
		result, err := newGuard(t, middleware.WithStore(keyed), option).Do(inRun(), same, mustNotRun(t))
		require.NoError(t, err)
		require.NotNil(t, result.Refusal)
	}
	stop := runInto(t, newGuard(t, middleware.WithStore(keyed), middleware.WithDigestKey([]byte("key"))), inRun())
	assert.NotEmpty(t, stop.Calls)
	for _, r := range history(t, keyed, "r") {
		assert.Equal(t, digestOf(t, same), r.Signature.String(), "what was shown did not find its way into the history")
	}
}

// TestKeyChangesNoVerdict, in runs of all kinds.
func TestKeyChangesNoVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		script := scripts(60).Draw(t, "script")
		key := rapid.SliceOfN(rapid.Byte(), 1, 200).Draw(t, "key")
		run := func(options ...middleware.Option) (all []string, shown map[canonical.Digest]int) {
			var w witness
			guard := newGuardOf(t, policy.Tight(), append(options, w.option())...)
			shown = map[canonical.Digest]int{}
			for i, s := range script {
				result, err := guard.Do(inRun(), s.call, s.tool)
				found := w.takeAll()
				all = append(all, fmt.Sprint(result.Text, err))
				for _, d := range found {
					all = append(all, inWords(d.Verdict))
					if _, ok := shown[d.Call]; !ok {
						shown[d.Call] = i
					}
				}
			}
			return all, shown
		}
		plain, digests := run()
		keyed, keyedDigests := run(middleware.WithDigestKey(key))
		require.Equal(t, plain, keyed)
		require.Len(t, keyedDigests, len(digests), "equal for equal calls, different for others")
		for d := range digests {
			require.NotContains(t, keyedDigests, d)
		}
	})
}
