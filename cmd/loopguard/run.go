package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// The exit statuses.
const (
	exitOK     = 0 // it was judged, whatever was found
	exitOutput = 1 // the output could not be written
	exitUsage  = 2 // the command line, the configuration or the transcript is wrong or cannot be read
)

// streams are what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

//go:embed help/loopguard.txt
var help string

//go:embed help/replay.txt
var replayHelp string

// run runs the command that the arguments name and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := streams{stdin, stdout, stderr}
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return exitUsage
	}
	switch command := args[0]; command {
	case "replay":
		return s.replay(args[1:])
	case "version", "-version", "--version":
		return s.only(args, version())
	case "help", "-h", "-help", "--help":
		if len(args) == 2 && args[1] == "replay" {
			return s.print(replayHelp)
		}
		return s.only(args, help)
	default:
		return s.misused("unknown command %q, must be replay, version or help", command)
	}
}

// only prints a text for a command that takes no arguments.
func (s streams) only(args []string, text string) int {
	if len(args) > 1 {
		return s.misused("%s takes no %q", args[0], args[1])
	}
	return s.print(text)
}

func (s streams) print(text string) int {
	_, err := io.WriteString(s.out, text)
	return s.written(err)
}

// written returns the exit status after something was written. A reader that went away knows that it did.
func (s streams) written(err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, syscall.EPIPE) {
		s.say("%v", err)
	}
	return exitOutput
}

// misused says what is wrong with the command line.
func (s streams) misused(format string, args ...any) int {
	s.say(format, args...)
	s.say("see loopguard --help")
	return exitUsage
}

// say tells the user something that is not what was asked for.
func (s streams) say(format string, args ...any) {
	fmt.Fprintf(s.err, "loopguard: "+format+"\n", args...)
}
