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
	// askedAtOnce is how many requests are being answered. A further one is refused. Where answers
	// are not read it is left in the pipe, and the client comes to a halt.
	askedAtOnce = 16
	// codeBusy is of the errors that JSON-RPC leaves to servers.
	codeBusy = -32000
)

// askedToInitialize is what a client begins with.
const askedToInitialize = "initialize"

// Notifications that the SDK is given.
const (
	notedInitialized = "notifications/initialized"
	notedCancelled   = "notifications/cancelled"
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
		written: make(chan struct{}, 1),
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
	written chan struct{} // says that an answer was written since it was looked at last
	begun   bool          // that the client is initialized was noted; for Read alone

	mu      sync.Mutex
	asked   map[jsonrpc.ID]bool // requests that are not answered: whether they were cancelled
	writing int                 // of these, how many have an answer that is being written
	greeted bool                // whether the client has asked to initialize
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

var (
	errNoJSON    = errors.New("a line is not JSON: send a message of JSON-RPC as one line")
	errList      = errors.New("a line is a list: send each message of JSON-RPC as a line of its own")
	errNoMessage = errors.New(`a line is no message of JSON-RPC: that is an object with "jsonrpc": "2.0", ` +
		`a "method" that is a string, and for a request an "id" that is a string or a number`)
)

var errBusy = fmt.Errorf("%d requests are being answered: ask again when one of them is, or cancel one",
	askedAtOnce)

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
			c.answered(ctx)
			return nil, next.err
		}
		message, err := next.message()
		if err == nil && !c.wanted(message) {
			continue
		}
		if err == nil {
			err = c.admit(message)
		}
		if err == nil || errors.Is(err, io.EOF) {
			return message, err
		}
		if err := c.refuse(message, err); err != nil {
			return nil, err
		}
	}
}

// answered returns when every request that was read is answered, or nobody waits for that any more:
// the SDK drops those that are at work when there is nothing more to read.
func (c *stdioConn) answered(ctx context.Context) {
	for c.owes() {
		select {
		case <-c.written:
		case <-c.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// owes reports whether a request has no answer yet.
func (c *stdioConn) owes() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked) > 0
}

func (l line) message() (jsonrpc.Message, error) {
	if l.err != nil {
		return nil, l.err
	}
	if !json.Valid(l.text) {
		return nil, errNoJSON
	}
	if bytes.TrimSpace(l.text)[0] == '[' {
		return nil, errList
	}
	message, err := jsonrpc.DecodeMessage(l.text)
	if err != nil { // it speaks of types of Go
		return nil, errNoMessage
	}
	return message, nil
}

// wanted reports whether the SDK is given a message. It queues notifications without a bound, and
// the queue stands while one of several answers cannot be written: that of `initialize`, and of
// requests that are refused before they are run. So of notifications it gets those that change
// something, each once: the server has no use for others.
func (c *stdioConn) wanted(message jsonrpc.Message) bool {
	request, is := message.(*jsonrpc.Request)
	switch {
	case !is || request.IsCall():
		return true
	case request.Method == notedInitialized:
		first := !c.begun
		c.begun = true
		return first
	case request.Method == notedCancelled:
		return c.cancels(request)
	}
	return false
}

// cancels reports whether a notification is the first that cancels a request.
func (c *stdioConn) cancels(request *jsonrpc.Request) bool {
	var params mcp.CancelledParams
	if err := json.Unmarshal(request.Params, &params); err != nil {
		return false
	}
	id, err := jsonrpc.MakeID(params.RequestID)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, asked := c.asked[id]
	if asked {
		c.asked[id] = true
	}
	return asked && !before
}

// admit says why a request is not answered beside those that are. One with the id of another would
// get no answer from the SDK. Before it refuses one, it waits for answers that are being written:
// the client may have read them already.
func (c *stdioConn) admit(message jsonrpc.Message) error {
	request, is := message.(*jsonrpc.Request)
	if !is || !request.IsCall() {
		return nil
	}
	for {
		final, err := c.place(request.ID, request.Method)
		if err == nil || final {
			return err
		}
		select {
		case <-c.written:
		case <-c.closed:
			return io.EOF
		}
	}
}

// place takes a place for a request, or says why there is none. That is final unless answers are
// being written.
func (c *stdioConn) place(id jsonrpc.ID, method string) (final bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, twice := c.asked[id]; {
	case twice:
		err = fmt.Errorf("a request with the id %v is being answered: give each an id of its own",
			id.Raw())
	case len(c.asked) >= askedAtOnce:
		err = errBusy
	default:
		c.asked[id] = false
		c.greeted = c.greeted || method == askedToInitialize
	}
	return c.writing == 0, err
}

// Write implements [mcp.Connection].
func (c *stdioConn) Write(_ context.Context, message jsonrpc.Message) error {
	response, is := message.(*jsonrpc.Response)
	if is {
		response = c.coded(response)
		message = response
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if !is {
		return c.send(text)
	}
	c.mu.Lock()
	c.writing++
	c.mu.Unlock()
	err = c.send(text)
	c.mu.Lock()
	c.writing--
	delete(c.asked, response.ID)
	c.mu.Unlock()
	select {
	case c.written <- struct{}{}:
	default: // it is said already
	}
	return err
}

// coded gives an error that the SDK answers without a code one of JSON-RPC. Before the client has
// begun with initialize, that is so of what must come after it.
func (c *stdioConn) coded(r *jsonrpc.Response) *jsonrpc.Response {
	var wire *jsonrpc.Error
	if r.Error == nil || errors.As(r.Error, &wire) && wire.Code != 0 {
		return r
	}
	wrong := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: r.Error.Error()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.greeted {
		wrong.Code = jsonrpc.CodeInvalidRequest
		wrong.Message += ": send initialize first, and wait for its answer"
	}
	return &jsonrpc.Response{ID: r.ID, Error: wrong}
}

// refuse answers a line that the SDK is not given. Only of one too many the request is named: of
// others none is known, or another has its id.
func (c *stdioConn) refuse(message jsonrpc.Message, why error) error {
	wrong := jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why.Error()}
	if errors.Is(why, errNoJSON) {
		wrong.Code = jsonrpc.CodeParseError
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": nil, "error": wrong}
	if request, is := message.(*jsonrpc.Request); is && errors.Is(why, errBusy) {
		answer["id"] = request.ID.Raw()
		answer["error"] = jsonrpc.Error{Code: codeBusy, Message: why.Error()}
	}
	text, err := json.Marshal(answer)
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
