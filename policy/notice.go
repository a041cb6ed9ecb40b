package policy

// Notice is something about a configuration that is no error but that its author will want to know: a threshold that
// was raised, or one that can never be reached.
type Notice struct {
	// Path is the place in the configuration, such as "criticalThreshold" or `tools["job_*"].warningThreshold`; adapters
	// name a setting of the framework.
	Path string
	// Message says what was found and what it means.
	Message string
}

// String returns the notice as one line.
func (n Notice) String() string { return n.Path + ": " + n.Message }
