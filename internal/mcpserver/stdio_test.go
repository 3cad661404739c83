package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` +
		`"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	callTool    = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"late"}}`
)

// Every request that arrived before the end of the input must be answered. The end is an error if a
// line isn't a message or is too long.
func TestWhatWasAskedBeforeTheEndIsAnswered(t *testing.T) {
	for name, last := range map[string]string{
		"the end":    "",
		"no JSON":    "nonsense\n",
		"no message": `"ping"` + "\n",
		"too long":   strings.Repeat(" ", requestMaxBytes) + `{"jsonrpc":"2.0"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			const calls = 5
			server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			release := make(chan struct{})
			server.AddTool(&mcp.Tool{Name: "late", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					select {
					case <-release:
					case <-ctx.Done(): // the SDK has cancelled the request
						return nil, ctx.Err()
					}
					text := &mcp.TextContent{Text: "here"}
					return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil
				})
			lines := []string{initialize, initialized}
			for id := range calls {
				lines = append(lines, fmt.Sprintf(callTool, id+2))
			}
			in := io.MultiReader(strings.NewReader(strings.Join(lines, "\n")+"\n"), ending{release},
				strings.NewReader(last))
			var out bytes.Buffer
			err := server.Run(t.Context(), Stdio{In: in, Out: &out})
			if (last == "") != (err == nil) {
				t.Errorf("the server ends with %v", err)
			}
			if n := strings.Count(out.String(), `"here"`); n != calls {
				t.Errorf("%d of %d calls are answered: %s", n, calls, &out)
			}
		})
	}
}

// ending is read just before the end of an input, and lets the tools answer then.
type ending struct{ release chan struct{} }

func (e ending) Read([]byte) (int, error) {
	close(e.release)
	return 0, io.EOF
}
