package policy_test

import (
	"fmt"
	"strings"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

// A document for all agents of a program, and what one of them makes of it.
func ExampleParseConfig() {
	const document = `{
		tools: { loopDetection: {
			enabled: true,
			tools: { "job_*": { poll: true } },       // jobs take their time
		} },
		agents: { list: [ { id: "nightly", tools: { loopDetection: { warningThreshold: 25 } } } ] },
	}`
	config, err := policy.ParseConfig(strings.NewReader(document), "nightly")
	if err != nil {
		panic(err)
	}
	_, notices, err := policy.New(config)
	if err != nil {
		panic(err)
	}
	for _, notice := range notices {
		fmt.Println(notice)
	}

	_, err = policy.ParseConfig(strings.NewReader(`{tools: {loopDetection: {historysize: 40}}}`), "")
	fmt.Println(err)
	// Output:
	// criticalThreshold: raised from 20 to 26, as it must be above warningThreshold, which is 25
	// tools.loopDetection.historysize: unknown key, must be "enabled", "historySize", "warningThreshold", "criticalThreshold", "unknownToolThreshold", "globalCircuitBreakerThreshold", "detectors", "postCompactionGuard", "mode" or "tools"; did you mean "historySize"?
}

// A policy on its own: the state of a run is a value that somebody keeps.
func ExampleNew() {
	rules, _, err := policy.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	identity := canonical.New().Identify(canonical.Call{Tool: "read", Args: `{"path":"/a"}`})
	var run policy.State
	for i := range 11 {
		verdict, ticket := rules.Begin(&run, policy.Call{
			ID: uint64(i), Tool: identity.Tool, Name: identity.Name, Signature: identity.Signature,
		})
		if verdict.Action != policy.Allow {
			fmt.Println(i+1, verdict.Action, verdict.Detector, verdict.Reason)
		}
		rules.End(&run, ticket, identity.Result(canonical.Result{Text: "the same"}))
	}
	// Output:
	// 6 warn generic_repeat This very call was already made 5 times.
	// 11 block generic_repeat This very call was already made 10 times, and nothing new came of it.
}
