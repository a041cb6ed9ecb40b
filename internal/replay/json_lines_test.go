package replay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

// playJSON plays a transcript and returns the lines that it gives.
func playJSON(t *testing.T, config policy.Config, transcript string) []string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, play(t, config, transcript, replay.NewJSONLines(&out)))
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

func TestJSONLines(t *testing.T) {
	config := document(t, `{enabled: true, warningThreshold: 1, criticalThreshold: 2}`)
	transcript := lines(3, `{"run":"r<1>","tool":" Read\u2028\u0007","result":"é"}`)
	judged := judge(t, config, transcript)
	assert.Equal(t, []string{
		`{"line":1,"run":"r<1>","tool":" Read\u2028\u0007","action":"allow"}`,
		`{"line":2,"run":"r<1>","tool":" Read\u2028\u0007","action":"warn","detector":"generic_repeat","count":1,"threshold":1,` +
			`"enforced":true,"reason":"` + judged[1].Reason + `"}`,
		`{"line":3,"run":"r<1>","tool":" Read\u2028\u0007","action":"block","detector":"generic_repeat","count":2,"threshold":2,` +
			`"enforced":true,"reason":"` + judged[2].Reason + `"}`,
	}, playJSON(t, config, transcript))
	assert.NotEmpty(t, judged[1].Reason)
}

func TestJSONLinesOfAnAlternationNameBothTools(t *testing.T) {
	config := document(t, `{enabled: true, mode: "observe", warningThreshold: 3}`)
	transcript := lines(2, `{"tool":"Left","result":1}`, `{"tool":"","result":2}`)
	assert.Equal(t, []string{
		`{"line":1,"run":"","tool":"Left","action":"allow"}`,
		`{"line":2,"run":"","tool":"","action":"allow"}`,
		`{"line":3,"run":"","tool":"Left","action":"warn","detector":"ping_pong","count":3,"threshold":3,"enforced":false,` +
			`"reason":"` + judge(t, config, transcript)[2].Reason + `","pairedTool":""}`,
		`{"line":4,"run":"","tool":"","action":"allow"}`,
	}, playJSON(t, config, transcript))
}
