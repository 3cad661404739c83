package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// newDNS is the standard library's resolver, made to tell times to live, which
// its interface leaves out: the messages are read once more as they pass by. A
// question that is not answered within questionTime is asked again, of the next
// server if there is one.
func newDNS(server string, questionTime time.Duration) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			times, _ := ctx.Value(timesKey{}).(*times)
			patience := patience{time.Now().Add(questionTime)}
			switch conn := conn.(type) {
			case *net.UDPConn:
				return &overheardPacket{UDPConn: conn, times: times, patience: patience}, nil
			default:
				return &overheardStream{Conn: conn, times: times, patience: patience}, nil
			}
		},
	}
}

// patience is until when a connection, which is one question's, waits.
type patience struct{ until time.Time }

func (p patience) atMost(t time.Time) time.Time {
	if p.until.Before(t) {
		return p.until
	}
	return t
}

// newHosts is a resolver that reaches no name server.
func newHosts() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("only the hosts file is asked")
		},
	}
}

// times gathers what the messages of one lookup say about how long they hold.
type times struct {
	mu                 sync.Mutex
	positive, negative leastTime
}

type leastTime struct {
	seen  bool
	least time.Duration
}

func (l *leastTime) see(seconds uint32) {
	if d := time.Duration(seconds) * time.Second; !l.seen || d < l.least {
		l.seen, l.least = true, d
	}
}

type timesKey struct{}

func withTimes(ctx context.Context) (context.Context, *times) {
	t := &times{}
	return context.WithValue(ctx, timesKey{}, t), t
}

// message notes the times of one message. What is malformed, the resolver will
// refuse; what is forged can only shorten the time.
func (t *times) message(text []byte) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var p dnsmessage.Parser
	if _, err := p.Start(text); err != nil || p.SkipAllQuestions() != nil {
		return
	}
	for {
		h, err := p.AnswerHeader()
		if err != nil {
			break
		}
		t.positive.see(h.TTL)
		if p.SkipAnswer() != nil {
			return
		}
	}
	for {
		h, err := p.AuthorityHeader()
		if err != nil {
			return
		}
		if h.Type != dnsmessage.TypeSOA {
			if p.SkipAuthority() != nil {
				return
			}
			continue
		}
		soa, err := p.SOAResource()
		if err != nil {
			return
		}
		t.negative.see(min(h.TTL, soa.MinTTL))
	}
}

// overheardPacket is a UDP socket to a name server: a read is a message.
type overheardPacket struct {
	*net.UDPConn
	times    *times
	patience patience
}

func (c *overheardPacket) SetDeadline(t time.Time) error {
	return c.UDPConn.SetDeadline(c.patience.atMost(t))
}

func (c *overheardPacket) Read(p []byte) (int, error) {
	n, err := c.UDPConn.Read(p)
	if err == nil {
		c.times.message(p[:n])
	}
	return n, err
}

// overheardStream is a TCP connection to a name server: a message follows its
// length in two bytes, and there is one.
type overheardStream struct {
	net.Conn
	times    *times
	patience patience
	text     []byte // at most 64 KiB and two bytes
}

func (c *overheardStream) SetDeadline(t time.Time) error {
	return c.Conn.SetDeadline(c.patience.atMost(t))
}

func (c *overheardStream) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	const lengthBytes = 2
	if room := lengthBytes + 1<<16 - len(c.text); room > 0 {
		c.text = append(c.text, p[:min(n, room)]...)
	}
	if len(c.text) >= lengthBytes {
		if end := lengthBytes + int(binary.BigEndian.Uint16(c.text)); len(c.text) == end {
			c.times.message(c.text[lengthBytes:end])
		}
	}
	return n, err
}
