package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page on telemetry and the code name the same events, attributes and metrics.
func TestTelemetryPageIsTheCode(t *testing.T) {
	text, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	page := string(text)
	inCode := map[string]bool{}
	for constant, value := range constants(t) {
		if strings.HasPrefix(constant, "Event") || strings.HasPrefix(constant, "Attr") || strings.HasPrefix(constant, "Metric") {
			inCode[value] = true
			assert.Contains(t, page, "`"+value+"`", "the page does not name %s", constant)
		}
	}
	require.Greater(t, len(inCode), 20, "the constants were found")

	// What the tables of the page name first in a row, or as an attribute of it, is in the code.
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, cell := range cells[1:3] {
			name := strings.Trim(strings.TrimSpace(cell), "`")
			if strings.Contains(name, ".") && !strings.ContainsAny(name, " ()") {
				assert.True(t, inCode[name], "%s is not in the code", name)
			}
		}
	}
}

// constants returns the string constants of package middleware.
func constants(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := filepath.Glob("../middleware/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					break
				}
				if literal, ok := spec.Values[i].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					found[name.Name], _ = strconv.Unquote(literal.Value)
				}
			}
			return true
		})
	}
	return found
}
