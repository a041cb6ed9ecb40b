package eino_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/eino"
	"github.com/loopguard-go/loopguard/policy"
)

// feed is a streamable tool whose streams come from a test.
type feed struct {
	named
	open func(ctx context.Context) *schema.StreamReader[string]
}

func (f feed) StreamableRun(ctx context.Context, _ string, _ ...tool.Option) (*schema.StreamReader[string], error) {
	return f.open(ctx), nil
}

// endpoint guards a streamable tool, without a graph around it.
func endpoint(guard *middleware.Guard, open func(context.Context) *schema.StreamReader[string]) func(context.Context) (*schema.StreamReader[string], error) {
	run := eino.Middleware(guard).Streamable(func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
		return &compose.StreamToolOutput{Result: open(ctx)}, nil
	})
	return func(ctx context.Context) (*schema.StreamReader[string], error) {
		out, err := run(ctx, &compose.ToolInput{Name: "tail", Arguments: "{}", CallID: "1"})
		if err != nil {
			return nil, err
		}
		return out.Result, nil
	}
}

func readAll(t *testing.T, reader *schema.StreamReader[string]) []string {
	t.Helper()
	defer reader.Close()
	var all []string
	for {
		chunk, err := reader.Recv()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, chunk)
	}
}

// history is a store that shows what is in the history of the only run.
type history struct{ *middleware.MemoryStore }

func newHistory() history { return history{middleware.NewMemoryStore()} }

func (h history) records(ctx context.Context) (records []policy.Record) {
	run, _ := middleware.RunID(ctx)
	_ = h.Update(ctx, run, func(s *policy.State) error {
		records = s.Last(100)
		return errors.New("nothing to change")
	})
	return records
}

func TestEveryChunkGoesThroughAtOnce(t *testing.T) {
	store := newHistory()
	guard := newGuard(t, config(), middleware.WithStore(store))
	var writer *schema.StreamWriter[string]
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] {
		var reader *schema.StreamReader[string]
		reader, writer = schema.Pipe[string](0)
		return reader
	})
	ctx := middleware.NewRun(t.Context())
	for i := 1; i <= 5; i++ {
		before := runtime.NumGoroutine()
		reader, err := open(ctx)
		require.NoError(t, err)
		assert.LessOrEqual(t, runtime.NumGoroutine(), before, "nobody else reads it")
		for _, chunk := range []string{"one", "two", ""} {
			go writer.Send(chunk, nil)
			said, err := reader.Recv()
			require.NoError(t, err)
			assert.Equal(t, chunk, said, "while the tool is still at it")
		}
		records := store.records(ctx)
		assert.Equal(t, policy.Open, records[len(records)-1].Status)
		writer.Close()
		if i == 4 {
			said, err := reader.Recv()
			require.NoError(t, err)
			assert.Regexp(t, `^\n\n\[loopguard\] Warning`, said, "the note is a chunk of its own")
		}
		for range 2 {
			_, err = reader.Recv()
			require.ErrorIs(t, err, io.EOF)
		}
		records = store.records(ctx)
		assert.Equal(t, policy.Done, records[len(records)-1].Status)
		assert.False(t, records[len(records)-1].Failure)
		reader.Close()
	}
	reader, err := open(ctx)
	require.NoError(t, err)
	said := readAll(t, reader)
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "Call refused", "the same, in whatever chunks")
}

func TestHowAStreamIsCutDoesNotMatter(t *testing.T) {
	guard := newGuard(t, config())
	n := 0
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] {
		n++
		said := "all of the output"
		return stream([]string{said[:n], said[n:]}, nil)
	})
	ctx := middleware.NewRun(t.Context())
	for range 5 {
		reader, err := open(ctx)
		require.NoError(t, err)
		readAll(t, reader)
	}
	reader, err := open(ctx)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(readAll(t, reader), ""), "Call refused")
}

// Of a long stream only the beginning is held, and yet no difference is overlooked.
func TestLongStreams(t *testing.T) {
	for name, test := range map[string]struct {
		last func(n int) string
		same bool
	}{
		"the same":                  {func(int) string { return "end" }, true},
		"another byte at the end":   {func(n int) string { return fmt.Sprint(n) }, false},
		"another length at the end": {func(n int) string { return strings.Repeat("x", n) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, config())
			n := 0
			line := strings.Repeat("0123456789abcdef", 1<<12)
			open := endpoint(guard, func(context.Context) *schema.StreamReader[string] {
				n++
				all := make([]string, 40)
				for i := range all {
					all[i] = line
				}
				if n%2 == 0 { // cut elsewhere
					all = append([]string{line[:n], line[n:]}, all[1:]...)
				}
				return stream(append(all, test.last(n)), nil)
			})
			ctx := middleware.NewRun(t.Context())
			said := ""
			for range 6 {
				reader, err := open(ctx)
				require.NoError(t, err)
				said = strings.Join(readAll(t, reader), "")
			}
			assert.Equal(t, test.same, strings.Contains(said, "Call refused"))
		})
	}
}

func TestAStreamThatFails(t *testing.T) {
	failure := errors.New("lost the connection")
	store := newHistory()
	guard := newGuard(t, config(), middleware.WithStore(store))
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] { return stream([]string{"one", "two"}, failure) })
	ctx := middleware.NewRun(t.Context())
	for i := 1; i <= 5; i++ {
		reader, err := open(ctx)
		require.NoError(t, err)
		for _, want := range []string{"one", "two"} {
			said, err := reader.Recv()
			require.NoError(t, err)
			assert.Equal(t, want, said)
		}
		_, err = reader.Recv()
		require.ErrorIs(t, err, failure)
		assert.Equal(t, i == 4, strings.Contains(err.Error(), "[loopguard] Warning"))
		_, err = reader.Recv()
		require.ErrorIs(t, err, io.EOF, "and nothing is said twice")
		reader.Close()
		records := store.records(ctx)
		assert.True(t, records[len(records)-1].Failure)
	}
	reader, err := open(ctx)
	require.NoError(t, err)
	assert.Contains(t, strings.Join(readAll(t, reader), ""), "Call refused")
}

// An error that says that one of several streams is at its end is none.
func TestMergedStreams(t *testing.T) {
	store := newHistory()
	guard := newGuard(t, config(), middleware.WithStore(store))
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] {
		return schema.MergeNamedStreamReaders(map[string]*schema.StreamReader[string]{
			"one": stream([]string{"same"}, nil), "two": stream([]string{"same"}, nil),
		})
	})
	ctx := middleware.NewRun(t.Context())
	reader, err := open(ctx)
	require.NoError(t, err)
	ends := 0
	for {
		_, err := reader.Recv()
		if err == io.EOF {
			break
		}
		if _, ok := schema.GetSourceName(err); ok {
			ends++
		}
	}
	assert.Equal(t, 2, ends)
	records := store.records(ctx)
	require.Len(t, records, 1)
	assert.Equal(t, policy.Done, records[0].Status)
	assert.False(t, records[0].Failure)
}

// The caller gave the call up: be it while the tool is at it, before anybody read, or while somebody did.
func TestAStreamThatIsCancelled(t *testing.T) {
	store := newHistory()
	guard := newGuard(t, config(), middleware.WithStore(store))
	run := middleware.NewRun(t.Context())
	ctx, cancel := context.WithCancel(run)
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] { return stream([]string{"one"}, nil) })

	reader, err := open(ctx)
	require.NoError(t, err)
	_, err = reader.Recv()
	require.NoError(t, err)
	assert.Len(t, store.records(run), 1)
	cancel()
	_, err = reader.Recv()
	require.ErrorIs(t, err, io.EOF)
	assert.Empty(t, store.records(run))

	_, err = open(ctx)
	require.NoError(t, err)
	assert.Empty(t, store.records(run), "at once, and not when the garbage is collected")

	reader, err = endpoint(guard, func(context.Context) *schema.StreamReader[string] {
		return stream([]string{"one"}, fmt.Errorf("gave up: %w", context.Canceled))
	})(run)
	require.NoError(t, err)
	_, _ = reader.Recv()
	_, err = reader.Recv()
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, store.records(run))

	// A time that is over is a failure like any other.
	ctx, cancel = context.WithTimeout(run, 0)
	defer cancel()
	reader, err = endpoint(guard, func(ctx context.Context) *schema.StreamReader[string] { return stream([]string{"one"}, ctx.Err()) })(ctx)
	require.NoError(t, err)
	_, _ = reader.Recv()
	_, err = reader.Recv()
	require.ErrorIs(t, err, context.DeadlineExceeded)
	records := store.records(run)
	require.Len(t, records, 1)
	assert.True(t, records[0].Failure)
}

// Nobody can hear a reader being closed, but garbage is collected.
func TestAStreamThatIsAbandoned(t *testing.T) {
	for name, leave := range map[string]func(*schema.StreamReader[string]){
		"closed":    func(reader *schema.StreamReader[string]) { reader.Close() },
		"forgotten": func(*schema.StreamReader[string]) {},
		"copied":    func(reader *schema.StreamReader[string]) { reader.Copy(2)[0].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			store := newHistory()
			guard := newGuard(t, config(), middleware.WithStore(store))
			ctx := middleware.NewRun(t.Context())
			before := runtime.NumGoroutine()
			func() {
				reader, err := endpoint(guard, func(context.Context) *schema.StreamReader[string] { return stream([]string{"one", "two"}, nil) })(ctx)
				require.NoError(t, err)
				_, err = reader.Recv()
				require.NoError(t, err)
				leave(reader)
			}()
			assert.LessOrEqual(t, runtime.NumGoroutine(), before)
			require.Eventually(t, func() bool {
				runtime.GC()
				return len(store.records(ctx)) == 0
			}, 10*time.Second, time.Millisecond, "the call is taken back")
		})
	}
}

// What a run leaves behind is garbage, though the agent kit keeps the streams of a run in its context.
func TestNothingIsLeftOfAStream(t *testing.T) {
	guard := newGuard(t, config())
	var read []string
	conf := eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{kinds[1].tool("tail", func(context.Context, string) (string, error) {
		return "one and two", nil
	})}})
	var left atomic.Int32
	type request struct{ answer []byte }
	for _, name := range []string{"read", "abandoned"} {
		func() {
			request := &request{make([]byte, 1<<10)}
			left.Add(1)
			runtime.AddCleanup(request, func(int) { left.Add(-1) }, 0)
			ctx := context.WithValue(t.Context(), scriptKey{}, request)
			agent := newChatModelAgent(t, "reader", times(3, "tail", "{}", &read), conf)
			events := eino.NewRunner(guard, adk.RunnerConfig{Agent: agent, EnableStreaming: true}).Query(ctx, "go")
			if name == "read" {
				_, _, err := drain(events)
				require.NoError(t, err)
				return
			}
			for _, ok := events.Next(); ok; _, ok = events.Next() { // but no stream in them
			}
		}()
		require.Eventually(t, func() bool {
			runtime.GC()
			return left.Load() == 0
		}, 10*time.Second, time.Millisecond, name)
	}
}

// A middleware further out that has enough of a stream does not decide what the guard hears.
func TestAStreamThatIsCutShort(t *testing.T) {
	guard := newGuard(t, config())
	n := 0
	tail := feed{named{"tail"}, func(context.Context) *schema.StreamReader[string] {
		n++
		return stream([]string{"first ", fmt.Sprint("rest ", n)}, nil)
	}}
	first := compose.ToolMiddleware{Streamable: func(next compose.StreamableToolEndpoint) compose.StreamableToolEndpoint {
		return func(ctx context.Context, in *compose.ToolInput) (*compose.StreamToolOutput, error) {
			out, err := next(ctx, in)
			if err != nil {
				return nil, err
			}
			defer out.Result.Close()
			said, err := out.Result.Recv()
			out.Result = stream([]string{said}, err)
			return out, nil
		}
	}}
	var read []string
	conf := compose.ToolsNodeConfig{Tools: []tool.BaseTool{tail}, ToolCallMiddlewares: []compose.ToolMiddleware{first}}
	_, err := generate(t, guard, newReact(t, func(given turn) *schema.Message {
		runtime.GC() // what was abandoned is no outcome either
		return times(6, "tail", "{}", &read)(given)
	}, eino.Tools(guard, conf)))
	require.NoError(t, err)
	assert.Equal(t, "first ", read[0])
	assert.Contains(t, read[3], "first \n\n[loopguard] Warning", "what is left of it is all there is to compare")
	assert.Contains(t, read[5], "Call refused")
}

// The guard after compaction stops a run with an outcome: of a stream that is known at its end.
func TestAStreamMayStopTheRun(t *testing.T) {
	guard := newGuard(t, policy.Config{})
	open := endpoint(guard, func(context.Context) *schema.StreamReader[string] { return stream([]string{"broken"}, nil) })
	ctx := middleware.NewRun(t.Context())
	require.NoError(t, guard.Compacted(ctx))
	for i := 1; i <= 3; i++ {
		reader, err := open(ctx)
		require.NoError(t, err)
		said, err := reader.Recv()
		require.NoError(t, err)
		assert.Equal(t, "broken", said)
		_, err = reader.Recv()
		if i < 3 {
			require.ErrorIs(t, err, io.EOF)
			continue
		}
		loop, ok := errors.AsType[*middleware.LoopError](err)
		require.True(t, ok, err)
		assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
	}

	// And the graph takes the error of a stream for its own.
	eachKind(t, func(t *testing.T, k kind) {
		for _, streaming := range []bool{false, true} {
			guard := newGuard(t, policy.Config{})
			turns := 0
			agent := newReact(t, func(given turn) *schema.Message {
				if turns++; turns == 5 {
					assert.NoError(t, guard.Compacted(given.ctx))
				}
				return forever("build", "{}")(given)
			}, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
				k.tool("build", func(context.Context, string) (string, error) { return "broken", nil }),
			}, ToolCallMiddlewares: []compose.ToolMiddleware{errorsAsAnswers}}))
			ctx := middleware.NewRun(t.Context())
			question := []*schema.Message{schema.UserMessage("go")}
			var err error
			if streaming {
				_, err = agent.Stream(ctx, question)
			} else {
				_, err = agent.Generate(ctx, question)
			}
			loop, ok := errors.AsType[*middleware.LoopError](err)
			require.True(t, ok, err)
			assert.Equal(t, policy.CompactionLoopPersisted, loop.Detector)
			assert.Equal(t, 4+3, turns)
		}
	})
}

// So it does with a failure.
func TestAFailureMayStopTheRun(t *testing.T) {
	failure := errors.New("no disk")
	eachKind(t, func(t *testing.T, k kind) {
		guard := newGuard(t, policy.Config{})
		n := node(t, eino.Tools(guard, compose.ToolsNodeConfig{Tools: []tool.BaseTool{
			k.tool("build", func(context.Context, string) (string, error) { return "", failure }),
		}}))
		ctx := middleware.NewRun(t.Context())
		require.NoError(t, guard.Compacted(ctx))
		for range 2 {
			_, err := invoke(ctx, n, "1", "build", "{}")
			require.ErrorIs(t, err, failure)
		}
		_, err := invoke(ctx, n, "1", "build", "{}")
		require.ErrorIs(t, err, middleware.ErrLoop)
		require.NotErrorIs(t, err, failure)
	})
}

// What is wrong with a tool is not made worse.
func TestOutputsThatAreNotThere(t *testing.T) {
	guard := newGuard(t, config())
	m := eino.Middleware(guard)
	in := &compose.ToolInput{Name: "build", CallID: "1"}
	ctx := middleware.NewRun(t.Context())
	for i := range 6 {
		text, err := m.Invokable(func(context.Context, *compose.ToolInput) (*compose.ToolOutput, error) { return nil, nil })(ctx, in)
		require.NoError(t, err)
		assert.Equal(t, i < 3 || i == 4, text.Result == "")

		parts, err := m.EnhancedInvokable(func(context.Context, *compose.ToolInput) (*compose.EnhancedInvokableToolOutput, error) {
			return &compose.EnhancedInvokableToolOutput{}, nil
		})(middleware.WithRun(ctx, "parts"), in)
		require.NoError(t, err)
		assert.Equal(t, i < 3 || i == 4, parts.Result == nil)

		texts, err := m.Streamable(func(context.Context, *compose.ToolInput) (*compose.StreamToolOutput, error) {
			return &compose.StreamToolOutput{}, nil
		})(middleware.WithRun(ctx, "stream"), in)
		require.NoError(t, err)
		assert.Equal(t, i < 5, texts.Result == nil)

		streams, err := m.EnhancedStreamable(func(context.Context, *compose.ToolInput) (*compose.EnhancedStreamableToolOutput, error) {
			return &compose.EnhancedStreamableToolOutput{Result: stream([]*schema.ToolResult{nil}, nil)}, nil
		})(middleware.WithRun(ctx, "parts stream"), in)
		require.NoError(t, err)
		_, err = schema.ConcatToolResults(readResults(t, streams.Result))
		require.NoError(t, err)
	}
}

func readResults(t *testing.T, reader *schema.StreamReader[*schema.ToolResult]) []*schema.ToolResult {
	t.Helper()
	defer reader.Close()
	var all []*schema.ToolResult
	for {
		chunk, err := reader.Recv()
		if err == io.EOF {
			return all
		}
		require.NoError(t, err)
		all = append(all, chunk)
	}
}
