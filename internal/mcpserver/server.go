package mcpserver

import (
	"context"
	"fmt"
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
	// Secrets reads the signing secrets by which webhooks are checked; nil: none were named.
	Secrets func() ([]domain.Secret, error)
}

// server has the tools' functions.
type server struct{ Config }

const instructions = `Lumenhook watches wallets on the Stellar network, and posts each payment that
a watch takes as a signed webhook to an endpoint. A watch names a wallet, rules and an endpoint; a
payment that it takes makes an event; an event has one delivery with attempts.

These tools only read. To find out why a webhook did not arrive: list_events with the transaction,
the wallet or the memo, then explain_event. Without an event: the watch's rules (list_watches of
the wallet), wallet_statement (which says why no watch took a payment), coverage (whether its
ledger was read). What an object was at a time, and what changed it since: history. The pages of
the documentation are resources, lumenhook://docs/….

` + untrustedNote

// New makes a server.
func New(cfg Config) (*mcp.Server, error) {
	s := &server{cfg}
	to := mcp.NewServer(&mcp.Implementation{Name: "lumenhook", Version: cfg.Version},
		&mcp.ServerOptions{Instructions: instructions})
	s.addTools(to)
	return to, addPages(to)
}

// addPages adds the pages of the documentation, each under its name and with its title.
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
		uri := "lumenhook://docs/" + name
		to.AddResource(&mcp.Resource{
			Name:     name,
			Title:    title,
			URI:      uri,
			MIMEType: "text/markdown",
			Size:     int64(len(text)),
		}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			if r.Params.URI != uri {
				return nil, fmt.Errorf("reading %s: %w", r.Params.URI, fs.ErrNotExist)
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: uri, MIMEType: "text/markdown", Text: string(text)},
			}}, nil
		})
		return nil
	})
}

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
