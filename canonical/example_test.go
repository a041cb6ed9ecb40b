package canonical_test

import (
	"fmt"

	"github.com/loopguard-go/loopguard/canonical"
)

// Two calls that are spelled differently, and the results of a command that ran twice.
func ExampleNew() {
	c := canonical.New()
	a := c.Identify(canonical.Call{Tool: "bash", Args: `{"command":"make","timeout":60}`})
	b := c.Identify(canonical.Call{Tool: "Bash", Args: `{ "timeout": 6e1, "command": "make" }`})
	fmt.Println("the same call:", a.Signature == b.Signature)

	first := a.Result(canonical.Result{Text: `{"exitCode":2,"output":"no rule","pid":4711,"durationMs":12}`})
	second := b.Result(canonical.Result{Text: `{"exitCode":2,"output":"no rule","pid":4712,"durationMs":15}`})
	fmt.Println("the same outcome:", first.Digest == second.Digest)
	fmt.Println("a failure:", first.Failure)
	// Output:
	// the same call: true
	// the same outcome: true
	// a failure: true
}
