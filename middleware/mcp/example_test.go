package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopguard-go/loopguard/middleware"
	guardmcp "github.com/loopguard-go/loopguard/middleware/mcp"
	"github.com/loopguard-go/loopguard/policy"
)

// A server with a deployment that can only fail, and a client whose agent tries it again and again.
func ExampleMiddleware() {
	ctx := context.Background()
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	loops, err := guardmcp.Middleware(guard)
	if err != nil {
		panic(err)
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "deployments"}, nil)
	server.AddReceivingMiddleware(loops)

	deployments := 0
	sdk.AddTool(server, &sdk.Tool{Name: "deploy"},
		func(context.Context, *sdk.CallToolRequest, any) (*sdk.CallToolResult, any, error) {
			deployments++
			return nil, nil, errors.New("permission denied: no token")
		})
	session, err := connectTo(ctx, server, sdk.NewClient(&sdk.Implementation{Name: "agent"}, nil))
	if err != nil {
		panic(err)
	}
	defer session.Close()

	var said string
	for !strings.Contains(said, "[loopguard] Call refused") { // as a model would that reads its results
		result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "deploy"})
		if err != nil {
			panic(err)
		}
		said = result.Content[0].(*sdk.TextContent).Text
	}
	fmt.Println(said[:len("[loopguard] Call refused")])
	fmt.Println("deployments:", deployments)
	// Output:
	// [loopguard] Call refused
	// deployments: 10
}

// A host of agents guards its clients, and opens a run where an agent starts, however many servers it talks to.
func ExampleMiddleware_client() {
	guard, err := middleware.New(policy.Tight())
	if err != nil {
		panic(err)
	}
	loops, err := guardmcp.Middleware(guard)
	if err != nil {
		panic(err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "host"}, nil)
	client.AddSendingMiddleware(loops)

	server := sdk.NewServer(&sdk.Implementation{Name: "jobs"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "status"},
		func(context.Context, *sdk.CallToolRequest, any) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "queued"}}}, nil, nil
		})
	session, err := connectTo(context.Background(), server, client)
	if err != nil {
		panic(err)
	}
	defer session.Close()

	ctx := middleware.NewRun(context.Background())
	defer func() { _ = guard.Forget(ctx) }()
	for call := 1; ; call++ {
		_, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "status"})
		if loop := (*middleware.LoopError)(nil); errors.As(err, &loop) {
			fmt.Println("call", call, "was the end:", loop.Detector)
			return
		}
	}
	// Output:
	// call 16 was the end: global_circuit_breaker
}

// connectTo connects a client to a server of the same program.
func connectTo(ctx context.Context, server *sdk.Server, client *sdk.Client) (*sdk.ClientSession, error) {
	toServer, toClient := sdk.NewInMemoryTransports()
	if _, err := server.Connect(ctx, toServer, nil); err != nil {
		return nil, err
	}
	return client.Connect(ctx, toClient, nil)
}
