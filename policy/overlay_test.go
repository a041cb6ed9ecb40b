package policy

import (
	"math"
	"reflect"
	"testing"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// AnyConfig draws valid Configs with every field there is, names folded.
var AnyConfig = rapid.MakeCustom[Config](rapid.MakeConfig{
	Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[int]():      rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 100), rapid.Just(math.MaxInt32)).AsAny(),
		reflect.TypeFor[Mode]():     rapid.SampledFrom([]Mode{"", Enforce, Observe}).AsAny(),
		reflect.TypeFor[[]string](): rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfN(anyName, 0, 3)).AsAny(),
		reflect.TypeFor[string]():   anyName.AsAny(),
		reflect.TypeFor[canonical.Kind](): rapid.SampledFrom([]canonical.Kind{
			"", canonical.Generic, canonical.Exec, canonical.Process, canonical.Message}).AsAny(),
		reflect.TypeFor[PostCompactionGuard](): rapid.Map(rapid.SampledFrom([]int{0, 2, 3, 50}),
			func(size int) PostCompactionGuard { return PostCompactionGuard{WindowSize: size} }).AsAny(),
	},
})

var anyName = rapid.SampledFrom([]string{"exec", "job_*", "job_status", "j?b_*", "it's", `a "b"`, "é/\\", "🦀", "*"})

func TestOverlay(t *testing.T) {
	base := Config{
		Enabled:             new(true),
		WarningThreshold:    8,
		Detectors:           Detectors{PingPong: new(false), Stagnation: new(false)},
		PostCompactionGuard: PostCompactionGuard{WindowSize: 5},
		Tools: map[string]ToolRule{
			"job":  {Poll: new(true), WarningThreshold: 9, IgnoreArgs: []string{"a", "b"}, IgnoreResult: []string{"at"}},
			"kept": {Exempt: new(true)},
		},
	}
	over := Config{
		Enabled:           new(false),
		CriticalThreshold: 16,
		Detectors:         Detectors{Stagnation: new(true)},
		Mode:              Observe,
		Tools: map[string]ToolRule{
			"job":   {WarningThreshold: 3, IgnoreArgs: []string{"c"}, IgnoreResult: []string{}},
			"added": {Kind: canonical.Exec},
		},
	}
	want := Config{
		Enabled:             new(false),
		WarningThreshold:    8,
		CriticalThreshold:   16,
		Detectors:           Detectors{PingPong: new(false), Stagnation: new(true)},
		PostCompactionGuard: PostCompactionGuard{WindowSize: 5},
		Mode:                Observe,
		Tools: map[string]ToolRule{
			"job":   {Poll: new(true), WarningThreshold: 3, IgnoreArgs: []string{"c"}, IgnoreResult: []string{}},
			"kept":  {Exempt: new(true)},
			"added": {Kind: canonical.Exec},
		},
	}
	assert.Equal(t, want, base.overlay(over))

	assert.Equal(t, 9, base.Tools["job"].WarningThreshold, "the base has changed")
	assert.Len(t, base.Tools, 2)
	assert.Len(t, over.Tools, 2)
}

func TestOverlayOfNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := AnyConfig.Draw(t, "config")
		assert.Equal(t, c, c.overlay(Config{}))
		assert.Equal(t, tidy(c), tidy(Config{}.overlay(c)))
		assert.Equal(t, tidy(c), tidy(c.overlay(c)))
	})
}

func TestOverlayIsAssociative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := AnyConfig.Draw(t, "a"), AnyConfig.Draw(t, "b"), AnyConfig.Draw(t, "c")
		assert.Equal(t, tidy(a.overlay(b).overlay(c)), tidy(a.overlay(b.overlay(c))))
	})
}

// tidy makes no tools and none of them the same.
func tidy(c Config) Config {
	if len(c.Tools) == 0 {
		c.Tools = nil
	}
	return c
}
