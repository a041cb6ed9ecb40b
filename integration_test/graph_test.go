package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Who uses the core alone has its dependencies in the go.mod, and none of a framework, an exporter or a client.
func TestCoreStaysLight(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	user := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/user\n\ngo 1.26.0\n\nreplace github.com/loopguard-go/loopguard => %s\n", root),
		"user.go": `package user

import (
	_ "github.com/loopguard-go/loopguard/middleware"
	_ "github.com/loopguard-go/loopguard/policy"
)
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(user, name), []byte(content), 0o600))
	}
	inUser := func(args ...string) []byte {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir, command.Env = user, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, err := command.Output()
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("go %v: %v\n%s", args, err, exit.Stderr)
		}
		require.NoError(t, err)
		return out
	}
	inUser("mod", "tidy")

	var mod struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal(inUser("mod", "edit", "-json"), &mod))
	required := make([]string, len(mod.Require))
	for i, r := range mod.Require {
		required[i] = r.Path
	}
	assert.ElementsMatch(t, []string{
		"github.com/loopguard-go/loopguard",
		"github.com/cespare/xxhash/v2", // of the OpenTelemetry API, as are logr, stdr, auto/sdk
		"github.com/go-logr/logr",
		"github.com/go-logr/stdr",
		"github.com/hashicorp/golang-lru/v2",
		"github.com/titanous/json5",
		"go.opentelemetry.io/auto/sdk",
		"go.opentelemetry.io/otel",
		"go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/trace",
	}, required)
}
