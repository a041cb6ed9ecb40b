package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// limits are the thresholds of one tool.
type limits struct{ warning, critical, breaker int }

// overlay returns l with the thresholds laid over it that a rule sets.
func (l limits) overlay(r ToolRule) limits {
	return limits{
		warning:  cmp.Or(r.WarningThreshold, l.warning),
		critical: cmp.Or(r.CriticalThreshold, l.critical),
		breaker:  cmp.Or(r.GlobalCircuitBreakerThreshold, l.breaker),
	}
}

// raised returns the limits in order, each above the one before.
func (l limits) raised() limits {
	l.critical = max(l.critical, l.warning+1)
	l.breaker = max(l.breaker, l.critical+1)
	return l
}

// rule is what is configured for one tool, with its limits in order. The thresholds in ToolRule are as they were written.
type rule struct {
	ToolRule
	limits
}

// ruleset finds the rule for a tool. It does not change once it is made.
type ruleset struct {
	written limits          // the limits of the whole configuration, before they are raised
	globs   []globRule      // in the order in which they are laid over each other: by length in bytes, then by bytes
	exact   map[string]rule // for the names that are no globs
	rest    rule            // for the tools that nothing is said about
}

// globRule is what is written for the tools that a glob matches.
type globRule struct {
	glob string
	ToolRule
}

// newRuleset returns the rules of a Config that is checked and normalized, and what its author should know about them.
func newRuleset(c Config) (ruleset, []Notice) {
	r := ruleset{
		written: limits{
			warning:  cmp.Or(c.WarningThreshold, DefaultWarningThreshold),
			critical: cmp.Or(c.CriticalThreshold, DefaultCriticalThreshold),
			breaker:  cmp.Or(c.GlobalCircuitBreakerThreshold, DefaultGlobalCircuitBreakerThreshold),
		},
		exact: make(map[string]rule, len(c.Tools)),
	}
	for name, own := range c.Tools {
		if isGlob(name) {
			r.globs = append(r.globs, globRule{name, own})
		}
	}
	slices.SortFunc(r.globs, func(a, b globRule) int {
		return cmp.Or(cmp.Compare(len(a.glob), len(b.glob)), strings.Compare(a.glob, b.glob))
	})
	for name, own := range c.Tools {
		if !isGlob(name) {
			r.exact[name] = r.limit(r.entry(name, own))
		}
	}
	r.rest = r.limit(ToolRule{})
	return r, r.notices(c)
}

// forTool returns the rule for a tool by its folded name. Names are the model's words, so that nothing is kept for those
// that the configuration does not know.
func (r *ruleset) forTool(folded string) rule {
	if rule, ok := r.exact[folded]; ok {
		return rule
	}
	if len(r.globs) == 0 {
		return r.rest
	}
	return r.limit(layGlobs(r.globs, folded))
}

// layGlobs lays the rules of the globs that match a name over each other.
func layGlobs(globs []globRule, name string) ToolRule {
	var merged ToolRule
	for i := range globs {
		if matchGlob(globs[i].glob, name) {
			merged = merged.overlay(globs[i].ToolRule)
		}
	}
	return merged
}

// limit adds its limits to a merged rule. Only here are they raised: a tool takes what it does not set from the Config as
// it was written there.
func (r *ruleset) limit(merged ToolRule) rule {
	return rule{merged, r.written.overlay(merged).raised()}
}

// entry returns the rule for an entry of Tools, merged with those that it is laid over. A glob, which matches itself, is
// laid over the wider globs that come before it.
func (r *ruleset) entry(name string, own ToolRule) ToolRule {
	under := r.globs
	if i := slices.IndexFunc(under, func(g globRule) bool { return g.glob == name }); i >= 0 {
		under = under[:i]
	}
	return layGlobs(under, name).overlay(own)
}

// notices says where thresholds do something else than their author will have meant.
func (r *ruleset) notices(c Config) []Notice {
	var notices []Notice
	add := func(path string, messages ...string) {
		for _, message := range messages {
			notices = append(notices, Notice{path, message})
		}
	}
	names := slices.Sorted(maps.Keys(c.Tools))

	if c.Enabled == nil || !*c.Enabled {
		if idle := idlePaths(c, names); len(idle) > 0 {
			add("enabled", "is not true, so that these have no effect: "+strings.Join(idle, ", "))
		}
	}

	reach := reachOf(c)
	global := reach.judge(r.written)
	for tier, messages := range global {
		add(tierKeys[tier], messages...)
	}
	unknown := cmp.Or(c.UnknownToolThreshold, DefaultUnknownToolThreshold)
	add("unknownToolThreshold", reach.exceeded(unknown, false)...)

	for _, name := range names {
		own := limits{}.overlay(c.Tools[name])
		if own == (limits{}) {
			continue
		}
		merged := r.entry(name, c.Tools[name])
		for tier, messages := range reach.judge(r.written.overlay(merged)) {
			// What a tool only inherits has been said above.
			if own.tiers()[tier] != 0 || !slices.Equal(messages, global[tier]) {
				add(keyPath(entryPath("tools", name), tierKeys[tier]), messages...)
			}
		}
	}
	return notices
}

// idlePaths returns the paths of what is set and has no effect while detection is off.
func idlePaths(c Config, names []string) []string {
	var paths []string
	add := func(path string, isSet bool) {
		if isSet {
			paths = append(paths, path)
		}
	}
	set := limits{c.WarningThreshold, c.CriticalThreshold, c.GlobalCircuitBreakerThreshold}
	for tier, threshold := range set.tiers() {
		add(tierKeys[tier], threshold != 0)
	}
	add("unknownToolThreshold", c.UnknownToolThreshold != 0)
	add("detectors", c.Detectors != Detectors{})
	for _, name := range names {
		add(entryPath("tools", name), limits{}.overlay(c.Tools[name]) != limits{})
	}
	return paths
}

// tierKeys are the keys of the limits, from the lowest to the highest.
var tierKeys = [...]string{"warningThreshold", "criticalThreshold", "globalCircuitBreakerThreshold"}

// tiers returns the limits in the order of tierKeys.
func (l limits) tiers() [len(tierKeys)]int { return [...]int{l.warning, l.critical, l.breaker} }

// reach says how far counts can go: to the length of the history, and in a ping-pong one further, as it counts the call
// that is being judged too.
type reach struct {
	history  int
	pingPong bool // is on
}

func reachOf(c Config) reach {
	return reach{
		history:  cmp.Or(c.HistorySize, DefaultHistorySize),
		pingPong: c.Detectors.PingPong == nil || *c.Detectors.PingPong,
	}
}

// judge says of each tier what becomes of it.
func (r reach) judge(written limits) (messages [len(tierKeys)][]string) {
	from, to := written.tiers(), written.raised().tiers()
	for tier := range tierKeys {
		if to[tier] != from[tier] {
			messages[tier] = append(messages[tier], fmt.Sprintf("raised from %d to %d, as it must be above %s, which is %d",
				from[tier], to[tier], tierKeys[tier-1], to[tier-1]))
		}
		isBreaker := tier == len(tierKeys)-1
		messages[tier] = append(messages[tier], r.exceeded(to[tier], !isBreaker)...)
	}
	return messages
}

// exceeded says that a threshold is out of reach, if it is. Some thresholds are those of ping-pong too.
func (r reach) exceeded(threshold int, ofPingPong bool) []string {
	switch {
	case threshold <= r.history:
		return nil
	case threshold == r.history+1 && ofPingPong && r.pingPong:
		return []string{fmt.Sprintf("only ping_pong can reach %d, as historySize is %d", threshold, r.history)}
	default:
		return []string{fmt.Sprintf("%d can never be reached, as historySize is %d", threshold, r.history)}
	}
}
