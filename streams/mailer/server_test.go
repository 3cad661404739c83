package mailer_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	netmail "net/mail"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/lumenhook/lumenhook/internal/keys"
)

// server is a real SMTP server in this process that treats mails as configured.
type server struct {
	t     *testing.T
	addr  string
	roots *x509.CertPool
	cert  tls.Certificate

	mu     sync.Mutex
	took   []taken
	froms  int // MAIL FROM commands
	onMail func(from string) error
	onRcpt func(to string) error
	onData func(c *smtp.Conn, body []byte) error
	down   func()
}

// taken is a mail that was answered with 250, with details of its connection.
type taken struct {
	from, to string
	user     string
	tls      bool
	message  *netmail.Message
	raw      string
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir,
		"secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, roots: x509.NewCertPool()}
	ca.AddTo(s.roots)
	if s.cert, err = ca.Issue(); err != nil {
		t.Fatal(err)
	}
	return s
}

type serving struct {
	startTLS bool
	implicit bool
	auth     bool // required before MAIL FROM
}

// start listens on a new address, or on the previous one after a stop.
func (s *server) start(how serving) {
	s.t.Helper()
	addr := s.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	srv := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &conversation{server: s, conn: c, how: how}, nil
	}))
	srv.Domain, srv.AllowInsecureAuth, srv.EnableSMTPUTF8 = "localhost", true, true
	config := &tls.Config{Certificates: []tls.Certificate{s.cert}}
	if how.startTLS {
		srv.TLSConfig = config
	}
	if how.implicit {
		l = tls.NewListener(l, config)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l)
	}()
	// Close the listener as well, because the server knows it only once it serves.
	s.down = func() { _ = l.Close(); _ = srv.Close(); <-ended }
	s.t.Cleanup(s.down)
}

func (s *server) stop() { s.down() }

func (s *server) mails() []taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]taken(nil), s.took...)
}

func (s *server) mailsTo(to string) (n int) {
	for _, m := range s.mails() {
		if m.to == to {
			n++
		}
	}
	return n
}

func (s *server) tries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.froms
}

type conversation struct {
	*server
	conn     *smtp.Conn
	how      serving
	user     string
	from, to string
}

func (c *conversation) AuthMechanisms() []string {
	if !c.how.auth {
		return nil
	}
	return []string{sasl.Plain}
}

func (c *conversation) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if user != "hook" || password != "secret" {
			return smtp.ErrAuthFailed
		}
		c.user = user
		return nil
	}), nil
}

func (c *conversation) Mail(from string, _ *smtp.MailOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.froms++
	if c.how.auth && c.user == "" {
		return smtp.ErrAuthRequired
	}
	c.from = from
	if c.onMail != nil {
		return c.onMail(from)
	}
	return nil
}

func (c *conversation) Rcpt(to string, _ *smtp.RcptOptions) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
	if c.onRcpt != nil {
		return c.onRcpt(to)
	}
	return nil
}

func (c *conversation) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	c.mu.Lock()
	onData := c.onData
	c.mu.Unlock()
	if onData != nil {
		if err := onData(c.conn, raw); err != nil {
			return err
		}
	}
	message, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	_, encrypted := c.conn.TLSConnectionState()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took,
		taken{from: c.from, to: c.to, user: c.user, tls: encrypted, message: message, raw: string(raw)})
	return nil
}

func (c *conversation) Reset()        {}
func (c *conversation) Logout() error { return nil }

func answer(code int) error {
	return &smtp.SMTPError{
		Code:         code,
		EnhancedCode: smtp.NoEnhancedCode,
		Message:      "said the test of <holder@example.com>",
	}
}

var errDropped = errors.New("the connection was dropped")

func drop(c *smtp.Conn, _ []byte) error {
	_ = c.Conn().Close()
	return errDropped
}
