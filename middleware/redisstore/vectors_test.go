package redisstore_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/redisstore"
	"github.com/loopguard-go/loopguard/policy"
)

// TestVectors: the cases of the specification, judged with the histories in Redis. What is not wanted of a line is that its
// call is refused or warned of.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("../../integration_test/testdata/vectors/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	server := startServer(t)
	cases := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var vectors []struct {
			Name   string
			Config json.RawMessage
			Agent  string
			Lines  []json.RawMessage
			Want   []map[string]any
		}
		require.NoError(t, json.Unmarshal(text, &vectors))
		for _, v := range vectors {
			cases++
			t.Run(filepath.Base(file)+"/"+v.Name, func(t *testing.T) {
				config, err := policy.ParseConfig(bytes.NewReader(v.Config), v.Agent)
				require.NoError(t, err)
				var transcript bytes.Buffer
				for _, line := range v.Lines {
					require.NoError(t, json.Compact(&transcript, line))
					transcript.WriteByte('\n')
				}
				store := newStore(t, server.client(), redisstore.WithPrefix(t.Name()+"/"))
				said := judge(t, config, transcript.Bytes(), middleware.WithStore(store))

				want := map[any]map[string]any{}
				for _, w := range v.Want {
					want[w["line"]] = w
				}
				for _, verdict := range said {
					wanted, ok := want[verdict["line"]]
					if !ok {
						wanted = map[string]any{"action": "allow"}
					}
					delete(want, verdict["line"])
					for key, value := range wanted {
						assert.Equal(t, value, verdict[key], "line %v: %s", verdict["line"], key)
					}
				}
				assert.Empty(t, want, "these lines were not reported")
				assert.Equal(t, judge(t, config, transcript.Bytes()), said, "it is what a store in memory makes of it")
			})
		}
	}
	assert.Equal(t, 123, cases)
}

// judge has a guard judge a transcript. It wants no failure of the store.
func judge(t *testing.T, config policy.Config, transcript []byte, options ...middleware.Option) (said []map[string]any) {
	t.Helper()
	player, err := replay.NewPlayer(config, append(options, middleware.WithFailClosed())...)
	require.NoError(t, err)
	reader, err := replay.NewReader(bytes.NewReader(transcript))
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, player.Play(reader, replay.NewJSONLines(&out)))
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var verdict map[string]any
		require.NoError(t, decoder.Decode(&verdict))
		said = append(said, verdict)
	}
	return said
}
