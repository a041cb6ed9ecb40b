package canonical

// Kind says how the results of a tool are compared. Its values are the words that a configuration uses.
type Kind string

const (
	// Generic tools are compared by all that they return.
	Generic Kind = "generic"
	// Exec tools run commands: process ids, durations and the like are ignored, and so are the volatile parts of the
	// output of a command that failed.
	Exec Kind = "exec"
	// Process tools report on a command that was started earlier: its status and output are compared.
	Process Kind = "process"
	// Message tools deliver messages: the ids and times of a delivery are ignored.
	Message Kind = "message"
)
