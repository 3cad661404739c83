package mcpserver

import (
	"bufio"
	"bytes"
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
	// askedAtOnce is how many requests are being answered. Further ones are left in the pipe, where
	// a client that writes more than it reads comes to a halt.
	askedAtOnce = 16
)

// Stdio is the protocol's transport of standard input and output, a message a line, for clients
// that are not to be trusted with memory. A line that is too long or no message is answered with
// an error, and the next is read.
type Stdio struct {
	In  io.Reader
	Out io.Writer
}

// Connect implements [mcp.Transport]. The connection ends with ctx, whoever is not reading.
func (s Stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	c := &stdioConn{
		lines:   make(chan line),
		answers: make(chan outgoing),
		places:  make(chan struct{}, askedAtOnce),
		asked:   make(map[jsonrpc.ID]bool),
		closed:  make(chan struct{}),
	}
	context.AfterFunc(ctx, func() { _ = c.Close() }) // it cannot fail
	go c.readLines(bufio.NewReader(s.In))
	go c.writeLines(s.Out)
	return c, nil
}

// stdioConn is a connection. Two goroutines have its pipes, because reading and writing them
// cannot be interrupted; they end with their pipe, or with the program.
type stdioConn struct {
	lines   chan line
	answers chan outgoing
	close   sync.Once
	closed  chan struct{}
	places  chan struct{} // one is taken by each request that is not answered

	mu    sync.Mutex
	asked map[jsonrpc.ID]bool // requests that have a place, or wait for it
}

// outgoing is a line of the output.
type outgoing struct {
	text    []byte
	written chan<- error
}

// line is one of the input, or why there is none.
type line struct {
	text []byte
	err  error
}

var errLineTooLong = fmt.Errorf("a message has more than %d bytes, and is not read: ask for less at once",
	requestMaxBytes)

// SessionID implements [mcp.Connection]: there is one session.
func (c *stdioConn) SessionID() string { return "" }

// Close implements [mcp.Connection].
func (c *stdioConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

// Read implements [mcp.Connection].
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var next line
		select {
		case next = <-c.lines:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if next.err != nil && !errors.Is(next.err, errLineTooLong) {
			return nil, next.err
		}
		message, err := next.message()
		if err == nil {
			err = c.admit(message)
		}
		if err == nil || errors.Is(err, io.EOF) {
			return message, err
		}
		if err := c.refuse(err); err != nil {
			return nil, err
		}
	}
}

func (l line) message() (jsonrpc.Message, error) {
	if l.err != nil {
		return nil, l.err
	}
	message, err := jsonrpc.DecodeMessage(l.text)
	if err != nil {
		return nil, fmt.Errorf("a line is no message of JSON-RPC, one a line, and no list of them: %w", err)
	}
	return message, nil
}

// admit waits until a request may be answered beside those that are. One with the id of another
// would get no answer from the SDK.
func (c *stdioConn) admit(message jsonrpc.Message) error {
	request, is := message.(*jsonrpc.Request)
	if !is || !request.IsCall() {
		return nil
	}
	c.mu.Lock()
	twice := c.asked[request.ID]
	c.asked[request.ID] = true
	c.mu.Unlock()
	if twice {
		return fmt.Errorf("a request with the id %v is being answered: give each an id of its own",
			request.ID.Raw())
	}
	select {
	case c.places <- struct{}{}:
		return nil
	case <-c.closed:
		return io.EOF
	}
}

// answered gives the place of a request to another.
func (c *stdioConn) answered(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[id] {
		delete(c.asked, id)
		<-c.places
	}
}

// Write implements [mcp.Connection].
func (c *stdioConn) Write(_ context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if err := c.send(text); err != nil {
		return err
	}
	if response, is := message.(*jsonrpc.Response); is {
		c.answered(response.ID)
	}
	return nil
}

// refuse answers a line of which no request is known.
func (c *stdioConn) refuse(why error) error {
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0",
		"id":      nil,
		"error":   jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: why.Error()},
	})
	if err != nil {
		return err
	}
	return c.send(text)
}

func (c *stdioConn) send(text []byte) error {
	written := make(chan error, 1)
	select {
	case c.answers <- outgoing{append(text, '\n'), written}:
	case <-c.closed:
		return io.ErrClosedPipe
	}
	select {
	case err := <-written:
		return err
	case <-c.closed:
		return io.ErrClosedPipe
	}
}

func (c *stdioConn) writeLines(out io.Writer) {
	for {
		select {
		case next := <-c.answers:
			_, err := out.Write(next.text)
			next.written <- err
		case <-c.closed:
			return
		}
	}
}

func (c *stdioConn) readLines(in *bufio.Reader) {
	for {
		next := readLine(in)
		if next.err == nil && len(bytes.TrimSpace(next.text)) == 0 {
			continue
		}
		select {
		case c.lines <- next:
		case <-c.closed:
			return
		}
		if next.err != nil && !errors.Is(next.err, errLineTooLong) {
			return
		}
	}
}

// readLine reads a line. Of one that is too long it keeps nothing.
func readLine(in *bufio.Reader) (l line) {
	for {
		part, err := in.ReadSlice('\n')
		if l.err == nil && len(l.text)+len(part) > requestMaxBytes {
			l = line{err: errLineTooLong}
		}
		if l.err == nil {
			l.text = append(l.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && len(l.text) == 0 && l.err == nil:
			return line{err: err}
		default: // what comes before the end of the input is a line
			return l
		}
	}
}
