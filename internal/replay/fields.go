package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// fields are the values of one line as they are written, nil for keys that it does not have. What is inside arguments and
// results is not looked at: how duplicate names or broken Unicode in them compare is for package canonical to say.
type fields struct {
	run, id                jsontext.Value
	tool, args, registered jsontext.Value
	result, failure        jsontext.Value
	event                  jsontext.Value
}

// place returns where the value of a key is kept, or nil if the key means nothing here.
func (f *fields) place(key string) *jsontext.Value {
	switch key {
	case "run":
		return &f.run
	case "id":
		return &f.id
	case "tool":
		return &f.tool
	case "args":
		return &f.args
	case "registered":
		return &f.registered
	case "result":
		return &f.result
	case "error":
		return &f.failure
	case "event":
		return &f.event
	}
	return nil
}

// readFields reads the one object that a line consists of.
func readFields(d *jsontext.Decoder, text []byte) (f fields, err error) {
	d.Reset(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	open, err := d.ReadToken()
	if err != nil {
		return f, explainSyntax(text, err)
	}
	if open.Kind() != '{' {
		return f, fmt.Errorf("starts with %s, must be one JSON object", describe(open.Kind()))
	}
	others := map[string]bool(nil) // keys that mean nothing here; most lines have none
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return f, explainSyntax(text, err)
		}
		key, valid := unquote(name)
		if !valid {
			key = string(name)
		}
		value, err := d.ReadValue()
		if err != nil {
			return f, explainSyntax(text, err)
		}
		place, twice := f.place(key), others[key]
		switch {
		case place != nil:
			twice = *place != nil
			*place = value.Clone()
		case others == nil:
			others = map[string]bool{key: true}
		default:
			others[key] = true
		}
		if twice {
			return f, fmt.Errorf("has the key %s twice, must have it once", quote(key))
		}
	}
	if _, err = d.ReadToken(); err != nil { // the end of the object, which was seen
		return f, explainSyntax(text, err)
	}
	if _, err = d.ReadToken(); err != io.EOF {
		return f, errors.New("goes on after its JSON object, must be that one object only")
	}
	f.dropNulls()
	return f, nil
}

// dropNulls makes an optional key whose value is null a key that is not there, as recorders write it; but null is a result
// like any other.
func (f *fields) dropNulls() {
	for _, value := range []*jsontext.Value{&f.run, &f.id, &f.tool, &f.registered, &f.failure, &f.event} {
		if value.Kind() == 'n' {
			*value = nil
		}
	}
}

// explainSyntax says where and why a line is not JSON.
func explainSyntax(text []byte, err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return fmt.Errorf("cannot be read as JSON: %w", err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("ends before its JSON object does, must be one whole object")
	}
	column := 1 + utf8.RuneCount(text[:min(int(syntax.ByteOffset), len(text))])
	return fmt.Errorf("cannot be read as JSON: %w in column %d", syntax.Err, column)
}

// line says what the fields mean.
func (f *fields) line() (line Line, err error) {
	if line.Run, err = str("run", f.run); err != nil {
		return line, err
	}
	if line.ID, err = str("id", f.id); err != nil {
		return line, err
	}
	if line.Outcome, err = f.outcome(); err != nil {
		return line, err
	}
	switch {
	case f.event != nil:
		line.Compaction = true
		return line, f.checkEvent()
	case f.tool != nil:
		line.Call, err = f.call(line.ID)
		return line, err
	case line.Outcome == nil:
		return line, errors.New(
			`is none of the three kinds: a call has "tool", an outcome "result" or "error", a compaction "event"`)
	}
	return line, nil
}

// outcome returns the outcome that a line tells, nil if it tells none.
func (f *fields) outcome() (*Outcome, error) {
	hasError := f.failure != nil
	switch {
	case hasError && f.failure.Kind() != '"':
		return nil, fmt.Errorf(`"error" is %s, must be a string, or null for no error`, describe(f.failure.Kind()))
	case hasError && f.result != nil:
		return nil, errors.New(`has both "result" and "error", must have one of them ("error" may be null)`)
	case hasError:
		said, valid := unquote(f.failure)
		if !valid { // nothing is repaired, so that failures that differ stay different
			said = string(f.failure)
		}
		return &Outcome{Err: errors.New(said)}, nil
	case f.result != nil:
		return &Outcome{Result: middleware.Result{Result: canonical.Result{Details: json.RawMessage(f.result)}}}, nil
	}
	return nil, nil
}

// call returns the call that a line makes.
func (f *fields) call(id string) (*middleware.Call, error) {
	tool, err := str("tool", f.tool)
	if err != nil {
		return nil, err
	}
	unknown := false
	if f.registered != nil {
		switch f.registered.Kind() {
		case 't':
		case 'f':
			unknown = true
		default:
			return nil, fmt.Errorf(`"registered" is %s, must be true or false`, describe(f.registered.Kind()))
		}
	}
	return &middleware.Call{ID: id, Tool: tool, Args: string(f.args), ArgsJSON: f.args != nil, Unknown: unknown}, nil
}

// checkEvent says what is wrong with a line that has an event.
func (f *fields) checkEvent() error {
	event, err := str("event", f.event)
	switch {
	case err != nil:
		return err
	case event != "compaction":
		return fmt.Errorf(`"event" is %s, must be "compaction"`, quote(event))
	case f.tool != nil:
		return errors.New(`has both "event" and "tool", must be either a compaction or a call`)
	case f.result != nil || f.failure != nil:
		return errors.New(`has both "event" and an outcome, must be either a compaction or the outcome of a call`)
	}
	return nil
}

// str returns the string that stands under a key, empty if there is no such key.
func str(key string, value jsontext.Value) (string, error) {
	if value == nil {
		return "", nil
	}
	if value.Kind() != '"' {
		return "", fmt.Errorf("%q is %s, must be a string", key, describe(value.Kind()))
	}
	said, valid := unquote(value)
	if !valid {
		return "", fmt.Errorf("%q is not valid Unicode, must be UTF-8 without unpaired surrogates", key)
	}
	return said, nil
}

// unquote returns what a JSON string says. It is not valid if it holds what is not Unicode.
func unquote(value jsontext.Value) (said string, valid bool) {
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err == nil
}

// describe says what kind of value was found.
func describe(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "a list"
	default:
		return "an object"
	}
}
