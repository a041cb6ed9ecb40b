package main

import (
	"context"
	"os"
	"strings"
)

// listTool lists the files in a directory.
type listTool struct{ dir string }

func (listTool) Name() string        { return "list_files" }
func (listTool) Description() string { return "lists the files; it takes no input" }

func (t listTool) Call(context.Context, string) (string, error) {
	entries, err := os.ReadDir(t.dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return strings.Join(names, "\n"), err
}
