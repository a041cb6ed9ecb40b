package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/openai/openai-go/v3"
)

// scene is a model in some kind of trouble, or in none.
type scene struct {
	title  string
	decide func(turn int, read []string) ([]call, string)
}

func scenes() []scene {
	return []scene{stuckOnACommand(), readsNothing(), watchesThreeJobs(), inventsATool(), healthy()}
}

// stuckOnACommand repeats a command that fails, until it is refused and takes another way.
func stuckOnACommand() scene {
	return scene{"A command fails again and again", func(turn int, read []string) ([]call, string) {
		if refused(read) {
			return nil, "The build needs a Makefile, and there is none."
		}
		return []call{{fmt.Sprint("call_", turn), "exec", `{"command":"make all"}`}}, ""
	}}
}

// readsNothing goes on whatever it is told.
func readsNothing() scene {
	return scene{"A model reads nothing of what it is told", func(turn int, _ []string) ([]call, string) {
		return []call{{fmt.Sprint("call_", turn), "exec", `{"command":"make all"}`}}, ""
	}}
}

// watchesThreeJobs asks for three jobs at a time. One is stuck; the others move and are left alone.
func watchesThreeJobs() scene {
	return scene{"Three calls at a time, and one of them makes no progress", func(turn int, read []string) ([]call, string) {
		if refused(read) {
			return nil, "Jobs a and b are running; job c is stuck and I stopped waiting for it."
		}
		return []call{
			{fmt.Sprint("a", turn), "job_status", `{"job":"a"}`},
			{fmt.Sprint("b", turn), "job_status", `{"job":"b"}`},
			{fmt.Sprint("c", turn), "job_status", `{"job":"c"}`},
		}, ""
	}}
}

// inventsATool hunts for a tool that nobody defined.
func inventsATool() scene {
	names := []string{"search_web", "web_search", "google"}
	return scene{"A tool does not exist", func(turn int, read []string) ([]call, string) {
		if refused(read) {
			return nil, "I cannot search the web here."
		}
		return []call{{fmt.Sprint("call_", turn), names[turn%len(names)], fmt.Sprintf(`{"query":"weather, try %d"}`, turn)}}, ""
	}}
}

// healthy makes as many calls as the others, and gets on with its work.
func healthy() scene {
	return scene{"A healthy agent is left alone", func(turn int, _ []string) ([]call, string) {
		if turn > 20 {
			return nil, "I have read all 20 files."
		}
		return []call{{fmt.Sprint("call_", turn), "read_file", fmt.Sprintf(`{"path":"file-%d.go"}`, turn)}}, ""
	}}
}

// tools returns the tools of the agent, and counts how often they are run.
func (s scene) tools() (map[string]tool, *atomic.Int32) {
	var runs, steps atomic.Int32
	all := map[string]tool{}
	add := func(name, description string, run func(args string) (string, error)) {
		all[name] = tool{
			openai.FunctionDefinitionParam{
				Name:        name,
				Description: openai.String(description),
				Parameters:  openai.FunctionParameters{"type": "object"},
			},
			func(_ context.Context, args string) (string, error) {
				runs.Add(1)
				return run(args)
			},
		}
	}
	add("exec", "Runs a command in a shell.", func(string) (string, error) { // what changes by itself is no progress
		n := steps.Add(1)
		return fmt.Sprintf(`{"status":"failed","exitCode":2,"pid":%d,"durationMs":%d,"output":"make: no rule for all"}`, 4000+n, 7*n), nil
	})
	add("job_status", "Says how far a job is.", func(args string) (string, error) {
		if args == `{"job":"c"}` {
			return `{"state":"queued"}`, nil
		}
		return fmt.Sprintf(`{"state":"running","step":%d}`, steps.Add(1)), nil
	})
	add("read_file", "Reads a file.", func(args string) (string, error) { return "package main // " + args, nil })
	return all, &runs
}
