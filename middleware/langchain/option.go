package langchain

// Option changes an [Executor]. Options are made by this package only.
type Option interface{ apply(*Executor) }

type option func(*Executor)

func (o option) apply(e *Executor) { o(e) }

// WithName puts a name before the random ids of the executor's runs, so that errors, logs and traces say which agent it
// was. The sub-agent "researcher" of the run R has runs such as "R/researcher-7KQ…". Default: the ids are random alone.
func WithName(name string) Option {
	return option(func(e *Executor) { e.name = name })
}
