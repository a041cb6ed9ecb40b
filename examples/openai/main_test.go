package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func playAlone(t *testing.T, s scene) outcome {
	o, err := play(t.Context(), s, io.Discard)
	require.NoError(t, err)
	return o
}

// results returns what the model was sent as the results of a turn, the newest ones only.
func (o outcome) results(turn int) []message {
	read, err := lastResults(o.received[turn])
	if err != nil {
		panic(err)
	}
	return read
}

func TestALoopIsWarnedAndRefused(t *testing.T) {
	o := playAlone(t, stuckOnACommand())
	require.NoError(t, o.err)
	assert.Equal(t, "The build needs a Makefile, and there is none.", o.answer)
	assert.Equal(t, 10, o.runs)
	require.Len(t, o.received, 12, "eleven with calls, and the answer")
	for turn := 1; turn <= 11; turn++ {
		read := o.results(turn)
		require.Len(t, read, 1)
		assert.Equal(t, fmt.Sprint("call_", turn), read[0].ToolCallID)
		switch turn {
		case 6:
			assert.Regexp(t, `"output":"make: no rule for all"}\n\n\[loopguard\] Warning: `, read[0].Content)
		case 11:
			assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\.`, read[0].Content)
		default:
			assert.NotContains(t, read[0].Content, "loopguard")
		}
	}
	assert.Equal(t, "user", o.received[11][0].Role)
	assert.Len(t, o.received[11], 1+2*11, "each call is in the conversation, with its answer")
}

func TestALoopIsStopped(t *testing.T) {
	o := playAlone(t, readsNothing())
	loop, ok := errors.AsType[*middleware.LoopError](o.err)
	require.True(t, ok, o.err)
	assert.Equal(t, policy.Abort, loop.Action)
	assert.Equal(t, "exec", loop.Tool)
	assert.Equal(t, 10, o.runs)
	assert.Len(t, o.received, 16, "the 16th call ends the run, and no request follows")
}

func TestCallsInParallel(t *testing.T) {
	o := playAlone(t, watchesThreeJobs())
	require.NoError(t, o.err)
	assert.Contains(t, o.answer, "job c is stuck")
	for turn := 1; turn < len(o.received); turn++ {
		read := o.results(turn)
		require.Len(t, read, 3)
		for i, job := range []string{"a", "b", "c"} {
			assert.Equal(t, fmt.Sprint(job, turn), read[i].ToolCallID)
		}
		assert.NotContains(t, read[0].Content+read[1].Content, "loopguard", "a job that moves")
	}
	last := o.results(len(o.received) - 1)
	assert.Regexp(t, `^\[loopguard\] Call refused: `, last[2].Content)
	assert.Contains(t, last[0].Content, `"state":"running"`, "and beside it the others run")
}

func TestAnInventedTool(t *testing.T) {
	o := playAlone(t, inventsATool())
	require.NoError(t, o.err)
	assert.Equal(t, "I cannot search the web here.", o.answer)
	assert.Zero(t, o.runs)
	assert.Regexp(t, `^error: unknown tool: (search_web|web_search|google)$`, o.results(1)[0].Content)
	last := o.results(len(o.received) - 1)
	require.Len(t, last, 1)
	assert.Regexp(t, `^\[loopguard\] Call refused: `, last[0].Content)
	assert.Equal(t, fmt.Sprint("call_", len(o.received)-1), last[0].ToolCallID)
}

func TestAHealthyAgent(t *testing.T) {
	o := playAlone(t, healthy())
	require.NoError(t, o.err)
	assert.Equal(t, 20, o.runs)
	for turn := 1; turn <= 20; turn++ {
		assert.Equal(t, fmt.Sprintf(`package main // {"path":"file-%d.go"}`, turn), o.results(turn)[0].Content)
	}
}

func TestTheProgram(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	for _, promised := range []string{
		"model reads of call_6: [loopguard] Warning: ",
		"model reads of call_11: [loopguard] Call refused: ",
		"stopped by global_circuit_breaker at 15",
		"16 requests; tools were run 10 times",
		"answer: I cannot search the web here.",
		"answer: I have read all 20 files.",
	} {
		assert.Contains(t, out.String(), promised)
	}
}

// newAgent is an agent with one tool, whose model asks for it once.
func newAgent(t *testing.T, guard *middleware.Guard, run func(context.Context, string) (string, error)) (*agent, *scripted) {
	model := serve(io.Discard, func(turn int, read []string) ([]call, string) {
		if turn > 1 {
			return nil, strings.Join(read, ", ")
		}
		return []call{{"a", "look", "{}"}, {"b", "look", `{"again":true}`}}, ""
	})
	t.Cleanup(model.Close)
	client := openai.NewClient(option.WithBaseURL(model.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	return &agent{client: client, model: "scripted", guard: guard, tools: map[string]tool{
		"look": {openai.FunctionDefinitionParam{Name: "look"}, run},
	}}, model
}

func newGuard(t *testing.T) (*middleware.Guard, *middleware.MemoryStore) {
	store := middleware.NewMemoryStore()
	guard, err := middleware.New(policy.Tight(), middleware.WithStore(store))
	require.NoError(t, err)
	return guard, store
}

func TestTheErrorOfAToolIsForTheModel(t *testing.T) {
	guard, store := newGuard(t)
	a, _ := newAgent(t, guard, func(_ context.Context, args string) (string, error) {
		if args == "{}" {
			return "", errors.New("no disk")
		}
		return "a disk", nil
	})
	answer, err := a.run(t.Context(), "Look.")
	require.NoError(t, err)
	assert.Equal(t, "error: no disk, a disk", answer)
	assert.Zero(t, store.Runs(), "the run is forgotten")
}

func TestCancellationEndsTheRun(t *testing.T) {
	guard, store := newGuard(t)
	ctx, cancel := context.WithCancel(t.Context())
	a, model := newAgent(t, guard, func(ctx context.Context, _ string) (string, error) {
		cancel()
		<-ctx.Done()
		return "", errors.New("signal: killed") // as a command has it
	})
	_, err := a.run(ctx, "Look.")
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, model.received(), 1, "no request follows")
	assert.Zero(t, store.Runs())
}

func TestTheAPIFails(t *testing.T) {
	guard, store := newGuard(t)
	a, _ := newAgent(t, guard, nil)
	requests := 0
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer broken.Close()
	a.client = openai.NewClient(option.WithBaseURL(broken.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	_, err := a.run(t.Context(), "Look.")
	var failed *openai.Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, http.StatusServiceUnavailable, failed.StatusCode)
	assert.Equal(t, 1, requests)
	assert.Zero(t, store.Runs())
}

func TestAnAnswerThatWasCutOff(t *testing.T) {
	guard, _ := newGuard(t)
	a, _ := newAgent(t, guard, nil)
	for answer, want := range map[string]string{
		`{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{\"pa"}}]},` +
			`"finish_reason":"length"}]}`: "too long",
		`{"choices":[]}`: "no choice",
	} {
		short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer)
		}))
		a.client = openai.NewClient(option.WithBaseURL(short.URL), option.WithAPIKey("none"))
		_, err := a.run(t.Context(), "Look.")
		assert.ErrorContains(t, err, want)
		short.Close()
	}
}
