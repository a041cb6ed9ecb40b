package backends

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// jaeger is a running Jaeger.
type jaeger struct {
	otlp  string // URL that takes OTLP over HTTP
	query string // URL of the query API
}

// startJaeger starts a Jaeger of the test's own, with the configuration of `make run-jaeger` but for its ports.
func startJaeger(t *testing.T) *jaeger {
	t.Helper()
	log := startCollector(t, nil, "../../tools/jaeger.yaml",
		"receivers::otlp::protocols::http::endpoint: 127.0.0.1:0",
		"receivers::otlp::protocols::grpc::endpoint: 127.0.0.1:0",
		"extensions::jaeger_query::http::endpoint: 127.0.0.1:0",
		"extensions::jaeger_query::grpc::endpoint: 127.0.0.1:0",
	)
	j := &jaeger{otlp: log.receiver(t), query: "http://" + log.find(t, "Query server started").HTTPAddress}
	poll(t, "the query API answers", func() error { return j.get("/api/services", nil, nil) })
	return j
}

// record is a line of a collector's log.
type record struct {
	Level       string `json:"level"`
	Message     string `json:"msg"`
	Component   string `json:"otelcol.component.id"`
	Endpoint    string `json:"endpoint"`
	HTTPAddress string `json:"http_addr"`
}

// log is what a collector said until it was ready. Ports that the system chose are there, and nowhere else.
type log []record

// startCollector starts the binary of Jaeger, which is an OpenTelemetry Collector, with a configuration and changes to it.
func startCollector(t *testing.T, environment []string, configuration string, changes ...string) log {
	t.Helper()
	command := []string{binary(t), "--config", configuration}
	for _, change := range append(changes, "service::telemetry::logs: {level: info, encoding: json}") {
		command = append(command, "--config", "yaml:"+change)
	}
	output := kept(t, environment, command...)

	var said []string
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(output)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		_, _ = io.Copy(io.Discard, output)
	}()
	var records log
	for patience := time.After(time.Minute); ; {
		select {
		case line, more := <-lines:
			require.True(t, more, "%s did not start:\n%s", command, strings.Join(said, "\n"))
			said = append(said, line)
			var r record
			if json.Unmarshal([]byte(line), &r) == nil {
				records = append(records, r)
			}
			if strings.HasPrefix(r.Message, "Everything is ready.") {
				go func() { // it must never wait for a reader of its log
					for range lines {
					}
				}()
				return records
			}
		case <-patience:
			require.Fail(t, "it did not start", "%s\n%s", command, strings.Join(said, "\n"))
		}
	}
}

func (l log) find(t *testing.T, message string) record {
	t.Helper()
	i := slices.IndexFunc(l, func(r record) bool { return r.Message == message })
	require.GreaterOrEqual(t, i, 0, "no %q in %v", message, l)
	return l[i]
}

// receiver returns where OTLP over HTTP is taken.
func (l log) receiver(t *testing.T) string {
	t.Helper()
	i := slices.IndexFunc(l, func(r record) bool { return r.Component == "otlp" && r.Message == "Starting HTTP server" })
	require.GreaterOrEqual(t, i, 0, "no receiver in %v", l)
	return "http://" + l[i].Endpoint
}

// trace is a trace as the query API shows it.
type trace struct {
	ID    string `json:"traceID"`
	Spans []span `json:"spans"`
}

type span struct {
	TraceID    string `json:"traceID"`
	ID         string `json:"spanID"`
	Name       string `json:"operationName"`
	References []struct {
		Type    string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	Attributes attributes `json:"tags"`
	Events     []event    `json:"logs"`
	Warnings   []string   `json:"warnings"`
}

// event is a span event. Jaeger calls it a log, and its name is one of the fields.
type event struct {
	Timestamp  int64      `json:"timestamp"` // microseconds
	Attributes attributes `json:"fields"`
}

// attributes are values as they were sent: string, bool or int64.
type attributes map[string]any

func (a *attributes) UnmarshalJSON(data []byte) error {
	var list []struct {
		Key, Type string
		Value     json.RawMessage
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*a = attributes{}
	for _, item := range list {
		var err error
		switch item.Type {
		case "string":
			err = into[string](*a, item.Key, item.Value)
		case "bool":
			err = into[bool](*a, item.Key, item.Value)
		case "int64":
			err = into[int64](*a, item.Key, item.Value)
		default:
			err = fmt.Errorf("%s has the type %s", item.Key, item.Type)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func into[T any](a attributes, key string, data []byte) error {
	var value T
	err := json.Unmarshal(data, &value)
	a[key] = value
	return err
}

// get asks the query API.
func (j *jaeger) get(path string, parameters url.Values, data any) error {
	body, err := fetch(j.query + path + "?" + parameters.Encode())
	if err != nil || data == nil {
		return err
	}
	return json.Unmarshal(body, &struct{ Data any }{data})
}

func fetch(address string) ([]byte, error) {
	response, err := http.Get(address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", address, response.Status, body)
	}
	return body, err
}

// search returns the traces of a service in which a span, or an event of it, has all these attributes.
func (j *jaeger) search(t *testing.T, service string, wanted map[string]string) []trace {
	t.Helper()
	parameters := url.Values{"service": {service}, "limit": {"1000"}}
	if wanted != nil {
		tags, err := json.Marshal(wanted)
		require.NoError(t, err)
		parameters.Set("tags", string(tags))
	}
	var traces []trace
	require.NoError(t, j.get("/api/traces", parameters, &traces))
	return traces
}

// wait returns the traces of a service once it has as many root spans as expected. A root span ends last and is sent last.
func (j *jaeger) wait(t *testing.T, service string, n int) []trace {
	t.Helper()
	var traces []trace
	poll(t, "the traces of "+service, func() error {
		traces = j.search(t, service, nil)
		if names := roots(traces); len(names) != n {
			return fmt.Errorf("%d root spans in place of %d: %q", len(names), n, names)
		}
		return nil
	})
	return traces
}

// roots returns the names of the root spans, in order.
func roots(traces []trace) []string {
	names := []string{}
	for _, t := range traces {
		for _, s := range t.Spans {
			if len(s.References) == 0 {
				names = append(names, s.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
