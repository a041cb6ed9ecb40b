package policy

import "github.com/loopguard-go/loopguard/canonical"

// check reports all that is wrong with a Config that was written in Go, by the rules of the document.
func (c Config) check() error {
	var p problems
	configBlock.check(&p, "", c)
	return p.err()
}

// normalized returns the Config with the names of tools folded. It must have been checked.
func (c Config) normalized() Config {
	if c.Tools != nil {
		tools := make(map[string]ToolRule, len(c.Tools))
		for name, rule := range c.Tools {
			tools[canonical.FoldTool(name)] = rule
		}
		c.Tools = tools
	}
	return c
}
