package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/loopguard-go/loopguard/middleware"
)

// job is a tool call on its way to a worker, and answer is what comes back. In a product they go through a queue; here, through
// the standard input and output of the worker.
type (
	job    struct{ Run, Tool, Args string }
	answer struct {
		Text    string // what the model reads
		Verdict string
		Refused bool
	}
)

// work is the main function of a worker: the part to copy. The run comes with the job.
func work(ctx context.Context, addr string, in io.Reader, out io.Writer) error {
	client := connect(addr)
	defer func() { _ = client.Close() }()
	guard, err := newGuard(client)
	if err != nil {
		return err
	}
	jobs, answers := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var j job
		if err := jobs.Decode(&j); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := call(middleware.WithRun(ctx, j.Run), guard, j)
		if err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// call takes one call from its begin to its end.
func call(ctx context.Context, guard *middleware.Guard, j job) (answer, error) {
	ticket, err := guard.Begin(ctx, middleware.Call{Tool: j.Tool, Args: j.Args})
	if err != nil {
		return answer{}, err // the run was stopped
	}
	verdict := ticket.Verdict().Action.String()
	if text, refused := ticket.Refusal(); refused {
		return answer{Text: text, Verdict: verdict, Refused: true}, nil
	}
	text := `{"state":"queued","position":3}` // the tool: a deployment that does not get on
	if stop := ticket.End(ctx, middleware.Text(text), nil); stop != nil {
		return answer{}, stop
	}
	return answer{Text: text + ticket.Note(), Verdict: verdict}, nil
}

// worker is a worker process, as the agent sees it.
type worker struct {
	name    string
	process *exec.Cmd
	stdin   io.Closer
	jobs    *json.Encoder
	answers *json.Decoder
	ran     int // how many calls it let through
}

// workerVariable makes this program a worker of that name.
const workerVariable = "LOOPGUARD_WORKER"

// startWorker starts this program once more, as a worker.
func startWorker(ctx context.Context, name, addr string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, self)
	process.Env = append(os.Environ(), workerVariable+"="+name, redisVariable+"="+addr)
	process.Stderr = os.Stderr
	stdin, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	return &worker{
		name: name, process: process, stdin: stdin, jobs: json.NewEncoder(stdin), answers: json.NewDecoder(stdout),
	}, nil
}

// do gives the worker a job and waits for the answer.
func (w *worker) do(j job) (a answer, err error) {
	if err := w.jobs.Encode(j); err != nil {
		return a, fmt.Errorf("worker %s: %w", w.name, err)
	}
	if err := w.answers.Decode(&a); err != nil {
		return a, fmt.Errorf("worker %s: %w", w.name, err)
	}
	if !a.Refused {
		w.ran++
	}
	return a, nil
}

// stop ends the worker: there are no more jobs.
func (w *worker) stop() {
	_ = w.stdin.Close()
	_ = w.process.Wait()
}

// oneLine makes a text fit for one line of a terminal.
func oneLine(text string) string {
	const most = 80
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
