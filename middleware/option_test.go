package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

func TestWrongOptionsAreNamed(t *testing.T) {
	for name, option := range map[string]middleware.Option{
		"WithStore":         middleware.WithStore(nil),
		"WithDefaultRun":    middleware.WithDefaultRun(""),
		"WithKey":           middleware.WithKey("read", nil),
		"WithCanonicalizer": middleware.WithCanonicalizer("read", nil),
		"WithOnDetection":   middleware.WithOnDetection(nil),
		"WithLogger":        middleware.WithLogger(nil),
		"WithEvents":        middleware.WithEvents(nil),
		"WithMeterProvider": middleware.WithMeterProvider(nil),
		"WithDigestKey":     middleware.WithDigestKey([]byte{}),
	} {
		guard, err := middleware.New(policy.Default(), middleware.WithBlocksAsErrors(), option)
		assert.Nil(t, guard, name)
		assert.ErrorContains(t, err, "loopguard: "+name+": ")
	}
	guard, err := middleware.New(policy.Default(), nil)
	assert.Nil(t, guard)
	assert.EqualError(t, err, "loopguard: an option is nil")
}

// TestHooksAreForOneToolByItsName: on any other name they would never be called.
func TestHooksAreForOneToolByItsName(t *testing.T) {
	for tool, problem := range map[string]string{
		"":      "the name of the tool is empty",
		" \t":   "the name of the tool is empty",
		"job_*": `"job_*" is a glob, must be the name of one tool`,
		"job?":  `"job?" is a glob, must be the name of one tool`,
	} {
		for name, option := range map[string]middleware.Option{
			"WithKey": middleware.WithKey(tool, func(canonical.Call) string { return "" }),
			"WithCanonicalizer": middleware.WithCanonicalizer(tool,
				func(_ canonical.Call, r canonical.Result) canonical.Result { return r }),
		} {
			_, err := middleware.New(policy.Default(), option)
			assert.EqualError(t, err, "loopguard: "+name+": "+problem)
		}
	}
}

// TestToolHasOneHookOfAKind: of two only one would be called.
func TestToolHasOneHookOfAKind(t *testing.T) {
	key := func(tool string) middleware.Option {
		return middleware.WithKey(tool, func(canonical.Call) string { return "" })
	}
	change := func(tool string) middleware.Option {
		return middleware.WithCanonicalizer(tool, func(_ canonical.Call, r canonical.Result) canonical.Result { return r })
	}
	newGuard(t, key("read"), change("read"), key("write"), change("write"))
	_, err := middleware.New(policy.Default(), key("read"), key(" Read"))
	assert.EqualError(t, err, `loopguard: WithKey: " Read" has a function already`)
	_, err = middleware.New(policy.Default(), change("read"), change("read"))
	assert.EqualError(t, err, `loopguard: WithCanonicalizer: "read" has a function already`)
}

// TestMetricToolsAreToolsByTheirNames: any other name would never be on a metric.
func TestMetricToolsAreToolsByTheirNames(t *testing.T) {
	for tool, problem := range map[string]string{
		"":      "the name of the tool is empty",
		" \t":   "the name of the tool is empty",
		"job_*": `"job_*" is a glob, must be the name of one tool`,
		"job?":  `"job?" is a glob, must be the name of one tool`,
	} {
		_, err := middleware.New(policy.Default(), newMeter().option(), middleware.WithMetricTools("read", tool))
		assert.EqualError(t, err, "loopguard: WithMetricTools: "+problem)
	}
}

// TestMetricToolsNeedMetrics, in whatever order the options are given.
func TestMetricToolsNeedMetrics(t *testing.T) {
	_, err := middleware.New(policy.Default(), middleware.WithMetricTools("read"))
	assert.ErrorContains(t, err, "loopguard: WithMetricTools: ")
	_, err = middleware.New(policy.Default(), middleware.WithMetricTools("read"), newMeter().option())
	assert.NoError(t, err)
}

func TestWrongConfigurationsAreNamed(t *testing.T) {
	for place, c := range map[string]policy.Config{
		"historySize":                    {HistorySize: -1},
		"warningThreshold":               {WarningThreshold: -1},
		"postCompactionGuard.windowSize": {PostCompactionGuard: policy.PostCompactionGuard{WindowSize: 1}},
		"mode":                           {Mode: "watch"},
		`tools["job"].kind`:              {Tools: map[string]policy.ToolRule{"job": {Kind: "waiting"}}},
	} {
		guard, err := middleware.New(c)
		assert.Nil(t, guard, place)
		require.Error(t, err, place)
		assert.True(t, strings.HasPrefix(err.Error(), "loopguard: "), err)
		assert.ErrorContains(t, err, place)
		var wrong *policy.ConfigError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, place, wrong.Path)
	}
}

// TestNoticesAreKeptAndLogged: nobody reads what New would only return.
func TestNoticesAreKeptAndLogged(t *testing.T) {
	var log bytes.Buffer
	c := policy.Default()
	c.WarningThreshold = 25
	guard := newGuardOf(t, c, middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

	require.NotEmpty(t, guard.Notices())
	assert.Equal(t, "criticalThreshold", guard.Notices()[0].Path)
	assert.Contains(t, guard.Notices()[0].Message, "raised from 20 to 26")
	assert.Equal(t, len(guard.Notices()), strings.Count(log.String(), "\n"))
	for _, n := range guard.Notices() {
		assert.Contains(t, log.String(), "path="+n.Path)
	}

	log.Reset()
	assert.Empty(t, newGuard(t, middleware.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))).Notices())
	assert.Empty(t, log.String())
}

// TestKeyTakesThePlaceOfTheArguments, for the tool that it was given for.
func TestKeyTakesThePlaceOfTheArguments(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, middleware.WithStore(store), middleware.WithKey(" Search ", func(c canonical.Call) string {
		return strings.ToLower(c.Args)
	}))
	for _, call := range []middleware.Call{
		{Tool: "search", Args: "Cats"},
		{Tool: "SEARCH", Args: "cats"},
		{Tool: "search", Args: "dogs"},
		{Tool: "other", Args: "Cats"},
		{Tool: "other", Args: "cats"},
	} {
		_, err := guard.Do(inRun(), call, returns("found"))
		require.NoError(t, err)
	}
	records := history(t, store, "r")
	assert.Equal(t, records[0].Signature, records[1].Signature)
	assert.NotEqual(t, records[0].Signature, records[2].Signature)
	assert.NotEqual(t, records[3].Signature, records[4].Signature)
}

// A canonicalizer works on the copy that is compared.
func TestCanonicalizerChangesWhatIsComparedAndNotWhatTheModelReads(t *testing.T) {
	store := middleware.NewMemoryStore()
	var seen []canonical.Call
	guard := newGuard(t, middleware.WithStore(store), middleware.WithCanonicalizer("quote",
		func(c canonical.Call, r canonical.Result) canonical.Result {
			seen = append(seen, c)
			r.Text, _, _ = strings.Cut(r.Text, " at ")
			return r
		}))
	for _, said := range []string{"42 at 10:00", "42 at 11:00", "43 at 12:00"} {
		for _, tool := range []string{"Quote", "other"} {
			result, err := guard.Do(inRun(), middleware.Call{Tool: tool, Args: "{}"}, returns(said))
			require.NoError(t, err)
			require.Equal(t, middleware.Text(said), result)
		}
	}
	_, err := guard.Do(inRun(), middleware.Call{Tool: "quote", Args: "{}"}, fails(assert.AnError))
	require.ErrorIs(t, err, assert.AnError)

	records := history(t, store, "r")
	assert.Equal(t, records[0].Outcome, records[2].Outcome)
	assert.NotEqual(t, records[0].Outcome, records[4].Outcome)
	assert.NotEqual(t, records[1].Outcome, records[3].Outcome, "the other tool has none")
	assert.Len(t, seen, 3, "it sees no errors")
	assert.Equal(t, canonical.Call{Tool: "Quote", Args: "{}"}, seen[0])
}

// TestRulesOfTheConfigurationReachTheIdentity of calls and outcomes.
func TestRulesOfTheConfigurationReachTheIdentity(t *testing.T) {
	store := middleware.NewMemoryStore()
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{
		"look*": {IgnoreArgs: []string{"page"}, IgnoreResult: []string{"took_ms"}},
		"run":   {Kind: canonical.Exec},
	}
	guard := newGuardOf(t, c, middleware.WithStore(store))
	for _, s := range []struct{ tool, args, result string }{
		{"LookUp", `{"q":1,"page":1}`, `{"n":1,"tookMs":5}`},
		{"lookup", `{"page":2,"q":1}`, `{"TOOK-MS":6,"n":1}`},
		{"run", `{}`, `{"exitCode":0,"stdout":"x","pid":1}`},
		{"run", `{}`, `{"exitCode":0,"stdout":"x","pid":2}`},
	} {
		_, err := guard.Do(inRun(), middleware.Call{Tool: s.tool, Args: s.args}, returns(s.result))
		require.NoError(t, err)
	}
	records := history(t, store, "r")
	for i := range 2 {
		assert.Equal(t, records[2*i].Signature, records[2*i+1].Signature)
		assert.Equal(t, records[2*i].Outcome, records[2*i+1].Outcome)
	}
}

// TestRulesAreFoundForLongNamesToo, which are kept as their digest only.
func TestRulesAreFoundForLongNamesToo(t *testing.T) {
	c := policy.Default()
	c.Tools = map[string]policy.ToolRule{
		"mcp__*": {WarningThreshold: 2, CriticalThreshold: 3}, "mcp__*_log": {Exempt: new(true)},
	}
	for _, tool := range []string{"mcp__short", "mcp__" + strings.Repeat("long", 40)} {
		guard := newGuardOf(t, c)
		for range 3 {
			_, err := guard.Do(inRun(), middleware.Call{Tool: tool}, returns("the same"))
			require.NoError(t, err)
		}
		result, err := guard.Do(inRun(), middleware.Call{Tool: tool}, mustNotRun(t))
		require.NoError(t, err)
		require.NotNil(t, result.Refusal, "a name of %d bytes", len(tool))
		assert.Equal(t, 3, result.Refusal.Count)
		_, err = guard.Do(context.Background(), middleware.Call{Tool: tool + "_log"}, returns("noted"))
		assert.NoError(t, err, "an exempt tool needs no run")
	}
}

// TestArgumentsOfARecording may be any JSON value, and one that is live is text unless it looks like JSON.
func TestArgumentsOfARecording(t *testing.T) {
	store := middleware.NewMemoryStore()
	guard := newGuard(t, middleware.WithStore(store))
	for _, call := range []middleware.Call{
		{Tool: "read", Args: "1.0", ArgsJSON: true}, {Tool: "read", Args: "1", ArgsJSON: true},
		{Tool: "read", Args: "1.0"}, {Tool: "read", Args: "1"},
	} {
		begin(t, guard, inRun(), call)
	}
	records := history(t, store, "r")
	assert.Equal(t, records[0].Signature, records[1].Signature)
	assert.NotEqual(t, records[2].Signature, records[3].Signature)
}

// TestUnknownCallsAreCountedWhateverTheyAreCalled: the host knows that there is no such tool.
func TestUnknownCallsAreCountedWhateverTheyAreCalled(t *testing.T) {
	guard := newGuard(t)
	call := func(n int) middleware.Call {
		return middleware.Call{Tool: strings.Repeat("x", n+1), Unknown: true}
	}
	for n := range 10 {
		_, err := guard.Do(inRun(), call(n), fails(assert.AnError))
		require.ErrorIs(t, err, assert.AnError)
	}
	result, err := guard.Do(inRun(), call(10), mustNotRun(t))
	require.NoError(t, err)
	require.NotNil(t, result.Refusal)
	assert.Equal(t, policy.UnknownToolRepeat, result.Refusal.Detector)
}

// TestOptionsCanBeUsedAgain: an option holds nothing of the guard that it was given to.
func TestOptionsCanBeUsedAgain(t *testing.T) {
	options := []middleware.Option{
		middleware.WithOnDetection(func(context.Context, middleware.Detection) {}),
		middleware.WithKey("read", func(canonical.Call) string { return "" }),
		middleware.WithDefaultRun("main"),
	}
	a, b := newGuard(t, options...), newGuard(t, options...)
	repeat(t, a, context.Background(), 20)
	repeat(t, b, context.Background(), 20)
}
