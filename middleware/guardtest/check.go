package guardtest

import (
	"errors"
	"fmt"
	"testing"
)

// check is one thing that an adapter must do.
type check struct {
	name string
	run  func(Framework, *findings) error // the error: the agent could not be made
	// skip says why the framework cannot be checked for it, if so.
	skip func(Limits) string
}

// checks are all checks, each in the file that bears the name of its subject.
var checks = []check{
	{name: "healthy agent", run: checkHealthy},
	{name: "observe mode", run: checkObserve},
	{name: "warning", run: checkWarning},
	{name: "refusal", run: checkRefusal},
	{name: "abort", run: checkAbort},
	{name: "parallel calls", run: checkParallel},
	{name: "parallel results", run: checkMixed},
	{name: "tool errors", run: checkToolErrors},
	{name: "panic", run: checkPanic, skip: func(l Limits) string {
		if l.PanicsKill {
			return "a panic of a tool ends the process"
		}
		return ""
	}},
	{name: "cancellation", run: checkCancel},
	{name: "failing store", run: checkStore},
	{name: "runs", run: checkRuns},
	{name: "unknown tool", run: checkUnknown},
	{name: "unknown tools by many names", run: checkUnknownNames},
	{name: "unknown tool without end", run: checkUnknownAbort, skip: func(l Limits) string {
		if l.UnseenUnknownTools {
			return "the adapter does not see calls of tools that do not exist"
		}
		return ""
	}},
	{name: "spans", run: checkSpans},
	{name: "call ids", run: checkCallIDs},
}

// Check returns all that is wrong with an adapter, or nil.
func Check(f Framework) error {
	var faults []error
	for _, c := range checks {
		if c.skipped(f.Limits) != "" {
			continue
		}
		for _, fault := range c.faults(f) {
			faults = append(faults, fmt.Errorf("%s: %w", c.name, fault))
		}
	}
	return errors.Join(faults...)
}

// Run checks an adapter, each check in a subtest.
func Run(t *testing.T, f Framework) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if why := c.skipped(f.Limits); why != "" {
				t.Skip(why)
			}
			for _, fault := range c.faults(f) {
				t.Error(fault)
			}
		})
	}
}

// skipped says why a framework cannot be checked, if so.
func (c check) skipped(l Limits) (why string) {
	if c.skip == nil {
		return ""
	}
	return c.skip(l)
}

func (c check) faults(f Framework) []error {
	var found findings
	if err := c.run(f, &found); err != nil {
		found.add("%w", err)
	}
	return found.faults
}

// findings are what is wrong with an adapter.
type findings struct{ faults []error }

func (f *findings) add(format string, args ...any) {
	f.faults = append(f.faults, fmt.Errorf(format, args...))
}

// expect adds a fault unless all is well.
func (f *findings) expect(well bool, format string, args ...any) {
	if !well {
		f.add(format, args...)
	}
}
