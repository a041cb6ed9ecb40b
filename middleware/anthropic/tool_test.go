package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/middleware/anthropic"
	"github.com/loopguard-go/loopguard/policy"
)

// execute calls a guarded tool as a host may do itself.
func execute(t *testing.T, tool sdk.BetaTool, times int) (all []blocks, errs []error) {
	ctx := middleware.NewRun(t.Context())
	for range times {
		content, err := tool.Execute(ctx, json.RawMessage(`{}`))
		all, errs = append(all, content), append(errs, err)
	}
	return all, errs
}

func TestAGuardedToolIsTheSameTool(t *testing.T) {
	guard := newGuard(t, config())
	plain := says("build", "broken")
	guarded := anthropic.Tool(guard, plain)
	assert.Equal(t, plain.Name(), guarded.Name())
	assert.Equal(t, plain.Description(), guarded.Description())
	assert.Equal(t, plain.InputSchema(), guarded.InputSchema())
	assert.Same(t, plain, guarded.(interface{ Unwrap() sdk.BetaTool }).Unwrap())
	assert.Same(t, guarded, anthropic.Tool(newGuard(t, config()), guarded), "guarded once")
	decorated := &decorator{guarded}
	assert.Same(t, decorated, anthropic.Tools(guard, []sdk.BetaTool{decorated})[0], "also under a decorator")
}

type decorator struct{ sdk.BetaTool }

func (d *decorator) Unwrap() sdk.BetaTool { return d.BetaTool }

func TestWhatAToolReturns(t *testing.T) {
	all, errs := execute(t, anthropic.Tool(newGuard(t, config()), says("build", "broken")), 9)
	for i := range 5 {
		require.NoError(t, errs[i])
	}
	assert.Equal(t, text("broken"), all[2])
	require.Len(t, all[3], 2)
	assert.Equal(t, text("broken")[0], all[3][0])
	assert.Regexp(t, `^\[loopguard\] Warning: .* 3 times`, all[3][1].OfText.Text)
	assert.Equal(t, text("broken"), all[4])

	for i, action := range map[int]policy.Action{5: policy.Block, 7: policy.Block, 8: policy.Abort} {
		assert.Nil(t, all[i])
		loop, ok := errors.AsType[*middleware.LoopError](errs[i])
		require.True(t, ok)
		assert.Equal(t, action, loop.Action)
		assert.Equal(t, "build", loop.Tool)
	}
	assert.Regexp(t, `^\[loopguard\] Call refused: the tool was not run\.`, errs[5].Error())
	assert.ErrorIs(t, errs[5], middleware.ErrLoop)
}

func TestTheErrorOfAToolStaysWhatItIs(t *testing.T) {
	broken := errors.New("no disk")
	tool := newTool("build", func(context.Context, json.RawMessage) (blocks, error) { return nil, broken })
	_, errs := execute(t, anthropic.Tool(newGuard(t, config()), tool), 4)
	assert.Same(t, broken, errs[2])
	assert.ErrorIs(t, errs[3], broken)
	assert.Regexp(t, `^no disk\n\n\[loopguard\] Warning: `, errs[3].Error())
}

// A tool may return the same blocks again, with room behind them: they are its own.
func TestTheBlocksOfAToolAreNotChanged(t *testing.T) {
	same := append(make(blocks, 0, 4), text("broken")...)
	tool := newTool("build", func(context.Context, json.RawMessage) (blocks, error) { return same, nil })
	all, errs := execute(t, anthropic.Tool(newGuard(t, config()), tool), 5)
	require.NoError(t, errs[3])
	assert.Len(t, all[3], 2)
	assert.Zero(t, same[:2][1])
	assert.Equal(t, text("broken"), same)
}

// Images and all else that is no text are compared too.
func TestOtherPartsCount(t *testing.T) {
	image := func(data string) sdk.BetaToolResultBlockParamContentUnion {
		return sdk.BetaToolResultBlockParamContentUnion{OfImage: &sdk.BetaImageBlockParam{Source: sdk.BetaImageBlockParamSourceUnion{
			OfBase64: &sdk.BetaBase64ImageSourceParam{Data: data, MediaType: "image/png"},
		}}}
	}
	for name, test := range map[string]struct {
		data    func(i int) string
		refused bool
	}{
		"the same image": {func(int) string { return "AAAA" }, true},
		"new images":     {func(i int) string { return string(rune('A'+i)) + "AAA" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			shots := 0
			tool := newTool("screenshot", func(context.Context, json.RawMessage) (blocks, error) {
				shots++
				return append(text("a screen"), image(test.data(shots))), nil
			})
			_, errs := execute(t, anthropic.Tool(newGuard(t, config()), tool), 8)
			assert.Equal(t, test.refused, errs[7] != nil)
			assert.Equal(t, test.refused, shots == 5)
		})
	}
}

// A structured result is a JSON text here. What the rules ignore does not count, in whatever block it is.
func TestStructuredResults(t *testing.T) {
	var c = config()
	c.Tools = map[string]policy.ToolRule{"search": {IgnoreResult: []string{"requestId"}}}
	n := 0
	tool := newTool("search", func(context.Context, json.RawMessage) (blocks, error) {
		n++
		said := `{"hits":[9007199254740993],"requestId":"` + string(rune('a'+n)) + `"}`
		return blocks{{OfSearchResult: &sdk.BetaSearchResultBlockParam{Source: "x", Title: "y"}}, text(said)[0]}, nil
	})
	_, errs := execute(t, anthropic.Tool(newGuard(t, c), tool), 6)
	assert.ErrorIs(t, errs[5], middleware.ErrLoop)
	assert.Equal(t, 5, n)
}

func TestAPanicIsAFailureAndGoesOn(t *testing.T) {
	store := middleware.NewMemoryStore()
	ctx := middleware.NewRun(t.Context())
	crash := newTool("build", func(context.Context, json.RawMessage) (blocks, error) { panic("no disk") })
	guarded := anthropic.Tool(newGuard(t, config(), middleware.WithStore(store)), crash)
	assert.PanicsWithValue(t, "no disk", func() { _, _ = guarded.Execute(ctx, nil) })
	left := records(ctx, store)
	require.Len(t, left, 1)
	assert.True(t, left[0].Failure)
}

// A command that is killed because its caller gave up does not call it that.
func TestACancelledCallLeavesNothingBehind(t *testing.T) {
	store := middleware.NewMemoryStore()
	var found detections
	guard := newGuard(t, config(), middleware.WithStore(store), found.option())
	run := middleware.NewRun(t.Context())
	killed := anthropic.Tool(guard, newTool("exec", func(ctx context.Context, _ json.RawMessage) (blocks, error) {
		<-ctx.Done()
		return nil, errors.New("signal: killed")
	}))
	for range 5 {
		ctx, cancel := context.WithCancel(run)
		cancel()
		_, err := killed.Execute(ctx, nil)
		assert.EqualError(t, err, "signal: killed")
	}
	assert.Empty(t, found.words())

	// A deadline that has passed is a failure like any other.
	for range 4 {
		ctx, cancel := context.WithTimeout(run, 0)
		_, err := killed.Execute(ctx, nil)
		assert.ErrorContains(t, err, "signal: killed")
		cancel()
	}
	assert.Equal(t, []string{"warn generic_repeat exec "}, found.words())
}

func TestACallWithoutRun(t *testing.T) {
	_, err := anthropic.Tool(newGuard(t, config()), says("build", "broken")).Execute(t.Context(), nil)
	assert.ErrorIs(t, err, middleware.ErrNoRun)
}

// What a guarded tool says of a refusal is no news to the guard of the one that called it.
func TestARefusalInsideAToolIsOneFailure(t *testing.T) {
	guard := newGuard(t, config())
	inner := anthropic.Tool(guard, says("build", "broken"))
	below := middleware.NewRun(t.Context())
	for range 5 {
		_, err := inner.Execute(below, nil)
		require.NoError(t, err)
	}
	outer := anthropic.Tool(guard, newTool("delegate", func(context.Context, json.RawMessage) (blocks, error) {
		return inner.Execute(below, nil) // whose count goes up
	}))
	ctx := middleware.NewRun(t.Context())
	var last error
	for range 4 {
		_, last = outer.Execute(ctx, nil)
	}
	assert.Contains(t, last.Error(), "[loopguard] Warning: ")
}
