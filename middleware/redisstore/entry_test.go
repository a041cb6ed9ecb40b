package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

func aState(t testing.TB, calls int) *policy.State {
	t.Helper()
	p, _, err := policy.New(policy.Default())
	require.NoError(t, err)
	s := new(policy.State)
	for i := range calls {
		_, ticket := p.Begin(s, policy.Call{ID: uint64(i), Tool: "read", Name: "Read", Signature: canonical.Digest{1}})
		p.End(s, ticket, canonical.Outcome{Digest: canonical.Digest{2}})
	}
	return s
}

// entries are entries of one run, each after the one before.
func entries(t testing.TB, n int) (entries []string) {
	t.Helper()
	past := ""
	for i := range n {
		b, err := newEntry(past, aState(t, i))
		require.NoError(t, err)
		entries = append(entries, string(b))
		past, err = readEntry(string(b), new(policy.State))
		require.NoError(t, err)
	}
	return entries
}

func TestEntryIsReadAsItWasWritten(t *testing.T) {
	seen := map[string]bool{"": true}
	for i, entry := range entries(t, maxPast+10) {
		var s policy.State
		revisions, err := readEntry(entry, &s)
		require.NoError(t, err)
		assert.Len(t, s.Last(100), min(i, policy.DefaultHistorySize))
		assert.Len(t, revisions, min(i+1, maxPast+1)*revisionSize, "so many are kept")
		assert.Equal(t, revisions[:revisionSize], revisionOf(entry))
		assert.False(t, seen[mark(entry)], "every entry has a mark of its own")
		seen[mark(entry)] = true
	}
}

func TestNoEntryIsANewRun(t *testing.T) {
	var s policy.State
	revisions, err := readEntry("", &s)
	require.NoError(t, err)
	assert.Empty(t, revisions)
	assert.True(t, s.IsZero())
}

// TestDamagedEntryIsNotRead, wherever the damage is.
func TestDamagedEntryIsNotRead(t *testing.T) {
	good := entries(t, 5)[4]
	for i := range good {
		damaged := []byte(good)
		damaged[i] ^= 0x10
		_, err := readEntry(string(damaged), new(policy.State))
		require.Error(t, err, "byte %d", i)
		if i != len(entryMagic) {
			require.NotErrorIs(t, err, policy.ErrNewerState, "byte %d", i)
		}
		if i > 0 {
			_, err = readEntry(good[:i], new(policy.State))
			require.Error(t, err, "the first %d bytes", i)
		}
	}
	for value, want := range map[string]string{
		"lgr\x01":                   "4 bytes are too few for an entry",
		"the value of someone else": `the entry does not begin with "lgr"`,
		"lgr\x02 whatever this may be, it is of the future": "entry of form 2, this version reads up to 1: written by a newer version",
		withChecksum("lgr\x00" + good[4:]):                  "entry of form 0, which never was one",
		good + "x":                                          "the checksum of the entry is wrong",
	} {
		_, err := readEntry(value, new(policy.State))
		assert.ErrorContains(t, err, want)
	}
}

// TestEntryWithAStateOfANewerVersion is whole, and not for us.
func TestEntryWithAStateOfANewerVersion(t *testing.T) {
	entry := []byte(entries(t, 1)[0])
	at := strings.Index(string(entry), "lgs") + len("lgs")
	for version := range 2 { // that of the form, and that of the identity rules
		newer := append([]byte(nil), entry[:len(entry)-checksumSize]...)
		newer[at+version]++
		_, err := readEntry(string(sealed(newer)), new(policy.State))
		assert.ErrorIs(t, err, policy.ErrNewerState)
	}
}

// TestWasKept: what can be found out about a write without an answer.
func TestWasKept(t *testing.T) {
	chain := entries(t, maxPast+5)
	lost, err := newEntry("", aState(t, 1)) // a write that was never done
	require.NoError(t, err)
	last := len(chain) - 1
	for _, test := range []struct {
		name               string
		now, before, after string
		want               bool
		err                error
	}{
		{"nobody came after", chain[3], chain[2], chain[3], true, nil},
		{"others came after", chain[9], chain[2], chain[3], true, nil},
		{"as many others as are remembered", chain[3+maxPast], chain[2], chain[3], true, nil},
		{"too many others", chain[4+maxPast], chain[2], chain[3], false, errUnknownFate},
		{"the first of a run", chain[0], "", chain[0], true, nil},
		{"the first, and others came after", chain[5], "", chain[0], true, nil},
		{"not done, and others came before", chain[9], chain[2], string(lost), false, nil},
		{"not done, and as many others as are remembered", chain[2+maxPast], chain[2], string(lost), false, nil},
		{"not done, and too many others", chain[3+maxPast], chain[2], string(lost), false, errUnknownFate},
		{"not done, in a new run", chain[maxPast-1], "", string(lost), false, nil},
		{"not done, and the run began again", chain[0], chain[last], string(lost), false, nil},
		{"in the place of what could not be read", chain[0], "garbled", chain[0], true, nil},
		{"forgotten since", "", chain[2], chain[3], false, nil},
		{"overwritten by somebody", "garbled", chain[2], chain[3], false, nil},
	} {
		kept, err := wasKept(test.now, test.before, []byte(test.after))
		assert.Equal(t, test.want, kept, test.name)
		assert.Equal(t, test.err, err, test.name)
	}
}

// The script has the size of a mark in it.
func TestScriptKnowsTheSizeOfAMark(t *testing.T) {
	assert.Contains(t, swapSource, fmt.Sprintf("GETRANGE', KEYS[1], 0, %d)", markSize-1))
}

// Whatever is under a key: no panic, and what is read can be written.
func FuzzReadEntry(f *testing.F) {
	for _, entry := range entries(f, 4) {
		f.Add(entry)
	}
	f.Add("")
	f.Add(strings.Repeat("x", 100))
	f.Fuzz(func(t *testing.T, entry string) {
		for _, e := range []string{entry, withChecksum(entry)} {
			var s policy.State
			past, err := readEntry(e, &s)
			mark(e)
			_, _ = wasKept(e, entry, []byte(e))
			if err != nil {
				require.True(t, s.IsZero())
				continue
			}
			next, err := newEntry(past, &s)
			require.NoError(t, err)
			revisions, err := readEntry(string(next), new(policy.State))
			require.NoError(t, err)
			require.Equal(t, past[:min(len(past), maxPast*revisionSize)], revisions[revisionSize:])
		}
	})
}

// withChecksum gives an entry the checksum that it should have.
func withChecksum(entry string) string {
	if len(entry) < checksumSize {
		return entry
	}
	return string(sealed([]byte(entry[:len(entry)-checksumSize])))
}
