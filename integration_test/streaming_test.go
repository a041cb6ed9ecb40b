package integration_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

// TestReplayStreams holds the memory that a replay takes after a tenth of a transcript against what it takes after all of
// it.
func TestReplayStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("judges a hundred thousand lines")
	}
	const calls = 50_000 // of two lines each
	input, feed := io.Pipe()
	var early, late uint64
	go func() {
		out := bufio.NewWriterSize(feed, 64<<10)
		for i := range calls {
			writeCall(out, i)
			switch i + 1 {
			case calls / 10:
				early = heap()
			case calls:
				late = heap()
			}
		}
		_ = out.Flush()
		_ = feed.Close()
	}()
	player, err := replay.NewPlayer(policy.Default())
	require.NoError(t, err)
	lines, err := replay.NewReader(input)
	require.NoError(t, err)
	out := bothWriters{replay.NewJSONLines(io.Discard), replay.NewSummary(io.Discard)}
	require.NoError(t, player.Play(lines, out))
	require.NoError(t, out.End(true))
	assert.Positive(t, early)
	assert.Less(t, late, early+early/2+1<<20, "bytes on the heap, after a tenth and after all of the transcript")
}

// bothWriters writes everything twice.
type bothWriters [2]replay.Writer

func (w bothWriters) Write(j replay.Judgement) error { return cmp.Or(w[0].Write(j), w[1].Write(j)) }
func (w bothWriters) End(whole bool) error           { return cmp.Or(w[0].End(whole), w[1].End(whole)) }

// writeCall writes two lines: a call, of one of a few runs, and what came of it. Tools, arguments and results are never
// the same again, except in the run that is in a loop.
func writeCall(out io.Writer, i int) {
	run := i % 7
	if run == 0 {
		fmt.Fprintf(out, `{"run":"0","id":"c","tool":"read","args":{"path":"/x"}}`+"\n"+`{"run":"0","id":"c","result":"same"}`+"\n")
		return
	}
	padding := strings.Repeat("x", 100)
	fmt.Fprintf(out, `{"run":"%d","id":"c%d","tool":"tool_%d","args":{"page":%d,"note":%q}}`+"\n", run, i, i%1000, i, padding)
	fmt.Fprintf(out, `{"run":"%d","id":"c%d","result":"%d %s"}`+"\n", run, i, i, padding)
}

// heap returns how many bytes of the heap are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// TestReplayEndsQuietlyWhenItsReaderIsGone is what "loopguard replay --json | head" does.
func TestReplayEndsQuietlyWhenItsReaderIsGone(t *testing.T) {
	path, err := buildCommand()
	require.NoError(t, err)
	command := exec.Command(path, "replay", "--json", recordedRuns)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	first, err := bufio.NewReaderSize(out, 16).ReadByte()
	require.NoError(t, err)
	assert.Equal(t, byte('{'), first)
	require.NoError(t, out.Close())
	assert.Error(t, command.Wait(), "it did not write all of it")
	assert.Empty(t, said.String())
}
