package mcpserver

import (
	"context"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/docs"
	"github.com/lumenhook/lumenhook/domain"
)

// Config configures a server.
type Config struct {
	API     *client.Client
	Version string
	// Secrets reads the signing secrets for checking webhooks; nil if none are configured.
	Secrets func() ([]domain.Secret, error)
}

type server struct{ Config }

const instructions = `Lumenhook watches wallets on the Stellar network, and sends each payment that
matches a watch to an endpoint, as a signed webhook. A watch has a wallet, rules and an endpoint. A
matching payment creates an event. An event has one delivery with attempts.

These tools only read. To find out why a webhook did not arrive, use list_events with the
transaction, the wallet or the memo, then explain_event. If there is no event, check the watch's
rules (list_watches for the wallet), wallet_statement (why no watch accepted a payment) and coverage
(whether its ledger was read). To see an object's earlier states and changes, use history. The
documentation pages are resources, lumenhook://docs/….

` + untrustedNote

// New returns a server.
func New(cfg Config) (*mcp.Server, error) {
	s := &server{cfg}
	to := mcp.NewServer(&mcp.Implementation{Name: "lumenhook", Version: cfg.Version},
		&mcp.ServerOptions{Instructions: instructions})
	s.addTools(to)
	return to, addPages(to)
}

func addPages(to *mcp.Server) error {
	return fs.WalkDir(docs.Pages, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(docs.Pages, name)
		if err != nil {
			return err
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		to.AddResource(&mcp.Resource{
			Name:     name,
			Title:    title,
			URI:      "lumenhook://docs/" + name,
			MIMEType: "text/markdown",
			Size:     int64(len(text)),
		}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			contents := []*mcp.ResourceContents{{Text: string(text)}}
			return &mcp.ReadResourceResult{Contents: contents}, nil
		})
		return nil
	})
}

// requestMaxBytes bounds a message. The largest webhook body, with every byte escaped, takes less
// than half of it.
const requestMaxBytes = 1 << 20

// Stdio is the SDK's transport over standard input and output. A line that is too long or is not a
// message ends the connection with an error.
type Stdio struct {
	In  io.Reader
	Out io.Writer
}

// Connect implements [mcp.Transport]. The connection closes when ctx is done.
func (s Stdio) Connect(ctx context.Context) (mcp.Connection, error) {
	lines := &mcp.IOTransport{
		Reader:        io.NopCloser(s.In),
		Writer:        unclosed{s.Out},
		MaxLineLength: requestMaxBytes,
	}
	inner, err := lines.Connect(ctx)
	c := &answering{Connection: inner, asked: make(map[jsonrpc.ID]bool)}
	c.changed.L = &c.mu
	context.AfterFunc(ctx, func() { _ = c.Close() }) // Close does not fail
	return c, err
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// answering is a connection that reports the end of its input only after every request has a
// response. The SDK cancels requests in flight at the end of the input.
type answering struct {
	mcp.Connection

	mu      sync.Mutex
	changed sync.Cond           // signals changes of the fields below
	asked   map[jsonrpc.ID]bool // requests in flight
	closed  bool
}

func (c *answering) Close() error {
	c.note(func() { c.closed = true })
	return c.Connection.Close()
}

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
