package policy

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/loopguard-go/loopguard/canonical"
)

// domain is what the value of a key may be. It reads values from documents and judges those that were set in Go, by the
// same rules and in the same words.
type domain[V any] interface {
	// decode returns the value of a node. If it reports a problem, the value means nothing.
	decode(p *problems, from node) V
	// check judges a value of Go. The zero value is right: it is not set.
	check(p *problems, path string, value V)
}

// boolean is true or false.
type boolean struct{}

func (boolean) decode(p *problems, from node) *bool {
	value := from.text == "true"
	if !value && from.text != "false" {
		p.add(from.path, "found %s, must be true or false", from.describe())
	}
	return &value
}

func (boolean) check(*problems, string, *bool) {}

// integer is a whole number from min to maxInteger. Documents may write it as 10, 10.0, 1e1 or 0xA.
type integer struct{ min int }

// maxInteger is the greatest number in a configuration. It fits an int on every platform.
const maxInteger = math.MaxInt32

func (d integer) decode(p *problems, from node) int {
	value, ok := wholeNumber(from.text)
	d.judge(p, from.path, value, ok, from.describe())
	return int(value)
}

func (d integer) check(p *problems, path string, value int) {
	if value != 0 {
		d.judge(p, path, int64(value), true, strconv.Itoa(value))
	}
}

func (d integer) judge(p *problems, path string, value int64, whole bool, found string) {
	if !whole || value < int64(d.min) || value > maxInteger {
		p.add(path, "found %s, must be an integer from %d to %d", found, d.min, maxInteger)
	}
}

// wholeNumber returns the value of a JSON5 number that is an integer. It works on the digits: floating point would take
// 10.00000000000000000001 for 10, and arbitrary precision would have much to do for 1e999999999.
func wholeNumber(literal string) (value int64, ok bool) {
	if value, err := strconv.ParseInt(literal, 0, 64); err == nil {
		return value, true // 10, +10, 0xA
	}
	mantissa, exponent, found := strings.Cut(strings.ToLower(literal), "e")
	if !found {
		exponent = "0"
	}
	shift, err := strconv.Atoi(exponent)
	if err != nil {
		return 0, false
	}
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(integer+fraction, "0")
	zeros := shift + len(integer) - len(digits) // to append: the digits before the point less those there are
	if zeros < 0 || zeros > 20 {
		return 0, false
	}
	value, err = strconv.ParseInt(digits+strings.Repeat("0", zeros), 10, 64)
	return value, err == nil
}

// oneOf is one of a few words.
type oneOf[W ~string] []W

func (d oneOf[W]) decode(p *problems, from node) W {
	word, _ := from.str()
	d.judge(p, from.path, W(word), from.describe())
	return W(word)
}

func (d oneOf[W]) check(p *problems, path string, word W) {
	if word != "" {
		d.judge(p, path, word, quote(string(word)))
	}
}

func (d oneOf[W]) judge(p *problems, path string, word W, found string) {
	if !slices.Contains(d, word) {
		p.add(path, "found %s, must be %s", found, choice(string(word), d))
	}
}

// nameList is a list of names that are not empty.
type nameList struct{}

func (d nameList) decode(p *problems, from node) []string {
	elements := from.elements(p)
	list := make([]string, len(elements)) // not nil: an empty list is set
	for i, element := range elements {
		list[i], _ = element.str()
		d.judge(p, element.path, list[i], element.describe())
	}
	return list
}

func (d nameList) check(p *problems, path string, list []string) {
	for i, name := range list {
		d.judge(p, indexPath(path, i), name, quote(name))
	}
}

func (nameList) judge(p *problems, path string, name, found string) {
	if name == "" {
		p.add(path, "found %s, must be a non-empty string", found)
	}
}

// object is a block whose keys are known.
type object[T any] []field[T]

// field is one key of a block.
type field[T any] struct {
	name   string
	decode func(p *problems, from node, into *T)
	check  func(p *problems, path string, of T)
}

// keyed returns a field with values from a domain, which are kept at a place in T.
func keyed[T, V any](name string, values domain[V], place func(*T) *V) field[T] {
	return field[T]{
		name:   name,
		decode: func(p *problems, from node, into *T) { *place(into) = values.decode(p, from) },
		check:  func(p *problems, path string, of T) { values.check(p, keyPath(path, name), *place(&of)) },
	}
}

func (d object[T]) decode(p *problems, from node) (block T) {
	members := from.members(p)
	var known []string
	for _, field := range d {
		known = append(known, field.name)
		if member, ok := members[field.name]; ok && !member.repeated(p) {
			field.decode(p, member, &block)
		}
		delete(members, field.name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		p.add(members[name].path, "unknown key, must be %s", choice(name, known))
	}
	return block
}

func (d object[T]) check(p *problems, path string, block T) {
	for _, field := range d {
		field.check(p, path, block)
	}
}

// toolTable holds rules by the name of a tool, or a glob. Decoded names are folded.
type toolTable struct{}

func (d toolTable) decode(p *problems, from node) map[string]ToolRule {
	members := from.members(p)
	rules := make(map[string]ToolRule, len(members))
	for _, name := range judgeNames(p, from.path, members) {
		member := members[name]
		member.path = entryPath(from.path, name)
		if !member.repeated(p) {
			rules[canonical.FoldTool(name)] = toolBlock.decode(p, member)
		}
	}
	return rules
}

func (d toolTable) check(p *problems, path string, rules map[string]ToolRule) {
	for _, name := range judgeNames(p, path, rules) {
		toolBlock.check(p, entryPath(path, name), rules[name])
	}
}

// judgeNames judges the names of a table and returns them in order.
func judgeNames[V any](p *problems, path string, table map[string]V) []string {
	names := slices.Sorted(maps.Keys(table))
	owners := map[string]string{} // by folded name
	for _, name := range names {
		folded := canonical.FoldTool(name)
		owner, taken := owners[folded]
		switch {
		case folded == "":
			p.add(entryPath(path, name), "must be the name of a tool, or a glob")
		case taken:
			p.add(entryPath(path, name), "is the name %s again, as names are trimmed and lower-cased", quote(owner))
		default:
			owners[folded] = name
		}
	}
	return names
}

// The blocks of a configuration. Each key stands here once, with what its value may be and where it is kept. (This comes
// after the domains because Go 1.26 infers the type arguments of keyed only from methods that it has read.)
var (
	configBlock = object[Config]{
		keyed("enabled", boolean{}, func(c *Config) **bool { return &c.Enabled }),
		keyed("historySize", positive, func(c *Config) *int { return &c.HistorySize }),
		keyed("warningThreshold", positive, func(c *Config) *int { return &c.WarningThreshold }),
		keyed("criticalThreshold", positive, func(c *Config) *int { return &c.CriticalThreshold }),
		keyed("unknownToolThreshold", positive, func(c *Config) *int { return &c.UnknownToolThreshold }),
		keyed("globalCircuitBreakerThreshold", positive, func(c *Config) *int { return &c.GlobalCircuitBreakerThreshold }),
		keyed("detectors", detectorsBlock, func(c *Config) *Detectors { return &c.Detectors }),
		keyed("postCompactionGuard", guardBlock, func(c *Config) *PostCompactionGuard { return &c.PostCompactionGuard }),
		keyed("mode", oneOf[Mode]{Enforce, Observe}, func(c *Config) *Mode { return &c.Mode }),
		keyed("tools", toolTable{}, func(c *Config) *map[string]ToolRule { return &c.Tools }),
	}
	detectorsBlock = object[Detectors]{
		keyed("genericRepeat", boolean{}, func(d *Detectors) **bool { return &d.GenericRepeat }),
		keyed("knownPollNoProgress", boolean{}, func(d *Detectors) **bool { return &d.KnownPollNoProgress }),
		keyed("pingPong", boolean{}, func(d *Detectors) **bool { return &d.PingPong }),
		keyed("errorStreak", boolean{}, func(d *Detectors) **bool { return &d.ErrorStreak }),
		keyed("stagnation", boolean{}, func(d *Detectors) **bool { return &d.Stagnation }),
	}
	guardBlock = object[PostCompactionGuard]{
		// A window of 1 would stop a run at its first call.
		keyed("windowSize", integer{min: 2}, func(g *PostCompactionGuard) *int { return &g.WindowSize }),
	}
	toolBlock = object[ToolRule]{
		keyed("kind", kinds, func(r *ToolRule) *canonical.Kind { return &r.Kind }),
		keyed("poll", boolean{}, func(r *ToolRule) **bool { return &r.Poll }),
		keyed("exempt", boolean{}, func(r *ToolRule) **bool { return &r.Exempt }),
		keyed("ignoreArgs", nameList{}, func(r *ToolRule) *[]string { return &r.IgnoreArgs }),
		keyed("identityArgs", nameList{}, func(r *ToolRule) *[]string { return &r.IdentityArgs }),
		keyed("ignoreResult", nameList{}, func(r *ToolRule) *[]string { return &r.IgnoreResult }),
		keyed("warningThreshold", positive, func(r *ToolRule) *int { return &r.WarningThreshold }),
		keyed("criticalThreshold", positive, func(r *ToolRule) *int { return &r.CriticalThreshold }),
		keyed("globalCircuitBreakerThreshold", positive, func(r *ToolRule) *int { return &r.GlobalCircuitBreakerThreshold }),
	}

	positive = integer{min: 1}
	kinds    = oneOf[canonical.Kind]{canonical.Generic, canonical.Exec, canonical.Process, canonical.Message}
)
