package guardtest

import "testing"

// Check returns all that is wrong with an adapter, or nil.
func Check(f Framework) error { return nil }

// Run checks an adapter, each check in a subtest.
func Run(t *testing.T, f Framework) {}
