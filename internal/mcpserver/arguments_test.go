package mcpserver

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// If a tool doesn't have an argument, the error must name it and list the arguments that the tool
// has.
func TestWrongArgumentsAreRefusedInWords(t *testing.T) {
	server, err := New(Config{Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	here, there := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	assistant := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := assistant.Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	for _, c := range []struct{ tool, in, says string }{
		{
			"list_watches", `{"limt": 5}`, `list_watches has no argument "limt": its arguments are ` +
				`endpointId, walletAddress, limit and cursor`,
		},
		{"get_event", `{"ID": "evt_1"}`, `get_event has no argument "ID": its argument is id`},
		{"coverage", `{"from": 1}`, `coverage has no argument "from": it has no arguments`},
		{"get_event", `{}`, `get_event requires the argument id`},
		{"list_events", `{"limit": "5"}`, `limit: must be a whole number without quotes`},
		{"list_events", `{"limit": 1.5}`, `limit: must be a whole number without quotes`},
		{"list_events", `{"limit": 1e300}`, `limit: must be a whole number without quotes`},
		{"list_events", `{"memo": 5}`, `memo: must be a string in quotes`},
		{"get_event", `{"id": null}`, `id: must be a string in quotes`},
		{"list_events", `[5]`, `the arguments of list_events must be a JSON object`},
	} {
		result, err := session.CallTool(t.Context(),
			&mcp.CallToolParams{Name: c.tool, Arguments: json.RawMessage(c.in)})
		if err != nil {
			t.Fatalf("%s %s: %v", c.tool, c.in, err)
		}
		if said := result.Content[0].(*mcp.TextContent).Text; !result.IsError || said != c.says {
			t.Errorf("%s %s: it says %q, and not %q", c.tool, c.in, said, c.says)
		}
	}
}
