package policy_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/loopguard-go/loopguard/canonical"
	"github.com/loopguard-go/loopguard/policy"
)

func marshal(t require.TestingT, s *policy.State) []byte {
	data, err := s.MarshalBinary()
	require.NoError(t, err)
	return data
}

// aState is a state in which there is everything: open, done and refused calls, failures, repeats, polls, warnings, two
// spellings of a name, a window and a stop.
func aState(t require.TestingT) *policy.State {
	c := policy.Tight()
	c.HistorySize = 50
	p := newPlayer(newPolicy(t, c))
	play := func(n int, o op) {
		for range n {
			p.play(o)
		}
	}
	play(1, op{kind: opBegin, call: read2})
	for range 6 {
		play(1, do(read1, same))
		play(1, do(write1, same))
	}
	play(2, do(build1, broken))
	play(1, do(read1b, changed))
	play(6, do(poll1, same))
	play(6, do(ghost2, unknown))
	play(1, op{kind: opCompact})
	play(1, do(read3, same))
	play(20, do(build2, same))
	_, stopped := p.state.Stopped()
	require.True(t, stopped)
	return p.state
}

// Whatever happened to a run, its binary form says all of it, and says it in one way.
func TestBinaryFormIsTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, _ := drawConfig(t)
		p := newPlayer(newPolicy(t, c))
		for i, o := range drawScript(t) {
			p.play(o)
			data := marshal(t, p.state)

			var read policy.State
			require.NoError(t, read.UnmarshalBinary(data), "step %d, %s", i, o)

			require.Equal(t, data, marshal(t, &read), "step %d, %s", i, o)
			requireSameList(t, p.state.Last(1000), read.Last(1000), "step %d, %s", i, o)
			wantStop, wantStopped := p.state.Stopped()
			stop, stopped := read.Stopped()
			requireSame(t, wantStopped, stopped, "step %d, %s", i, o)
			requireSame(t, wantStop, stop, "step %d, %s", i, o)
			requireSame(t, p.state.IsZero(), read.IsZero(), "step %d, %s", i, o)
			for _, open := range p.open {
				requireSame(t, p.state.Awaits(open.ticket), read.Awaits(open.ticket), "step %d, %s", i, o)
			}
		}
	})
}

// The state of before is gone as a whole, whatever was in it.
func TestUnmarshalReplacesTheState(t *testing.T) {
	s := aState(t)
	require.NoError(t, s.UnmarshalBinary(marshal(t, new(policy.State))))
	assert.True(t, s.IsZero())
	assert.Equal(t, marshal(t, new(policy.State)), marshal(t, s))
}

// A state keeps nothing of the bytes that it was read from: they may be the buffer of a connection.
func TestUnmarshalKeepsNoneOfTheBytes(t *testing.T) {
	data := marshal(t, aState(t))
	want := append([]byte(nil), data...)
	var s policy.State
	require.NoError(t, s.UnmarshalBinary(data))
	for i := range data {
		data[i] = 0xaa
	}
	assert.Equal(t, want, marshal(t, &s))
}

// A run of the default size is to fit in a few KiB wherever it is kept: here 30 calls with outcomes, of six tools.
func TestSizeOfTheBinaryForm(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	for i := range 100 {
		tool := fmt.Sprint("tool_number_", i%6)
		p.play(do(modelCall{tool: tool, name: tool, signature: fmt.Sprint(i)}, modelOutcome{digest: fmt.Sprint(i)}))
	}
	require.Len(t, p.state.Last(1000), policy.DefaultHistorySize)
	size := len(marshal(t, p.state))
	t.Logf("%d bytes", size)
	assert.LessOrEqual(t, size, 3<<9)

	// Also if a model makes up a name of the greatest length for each call.
	p = newPlayer(newPolicy(t, policy.Default()))
	for i := range 100 {
		tool := fmt.Sprintf("%0128d", i)
		p.play(do(modelCall{tool: tool, name: strings.ToUpper("x" + tool[1:]), signature: fmt.Sprint(i)}, same))
	}
	size = len(marshal(t, p.state))
	t.Logf("%d bytes with names made up", size)
	assert.LessOrEqual(t, size, 10<<10)
}

// Names are bounded where they come in, so that no state holds one that could not be read again.
func TestNamesInAStateAreBounded(t *testing.T) {
	p := newPlayer(newPolicy(t, policy.Default()))
	long := strings.Repeat("long", 100)
	p.play(do(modelCall{tool: long, name: long, signature: "1"}, same))
	p.store()
	assert.Equal(t, canonical.Bound(long), p.state.Last(1)[0].Tool)
}

// golden is the binary form of a state, by which readers of other versions go. It may only change with stateVersion, and
// then what is here must still be read.
const golden = "" +
	"6c6773010103070472656164052052454144057772697465056275696c64054275696c640770726f636573730567686f7374030116676c6f" +
	"62616c5f636972637569745f627265616b65723e3c00045768792e696c747c9f6015170001ac9d2f4763a020fbdf830f4644d28154f52679" +
	"5c95399cea27c055c842c3d6ab08010001157c4a7fb979379ef1d619057fb8bba3d73a04beef852a400967115f2813a3541eaef77de9d9d5" +
	"770102022af894fe72f36e3c5aa7c0489bf8b6b3679697b3ece6d4f90967115f2813a3541eaef77de9d9d5776100013f74df7d2c6da6daf1" +
	"d619057fb8bba3d73a04beef852a400967115f2813a3541eaef77de9d9d57704015aa7c0489bf8b6b3679697b3ece6d4f902020254f029fd" +
	"e5e6dd785aa7c0489bf8b6b3679697b3ece6d4f9040903047ee8befb58da4cb5ac9d2f4763a020fbdf830f4644d28154f526795c95399cea" +
	"27c055c842c3d6ab0903049364097b1254845363f50d5733e7d20f54b2e5ef5eb00aebf526795c95399cea27c055c842c3d6ab040505a8e0" +
	"53facbcdbbf1154a2c66c2b19db2aea70c66c6bc9305190606bd5c9e798547f38f50991e404c8d42ce4defbc9949ebd615b23a6a8439c0dd" +
	"e5515893e7c90c1e32"

func TestBinaryFormStaysWhatItIs(t *testing.T) {
	c := policy.Config{
		Enabled: new(true), HistorySize: 8, WarningThreshold: 3, CriticalThreshold: 4, GlobalCircuitBreakerThreshold: 6,
	}
	p := newPlayer(newPolicy(t, c))
	for _, o := range []op{
		do(read1b, same), do(write1, same), do(read1b, same), do(write1, same), // an alternation, warned of and refused
		{kind: opCompact}, do(build1, broken), do(build2, broken), {kind: opBegin, call: poll1}, do(ghost1, unknown),
	} {
		p.play(o)
	}
	p.policy.Stop(p.state, policy.Verdict{
		Action: policy.Abort, Detector: policy.GlobalCircuitBreaker, Count: 31, Threshold: 30, Reason: "Why.", Enforced: true,
	})
	assert.Equal(t, golden, hex.EncodeToString(marshal(t, p.state)))
}

func TestUnmarshalSaysWhatIsWrong(t *testing.T) {
	newer := fmt.Sprintf("form 2 with identity rules 1, this version reads up to 1 with %d", canonical.IdentityVersion)
	good := marshal(t, aState(t))
	patch := func(at int, bytes ...byte) []byte {
		patched := append([]byte(nil), good...)
		copy(patched[at:], bytes)
		return patched
	}
	// form makes the binary form of a state by hand, with the name "x" and one record.
	form := func(record ...byte) []byte {
		return append([]byte("lgs\x01\x01\x00\x01\x01x\x01"), record...)
	}
	id, digest := strings.Repeat("i", 8), strings.Repeat("d", 16)
	record := func(bits byte, rest string) []byte {
		return form(append([]byte{bits}, "\x00\x00"+id+digest+rest...)...)
	}
	for _, test := range []struct {
		data []byte
		want string
	}{
		{nil, "magic word takes 3 bytes and there are 0"},
		{[]byte("lg"), "magic word takes 3 bytes and there are 2"},
		{[]byte(`{"records":[]}`), `magic word is not "lgs"`},
		{[]byte("lgs"), "version takes 1 bytes and there are 0"},
		{patch(3, 0), "version 0 never was one"},
		{patch(3, 2), newer},
		{patch(4, canonical.IdentityVersion+1), "form 1 with identity rules 2, this version reads up to 1 with 1"},
		{patch(5, 0x83), "what is there 0x83 has bits that mean nothing"},
		{[]byte("lgs\x01\x01\x00\xff\xff\xff\xff\x0f"), "number of names is 4294967295, must not be above 5"},
		{[]byte("lgs\x01\x01\x00\x80"), "number of names is no number"},
		{[]byte("lgs\x01\x01\x00\x01\x09x"), "number of bytes of name is 9, must not be above 2"},
		{append([]byte("lgs\x01\x01\x00\x01\x81\x01"), strings.Repeat("x", 129)...), "name has 129 bytes, too many for a name"},
		{[]byte("lgs\x01\x01\x00\x00\x05"), "number of records is 5, must not be above 0"},
		{[]byte("lgs\x01\x01\x00\x00\x00more"), "end is followed by 4 bytes"},
		{[]byte("lgs\x01\x01\x01\x00\x01\x01\x00\x02\x02\x00\x00\x00"), "action of the stop warn stops nothing"},
		{[]byte("lgs\x01\x01\x01\x00\x03\x02\x00\x02\x02\x00\x00\x00"), "enforcement of the stop is 2, must be 0 or 1"},
		{[]byte("lgs\x01\x01\x01\x00\x03\x01\x00\x80"), "count of the stop is no number"},
		{[]byte("lgs\x01\x01\x02\x00" + strings.Repeat("\x00", 11)), "window is there and empty"},
		{[]byte("lgs\x01\x01\x02\x00" + id + "\x01\xff\xff\xff\xff\x0f"), "size of the window is 4294967295, must not be above 2147483647"},
		{record(0x80, ""), "record 0: bits 0x80 has some that mean nothing"},
		{record(3, ""), "record 0: bits 0x3 has no status"},
		{record(0x08, ""), "record 0: bits 0x8 tell of an outcome, and the call is open"},
		{record(0x22, "\x05"), "record 0: bits 0x22 tell of an outcome, and the call is refused"},
		{record(0x42, "\x05"), "record 0: bits 0x42 tell of a warning, and the call is refused"},
		{record(1, "short"), "record 0: outcome takes 16 bytes and there are 5"},
		{record(2, ""), "record 0: who refused takes 1 bytes and there are 0"},
		{record(2, "\x00"), "record 0: who refused is 0, which is no such detector"},
		{record(2, "\x08"), "record 0: who refused is 8, which is no such detector"},
		{record(2, "\x09"), "record 0: who refused is 9, which is no such detector"},
		{record(0x40, "\x01\x01"), "record 0: who warned is 1, which is no such detector"},
		{record(0x40, "\x02\x01"), "record 0: who warned is 2, which is no such detector"},
		{record(0x40, "\x05\x00"), "record 0: multiple of the warning is 0"},
		{record(0x40, "\x05\xff\xff\xff\xff\x0f"), "record 0: multiple of the warning is 4294967295, must not be above 2147483647"},
		{record(0x40, "\x04\x01short"), "record 0: other side of the warning takes 16 bytes and there are 5"},
		{form([]byte("\x00\x01\x00" + id + digest)...), "record 0: tool is number 1 of 1 names"},
		{form([]byte("\x00\x00\x02" + id + digest)...), "record 0: name is number 2 of 1 names"},
		{good[:len(good)-1], "takes"},
	} {
		s := aState(t)
		err := s.UnmarshalBinary(test.data)
		if assert.ErrorContains(t, err, "policy: state: ", "%q", test.data) {
			assert.Contains(t, err.Error(), test.want, "%q", test.data)
		}
		isNewer := strings.Contains(test.want, "reads up to")
		assert.Equal(t, isNewer, errors.Is(err, policy.ErrNewerState), test.want)
		assert.Equal(t, good, marshal(t, s), "it is as it was")
	}
	for n := range len(good) {
		require.Error(t, new(policy.State).UnmarshalBinary(good[:n]), "the first %d bytes", n)
	}
}

// With other identity rules no call is what it was. What was decided stands.
func TestStateWithOlderIdentityRules(t *testing.T) {
	s := aState(t)
	stop, _ := s.Stopped()
	data := marshal(t, s)
	data[4] = canonical.IdentityVersion - 1
	require.NoError(t, s.UnmarshalBinary(data))
	assert.Empty(t, s.Last(1000))
	kept, stopped := s.Stopped()
	assert.True(t, stopped)
	assert.Equal(t, stop, kept)

	p := newPlayer(newPolicy(t, policy.Default()))
	p.play(op{kind: opCompact})
	p.play(do(read1, same))
	data = marshal(t, p.state)
	data[4] = canonical.IdentityVersion - 1
	require.NoError(t, p.state.UnmarshalBinary(data))
	assert.True(t, p.state.IsZero())
}

// Whatever the bytes are: no panic, no more memory than they are worth, and a state that was read is one that a run can go
// on with.
func FuzzUnmarshalState(f *testing.F) {
	f.Add(marshal(f, new(policy.State)))
	f.Add(marshal(f, aState(f)))
	p := newPlayer(newPolicy(f, policy.Tight()))
	for i := range 8 {
		p.play(do([]modelCall{read1, write1}[i%2], same))
		f.Add(marshal(f, p.state))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s policy.State
		if err := s.UnmarshalBinary(data); err != nil {
			require.True(t, s.IsZero(), "what could not be read changes nothing")
			return
		}
		written := marshal(t, &s)
		require.LessOrEqual(t, len(written), len(data), "written again it takes no more")
		var again policy.State
		require.NoError(t, again.UnmarshalBinary(written))
		require.Equal(t, written, marshal(t, &again))

		c := policy.Tight()
		c.HistorySize = max(1, len(data)) // so that nothing is trimmed
		p := newPlayer(newPolicy(t, c))
		p.state = &s
		for range 3 {
			p.play(do(read1, same))
			p.play(do(write1, broken))
			p.play(op{kind: opBegin, call: ghost1})
		}
		marshal(t, p.state)
	})
}
