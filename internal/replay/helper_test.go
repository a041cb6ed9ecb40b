package replay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/internal/replay"
	"github.com/loopguard-go/loopguard/policy"
)

// judgements is a writer that keeps what it gets.
type judgements struct{ all []replay.Judgement }

func (j *judgements) Write(judged replay.Judgement) error {
	j.all = append(j.all, judged)
	return nil
}

func (*judgements) End(bool) error { return nil }

// play plays a transcript to a writer. The error is that of the transcript.
func play(t *testing.T, config policy.Config, transcript string, out replay.Writer) error {
	t.Helper()
	player, err := replay.NewPlayer(config)
	require.NoError(t, err)
	reader, err := replay.NewReader(strings.NewReader(transcript))
	if err == nil {
		err = player.Play(reader, out)
	}
	require.NoError(t, out.End(err == nil))
	return err
}

// judge plays a transcript that is right.
func judge(t *testing.T, config policy.Config, transcript string) []replay.Judgement {
	t.Helper()
	var got judgements
	require.NoError(t, play(t, config, transcript, &got))
	return got.all
}

// document reads a configuration from JSON5.
func document(t *testing.T, block string) policy.Config {
	t.Helper()
	config, err := policy.ParseConfig(strings.NewReader("{tools: {loopDetection: "+block+"}}"), "")
	require.NoError(t, err)
	return config
}

// lines repeats a few lines of a transcript.
func lines(times int, text ...string) string {
	return strings.Repeat(strings.Join(text, "\n")+"\n", times)
}
