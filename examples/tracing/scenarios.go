package main

import (
	"fmt"
	"strings"
)

// scenario is an agent, and what its model does.
type scenario struct {
	name         string
	compactAfter int // calls, 0 for never
	model        model
}

// model says what comes next, given the number of calls so far and what the last one brought.
type model func(calls int, read string) move

// move is a tool call or, in the end, an answer.
type move struct{ tool, args, answer string }

var scenarios = []scenario{
	// These get on, each in a way that looks a little like a loop.
	{name: "reader", model: readBook},
	{name: "searcher", model: search},
	{name: "watcher", model: watchJob},
	{name: "fixer", model: fixBug},

	// These go round in circles. Some take another way when they are refused, others are deaf and have to be stopped.
	{name: "same call", model: readOnePage},
	{name: "alternation", model: comparePages},
	{name: "failing tool", model: queryDatabase},
	{name: "unknown tool", model: searchCode},
	{name: "cycle of three", model: hopBetweenPages},
	{name: "after compaction", compactAfter: 4, model: readOnePage},
}

// readBook calls the same tool again and again, for another page each time.
func readBook(calls int, _ string) move {
	if calls == 12 {
		return answer("I have read it.")
	}
	return call("read_page", `{"page": %d}`, calls+1)
}

// search fails every now and then, and looks for something else.
func search(calls int, _ string) move {
	words := []string{"dsn", "database", "pool", "driver", "postgres", "timeout", "retry", "config"}
	if calls == len(words) {
		return answer("It is in the configuration.")
	}
	return call("search", `{"query": %q}`, words[calls])
}

// watchJob makes the very same call, as long as the job moves.
func watchJob(_ int, read string) move {
	if strings.Contains(read, `"done":true`) {
		return answer("The job is done.")
	}
	return call("job_status", `{"job": 7}`)
}

// fixBug goes to and fro between the tests and the code. Each edit is another one, and less fails each time.
func fixBug(calls int, read string) move {
	switch {
	case strings.Contains(read, "all tests pass"):
		return answer("The tests pass.")
	case calls%2 == 0:
		return call("run_tests", `{}`)
	default:
		return call("edit_file", `{"line": %d}`, calls)
	}
}

// readOnePage listens to nothing.
func readOnePage(int, string) move { return call("read_page", `{"page": 1}`) }

// hopBetweenPages listens to nothing either.
func hopBetweenPages(calls int, _ string) move { return call("read_page", `{"page": %d}`, calls%3) }

// comparePages alternates between two calls, until it is refused.
func comparePages(calls int, read string) move {
	if refused(read) {
		return answer("Neither page says who wrote it.")
	}
	return call("read_page", `{"page": %d}`, calls%2)
}

// queryDatabase gets the same failure whatever it asks, until it is refused.
func queryDatabase(calls int, read string) move {
	if refused(read) {
		return answer("The database does not answer.")
	}
	return call("query", `{"sql": "select %d"}`, calls)
}

// searchCode is sure that there is a tool for it, until it is refused.
func searchCode(calls int, read string) move {
	if refused(read) {
		return answer("I have no tool to search code with.")
	}
	return call("search_code", `{"query": "word %d"}`, calls)
}

// refused reports whether the model has read a refusal of the guard.
func refused(read string) bool { return strings.Contains(read, "[loopguard] Call refused") }

func answer(text string) move { return move{answer: text} }

func call(tool, args string, values ...any) move {
	return move{tool: tool, args: fmt.Sprintf(args, values...)}
}
