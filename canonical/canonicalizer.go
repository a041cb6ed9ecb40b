package canonical

// Rule is what is special about the identity of one tool's calls. The zero Rule leaves everything to the defaults.
type Rule struct {
	// Kind says how results are compared; empty means by the name of the tool.
	Kind Kind
	// IdentityArgs, if not empty, names the only top-level arguments that count, matched exactly.
	IdentityArgs []string
	// IgnoreArgs names top-level arguments that do not count, matched exactly.
	IgnoreArgs []string
	// IgnoreResult names fields of the details that do not count, at any depth, matched whatever their case and without
	// regard to '_' and '-'.
	IgnoreResult []string
}

// Canonicalizer makes identities of calls, and digests of their outcomes. It does not change after [New] and is safe for
// concurrent use, if the functions given to it are.
type Canonicalizer struct {
	rule    func(tool string) Rule
	keys    map[string]func(Call) string
	results map[string]func(Call, Result) Result
}

// Option changes a [Canonicalizer]. Options are made by this package only.
type Option interface{ apply(*Canonicalizer) }

type option func(*Canonicalizer)

func (o option) apply(c *Canonicalizer) { o(c) }

// WithRules sets the function that knows the rules of a tool by its folded name (see [FoldTool]). It is called once for
// each call and must be quick.
func WithRules(rule func(tool string) Rule) Option {
	return option(func(c *Canonicalizer) { c.rule = rule })
}

// WithKey lets a function of your own say what makes the identity of a tool's calls: two calls of the tool are the same
// if and only if their keys are. It takes the place of the arguments and of the rules for them.
func WithKey(tool string, key func(Call) string) Option {
	return option(func(c *Canonicalizer) { c.keys[FoldTool(tool)] = key })
}

// WithResult lets a function of your own change the results of a tool before they are compared, for example to take out
// what varies without meaning. Only the copy that is compared is changed, never what the model reads. It must not change
// what the result points to. It sees no errors.
func WithResult(tool string, change func(Call, Result) Result) Option {
	return option(func(c *Canonicalizer) { c.results[FoldTool(tool)] = change })
}

// New makes a Canonicalizer. Without options every tool follows the defaults.
func New(options ...Option) *Canonicalizer {
	c := &Canonicalizer{
		rule:    func(string) Rule { return Rule{} },
		keys:    map[string]func(Call) string{},
		results: map[string]func(Call, Result) Result{},
	}
	for _, o := range options {
		o.apply(c)
	}
	return c
}
