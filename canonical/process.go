package canonical

// The results of tools that report on a command that was started earlier.

// processFields are the fields of such a report that count.
var processFields = []string{
	"status", "exitcode", "exitsignal", "timedout", "aggregated", "output", "stdout", "stderr",
	"totallines", "totalchars", "truncated",
}

// hasStatus reports whether the details have a status of whatever type.
func (s *shape) hasStatus() bool { return s.detail("status") != none }

func (s *shape) encodeProcess(e *encoder) {
	e.begin("process")
	for _, name := range processFields {
		e.value(s.tape, s.detail(name))
	}
	s.encodeText(e)
}
