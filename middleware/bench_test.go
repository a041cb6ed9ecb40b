package middleware_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/middleware"
)

// The cost of a guard for one call: Begin and End, in a run whose history is full, with no detection. What a large output
// costs is to be compared with one pass of SHA-256 over it, which stands beside it.

func BenchmarkShortCall(b *testing.B) {
	result := middleware.Text("ten bytes.")
	benchmarkCalls(b, fewCalls(), func(int) middleware.Result { return result })
}

func BenchmarkExec(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}} {
		// Two outputs in turn, so that not even failures are the same twice.
		outputs := []string{commandOutput("build", size.bytes), commandOutput("check", size.bytes)}
		for _, exit := range []struct {
			name string
			code int
		}{{"success", 0}, {"failure", 1}} {
			b.Run(size.name+"/"+exit.name, func(b *testing.B) {
				calls, results := make([]middleware.Call, 64), make([]middleware.Result, 64)
				for i := range calls {
					calls[i] = middleware.Call{Tool: "exec", Args: commandArgs(i)}
					results[i] = execResult(exit.code, i, outputs[i%2])
				}
				b.SetBytes(int64(size.bytes))
				benchmarkCalls(b, calls, func(i int) middleware.Result { return results[i%len(results)] })
			})
		}
		b.Run(size.name+"/sha256", func(b *testing.B) { benchmarkSHA256(b, outputs[0]) })
	}
}

// BenchmarkShapes is the cost of one and the same output in the other shapes in which tools return it.
func BenchmarkShapes(b *testing.B) {
	inJSON := func(v any) json.RawMessage {
		text, err := json.Marshal(v)
		require.NoError(b, err)
		return text
	}
	details := func(v any) middleware.Result { return middleware.Result{Result: canonical.Result{Details: v}} }
	command := func(code int, output string) json.RawMessage { return inJSON(execResult(code, 0, output).Details) }
	shapes := []struct {
		name, tool string
		result     func(output string) middleware.Result
	}{
		{"exec, raw JSON", "exec", func(s string) middleware.Result { return details(command(0, s)) }},
		{"exec, text of JSON", "exec", func(s string) middleware.Result { return middleware.Text(string(command(0, s))) }},
		{"exec, raw JSON, failure", "exec", func(s string) middleware.Result { return details(command(1, s)) }},
		{"exec, plain text", "exec", middleware.Text},
		{"exec, plain text, all masks", "exec", func(s string) middleware.Result {
			return middleware.Text("session brisk-otter, pid 4711\n" + s)
		}},
		{"generic, plain text", "read", middleware.Text},
		{"generic, text of broken JSON", "read", func(s string) middleware.Result {
			return middleware.Text(strings.TrimSuffix(string(command(0, s)), "}"))
		}},
		{"generic, tool result", "read", func(s string) middleware.Result {
			return details(inJSON(map[string]any{"content": []any{map[string]any{"type": "text", "text": s}}}))
		}},
		{"message, details", "send_message", func(s string) middleware.Result {
			return details(map[string]any{"ok": true, "messageId": "1700000000.000100", "text": s})
		}},
		{"message, plain text", "send_message", middleware.Text},
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1KiB", 1 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}} {
		outputs := []string{commandOutput("build", size.bytes), commandOutput("check", size.bytes)}
		for _, shape := range shapes {
			b.Run(size.name+"/"+shape.name, func(b *testing.B) {
				calls := fewCalls()
				for i := range calls {
					calls[i].Tool = shape.tool
				}
				results := []middleware.Result{shape.result(outputs[0]), shape.result(outputs[1])}
				b.SetBytes(int64(size.bytes))
				benchmarkCalls(b, calls, func(i int) middleware.Result { return results[i%len(results)] })
			})
		}
		b.Run(size.name+"/sha256", func(b *testing.B) { benchmarkSHA256(b, outputs[0]) })
	}
}

// benchmarkSHA256 measures one pass over an output, which is what its cost is compared with.
func benchmarkSHA256(b *testing.B, output string) {
	bytes := []byte(output)
	b.SetBytes(int64(len(bytes)))
	b.ReportAllocs()
	for b.Loop() {
		sha256.Sum256(bytes)
	}
}

// BenchmarkSpan is the cost of an allowed call with its span: with none at all, with one that the host opened, and with one
// that the interceptor opens.
func BenchmarkSpan(b *testing.B) {
	result := middleware.Text("ten bytes.")
	tool := func(context.Context, middleware.Call) (middleware.Result, error) { return result, nil }
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	recording := sdktrace.NewTracerProvider()
	plain := func(g *middleware.Guard) middleware.Handler { return g.Interceptor()(tool) }
	for _, host := range []struct {
		name     string
		provider trace.TracerProvider
	}{{"absent", noop.NewTracerProvider()}, {"unsampled", unsampled}, {"recording", recording}} {
		b.Run("host/"+host.name, func(b *testing.B) {
			ctx, span := host.provider.Tracer("").Start(inRun(), "agent")
			defer span.End()
			if host.name == "absent" {
				ctx = inRun()
			}
			benchmarkHandler(b, ctx, plain)
		})
	}
	for _, own := range []struct {
		name     string
		provider trace.TracerProvider
	}{{"noop", noop.NewTracerProvider()}, {"unsampled", unsampled}, {"recording", recording}} {
		b.Run("interceptor/"+own.name, func(b *testing.B) {
			around := middleware.NewTracing(own.provider).Interceptor()
			benchmarkHandler(b, inRun(), func(g *middleware.Guard) middleware.Handler {
				return middleware.Chain(around, g.Interceptor())(tool)
			})
		})
	}
}

// BenchmarkMetrics is the cost of an allowed call with and without metrics.
func BenchmarkMetrics(b *testing.B) {
	tool := returns("ten bytes.")
	plain := func(g *middleware.Guard) middleware.Handler { return g.Interceptor()(tool) }
	sampled, span := sdktrace.NewTracerProvider().Tracer("").Start(inRun(), "agent")
	defer span.End()
	b.Run("without", func(b *testing.B) { benchmarkHandler(b, inRun(), plain) })
	b.Run("with", func(b *testing.B) { benchmarkHandler(b, inRun(), plain, newMeter().option()) })
	b.Run("with tools", func(b *testing.B) {
		benchmarkHandler(b, inRun(), plain, newMeter().option(), middleware.WithMetricTools("read", "write"))
	})
	b.Run("with, recording span", func(b *testing.B) { benchmarkHandler(b, sampled, plain, newMeter().option()) })
}

// benchmarkHandler makes calls in a circle that is longer than the history, all of them allowed.
func benchmarkHandler(
	b *testing.B, ctx context.Context, handler func(*middleware.Guard) middleware.Handler, options ...middleware.Option,
) {
	b.Helper()
	var w witness
	handle, calls, i := handler(newGuard(b, append(options, w.option())...)), fewCalls(), 0
	call := func() {
		if _, err := handle(ctx, calls[i%len(calls)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
	benchmarkAllowed(b, &w, len(calls), call)
}

// benchmarkAllowed measures a call, after a number of them that fill the history, all of which must be allowed.
func benchmarkAllowed(b *testing.B, w *witness, before int, call func()) {
	b.Helper()
	for range before {
		call()
	}
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
	if said := w.take(); len(said) > 0 {
		b.Fatalf("the calls were meant to be allowed: %v", said[0])
	}
}

// fewCalls are different enough that no detector says anything, however often they are made in a circle.
func fewCalls() []middleware.Call {
	calls := make([]middleware.Call, 64)
	for i := range calls {
		calls[i] = middleware.Call{Tool: "read", Args: fmt.Sprintf(`{"a":"%03d"}`, i)}
	}
	return calls
}

// benchmarkCalls makes calls in a circle that is longer than the history.
func benchmarkCalls(b *testing.B, calls []middleware.Call, result func(i int) middleware.Result) {
	b.Helper()
	var w witness
	guard, ctx, i := newGuard(b, w.option()), inRun(), 0
	call := func() {
		ticket, err := guard.Begin(ctx, calls[i%len(calls)])
		if err != nil {
			b.Fatal(err)
		}
		if err := ticket.End(ctx, result(i), nil); err != nil {
			b.Fatal(err)
		}
		i++
	}
	benchmarkAllowed(b, &w, len(calls), call)
}

// commandArgs are the arguments of a command, about 120 bytes with an object in them.
func commandArgs(n int) string {
	return fmt.Sprintf(`{"command":"make -C services/%04d all","workdir":"/srv/app","env":{"CI":"true","GOFLAGS":"-mod=vendor"},`+
		`"timeoutMs":120000}`, n)
}

// execResult is what a tool that runs commands returns: most of it differs from call to call and says nothing.
func execResult(code, n int, output string) middleware.Result {
	status := "completed"
	if code != 0 {
		status = "failed"
	}
	return middleware.Result{Result: canonical.Result{Details: map[string]any{
		"status":     status,
		"exitCode":   code,
		"durationMs": 1_200 + 37*n,
		"pid":        40_000 + n,
		"cwd":        "/srv/app",
		"aggregated": output,
	}}}
}

// commandOutput is the output of a command: text with times, addresses and figures in it, as logs have them.
func commandOutput(task string, size int) string {
	var b strings.Builder
	for n := 0; b.Len() < size; n++ {
		fmt.Fprintf(&b, "2026-03-14T15:%02d:%02d.%03dZ %s[%d] step %d of services/%02d took %dms: "+
			"dial tcp 10.0.%d.%d:5432 refused, attempt %d, object 0x%08x, request 3f2a9c1e-77b0-4d11-9e55-%012x\n",
			n/60%60, n%60, n%1000, task, 4000+n%97, n, n%40, 3+n%900, n%8, n%250, n%5, 0xc000_0000+64*n, n)
	}
	return b.String()[:size]
}
