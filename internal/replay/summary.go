package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/loopguard-go/loopguard/policy"
)

// Summary gathers what was found and writes it, at the end, as a table for people. Of each run it keeps one finding for
// each detector, however long the run is.
type Summary struct {
	out      io.Writer
	runs     map[string]*summedRun
	findings []*summedRun // the runs with findings, in the order of their first
	calls    int
	refused  int
	observed bool // some verdict was not enforced
}

// summedRun is what there is to say of one run.
type summedRun struct {
	name     string // for people
	findings []summedFinding
	refused  int
	stopped  bool
}

// summedFinding is what one detector found in a run.
type summedFinding struct {
	detector  string
	line      int    // the first
	tool      string // of that line, for people
	warned    int
	refused   int
	stoppedAt int // a line, 0 if it did not stop the run
}

// NewSummary makes a writer that writes a summary at its end.
func NewSummary(out io.Writer) *Summary { return &Summary{out: out, runs: map[string]*summedRun{}} }

// Write takes a judgement into account.
func (s *Summary) Write(j Judgement) error {
	run, ok := s.runs[j.Run]
	if !ok {
		run = &summedRun{}
		s.runs[j.Run] = run
	}
	if j.Made {
		s.calls++
	}
	if j.Action == policy.Allow {
		return nil
	}
	if len(run.findings) == 0 {
		run.name = display(j.Run, 40)
		s.findings = append(s.findings, run)
	}
	s.observed = s.observed || !j.Enforced
	f := run.finding(j)
	if j.Action == policy.Warn {
		f.warned++
	}
	if j.Refused {
		f.refused++
		run.refused++
		s.refused++
	}
	if j.Action == policy.Abort && !run.stopped {
		run.stopped = true
		f.stoppedAt = j.Line
	}
	return nil
}

// finding returns the finding that a judgement belongs to.
func (r *summedRun) finding(j Judgement) *summedFinding {
	for i := range r.findings {
		if r.findings[i].detector == j.Detector {
			return &r.findings[i]
		}
	}
	r.findings = append(r.findings, summedFinding{detector: j.Detector, line: j.Line, tool: display(j.Tool, 30)})
	return &r.findings[len(r.findings)-1]
}

// End writes the summary.
func (s *Summary) End(whole bool) error {
	if !whole && s.calls == 0 {
		return nil // what is wrong says it all
	}
	if len(s.findings) > 0 {
		if _, err := s.table().WriteTo(s.out); err != nil {
			return err
		}
		if _, err := io.WriteString(s.out, "\n"); err != nil {
			return err
		}
	}
	conclusion := s.conclusion()
	if !whole {
		conclusion += "This is of the lines before the one that is wrong.\n"
	}
	_, err := io.WriteString(s.out, conclusion)
	return err
}

// table shows what was found where: the runs, and in each the detectors, in the order in which they found something.
func (s *Summary) table() *table {
	t := &table{columns: []column{
		{"Run", false}, {"From line", true}, {"Detector", false}, {"Tool", false},
		{"Warned", true}, {"Refused", true}, {"Run stopped", false},
	}}
	for _, run := range s.findings {
		name := run.name
		for _, f := range run.findings {
			stopped := ""
			if f.stoppedAt > 0 {
				stopped = "at line " + strconv.Itoa(f.stoppedAt)
			}
			t.rows = append(t.rows, []string{
				name, strconv.Itoa(f.line), f.detector, f.tool, orDash(f.warned), orDash(f.refused), stopped,
			})
			name = "" // said once
		}
	}
	return t
}

// conclusion says what it comes to.
func (s *Summary) conclusion() string {
	refusedIn, stopped := 0, 0
	for _, run := range s.findings {
		if run.refused > 0 {
			refusedIn++
		}
		if run.stopped {
			stopped++
		}
	}
	of := fmt.Sprintf("%s of %s", thousands(s.refused), count(s.calls, "call"))
	in := fmt.Sprintf("in %s of %s", thousands(refusedIn), count(len(s.runs), "run"))
	switch {
	case s.calls == 0:
		return "The transcript holds no calls.\n"
	case len(s.findings) == 0:
		return fmt.Sprintf("No loops: nothing was found in %s of %s.\n", count(s.calls, "call"), count(len(s.runs), "run"))
	case s.observed:
		return fmt.Sprintf("%s came to the point of a refusal, %s; in observe mode all of them run.\n", of, in)
	case s.refused == 0 && stopped == 0:
		return fmt.Sprintf("%s would have been refused: there were only warnings, in %s of %s.\n",
			of, thousands(len(s.findings)), count(len(s.runs), "run"))
	default:
		return fmt.Sprintf("%s would have been refused, %s; %s would have been stopped.\n", of, in, count(stopped, "run"))
	}
}

// display makes a name from the transcript fit to be shown: short, on one line, and without characters that would do
// something to a terminal.
func display(name string, most int) string {
	if name == "" {
		return "(none)"
	}
	name = shorten(name, most)
	isPlain := func(r rune) bool { return r != unicode.ReplacementChar && strconv.IsPrint(r) }
	if strings.TrimSpace(name) == name && strings.IndexFunc(name, func(r rune) bool { return !isPlain(r) }) < 0 {
		return name
	}
	return strconv.Quote(name)
}

// count returns a number of things.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return thousands(n) + " " + thing
}

// thousands writes a number in groups of three digits.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return thousands(n)
}
