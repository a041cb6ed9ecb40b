package policy

import (
	"cmp"
	"maps"
)

// overlay returns c with all that is set in over laid over it, field by field. The names in Tools must be folded on both
// sides. Neither input is changed, but the result shares their lists and pointers.
func (c Config) overlay(over Config) Config {
	return Config{
		Enabled:                       cmp.Or(over.Enabled, c.Enabled),
		HistorySize:                   cmp.Or(over.HistorySize, c.HistorySize),
		WarningThreshold:              cmp.Or(over.WarningThreshold, c.WarningThreshold),
		CriticalThreshold:             cmp.Or(over.CriticalThreshold, c.CriticalThreshold),
		UnknownToolThreshold:          cmp.Or(over.UnknownToolThreshold, c.UnknownToolThreshold),
		GlobalCircuitBreakerThreshold: cmp.Or(over.GlobalCircuitBreakerThreshold, c.GlobalCircuitBreakerThreshold),
		Detectors: Detectors{
			GenericRepeat:       cmp.Or(over.Detectors.GenericRepeat, c.Detectors.GenericRepeat),
			KnownPollNoProgress: cmp.Or(over.Detectors.KnownPollNoProgress, c.Detectors.KnownPollNoProgress),
			PingPong:            cmp.Or(over.Detectors.PingPong, c.Detectors.PingPong),
			ErrorStreak:         cmp.Or(over.Detectors.ErrorStreak, c.Detectors.ErrorStreak),
			Stagnation:          cmp.Or(over.Detectors.Stagnation, c.Detectors.Stagnation),
		},
		PostCompactionGuard: PostCompactionGuard{
			WindowSize: cmp.Or(over.PostCompactionGuard.WindowSize, c.PostCompactionGuard.WindowSize),
		},
		Mode:  cmp.Or(over.Mode, c.Mode),
		Tools: overlayTools(c.Tools, over.Tools),
	}
}

func overlayTools(base, over map[string]ToolRule) map[string]ToolRule {
	if len(over) == 0 {
		return base
	}
	tools := make(map[string]ToolRule, len(base)+len(over))
	maps.Copy(tools, base)
	for name, rule := range over {
		tools[name] = tools[name].overlay(rule)
	}
	return tools
}

// overlay returns r with all that is set in over laid over it, field by field. Lists are replaced.
func (r ToolRule) overlay(over ToolRule) ToolRule {
	return ToolRule{
		Kind:                          cmp.Or(over.Kind, r.Kind),
		Poll:                          cmp.Or(over.Poll, r.Poll),
		Exempt:                        cmp.Or(over.Exempt, r.Exempt),
		IgnoreArgs:                    overlayList(r.IgnoreArgs, over.IgnoreArgs),
		IdentityArgs:                  overlayList(r.IdentityArgs, over.IdentityArgs),
		IgnoreResult:                  overlayList(r.IgnoreResult, over.IgnoreResult),
		WarningThreshold:              cmp.Or(over.WarningThreshold, r.WarningThreshold),
		CriticalThreshold:             cmp.Or(over.CriticalThreshold, r.CriticalThreshold),
		GlobalCircuitBreakerThreshold: cmp.Or(over.GlobalCircuitBreakerThreshold, r.GlobalCircuitBreakerThreshold),
	}
}

// overlayList returns over if it is set. A list that is empty but not nil is: it takes the base away.
func overlayList(base, over []string) []string {
	if over == nil {
		return base
	}
	return over
}
