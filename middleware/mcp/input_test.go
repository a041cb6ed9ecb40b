package mcp_test

import (
	"context"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/loopguard-go/loopguard/middleware"
	"github.com/loopguard-go/loopguard/policy"
)

// asking is a tool that asks the user before it does anything.
func asking(runs *int) sdk.ToolHandler {
	return func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if req.Params.InputResponses == nil {
			return &sdk.CallToolResult{
				InputRequests: sdk.InputRequestMap{"sure": &sdk.ElicitParams{Message: "Are you sure?"}},
				RequestState:  "asked",
			}, nil
		}
		*runs++
		return textResult("deleted nothing"), nil
	}
}

func agreeing(disabled bool) *sdk.Client {
	return newClient(&sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept"}, nil
		},
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: disabled},
	})
}

// TestQuestionsAreNoOutcomes: a call that asks for input goes on when it comes again with the input. It is one call then.
func TestQuestionsAreNoOutcomes(t *testing.T) {
	for name, w := range map[string]wire{"new protocol": inMemory, "old protocol": old} {
		t.Run(name, func(t *testing.T) {
			eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
				runs := 0
				store := &recorded{Store: middleware.NewMemoryStore()}
				server, client := newServer(nil), agreeing(false)
				addRaw(server, "delete", asking(&runs))
				install(server, client, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
				session := connect(t, w, server, client)
				all, err := repeat(session, 8, "delete", `{}`)
				require.NoError(t, err)
				assert.Equal(t, "...w.xxx", verdicts(all))
				assert.Equal(t, 5, runs)
				assert.Len(t, store.all, 8)
				_, err = call(t.Context(), session, "delete", `{}`, nil)
				require.ErrorContains(t, err, "run stopped")
			})
		})
	}
}

// TestHostThatAnswersItself gets the question as it is, without a note.
func TestHostThatAnswersItself(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		runs := 0
		store := &recorded{Store: middleware.NewMemoryStore()}
		server, client := newServer(nil), agreeing(true)
		addRaw(server, "delete", asking(&runs))
		install(server, client, newLoops(t, newGuard(t, config(), middleware.WithStore(store))))
		session := connect(t, inMemory, server, client)
		var all []string
		for range 6 {
			result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "delete"})
			require.NoError(t, err)
			if result.NeedsInput() {
				assert.Empty(t, result.Content)
				assert.Equal(t, "asked", result.RequestState)
				result, err = session.CallTool(t.Context(), &sdk.CallToolParams{
					Name: "delete", RequestState: result.RequestState,
					InputResponses: sdk.InputResponseMap{"sure": &sdk.ElicitResult{Action: "accept"}},
				})
				require.NoError(t, err)
			}
			all = append(all, read(result))
		}
		assert.Equal(t, "...w.x", verdicts(all))
		assert.Equal(t, 5, runs)
		require.Len(t, store.all, 6)
		assert.Equal(t, policy.Refused, store.all[5].Status)
	})
}

// TestQuestionsWithoutEnd: only a client sees those as what they are, a failure.
func TestQuestionsWithoutEnd(t *testing.T) {
	eachSide(t, func(t *testing.T, install func(*sdk.Server, *sdk.Client, sdk.Middleware)) {
		var seen detections
		store := &recorded{Store: middleware.NewMemoryStore()}
		server, client := newServer(nil), agreeing(false)
		addRaw(server, "delete", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"sure": &sdk.ElicitParams{Message: "Are you sure?"}}}, nil
		})
		install(server, client, newLoops(t, newGuard(t, config(), middleware.WithStore(store), seen.option())))
		session := connect(t, inMemory, server, client)
		var last string
		for range 6 {
			result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "delete"})
			if err != nil {
				require.ErrorContains(t, err, "exceeded maximum retries")
				last = ""
			} else {
				last = read(result)
			}
		}
		if len(store.all) == 0 {
			assert.Empty(t, seen.told())
			return
		}
		assert.Contains(t, last, refusal)
	})
}
