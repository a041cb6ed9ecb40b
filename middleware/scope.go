package middleware

// ScopeName and Version are the name and the version of the instrumentation scope of spans, metrics and log records.
const (
	ScopeName = "github.com/loopguard-go/loopguard/middleware"
	Version   = "0.1.0"
)
