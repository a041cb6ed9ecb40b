package canonical

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page on identity names every field that is left out of the digests of deliveries, and every tool that has a kind by
// its name.
func TestIdentityPageIsComplete(t *testing.T) {
	page, err := os.ReadFile("../docs/identity.md")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(page), -1) {
		name := match[1]
		if singular, plural := regexp.MustCompile(`\(s\)$`), name; singular.MatchString(plural) {
			named[foldField(singular.ReplaceAllString(name, "s"))] = true
			name = singular.ReplaceAllString(name, "")
		}
		named[name], named[foldField(name)] = true, true
	}
	for field := range deliveryFields {
		assert.True(t, named[field], "the page does not name the field %s", field)
	}
	for _, field := range append([]string{"exitcode", "returncode", "rc", "tail", "warningtext", "reason", "host", "command"}, processFields...) {
		assert.True(t, named[field], "the page does not name the field %s", field)
	}
	tools := []string{
		"exec", "bash", "shell", "sh", "terminal", "run_command", "execute_command", "run_shell_command",
		"run_terminal_cmd", "command_status", "process", "sessions_send", "conversations_send", "send_message", "message",
	}
	for _, tool := range tools {
		assert.True(t, named[tool], "the page does not name the tool %s", tool)
		assert.NotEqual(t, Generic, kindByName(tool, "send"), tool)
	}
}
