package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
)

func TestRulesLimits(t *testing.T) {
	tests := []struct {
		name   string
		config Config
		tool   string
		want   limits
	}{
		{"defaults", Config{}, "x", limits{10, 20, 30}},
		{"tight", Tight(), "x", limits{5, 10, 15}},
		{"in order", Config{WarningThreshold: 2, CriticalThreshold: 3, GlobalCircuitBreakerThreshold: 4}, "x",
			limits{2, 3, 4}},
		{"critical is raised", Config{WarningThreshold: 25}, "x", limits{25, 26, 30}},
		{"both are raised", Config{WarningThreshold: 40}, "x", limits{40, 41, 42}},
		{"the breaker is raised", Config{CriticalThreshold: 30}, "x", limits{10, 30, 31}},
		{"a tool of its own", Config{Tools: map[string]ToolRule{"t": {WarningThreshold: 4}}}, "t", limits{4, 20, 30}},
		{"another tool", Config{Tools: map[string]ToolRule{"t": {WarningThreshold: 4}}}, "u", limits{10, 20, 30}},
		{"a tool raises its own", Config{Tools: map[string]ToolRule{"t": {WarningThreshold: 35}}}, "t",
			limits{35, 36, 37}},
		{"a tool takes what was written, not what was raised",
			Config{WarningThreshold: 25, Tools: map[string]ToolRule{"t": {WarningThreshold: 10}}}, "t",
			limits{10, 20, 30}},
		{"raised after all globs", Config{Tools: map[string]ToolRule{
			"*": {WarningThreshold: 50}, "t*": {CriticalThreshold: 60}}}, "tt",
			limits{50, 60, 61}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rules, _ := newRuleset(tt.config)
			assert.Equal(t, tt.want, rules.forTool(tt.tool).limits)
		})
	}
}

func TestRulesOrder(t *testing.T) {
	rules, _ := newRuleset(Config{Tools: map[string]ToolRule{
		"job_status": {WarningThreshold: 1, IdentityArgs: []string{}},
		"*":          {WarningThreshold: 2, CriticalThreshold: 12, IgnoreArgs: []string{"any"}},
		"job_*":      {WarningThreshold: 3, CriticalThreshold: 13, Poll: new(true), IdentityArgs: []string{"id"}},
		"job_?":      {WarningThreshold: 4},
		"?ob_*":      {WarningThreshold: 5, CriticalThreshold: 15, Kind: canonical.Process},
	}})
	tests := map[string]ToolRule{
		"x":     {WarningThreshold: 2, CriticalThreshold: 12, IgnoreArgs: []string{"any"}},
		"bob_x": {WarningThreshold: 5, CriticalThreshold: 15, Kind: canonical.Process, IgnoreArgs: []string{"any"}},
		// Of one length, ?ob_* comes first, then job_*, then job_?.
		"job_xy": {WarningThreshold: 3, CriticalThreshold: 13, Kind: canonical.Process, Poll: new(true),
			IgnoreArgs: []string{"any"}, IdentityArgs: []string{"id"}},
		"job_x": {WarningThreshold: 4, CriticalThreshold: 13, Kind: canonical.Process, Poll: new(true),
			IgnoreArgs: []string{"any"}, IdentityArgs: []string{"id"}},
		// The exact name comes last, although it is the longest.
		"job_status": {WarningThreshold: 1, CriticalThreshold: 13, Kind: canonical.Process, Poll: new(true),
			IgnoreArgs: []string{"any"}, IdentityArgs: []string{}},
	}
	for tool, want := range tests {
		assert.Equal(t, want, rules.forTool(tool).ToolRule, tool)
	}
}

func TestRulesAllocateNothing(t *testing.T) {
	with, _ := newRuleset(Config{Tools: map[string]ToolRule{
		"exec": {Exempt: new(true)}, "job_*": {IgnoreArgs: []string{"a"}}, "*": {WarningThreshold: 3}}})
	without, _ := newRuleset(Config{})
	for _, tool := range []string{"exec", "job_status", "read", ""} {
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			_ = with.forTool(tool)
			_ = without.forTool(tool)
		}), tool)
	}
}

func TestNotices(t *testing.T) {
	on := func(c Config) Config { c.Enabled = new(true); return c }
	tests := []struct {
		name   string
		config Config
		want   []string
	}{
		{"nothing is configured", Config{}, nil},
		{"default", Default(), nil},
		{"tight", Tight(), nil},
		{"switched off", Config{Enabled: new(false)}, nil},
		{"raised", on(Config{WarningThreshold: 40, HistorySize: 60}), []string{
			"criticalThreshold: raised from 20 to 41, as it must be above warningThreshold, which is 40",
			"globalCircuitBreakerThreshold: raised from 30 to 42, as it must be above criticalThreshold, which is 41",
		}},
		{"the same is not above", on(Config{CriticalThreshold: 10}), []string{
			"criticalThreshold: raised from 10 to 11, as it must be above warningThreshold, which is 10",
		}},
		{"out of reach", on(Config{HistorySize: 8}), []string{
			"warningThreshold: 10 can never be reached, as historySize is 8",
			"criticalThreshold: 20 can never be reached, as historySize is 8",
			"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 8",
			"unknownToolThreshold: 10 can never be reached, as historySize is 8",
		}},
		{"within reach of ping_pong", on(Config{HistorySize: 9, CriticalThreshold: 11}), []string{
			"warningThreshold: only ping_pong can reach 10, as historySize is 9",
			"criticalThreshold: 11 can never be reached, as historySize is 9",
			"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 9",
			"unknownToolThreshold: 10 can never be reached, as historySize is 9",
		}},
		{"ping_pong is off", on(Config{HistorySize: 19, Detectors: Detectors{PingPong: new(false)}}), []string{
			"criticalThreshold: 20 can never be reached, as historySize is 19",
			"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 19",
		}},
		{"the breaker is not ping_pong's", on(Config{HistorySize: 29}), []string{
			"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 29",
		}},
		{"raised out of reach", on(Config{CriticalThreshold: 30}), []string{
			"globalCircuitBreakerThreshold: raised from 30 to 31, as it must be above criticalThreshold, which is 30",
			"globalCircuitBreakerThreshold: 31 can never be reached, as historySize is 30",
		}},
		{"tools, in the order of their names", on(Config{Tools: map[string]ToolRule{
			"job_*": {WarningThreshold: 20}, "b": {GlobalCircuitBreakerThreshold: 7}, "a": {Poll: new(true)}}}), []string{
			`tools["b"].globalCircuitBreakerThreshold: raised from 7 to 21, as it must be above criticalThreshold, ` +
				`which is 20`,
			`tools["job_*"].criticalThreshold: raised from 20 to 21, as it must be above warningThreshold, which is 20`,
		}},
		{"what a tool only inherits is said once",
			on(Config{HistorySize: 25, Tools: map[string]ToolRule{"t": {WarningThreshold: 5}}}), []string{
				"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 25",
			}},
		{"what a tool sets itself is said again", on(Config{HistorySize: 25, Tools: map[string]ToolRule{
			"t": {GlobalCircuitBreakerThreshold: 30}}}), []string{
			"globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 25",
			`tools["t"].globalCircuitBreakerThreshold: 30 can never be reached, as historySize is 25`,
		}},
		{"tools are merged first", on(Config{Tools: map[string]ToolRule{
			"job_*":  {CriticalThreshold: 25},
			"job_a*": {WarningThreshold: 22},
			"job_ab": {WarningThreshold: 25},
			"jo*":    {CriticalThreshold: 15}}}), []string{
			`tools["job_ab"].criticalThreshold: raised from 25 to 26, as it must be above warningThreshold, which is 25`,
		}},
		{"detection is not on", Config{WarningThreshold: 5, UnknownToolThreshold: 5,
			Detectors: Detectors{PingPong: new(false)},
			Tools:     map[string]ToolRule{"b": {CriticalThreshold: 12}, "a": {Poll: new(true)}}}, []string{
			`enabled: is not true, so that these have no effect: warningThreshold, unknownToolThreshold, detectors, tools["b"]`,
		}},
		{"detection is off", Config{Enabled: new(false), CriticalThreshold: 12}, []string{
			"enabled: is not true, so that these have no effect: criticalThreshold",
		}},
		{"what has nothing to do with detection", Config{
			PostCompactionGuard: PostCompactionGuard{WindowSize: 2}, Mode: Observe, HistorySize: 50}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, tt.config.check())
			_, notices := newRuleset(tt.config)
			var got []string
			for _, notice := range notices {
				got = append(got, notice.String())
			}
			assert.Equal(t, tt.want, got)
		})
	}
}

func BenchmarkForTool(b *testing.B) {
	tools := map[string]ToolRule{"exec": {Exempt: new(true)}}
	for i := range 10 {
		tools[fmt.Sprintf("tool_%d_*", i)] = ToolRule{WarningThreshold: i + 1}
	}
	rules, _ := newRuleset(Config{Tools: tools})
	for _, tool := range []string{"exec", "tool_7_read", "read", strings.Repeat("x", 128)} {
		b.Run(tool[:4], func(b *testing.B) {
			for b.Loop() {
				_ = rules.forTool(tool)
			}
		})
	}
}
