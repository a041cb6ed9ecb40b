package policy

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestMatchGlob(t *testing.T) {
	tests := []struct {
		glob, name string
		want       bool
	}{
		{"exec", "exec", true},
		{"exec", "exec2", false},
		{"exec", "exe", false},
		{"", "", true},
		{"", "x", false},
		{"*", "", true},
		{"*", "anything at all", true},
		{"**", "x", true},
		{"?", "", false},
		{"?", "x", true},
		{"?", "xy", false},
		{"?", "é", true},
		{"??", "é", false},
		{"*?", "é", true},
		{"*??", "é", false},
		{"job_*", "job_", true},
		{"job_*", "job_status", true},
		{"job_*", "my_job_status", false},
		{"*_status", "job_status", true},
		{"*_status", "job_status_status", true},
		{"*_status", "job_statuses", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"a*a", "a", false},
		{"j?b_*", "jöb_x", true},
		{"mcp__*__read", "mcp__files__read", true},
		// Nothing else is special.
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{"fs/*", "fs/read/all", true},
		{`a\*`, `a\b`, true},
		{"a.c", "abc", false},
		{"{a,b}", "a", false},
		// A glob matches itself.
		{"job_*", "job_*", true},
		{"j?b", "j?b", true},
		// Names are the model's words.
		{"?", "\xff", true},
		{"a*", "a\xff\xfe", true},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, matchGlob(tt.glob, tt.name), "%q of %q", tt.glob, tt.name)
	}
}

// TestMatchGlobIsRegexp compares globs with the regular expressions that they stand for.
func TestMatchGlobIsRegexp(t *testing.T) {
	words := rapid.StringOfN(rapid.RuneFrom([]rune("abé*?[./\n")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		glob, name := words.Draw(t, "glob"), words.Draw(t, "name")
		pattern := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(glob))
		want := regexp.MustCompile(`(?s)\A(?:` + pattern + `)\z`).MatchString(name)
		if got := matchGlob(glob, name); got != want {
			t.Fatalf("%q of %q is %v, want %v", glob, name, got, want)
		}
	})
}

func TestMatchGlobIsFast(t *testing.T) {
	glob, name := strings.Repeat("a*", 50)+"b", strings.Repeat("a", 100_000)
	assert.False(t, matchGlob(glob, name)) // a matcher that goes back through every '*' would not come back
}
