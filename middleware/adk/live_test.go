package adk_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"
)

// live is a model that can be talked to, through a client of it.
type live struct {
	scripted
	client *genai.Client
}

func (l live) Client() *genai.Client { return l.client }

// newLive is a model that makes one call n times and then says that it is done.
func newLive(t *testing.T, n int) live {
	t.Helper()
	var upgrader websocket.Upgrader
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if !assert.NoError(t, err) {
			return
		}
		defer func() { _ = conn.Close() }()
		say := func(text string) bool {
			_, _, err := conn.ReadMessage() // the setup, and then a result
			return err == nil && conn.WriteMessage(websocket.TextMessage, []byte(text)) == nil
		}
		if !say(`{"setupComplete":{}}`) {
			return
		}
		call := `{"toolCall":{"functionCalls":[{"id":"call_%d","name":"status","args":{}}]}}`
		if conn.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, call, 0)) != nil {
			return
		}
		for i := 1; i < n; i++ {
			if !say(fmt.Sprintf(call, i)) {
				return
			}
		}
		say(`{"serverContent":{"modelTurn":{"parts":[{"text":"done"}],"role":"model"},"turnComplete":true}}`)
		_, _, _ = conn.ReadMessage() // until the client has left
	}))
	t.Cleanup(server.Close)
	client, err := genai.NewClient(t.Context(), &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: "none",
		HTTPOptions: genai.HTTPOptions{BaseURL: strings.Replace(server.URL, "http", "ws", 1)},
	})
	require.NoError(t, err)
	return live{client: client}
}

// A live session is one invocation, however many questions the user asks in it: that a call comes again is no loop.
func TestLiveSessionsAreNotJudged(t *testing.T) {
	runs := 0
	guard := newGuard(t, config())
	r := guarded(t, guard, llm(t, "worker", newLive(t, 12), []tool.Tool{says(t, "status", "pending", &runs)}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, events, err := r.RunLive(ctx, "user", "s", agent.LiveRunConfig{})
	require.NoError(t, err)
	read := 0
	for event, err := range events {
		require.NoError(t, err)
		if event.Content == nil {
			continue
		}
		for _, p := range event.Content.Parts {
			if p.FunctionResponse != nil {
				assert.Equal(t, map[string]any{"result": "pending"}, p.FunctionResponse.Response)
				read++
			}
			if p.Text == "done" {
				require.NoError(t, session.Close())
			}
		}
	}
	assert.Equal(t, 12, runs)
	assert.Equal(t, 12, read)
	assert.Empty(t, guard.found())
	assert.Zero(t, guard.store.Runs())
}
