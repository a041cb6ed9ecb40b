package middleware_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// loops holds for each detector a run that it finds: the i-th call, and what its tool does. What the calls say and bring
// is the business of secret and must not be found anywhere in what the guard says.
var loops = map[string]func(secret string, i int) step{
	policy.GenericRepeat: func(secret string, _ int) step {
		return step{secretCall("read", secret), returns(secret)}
	},
	policy.GlobalCircuitBreaker: func(secret string, _ int) step {
		return step{secretCall("read", secret), returns(secret)}
	},
	policy.KnownPollNoProgress: func(secret string, _ int) step {
		return step{middleware.Call{Tool: "process", Args: `{"action":"poll","session":"` + secret + `"}`}, returns(secret)}
	},
	policy.PingPong: func(secret string, i int) step {
		return step{secretCall([]string{"read", "write"}[i%2], secret), returns(secret)}
	},
	policy.Stagnation: func(secret string, i int) step {
		return step{secretCall("read", secret+strconv.Itoa(i%3)), returns(secret)}
	},
	policy.ErrorStreak: func(secret string, i int) step {
		tool := func(context.Context, middleware.Call) (middleware.Result, error) {
			failed := middleware.Result{Result: canonical.Result{Details: map[string]any{secret: secret}, IsError: true}}
			return failed, errors.New(secret)
		}
		return step{secretCall("fetch", secret+strconv.Itoa(i)), tool}
	},
	policy.UnknownToolRepeat: func(secret string, i int) step {
		return step{secretCall("browse", secret+strconv.Itoa(i)), fails(fmt.Errorf("%w: %s", middleware.ErrUnknownTool, secret))}
	},
	policy.CompactionLoopPersisted: func(secret string, _ int) step {
		return step{secretCall("read", secret), returns(secret)}
	},
}

func secretCall(tool, secret string) middleware.Call {
	return middleware.Call{Tool: tool, Args: `{"` + secret + `":"` + secret + `"}`}
}

// said is all that a guard said in a run.
type said struct {
	detections []middleware.Detection
	notes      map[string]string // by detector
	refusals   map[string]string
	errors     map[string]error
	all        []string // also on the trace and in the log
}

// listen drives a run into the loop that a detector finds, and listens.
func listen(t testingT, detector, secret string) said {
	t.Helper()
	heard := said{notes: map[string]string{}, refusals: map[string]string{}, errors: map[string]error{}}
	var w witness
	var log bytes.Buffer
	guard := newGuard(t, w.option(), middleware.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("")
	if detector == policy.CompactionLoopPersisted {
		require.NoError(t, guard.Compacted(inRun()))
	}
	for i := range 35 {
		s := loops[detector](secret, i)
		ctx, span := tracer.Start(inRun(), "call")
		ticket, err := guard.Begin(ctx, s.call)
		if err == nil {
			by := ticket.Verdict().Detector
			if refusal, refused := ticket.Refusal(); refused {
				heard.refusals[by] = refusal
			} else {
				if note := ticket.Note(); note != "" {
					heard.notes[by] = note
				}
				result, failure := s.tool(ctx, s.call)
				err = ticket.End(ctx, result, failure)
			}
		}
		var stop *middleware.LoopError
		if errors.As(err, &stop) && heard.errors[stop.Detector] == nil {
			heard.errors[stop.Detector] = err
		}
		span.End()
	}
	heard.detections = w.takeAll()
	heard.all = append(heard.all, log.String())
	heard.all = slices.AppendSeq(heard.all, maps.Values(heard.notes))
	heard.all = slices.AppendSeq(heard.all, maps.Values(heard.refusals))
	for _, err := range heard.errors {
		inJSON, failure := json.Marshal(err)
		require.NoError(t, failure)
		heard.all = append(heard.all, err.Error(), fmt.Sprintf("%+v", err), string(inJSON))
	}
	for _, d := range heard.detections {
		heard.all = append(heard.all, fmt.Sprintf("%+v", d))
	}
	for _, span := range recorder.Ended() {
		heard.all = append(heard.all, fmt.Sprint(span.Attributes(), span.Status()))
		for _, event := range span.Events() {
			heard.all = append(heard.all, event.Name, fmt.Sprint(event.Attributes))
		}
	}
	return heard
}

// TestLoopsAreFoundByTheirDetectors keeps the other tests of this file honest.
func TestLoopsAreFoundByTheirDetectors(t *testing.T) {
	for detector := range loops {
		heard := listen(t, detector, "secret")
		found := func(d middleware.Detection) bool { return d.Detector == detector && d.Action >= policy.Block }
		assert.True(t, slices.ContainsFunc(heard.detections, found), detector)
	}
}

func TestTextsNameTheCountAndDifferForEachDetector(t *testing.T) {
	notes, refusals := map[string]string{}, map[string]string{}
	for detector := range loops {
		heard := listen(t, detector, "secret")
		for _, d := range heard.detections {
			assert.Contains(t, d.Reason, strconv.Itoa(d.Count), detector)
			assert.NotEmpty(t, d.Advice(), detector)
		}
		if note, ok := heard.notes[detector]; ok {
			notes[note] = detector
			assert.Regexp(t, `(?s)^\n\n\[loopguard\] Warning: .*\b10\b.* If nothing new comes of it, calls will be refused\.$`, note)
		}
		if refusal, ok := heard.refusals[detector]; ok {
			refusals[refusal] = detector
			assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\. .*\d+ times|\d+ calls`, refusal)
		} else {
			require.Error(t, heard.errors[detector], detector)
			refusals[heard.errors[detector].Error()] = detector
		}
	}
	assert.Len(t, refusals, len(loops), "no two detectors say the same")
	assert.Len(t, notes, len(loops)-3, "unknown tools, the breaker and the guard after compaction do not warn")
}

// TestTextsOfOneLoopDiffer: an agent framework may fold equal answers into one, and a model may not notice that anything
// happened; only what differs tells it something.
func TestTextsOfOneLoopDiffer(t *testing.T) {
	guard, ctx := newGuard(t), inRun()
	repeat(t, guard, ctx, 20)
	texts := map[string]bool{}
	for range 10 {
		result, err := guard.Do(ctx, same, mustNotRun(t))
		require.NoError(t, err)
		texts[result.Text] = true
	}
	assert.Len(t, texts, 10)
}

// TestNothingSaysArgumentsOrResults looks for random words of arguments, results and errors in all that a guard says: to
// the model, to the caller, on the trace and in the log.
func TestNothingSaysArgumentsOrResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`zq[g-z]{1,3}[A-Za-z0-9 _/.:-]{4,40}`).Draw(t, "secret")
		detector := rapid.SampledFrom(slices.Sorted(maps.Keys(loops))).Draw(t, "detector")
		for _, words := range listen(t, detector, secret).all {
			require.NotContains(t, strings.ToLower(words), strings.ToLower(secret[:4]))
		}
	})
}

func TestObserveModeSaysNothingToTheModel(t *testing.T) {
	c := policy.Default()
	c.Mode = policy.Observe
	guard := newGuardOf(t, c)
	for range 35 {
		ticket, err := guard.Begin(inRun(), same)
		require.NoError(t, err)
		_, refused := ticket.Refusal()
		require.False(t, refused)
		require.Empty(t, ticket.Note())
		require.NoError(t, ticket.End(inRun(), middleware.Text("the same"), nil))
	}
}
