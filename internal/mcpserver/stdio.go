package mcpserver

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// requestMaxBytes bounds a message: the largest body of a webhook, with each byte escaped, is
// less than half of it.
const requestMaxBytes = 1 << 20

// Stdio is the SDK's transport of standard input and output. A line that is too long, or is not a
// message, ends the connection with an error.
type Stdio struct {
	In  io.Reader
	Out io.Writer
}

// Connect implements [mcp.Transport]. The connection ends with ctx.
func (s Stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	lines := &mcp.IOTransport{
		Reader:        io.NopCloser(s.In),
		Writer:        unclosed{s.Out},
		MaxLineLength: requestMaxBytes,
	}
	inner, err := lines.Connect(ctx)
	c := &answering{Connection: inner, asked: make(map[jsonrpc.ID]bool)}
	c.changed.L = &c.mu
	context.AfterFunc(ctx, func() { _ = c.Close() }) // it cannot fail
	return c, err
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// answering is a connection whose input ends once every request has its answer: the SDK cancels
// those that are in flight when there is nothing more to read.
type answering struct {
	mcp.Connection

	mu      sync.Mutex
	changed sync.Cond           // the members below have changed
	asked   map[jsonrpc.ID]bool // requests in flight
	closed  bool
}

// Close implements [mcp.Connection].
func (c *answering) Close() error {
	c.note(func() { c.closed = true })
	return c.Connection.Close()
}

// Read implements [mcp.Connection].
func (c *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if request, is := message.(*jsonrpc.Request); is && request.IsCall() {
		c.asked[request.ID] = true
	}
	for err != nil && len(c.asked) > 0 && !c.closed {
		c.changed.Wait()
	}
	return message, err
}

// Write implements [mcp.Connection].
func (c *answering) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if response, is := message.(*jsonrpc.Response); is {
		c.note(func() { delete(c.asked, response.ID) })
	}
	return err
}

func (c *answering) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.changed.Broadcast()
}
