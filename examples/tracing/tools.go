package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/loopguard-go/loopguard/middleware"
)

// toolbox is the tools of one run, by name: JSON arguments in, text out.
type toolbox map[string]func(args string) (string, error)

// have reports whether there is a tool.
func (t toolbox) have(name string) bool { return t[name] != nil }

// run runs the tool of a call.
func (t toolbox) run(ctx context.Context, call middleware.Call) (middleware.Result, error) {
	if !t.have(call.Tool) {
		return middleware.Result{}, fmt.Errorf("%w: %s", middleware.ErrUnknownTool, call.Tool)
	}
	select {
	case <-time.After(3 * time.Millisecond): // real tools take their time
	case <-ctx.Done():
		return middleware.Result{}, ctx.Err()
	}
	text, err := t[call.Tool](call.Args)
	return middleware.Text(text), err
}

func newTools() toolbox {
	edits, percent := 0, 0
	return toolbox{
		"read_page": func(args string) (string, error) { return "the text of " + args, nil },
		"search": func(args string) (string, error) {
			if len(args)%2 == 0 {
				return "", errors.New("nothing found for " + args)
			}
			return "a page about " + args, nil
		},
		"job_status": func(string) (string, error) {
			percent += 10
			status, err := json.Marshal(map[string]any{"percent": percent, "done": percent == 100})
			return string(status), err
		},
		"edit_file": func(args string) (string, error) {
			edits++
			return "written " + args, nil
		},
		"run_tests": func(string) (string, error) {
			if edits < 4 {
				return "", fmt.Errorf("%d tests failed", 4-edits)
			}
			return "all tests pass", nil
		},
		"query": func(string) (string, error) { return "", errors.New("connection refused") },
	}
}
