package genkit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/core"
	framework "github.com/firebase/genkit/go/genkit"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/genkit"
	"github.com/loopguard-go/loopguard/policy"
)

// Who leaves genkit's five turns as they are, or has too few, is told so once.
func TestTooFewTurns(t *testing.T) {
	for name, test := range map[string]struct {
		config  policy.Config
		options []ai.GenerateOption
		made    []genkit.Option
		want    string
	}{
		"genkit's default":  {policy.Default(), nil, nil, "is 5, so that warnings and refusals never reach"},
		"a turn less":       {policy.Default(), []ai.GenerateOption{ai.WithMaxTurns(10)}, nil, "warnings and refusals never"},
		"refusals only":     {policy.Default(), []ai.GenerateOption{ai.WithMaxTurns(11)}, nil, "so that refusals never"},
		"refusals, a turn":  {policy.Default(), []ai.GenerateOption{ai.WithMaxTurns(20)}, nil, "so that refusals never"},
		"enough":            {policy.Default(), []ai.GenerateOption{ai.WithMaxTurns(21)}, nil, ""},
		"off":               {policy.Config{Enabled: new(false)}, nil, nil, ""},
		"runs of the host":  {policy.Default(), nil, []genkit.Option{genkit.WithHostRun()}, ""},
		"tools of the host": {policy.Default(), []ai.GenerateOption{ai.WithReturnToolRequests(true)}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			guard := newGuard(t, test.config, middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			use := genkit.New(guard, test.made...)
			h := newHost(t, func(turn) *ai.Message { return answer("done") })
			says(h, "build", "broken")
			for range 2 {
				options := append([]ai.GenerateOption{
					ai.WithModelName(modelName), ai.WithPrompt("hello"), ai.WithTools(h.tools...), ai.WithUse(use),
				}, test.options...)
				_, err := framework.Generate(t.Context(), h.Genkit, options...)
				require.NoError(t, err)
				_, err = framework.Generate(t.Context(), h.Genkit, ai.WithModelName(modelName), ai.WithPrompt("hello"), ai.WithUse(use))
				require.NoError(t, err)
			}
			if test.want == "" {
				assert.Empty(t, log.String())
				return
			}
			assert.Equal(t, 1, strings.Count(log.String(), "so that"))
			assert.Contains(t, log.String(), test.want)
			assert.Contains(t, log.String(), "after turn 11 and refusals after turn 21")
			assert.Contains(t, log.String(), "ai.WithMaxTurns(40)")
		})
	}
}

// What the notice says is so: with as many turns as thresholds nothing of it is read.
func TestTurnsThatTheNoticeCounts(t *testing.T) {
	for turns, want := range map[int]string{0: "", 3: "", 4: "Warning", 5: "Warning", 6: "Call refused"} {
		h := newHost(t, times(8, "build"))
		says(h, "build", "broken")
		options := []ai.GenerateOption{
			ai.WithModelName(modelName), ai.WithPrompt("the build"), ai.WithTools(h.tools...), ai.WithUse(genkit.New(newGuard(t, config()))),
		}
		if turns > 0 {
			options = append(options, ai.WithMaxTurns(turns))
		}
		_, err := framework.Generate(t.Context(), h.Genkit, options...)
		var failure *core.GenkitError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, core.ABORTED, failure.Status)
		if turns == 0 {
			assert.Len(t, h.last.read, 5)
			continue
		}
		assert.Len(t, h.last.read, turns)
		read := strings.Join(h.last.texts(), "\n")
		for _, word := range []string{"Warning", "Call refused"} {
			if word == want {
				assert.Contains(t, read, word, "%d turns", turns)
			}
		}
		assert.Equal(t, want == "Call refused", strings.Contains(read, "Call refused"), "%d turns", turns)
		assert.Equal(t, want != "", strings.Contains(read, "Warning"), "%d turns", turns)
	}
}
