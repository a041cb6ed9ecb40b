package canonical

import (
	"slices"
	"strings"
)

// Call is one tool call, as the model asked for it.
type Call struct {
	// Tool is the name of the tool as the model wrote it.
	Tool string

	// Args are the arguments: text, or JSON. Text that, trimmed, starts with '{' or '[' and parses strictly is taken as
	// JSON; all other text is compared byte for byte. Empty, blank, and {} all mean no arguments.
	Args string

	// ArgsJSON says that Args is one JSON value of whatever type, as it stands in a recording: a number is a number
	// then, null is no arguments, and a string is text.
	ArgsJSON bool

	// Unregistered says that the host knows no tool of this name, so that any failure is due to that.
	Unregistered bool
}

// Identity is what a call is known by: its name, its signature, and how its outcome will be compared. It is taken once,
// so that what happens to arguments later does not matter.
type Identity struct {
	// Tool is the folded name of the tool, and Name the one that the model wrote, see [Bound].
	Tool, Name string
	// Action is the string argument "action" of a call, if it has one.
	Action string
	// Signature is the digest of the tool's name and the arguments.
	Signature Digest

	call   Call
	kind   Kind
	ignore []string // fields of results, folded
	change func(Call, Result) Result
}

// Identify takes the identity of a call.
func (c *Canonicalizer) Identify(call Call) Identity {
	w := borrow()
	defer w.release()

	folded := FoldTool(call.Tool)
	rule := c.rule(folded)
	args, text := w.readArgs(call.Args, call.ArgsJSON)
	id := Identity{
		Tool:   folded,
		Name:   Bound(call.Tool),
		call:   call,
		change: c.results[folded],
	}
	for _, field := range rule.IgnoreResult {
		id.ignore = append(id.ignore, foldField(field))
	}
	action, _ := w.isText(w.get(args, "action"))
	id.Action = strings.Clone(action) // it outlives the tape
	id.kind = kindOf(folded, id.Action, rule.Kind)

	e := &w.encoder
	if key, ok := c.keys[folded]; ok {
		e.begin("key")
		e.text(folded)
		e.text(key(call))
		id.Signature = e.sum()
		return id
	}
	e.begin("call")
	e.text(folded)
	w.chooseArgs(args, rule)
	switch {
	case args == none && strings.TrimSpace(text) == "", w.isEmpty(args):
		e.value(&w.tape, none)
	case args == none:
		e.text(text)
	default:
		e.value(&w.tape, args)
	}
	id.Signature = e.sum()
	return id
}

// readArgs reads arguments. They are the value at an index, or, where that is none, a text. One JSON value that is a string
// is a text that may be JSON itself.
func (t *tape) readArgs(s string, isJSON bool) (at int, text string) {
	at, text = none, s
	if trimmed := strings.TrimSpace(s); isJSON || looksLikeJSON(trimmed) {
		at, _ = t.parse(trimmed)
	}
	if said, ok := t.isText(at); ok {
		return t.readArgs(said, false)
	}
	return at, text
}

// chooseArgs strikes the arguments that play no part.
func (t *tape) chooseArgs(args int, rule Rule) {
	if len(rule.IdentityArgs) == 0 && len(rule.IgnoreArgs) == 0 {
		return
	}
	for name := range t.fields(args) {
		s := t.nodes[name].text
		chosen := len(rule.IdentityArgs) == 0 || slices.Contains(rule.IdentityArgs, s)
		if !chosen || slices.Contains(rule.IgnoreArgs, s) {
			t.strike(name)
		}
	}
}

// isEmpty reports whether a value is null or an object without members.
func (t *tape) isEmpty(at int) bool {
	if t.is(at, objectNode) {
		for range t.fields(at) {
			return false
		}
		return true
	}
	return t.is(at, nullNode)
}

// kindOf returns the kind of a call: by rule, else by the folded name of the tool.
func kindOf(tool, action string, byRule Kind) Kind {
	kind := byRule
	if kind == "" {
		kind = kindByName(tool, action)
	}
	// The tool process does other things than to report, and those are compared as they are.
	if kind == Process && tool == "process" && action != "poll" && action != "log" {
		return Generic
	}
	return kind
}

func kindByName(tool, action string) Kind {
	switch tool {
	case "exec", "bash", "shell", "sh", "terminal",
		"run_command", "execute_command", "run_shell_command", "run_terminal_cmd":
		return Exec
	case "process", "command_status":
		return Process
	case "sessions_send", "conversations_send", "send_message":
		return Message
	case "message":
		switch action {
		case "send", "broadcast", "reply", "thread-reply", "sendWithEffect", "sendAttachment", "upload-file",
			"sticker", "poll":
			return Message
		}
	}
	return Generic
}
