package canonical

import "errors"

// ErrUnknownTool marks the failure of a call whose tool does not exist. An error that wraps it is an unknown-tool
// failure whatever it says.
var ErrUnknownTool = errors.New("unknown tool")

// Outcome is what is remembered of how a call ended.
type Outcome struct {
	// Digest is the digest of the canonical outcome. Of a failure the volatile parts are masked in it, so that it is the
	// identity of the failure too.
	Digest Digest
	// Failure says that the outcome is an error, an isError result, or a command that failed.
	Failure bool
	// UnknownTool says that it is a failure because there is no such tool.
	UnknownTool bool
}

// Error returns the outcome of a call that ended in an error. An error and a result with the same words differ.
func (id *Identity) Error(err error) Outcome {
	w := borrow()
	defer w.release()
	said := err.Error()
	e := &w.encoder
	e.begin("error")
	e.mask = maskFailure
	e.text(said)
	unknown := id.call.Unregistered || errors.Is(err, ErrUnknownTool) || namesUnknownTool(said, id.call.Tool)
	return Outcome{Digest: e.sum(), Failure: true, UnknownTool: unknown}
}

// Result returns the outcome of a call that returned a result.
func (id *Identity) Result(r Result) Outcome {
	if id.change != nil {
		r = id.change(id.call, r)
	}
	w := borrow()
	defer w.release()
	s := w.shape(r)
	if len(id.ignore) > 0 && s.details != none {
		s.strikeFields(s.details, id.ignores)
	}
	failed, ran := s.encode(&w.encoder, id.kind)
	unknown := failed && id.call.Unregistered || s.isError && !ran && namesUnknownTool(s.text, id.call.Tool)
	return Outcome{Digest: w.encoder.sum(), Failure: failed, UnknownTool: unknown}
}

func (id *Identity) ignores(name string) bool {
	for _, ignored := range id.ignore {
		if foldsTo(name, ignored) {
			return true
		}
	}
	return false
}

// encode encodes what counts of a result of a kind of tool. It reports whether the result is a failure, and whether it
// is the output of a command that ran.
func (s *shape) encode(e *encoder, kind Kind) (failed, ran bool) {
	var base mask
	if s.isError {
		base = maskFailure
	}
	switch {
	case kind == Exec && s.details != none && s.isFinished():
		failed, ran = s.encodeFinished(e, base), true
	case kind == Exec && s.details != none && s.isRunning():
		s.encodeRunning(e, base)
	case kind == Exec && s.details != none && s.awaitsApproval():
		s.encodeApproval(e, base)
	case kind == Exec && s.details == none && !s.isError:
		s.encodeExecText(e)
	case kind == Process && s.hasStatus() && !s.isError:
		s.encodeProcess(e)
	case kind == Message && s.details != none && !s.isError:
		base = s.encodeDelivery(e)
	case kind == Message && !s.isError:
		s.encodeDeliveryText(e)
	default:
		s.encodeGeneric(e, base)
	}
	failed = failed || s.isError
	e.mask = base
	s.encodeOther(e)
	e.flag(failed)
	return failed, ran
}

// encodeGeneric encodes all that a tool returned.
func (s *shape) encodeGeneric(e *encoder, mask mask) {
	e.begin("generic")
	e.mask = mask
	e.value(s.tape, s.details)
	s.encodeText(e)
}

// encodeText encodes the text, or the value that stands in its place.
func (s *shape) encodeText(e *encoder) {
	if s.scalar != none {
		e.value(s.tape, s.scalar)
		return
	}
	e.text(s.text)
}

// encodeOther encodes what is left over. It belongs to every outcome.
func (s *shape) encodeOther(e *encoder) {
	parts, rest := none, none
	if s.hasParts() {
		parts = s.parts
	}
	if s.hasRest() {
		rest = s.rest
	}
	e.value(s.tape, parts)
	e.value(s.tape, rest)
}
