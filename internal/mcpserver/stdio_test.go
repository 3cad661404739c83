package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// spoken is a server that is spoken to by hand. It has the tool `stay`, which ends when it is
// cancelled, and `long`, whose answer is long.
type spoken struct {
	t   *testing.T
	in  *io.PipeWriter
	out *bufio.Reader
	// ended has why the server ended.
	ended chan error
}

func speak(t *testing.T) *spoken {
	t.Helper()
	s := connect(t)
	s.writes(initialize, 0)
	if id, why := s.reads(); id != 0 || why != "" {
		t.Fatalf("%v is answered: %s", id, why)
	}
	s.writes(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return s
}

// connect returns a server to which nothing was said.
func connect(t *testing.T) *spoken {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	schema := json.RawMessage(`{"type":"object"}`)
	server.AddTool(&mcp.Tool{Name: "stay", InputSchema: schema},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	server.AddTool(&mcp.Tool{Name: "long", InputSchema: schema},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := &mcp.TextContent{Text: strings.Repeat("x", 1<<10)}
			return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil
		})
	in, write := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- server.Run(t.Context(), Stdio{In: in, Out: out})
		_ = out.Close() // it cannot fail
	}()
	t.Cleanup(func() {
		_ = write.Close() // it cannot fail
		_ = read.Close()
		for range ended { // until it is closed
		}
	})
	return &spoken{t: t, in: write, out: bufio.NewReader(read), ended: ended}
}

const (
	initialize = `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{` +
		`"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	discover = `{"jsonrpc":"2.0","id":%d,"method":"server/discover"}`
	callTool = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`
	cancel   = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d,` +
		`"reason":%q}}`
)

func (s *spoken) writes(format string, args ...any) {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, format+"\n", args...); err != nil {
		s.t.Fatal(err)
	}
}

// reads returns which request is answered, and why it fails.
func (s *spoken) reads() (id int, why string) {
	s.t.Helper()
	id, wrong := s.answer()
	return id, wrong.Message
}

// answer returns which request is answered, and with which error.
func (s *spoken) answer() (id int, wrong jsonrpc.Error) {
	s.t.Helper()
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	answer := struct {
		ID    int
		Error jsonrpc.Error
	}{ID: -1}
	if err := json.Unmarshal(line, &answer); err != nil {
		s.t.Fatalf("%v: %s", err, line)
	}
	return answer.ID, answer.Error
}

// Behind answers that nobody reads, no notifications are kept: not behind that of a second
// `initialize`, and not behind one that the SDK refuses before it runs anything.
func TestNotificationsBehindUnreadAnswersAreNotKept(t *testing.T) {
	const many, mostBytes = 12, 20 << 20
	much := strings.Repeat("y", 900_000)
	changed := `{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"_meta":{"x":"` +
		much + `"}}}`
	begun := `{"jsonrpc":"2.0","method":"notifications/initialized","params":{"_meta":{"x":"` +
		much + `"}}}`
	for name, last := range map[string]string{"initialize": initialize, "discover": discover} {
		t.Run(name, func(t *testing.T) {
			s := speak(t)
			for id := 1; id < askedAtOnce; id++ {
				s.writes(callTool, id, "long")
			}
			s.writes(last, askedAtOnce)
			for range many {
				s.writes("%s", changed)
				s.writes("%s", begun)
				s.writes(cancel, 1, much)
				s.writes(cancel, askedAtOnce+1, much) // no such request
			}
			runtime.GC()
			var memory runtime.MemStats
			if runtime.ReadMemStats(&memory); memory.HeapAlloc > mostBytes {
				t.Errorf("%d MB are held", memory.HeapAlloc>>20)
			}
			for range askedAtOnce {
				s.reads()
			}
		})
	}
}

// With as many requests as may be asked at once, a further one is refused by its id. One of those
// can be cancelled all the same, and then another is taken.
func TestARequestTooManyIsRefused(t *testing.T) {
	s := speak(t)
	for id := 1; id <= askedAtOnce; id++ {
		s.writes(callTool, id, "stay")
	}
	next := askedAtOnce + 1
	for id := 1; id <= askedAtOnce; id++ {
		s.writes(callTool, next, "stay")
		if got, why := s.reads(); got != next || !strings.Contains(why, "16 requests are being answered") {
			t.Fatalf("of %d: %d is answered: %s", next, got, why)
		}
		s.writes(cancel, id, "")
		if got, _ := s.reads(); got != id {
			t.Fatalf("of %d, which is cancelled: %d is answered", id, got)
		}
		s.writes(callTool, next, "stay") // it may have the id of the one that was refused
		next++
	}
	s.writes(callTool, next-1, "stay")
	if got, why := s.reads(); got != next-1 || !strings.Contains(why, "an id of its own") {
		t.Errorf("of an id that is in use: %d is answered: %s", got, why)
	}
}

// Whoever asks on upon each answer is never refused, also with as many requests as are allowed.
func TestAPlaceIsFreeOnceAnAnswerIsRead(t *testing.T) {
	s := speak(t)
	for id := 1; id < askedAtOnce; id++ {
		s.writes(callTool, id, "stay")
	}
	for range 2000 {
		s.writes(callTool, askedAtOnce, "long")
		if got, why := s.reads(); got != askedAtOnce || why != "" {
			t.Fatalf("%d is answered: %s", got, why)
		}
	}
}

// A request that the SDK refuses gets a code of JSON-RPC; so does one before initialize.
func TestEveryRefusalHasACode(t *testing.T) {
	s := connect(t)
	for _, c := range []struct {
		line, says string
		id         int
		code       int64
	}{
		{fmt.Sprintf(callTool, 1, "long"), "initializ", 1, jsonrpc.CodeInvalidRequest},
		{`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`, "initializ", 2, jsonrpc.CodeInvalidRequest},
		{fmt.Sprintf(initialize, 8), "", 8, 0},
		{`{"jsonrpc":"2.0","id":9,"method":"none"}`, "none", 9, jsonrpc.CodeMethodNotFound},
	} {
		s.writes("%s", c.line)
		id, wrong := s.answer()
		if id != c.id || wrong.Code != c.code || !strings.Contains(wrong.Message, c.says) {
			t.Errorf("%s: %d is answered %d: %s", c.line, id, wrong.Code, wrong.Message)
		}
	}
}

// A line that is no message, or too long, ends the connection with an error. What is asked before
// it is answered.
func TestALineThatIsNoMessageEndsTheConnection(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON":    "nonsense",
		"no message": `"ping"`,
		"too long":   strings.Repeat(" ", requestMaxBytes) + `{"jsonrpc":"2.0"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := connect(t)
			s.writes(initialize, 1)
			if id, why := s.reads(); id != 1 || why != "" {
				t.Fatalf("%d is answered: %s", id, why)
			}
			go func() { _, _ = io.WriteString(s.in, line+"\n") }() // the rest may not be read
			if rest, err := s.out.ReadString('\n'); err == nil {
				t.Errorf("it is answered: %s", rest)
			}
			if err := <-s.ended; err == nil {
				t.Error("the server ends without an error")
			}
		})
	}
}
