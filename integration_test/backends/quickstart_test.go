package backends

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
)

// What the quickstart shows on the terminal is found again in a backend: this is the proof that the names and values which
// the documentation promises survive the exporter, the protocol, a collector and the storage.

const quickstart = "loopguard-quickstart" // the name of the service

const (
	stuck   = "stuck on a failing command"
	hunting = "hunting for a tool that does not exist"
	deaf    = "deaf to warnings and refusals"
)

// detections are the events that each scenario has, in order.
var detections = map[string][]attributes{
	stuck: {
		detection("generic_repeat", "warn", 5, 5, "exec", "call_6", "This very call was already made 5 times."),
		detection("generic_repeat", "block", 10, 10, "exec", "call_11",
			"This very call was already made 10 times, and nothing new came of it."),
	},
	hunting: {
		detection("unknown_tool_repeat", "block", 5, 5, "search_code", "call_6",
			"5 calls failed or were refused because there is no such tool."),
	},
	deaf: {
		detection("generic_repeat", "warn", 5, 5, "exec", "call_6", "This very call was already made 5 times."),
		detection("generic_repeat", "block", 10, 10, "exec", "call_11",
			"This very call was already made 10 times, and nothing new came of it."),
		detection("generic_repeat", "block", 11, 10, "exec", "call_12",
			"This very call was already made 11 times, and nothing new came of it."),
		detection("global_circuit_breaker", "abort", 12, 12, "exec", "call_13", "12 calls brought nothing new."),
	},
}

// calls are the tools that each scenario calls, in order.
var calls = map[string][]string{
	stuck:   append(slices.Repeat([]string{"exec"}, 11), "list_files"),
	hunting: slices.Repeat([]string{"search_code"}, 6),
	deaf:    slices.Repeat([]string{"exec"}, 13),
}

// detection returns the attributes of an event as a backend shows them, but for the ids.
func detection(detector, action string, count, threshold int64, tool, callID, reason string) attributes {
	return attributes{
		"event":                   middleware.EventDetection,
		middleware.AttrDetector:   detector,
		middleware.AttrAction:     action,
		middleware.AttrEnforced:   true,
		middleware.AttrCount:      count,
		middleware.AttrThreshold:  threshold,
		middleware.AttrReason:     reason,
		middleware.AttrToolName:   tool,
		middleware.AttrToolCallID: callID,
	}
}

func TestQuickstart(t *testing.T) {
	t.Run("sent to Jaeger", func(t *testing.T) {
		j := startJaeger(t)
		runQuickstart(t, j.otlp)
		checkQuickstart(t, j)
	})
	t.Run("sent through a collector", func(t *testing.T) {
		j := startJaeger(t)
		collector := startCollector(t, []string{"LOOPGUARD_TEST_BACKEND=" + j.otlp}, "collector.yaml")
		runQuickstart(t, collector.receiver(t))
		checkQuickstart(t, j)
	})
}

// runQuickstart builds and runs the example as its README says.
func runQuickstart(t *testing.T, endpoint string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "quickstart")
	build := exec.Command("go", "build", "-o", program, "./quickstart")
	build.Dir = "../../examples"
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))

	run := exec.Command(program)
	run.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint)
	output, err = run.CombinedOutput()
	require.NoError(t, err, string(output))
}

func checkQuickstart(t *testing.T, j *jaeger) {
	t.Helper()
	traces := j.wait(t, quickstart, len(detections))
	assert.Equal(t, []string{deaf, hunting, stuck}, roots(traces))

	var services []string
	require.NoError(t, j.get("/api/services", nil, &services))
	assert.Equal(t, []string{quickstart}, services)

	for _, found := range traces {
		name := roots([]trace{found})[0]
		t.Run(name, func(t *testing.T) {
			var again []trace
			require.NoError(t, j.get("/api/traces/"+found.ID, nil, &again))
			require.Len(t, again, 1)
			assert.Len(t, again[0].Spans, len(found.Spans), "asked for by its id it is the same trace")

			checkEvents(t, j, found, detections[name])
			checkTree(t, found, calls[name])
			for _, span := range found.Spans {
				assert.Empty(t, span.Warnings)
			}
		})
	}
	t.Run("searches", func(t *testing.T) { checkSearches(t, j) })
	t.Run("no arguments and no results", func(t *testing.T) {
		body, err := fetch(j.query + "/api/traces?" + url.Values{"service": {quickstart}}.Encode())
		require.NoError(t, err)
		for _, secret := range []string{"cat ", "db.yml", "db.yaml", "queue.txt", "3 jobs", "sql.Open", "database"} {
			assert.NotContains(t, string(body), secret)
		}
	})
}

// checkEvents looks at every attribute of every event.
func checkEvents(t *testing.T, j *jaeger, found trace, wanted []attributes) {
	t.Helper()
	var events []event
	for _, span := range found.Spans {
		events = append(events, span.Events...)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	require.Len(t, events, len(wanted))

	run, digest := events[0].Attributes[middleware.AttrRunID], events[0].Attributes[middleware.AttrCallDigest]
	assert.NotEmpty(t, run)
	assert.Regexp(t, `^sha256:[0-9a-f]{32}$`, digest)
	for i, event := range events {
		complete := attributes{middleware.AttrRunID: run, middleware.AttrCallDigest: digest} // the same call of the same run
		for key, value := range wanted[i] {
			complete[key] = value
		}
		assert.Equal(t, complete, event.Attributes)
	}

	ofRun := j.search(t, quickstart, map[string]string{middleware.AttrRunID: fmt.Sprint(run)})
	if assert.Len(t, ofRun, 1, "the run's id finds its trace and no other") {
		assert.Equal(t, found.ID, ofRun[0].ID)
	}
}

// checkTree checks the story that a trace tells: a task, the agent that works on it, and the calls that it makes, with each
// detection on the span of the call that it is about. Every attribute of every span is looked at.
func checkTree(t *testing.T, found trace, tools []string) {
	t.Helper()
	var root, agent span
	calls := map[any]span{} // by the model's id
	for _, span := range found.Spans {
		switch operation := span.Attributes[middleware.AttrOperationName]; operation {
		case nil:
			root = span
		case middleware.OperationInvokeAgent:
			agent = span
		case middleware.OperationExecuteTool:
			calls[span.Attributes[middleware.AttrToolCallID]] = span
		default:
			assert.Fail(t, "unknown operation", operation)
		}
	}
	require.Len(t, found.Spans, len(tools)+2, "a task, an agent, and the calls")
	require.Len(t, calls, len(tools))

	assert.Empty(t, root.References)
	assert.Empty(t, root.Events)
	for key := range root.Attributes {
		assert.NotContains(t, key, "loopguard.", "the program's own span is left alone")
	}

	require.NotEmpty(t, agent.ID, "no span of the agent")
	assert.Equal(t, "invoke_agent helper", agent.Name)
	assert.Equal(t, root.ID, parent(t, agent))
	assert.Empty(t, agent.Events)
	var run any
	stopped := ""
	for i, tool := range tools {
		id := fmt.Sprint("call_", i+1)
		call := calls[id]
		assert.Equal(t, "execute_tool "+tool, call.Name, id)
		assert.Equal(t, agent.ID, parent(t, call), id)
		wanted := attributes{
			middleware.AttrOperationName: middleware.OperationExecuteTool,
			middleware.AttrToolName:      tool,
			middleware.AttrToolType:      "function",
			middleware.AttrToolCallID:    id,
		}
		if tool == "search_code" {
			wanted[middleware.AttrErrorType] = "unknown_tool"
		}
		require.LessOrEqual(t, len(call.Events), 1, id)
		for _, event := range call.Events {
			assert.Equal(t, id, event.Attributes[middleware.AttrToolCallID], "an event is on the span of its call")
			run = event.Attributes[middleware.AttrRunID]
			detector, action := event.Attributes[middleware.AttrDetector], event.Attributes[middleware.AttrAction]
			wanted[middleware.AttrDetector], wanted[middleware.AttrAction] = detector, action
			if action != "warn" {
				wanted[middleware.AttrErrorType] = fmt.Sprint("loopguard.", action)
			}
			if action == "abort" {
				stopped = fmt.Sprint("stopped by ", detector)
				failed(wanted, stopped)
			}
		}
		assert.Equal(t, ofScope(wanted), call.Attributes, id)
	}
	wanted := attributes{
		middleware.AttrOperationName: middleware.OperationInvokeAgent,
		middleware.AttrAgentName:     "helper",
		middleware.AttrRunID:         run,
	}
	if stopped != "" {
		wanted[middleware.AttrErrorType] = "loopguard.abort"
		failed(wanted, stopped)
	}
	assert.Equal(t, ofScope(wanted), agent.Attributes)
}

// failed adds what Jaeger makes of a span's status. There is one only where a run was stopped: a tool that fails and a call
// that is refused are what an agent has to live with.
func failed(wanted attributes, description string) {
	wanted["error"], wanted["otel.status_code"], wanted["otel.status_description"] = true, "ERROR", description
}

// ofScope adds what Jaeger says of all spans of the middleware.
func ofScope(wanted attributes) attributes {
	wanted["otel.scope.name"], wanted["otel.scope.version"] = middleware.ScopeName, middleware.Version
	wanted["span.kind"] = "internal"
	return wanted
}

// parent returns the id of a span's parent.
func parent(t *testing.T, s span) string {
	t.Helper()
	require.Len(t, s.References, 1, s.Name)
	assert.Equal(t, "CHILD_OF", s.References[0].Type)
	assert.Equal(t, s.TraceID, s.References[0].TraceID)
	return s.References[0].SpanID
}

// checkSearches asks as an operator would. Jaeger finds a trace by a span that has all that is asked for, be it in the span's
// own attributes or in those of its events.
func checkSearches(t *testing.T, j *jaeger) {
	t.Helper()
	for _, c := range []struct {
		wanted map[string]string
		found  []string
	}{
		{map[string]string{"loopguard.action": "warn"}, []string{deaf, stuck}},
		{map[string]string{"loopguard.action": "block"}, []string{deaf, hunting, stuck}},
		{map[string]string{"loopguard.action": "abort"}, []string{deaf}},
		{map[string]string{"loopguard.detector": "unknown_tool_repeat"}, []string{hunting}},
		{map[string]string{"loopguard.action": "block", "loopguard.detector": "generic_repeat"}, []string{deaf, stuck}},

		// These are on events only.
		{map[string]string{"loopguard.threshold": "5"}, []string{deaf, hunting, stuck}},
		{map[string]string{"loopguard.threshold": "12"}, []string{deaf}},
		{map[string]string{"loopguard.threshold": "20"}, []string{}},
		{map[string]string{"loopguard.count": "11"}, []string{deaf}},
		{map[string]string{"loopguard.enforced": "true"}, []string{deaf, hunting, stuck}},
		{map[string]string{"loopguard.enforced": "false"}, []string{}},
		{map[string]string{"loopguard.action": "block", "loopguard.threshold": "5"}, []string{hunting}},
	} {
		assert.Equal(t, c.found, roots(j.search(t, quickstart, c.wanted)), c.wanted)
	}
}
