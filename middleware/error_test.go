package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func TestAbortTellsThePersonOnCall(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard, ctx := newGuard(t, middleware.WithStore(store)), inRun()
	repeat(t, guard, ctx, 20)
	stop := runInto(t, guard, ctx)

	assert.Equal(t, policy.GlobalCircuitBreaker, stop.Detector)
	assert.Equal(t, 30, stop.Count)
	assert.Equal(t, 30, stop.Threshold)
	assert.True(t, stop.Enforced)
	assert.Equal(t, "read", stop.Tool)
	assert.Equal(t, "r", stop.Run)
	assert.Equal(t, `loopguard: run stopped by global_circuit_breaker at 30 (threshold 30), tool "read", run "r": `+
		`30 calls brought nothing new. It stays stopped until it is forgotten (Guard.Forget).`, stop.Error())

	records := history(t, store, "r")
	require.Len(t, stop.Calls, 5)
	assert.Equal(t, records[len(records)-5:], stop.Calls)
	for i, call := range stop.Calls {
		assert.Equal(t, "read", call.Tool)
		assert.Equal(t, stop.Calls[0].Signature, call.Signature)
		assert.Equal(t, policy.Refused, call.Status)
		assert.True(t, call.Outcome.IsZero())
		if i < 4 {
			assert.Equal(t, policy.GenericRepeat, call.Detector)
		} else {
			assert.Equal(t, policy.GlobalCircuitBreaker, call.Detector, "the newest is the one that was refused now")
		}
	}
}

func TestAbortOfAShortHistoryCarriesWhatThereIs(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	require.NoError(t, guard.Compacted(ctx))
	stop := runInto(t, guard, ctx)
	require.Len(t, stop.Calls, 3)
	for _, call := range stop.Calls {
		assert.Equal(t, policy.Done, call.Status)
		assert.False(t, call.Outcome.IsZero())
	}
}

// TestCallsOfAStoppedRunAreRefusedWithTheSameError: detector, count and threshold are those that stopped it, the tool is
// the one that was called now.
func TestCallsOfAStoppedRunAreRefusedWithTheSameError(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	first := runInto(t, guard, ctx)
	for i := range 3 {
		_, err := guard.Do(ctx, numbered(fmt.Sprint("other", i), i), mustNotRun(t))

		var later *middleware.LoopError
		require.ErrorAs(t, err, &later)
		assert.Equal(t, first.Verdict, later.Verdict)
		assert.Equal(t, fmt.Sprint("other", i), later.Tool)
		assert.Equal(t, first.Run, later.Run)
		assert.Equal(t, first.Calls, later.Calls, "refusals of a stopped run are not remembered")
	}
}

func TestErrorsMatch(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	var stop error = runInto(t, guard, ctx)

	for _, err := range []error{stop, fmt.Errorf("chain: %w", stop), errors.Join(io.EOF, stop)} {
		assert.ErrorIs(t, err, middleware.ErrLoop)
		loop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok)
		assert.Equal(t, "r", loop.Run)
	}
	for _, other := range []error{middleware.ErrNoRun, middleware.ErrStore, middleware.ErrUnknownTool, io.EOF, nil} {
		assert.NotErrorIs(t, stop, other)
	}
	assert.NotErrorIs(t, middleware.ErrNoRun, middleware.ErrLoop)
	assert.NotErrorIs(t, middleware.ErrStore, middleware.ErrLoop)
}

// TestAbortNeverUnwrapsToAnErrorOfATool: a host that retries what the tool reports would retry for ever.
func TestAbortNeverUnwrapsToAnErrorOfATool(t *testing.T) {
	temporary := errors.New("try again later")
	for _, failure := range []error{temporary, io.EOF, middleware.ErrUnknownTool, context.DeadlineExceeded} {
		guard := newGuard(t, middleware.WithBlocksAsErrors())
		require.NoError(t, guard.Compacted(inRun()))
		for _, ctx := range []context.Context{inRun(), middleware.WithRun(context.Background(), "another")} {
			var refusal *middleware.LoopError
			for range 31 {
				if _, err := guard.Do(ctx, same, fails(failure)); errors.As(err, &refusal) {
					require.NotErrorIs(t, err, failure)
					require.NotContains(t, err.Error(), failure.Error())
					require.NoError(t, errors.Unwrap(err))
				}
			}
			require.NotNil(t, refusal)
		}
	}
}

func TestErrorTextOfABlockIsNotThatOfAnAbort(t *testing.T) {
	guard, ctx := newGuard(t, middleware.WithBlocksAsErrors()), inRun()
	repeat(t, guard, ctx, 20)
	_, err := guard.Do(ctx, same, mustNotRun(t))
	require.Error(t, err)
	assert.Equal(t, `loopguard: call refused by generic_repeat at 20 (threshold 20), tool "read", run "r": `+
		`This very call was already made 20 times, and nothing new came of it. Do not repeat it as it is. Use what it `+
		`brought, take another way or another tool; if you cannot go on, say what is missing.`, err.Error(),
		"hosts that show it to the model need the advice")
}

func TestHostileNamesStayReadableInErrors(t *testing.T) {
	tool := "re\nad\x00\x1b[31m" + strings.Repeat("x", 1<<16)
	guard, ctx := newGuard(t), middleware.WithRun(context.Background(), "a\nb")
	var stop *middleware.LoopError
	for range 31 {
		_, err := guard.Do(ctx, middleware.Call{Tool: tool}, returns("the same"))
		errors.As(err, &stop)
	}
	require.NotNil(t, stop)
	assert.Regexp(t, `^sha256:[0-9a-f]{32}$`, stop.Tool, "a long name is replaced by its digest")
	assert.NotContains(t, stop.Error(), "\n")
	assert.Contains(t, stop.Error(), `"a\nb"`)
	assert.Less(t, len(stop.Error()), 500)
}

func TestErrorIsAGroupInAStructuredLog(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	stop := runInto(t, guard, ctx)
	var out bytes.Buffer

	slog.New(slog.NewJSONHandler(&out, nil)).Error("run failed", "err", stop)

	var line struct {
		Err map[string]any `json:"err"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	assert.Equal(t, "abort", line.Err["action"])
	assert.Equal(t, "global_circuit_breaker", line.Err["detector"])
	assert.EqualValues(t, 30, line.Err["count"])
	assert.EqualValues(t, 30, line.Err["threshold"])
	assert.Equal(t, "read", line.Err["tool"])
	assert.Equal(t, "r", line.Err["run"])
	assert.Empty(t, line.Err["paired_tool"])
	assert.Equal(t, stop.Reason, line.Err["reason"])
	calls, ok := line.Err["calls"].([]any)
	require.True(t, ok)
	require.Len(t, calls, 5)
	assert.Equal(t, fmt.Sprintf("%q %s refused by generic_repeat", "read", stop.Calls[0].Signature), calls[0])
}

func TestPairedToolIsInTheStructuredLog(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	call := func(i int) middleware.Call { return numbered([]string{"Read", "Write"}[i%2], 0) }
	for i := range 19 {
		_, err := guard.Do(ctx, call(i), returns("the same"))
		require.NoError(t, err)
	}
	result, err := guard.Do(ctx, call(19), mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Contains(t, result.Refusal.LogValue().Group(), slog.String("paired_tool", "Read"))
}

// TestErrorInJSONIsReadable: digests and states are words, not lists of numbers.
func TestErrorInJSONIsReadable(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	repeat(t, guard, ctx, 20)
	stop := runInto(t, guard, ctx)

	out, err := json.Marshal(stop)

	require.NoError(t, err)
	var got struct {
		Action, Tool, Run string
		Calls             []struct{ Tool, Signature, Status, Outcome, Detector string }
	}
	require.NoError(t, json.Unmarshal(out, &got))
	assert.Equal(t, "abort", got.Action)
	assert.Equal(t, "read", got.Tool)
	assert.Equal(t, "r", got.Run)
	require.Len(t, got.Calls, 5)
	assert.Equal(t, stop.Calls[0].Signature.String(), got.Calls[0].Signature)
	assert.Equal(t, "refused", got.Calls[0].Status)
	assert.Equal(t, policy.GenericRepeat, got.Calls[0].Detector)
}
