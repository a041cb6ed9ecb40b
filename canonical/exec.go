package canonical

import "strings"

// The results of tools that run commands. Their details say how the command ended and what it printed; process id,
// session, working directory and times change from call to call and say nothing.

// detail finds the first of several fields of the details, by folded names, that is there.
func (s *shape) detail(folded ...string) int {
	for _, name := range folded {
		if at := s.field(s.details, name); at != none {
			return at
		}
	}
	return none
}

// status returns the field "status" as a string.
func (s *shape) status() string {
	said, _ := s.isText(s.detail("status"))
	return said
}

func (s *shape) awaitsApproval() bool { return strings.HasPrefix(s.status(), "approval") }

func (s *shape) encodeApproval(e *encoder, mask mask) {
	e.begin("exec approval")
	e.mask = mask
	for _, name := range []string{"status", "reason", "host", "command", "warningtext"} {
		e.value(s.tape, s.detail(name))
	}
}

func (s *shape) isRunning() bool { return s.status() == "running" }

// encodeRunning encodes a command that goes on: what it printed last is its progress.
func (s *shape) encodeRunning(e *encoder, mask mask) {
	e.begin("exec running")
	e.mask = mask
	s.encodeTrimmed(e, s.firstNotBlank("tail", "aggregated", "output", "stdout"))
}

func (s *shape) exitCode() int { return s.detail("exitcode", "returncode", "rc") }

// isFinished reports whether a command ended: its status says so, or there is an exit code. A command that runs or waits
// may show an exit code of null, which is none.
func (s *shape) isFinished() bool {
	status := s.status()
	if status == "completed" || status == "failed" {
		return true
	}
	return !s.awaitsApproval() && !s.isRunning() && s.exitCode() != none
}

// encodeFinished encodes how a command ended and what it printed. What a failed command printed is masked.
func (s *shape) encodeFinished(e *encoder, mask mask) (failed bool) {
	code := s.exitCode()
	timedOut := s.is(s.detail("timedout"), trueNode)
	failed = s.isError || timedOut || s.status() == "failed" || code != none && !s.isZero(code)

	e.begin("exec finished")
	e.mask = mask
	e.value(s.tape, s.detail("status"))
	e.value(s.tape, code)
	e.flag(timedOut)
	if failed {
		e.mask = maskFailure
	}
	if output := s.firstNotBlank("aggregated", "output"); output != none {
		e.flag(true)
		s.encodeTrimmed(e, output)
		return failed
	}
	e.flag(false)
	if stdout, stderr := s.detail("stdout"), s.detail("stderr"); !s.isBlank(stdout) || !s.isBlank(stderr) {
		s.encodeTrimmed(e, stdout)
		s.encodeTrimmed(e, stderr)
		return failed
	}
	s.encodeText(e)
	return failed
}

// encodeExecText encodes the result of a command of which there is only a text.
func (s *shape) encodeExecText(e *encoder) {
	e.begin("exec text")
	e.mask = maskExecText
	s.encodeText(e)
}

// firstNotBlank finds the first of several fields of the details that is there and not blank.
func (s *shape) firstNotBlank(folded ...string) int {
	for _, name := range folded {
		if at := s.detail(name); !s.isBlank(at) {
			return at
		}
	}
	return none
}

// isBlank reports whether a value is not there or is a string of nothing but white space.
func (t *tape) isBlank(at int) bool {
	said, ok := t.isText(at)
	return at == none || ok && strings.TrimSpace(said) == ""
}

// isZero reports whether an exit code is 0, also where it was sent as a string.
func (t *tape) isZero(at int) bool {
	n := t.nodes[at]
	return (n.kind == numberNode || n.kind == textNode) && isZeroNumber(strings.TrimSpace(n.text))
}

// encodeTrimmed encodes a value, trimmed if it is a string; one that is not there is like a blank one.
func (s *shape) encodeTrimmed(e *encoder, at int) {
	if said, ok := s.isText(at); ok || at == none {
		e.text(strings.TrimSpace(said))
		return
	}
	e.value(s.tape, at)
}
