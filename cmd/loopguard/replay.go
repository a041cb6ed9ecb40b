package main

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

// replayOptions are what the command line of replay says.
type replayOptions struct {
	config     string // a file; empty for the defaults
	agent      string
	json       bool
	transcript string // a file; empty or "-" for the standard input
}

// replay judges a transcript.
func (s streams) replay(args []string) int {
	options, err := parseReplay(args)
	if errors.Is(err, flag.ErrHelp) {
		return s.print(replayHelp)
	}
	if err != nil {
		s.say("%v", err)
		s.say("see loopguard replay --help")
		return exitUsage
	}
	config, err := options.load()
	if err != nil {
		return s.wrong(options.config, err)
	}
	player, err := replay.NewPlayer(config)
	if err != nil {
		return s.wrong(options.config, err)
	}
	for _, notice := range options.notices(config, player.Notices()) {
		s.say("notice: %s", notice)
	}

	name, input := "standard input", s.in
	if options.transcript != "" && options.transcript != "-" {
		file, err := os.Open(options.transcript)
		if err != nil {
			return s.wrong(options.transcript, err)
		}
		defer file.Close()
		name, input = options.transcript, file
	}
	out := bufio.NewWriterSize(s.out, 64<<10)
	fault, err := play(player, prompt{input, out}, options.writer(out))
	if err := cmp.Or(err, out.Flush()); err != nil {
		return s.written(err)
	}
	if fault != nil {
		return s.wrong(name, fault)
	}
	return exitOK
}

// play plays a transcript. What was judged before a fault of the transcript is written all the same; the other error is
// that of the writer.
func play(player *replay.Player, input io.Reader, out replay.Writer) (fault *replay.Fault, err error) {
	lines, err := replay.NewReader(input)
	if err == nil {
		err = player.Play(lines, out)
	}
	if err != nil && !errors.As(err, &fault) {
		return nil, err
	}
	return fault, out.End(fault == nil)
}

// prompt is an input that has all output written out before it is read, which may take long: who reads the output need
// not wait for what was judged already.
type prompt struct {
	io.Reader
	out *bufio.Writer
}

func (p prompt) Read(b []byte) (int, error) {
	_ = p.out.Flush() // the next Write returns its error again
	return p.Reader.Read(b)
}

// parseReplay parses the command line. Flags may also come after the transcript.
func parseReplay(args []string) (o replayOptions, err error) {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.config, "config", "", "")
	flags.StringVar(&o.agent, "agent", "", "")
	flags.BoolVar(&o.json, "json", false, "")

	var files []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return o, err
		}
		rest := flags.Args()
		if parsed := len(args) - len(rest); parsed > 0 && args[parsed-1] == "--" {
			files = append(files, rest...) // whatever they look like
			break
		}
		if len(rest) > 0 {
			files, rest = append(files, rest[0]), rest[1:]
		}
		args = rest
	}
	if len(files) > 1 {
		return o, fmt.Errorf("replay takes one transcript, found %d: %q", len(files), files)
	}
	o.transcript = strings.Join(files, "")
	return o, nil
}

// load returns the configuration to judge by.
func (o replayOptions) load() (policy.Config, error) {
	if o.config == "" {
		return policy.Default(), nil
	}
	file, err := os.Open(o.config)
	if err != nil {
		return policy.Config{}, err
	}
	defer file.Close()
	return policy.ParseConfig(file, o.agent)
}

// notices says where the configuration will not do what the user may expect.
func (o replayOptions) notices(config policy.Config, ofPolicy []policy.Notice) []string {
	if o.config == "" {
		if o.agent != "" {
			return []string{"--agent has no effect without --config"}
		}
		return nil
	}
	const block = "tools.loopDetection"
	from := o.config
	if o.agent != "" {
		from = fmt.Sprintf("%s, agent %q", o.config, o.agent)
	}
	var notices []string
	add := func(message string) { notices = append(notices, from+": "+message) }
	const off = ", so that the detectors are off and only the guard after compaction works"
	switch {
	case reflect.DeepEqual(config, policy.Config{}):
		add(block + " is not there or empty" + off)
	case config.Enabled == nil:
		add(block + ".enabled is not set" + off)
	case !*config.Enabled:
		add(block + ".enabled is false, so that nothing is looked for")
	}
	for _, notice := range ofPolicy {
		add(block + "." + notice.String())
	}
	return notices
}

// writer returns what the judgements are written with.
func (o replayOptions) writer(out io.Writer) replay.Writer {
	if o.json {
		return replay.NewJSONLines(out)
	}
	return replay.NewSummary(out)
}

// wrong says what is wrong with a file, one thing a line.
func (s streams) wrong(name string, err error) int {
	if ofFile, ok := errors.AsType[*fs.PathError](err); ok {
		err = ofFile.Err // the name is said once
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		s.say("%s: %s", name, line)
	}
	return exitUsage
}
