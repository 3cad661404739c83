package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// requestMaxBytes bounds a message: the largest body of a webhook, with each byte escaped, is
	// less than half of it.
	requestMaxBytes = 1 << 20
	// askedAtOnce is how many requests are in flight. A further one is refused. If the client reads
	// no answers, the refusal waits too, and the client's next requests stay in the pipe.
	askedAtOnce = 16
	// codeBusy is one of the errors that JSON-RPC leaves to servers.
	codeBusy = -32000
)

// Notifications that the SDK gets.
const (
	notedInitialized = "notifications/initialized"
	notedCancelled   = "notifications/cancelled"
)

// Stdio is the SDK's transport of standard input and output, with bounds for a client that sends
// more than it reads. A line that is too long, or no message, ends the connection with an error.
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
	c := &bounded{Connection: inner, asked: make(map[jsonrpc.ID]bool)}
	c.changed.L = &c.mu
	context.AfterFunc(ctx, func() { _ = c.Close() }) // it cannot fail
	return c, err
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// bounded is a connection with at most askedAtOnce requests in flight.
type bounded struct {
	mcp.Connection
	begun bool // the client has sent notedInitialized; used by Read alone

	mu      sync.Mutex
	changed sync.Cond           // the members below have changed
	asked   map[jsonrpc.ID]bool // requests in flight: whether they were cancelled
	writing int                 // answers that are being written
	closed  bool
}

var errBusy = fmt.Errorf("%d requests are being answered: ask again when one of them is, or cancel one",
	askedAtOnce)

// Close implements [mcp.Connection].
func (c *bounded) Close() error {
	c.mu.Lock()
	c.closed = true
	c.changed.Broadcast()
	c.mu.Unlock()
	return c.Connection.Close()
}

// Read implements [mcp.Connection].
func (c *bounded) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		message, err := c.Connection.Read(ctx)
		if err != nil {
			c.awaitAnswers()
			return nil, err
		}
		request, is := message.(*jsonrpc.Request)
		switch {
		case !is:
			return message, nil
		case !request.IsCall():
			if c.wanted(request) {
				return message, nil
			}
			continue
		}
		refused := c.admit(request.ID)
		if refused == nil {
			return message, nil
		}
		answer := &jsonrpc.Response{ID: request.ID, Error: refused}
		if err := c.Connection.Write(ctx, answer); err != nil {
			return nil, err
		}
	}
}

// awaitAnswers returns when no request is in flight: the SDK drops them when there is nothing more
// to read.
func (c *bounded) awaitAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.asked) > 0 && !c.closed {
		c.changed.Wait()
	}
}

// wanted reports whether the SDK gets a notification. It queues notifications without a bound, also
// while an answer cannot be written. So it gets each only once, and only those that change
// something.
func (c *bounded) wanted(request *jsonrpc.Request) bool {
	switch request.Method {
	case notedInitialized:
		first := !c.begun
		c.begun = true
		return first
	case notedCancelled:
		var params mcp.CancelledParams
		if json.Unmarshal(request.Params, &params) != nil {
			return false
		}
		id, err := jsonrpc.MakeID(params.RequestID)
		c.mu.Lock()
		defer c.mu.Unlock()
		before, asked := c.asked[id]
		if asked {
			c.asked[id] = true
		}
		return err == nil && asked && !before
	}
	return false
}

// admit says why a request is refused. A second request with the id of one in flight would get no
// answer from the SDK. Before it refuses one, it waits for answers that are being written: the
// client may have read them already.
func (c *bounded) admit(id jsonrpc.ID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, twice := c.asked[id]
		switch {
		case !twice && len(c.asked) < askedAtOnce:
			c.asked[id] = false
			return nil
		case c.writing > 0 && !c.closed:
			c.changed.Wait()
		case twice:
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(
				"a request with the id %v is being answered: give each an id of its own", id.Raw())}
		default:
			return &jsonrpc.Error{Code: codeBusy, Message: errBusy.Error()}
		}
	}
}

// Write implements [mcp.Connection].
func (c *bounded) Write(ctx context.Context, message jsonrpc.Message) error {
	response, is := message.(*jsonrpc.Response)
	if !is {
		return c.Connection.Write(ctx, message)
	}
	c.note(func() { c.writing++ })
	err := c.Connection.Write(ctx, coded(response))
	c.note(func() {
		c.writing--
		delete(c.asked, response.ID)
	})
	return err
}

func (c *bounded) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.changed.Broadcast()
}

// coded gives an error that the SDK answers without a code one of JSON-RPC: the SDK has refused the
// request, such as one before initialize.
func coded(r *jsonrpc.Response) *jsonrpc.Response {
	var wire *jsonrpc.Error
	if r.Error == nil || errors.As(r.Error, &wire) && wire.Code != 0 {
		return r
	}
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: r.Error.Error()}
	return &jsonrpc.Response{ID: r.ID, Error: wrong}
}
