package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// goneReceiver answers every webhook with 410. Its certificate is from the run's authority.
func goneReceiver(t *testing.T, dir string) (url string) {
	t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir,
		"secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusGone)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

type mailServer struct{ mails chan string }

func (m mailServer) NewSession(*smtp.Conn) (smtp.Session, error) { return m, nil }
func (m mailServer) Mail(string, *smtp.MailOptions) error        { return nil }
func (m mailServer) Rcpt(string, *smtp.RcptOptions) error        { return nil }
func (m mailServer) Reset()                                      {}
func (m mailServer) Logout() error                               { return nil }
func (m mailServer) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	m.mails <- string(raw)
	return err
}

func startMailServer(t *testing.T) (addr string, mails <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := mailServer{make(chan string, 16)}
	server := smtp.NewServer(m)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = l.Close(); _ = server.Close(); <-ended })
	return l.Addr().String(), m.mails
}

// disablesEndpoint creates an endpoint at a receiver that is gone, and makes a payment that is
// reported to it.
func (s *testService) disablesEndpoint(url string) (id string) {
	s.t.Helper()
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": url, "description": "the shop"},
		&endpoint); status != http.StatusCreated {
		s.t.Fatalf("the endpoint was answered %d", status)
	}
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address,
		"endpointId":    endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, nil); status != http.StatusCreated {
		s.t.Fatalf("the watch was answered %d", status)
	}
	s.devnet(nil, "pay", "--to", wallet.Address, "--amount", "1", "--json")
	return endpoint.ID
}

func TestAReceiverThatIsGoneIsMailedAbout(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	url := goneReceiver(t, s.dir)
	disabled := s.disablesEndpoint(url)
	var written []string
	s.eventually("the mail's file", func() bool {
		var err error
		written, err = filepath.Glob(filepath.Join(s.dir, "mail", "*.eml"))
		return err == nil && len(written) == 1
	})
	raw, err := os.ReadFile(written[0])
	if err != nil {
		t.Fatal(err)
	}
	message, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{disabled, url, "the shop", "410 Gone"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	if to, id := message.Header.Get("To"), message.Header.Get("Message-Id"); to != "<you@localhost>" ||
		!strings.HasPrefix(id, "<endpoint-disabled."+disabled+".") {
		t.Errorf("to %s, %s", to, id)
	}
	s.eventually("the mail on the terminal",
		func() bool { return strings.Contains(s.output.String(), "Last answer  HTTP 410") })
	s.interrupt()

	addr, mails := startMailServer(t)
	s.start(append(flags, "--smtp-addr", addr, "--smtp-from", "Lumenhook <hooks@example.com>",
		"--smtp-tls", "none")...)
	disabled = s.disablesEndpoint(url)
	select {
	case got := <-mails:
		if !strings.Contains(got, disabled) {
			t.Errorf("the server got:\n%s", got)
		}
	case <-time.After(testkit.Patience(t)):
		t.Fatalf("no mail arrived:\n%s", s.output)
	}
	s.interrupt()
	if len(mails) > 0 {
		t.Errorf("and another one:\n%s", <-mails)
	}
}

func TestBadMailFlagsAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := []string{"--smtp-addr", "smtp.example.com:587", "--smtp-from", "a@example.com"}
	for _, c := range []struct {
		flag string
		args []string
	}{
		{"--smtp-from", []string{"--smtp-from", "a@example.com"}},
		{"--smtp-tls", []string{"--smtp-tls", "none"}},
		{"--smtp-addr", append(good, "--smtp-addr", "smtp.example.com")},
		{"--smtp-addr", append(good, "--smtp-addr", "smtp.example.com:0")},
		{"--smtp-from", append(good, "--smtp-from", "nobody")},
		{"--smtp-from", []string{"--smtp-addr", "smtp.example.com:587"}},
		{"--smtp-tls", append(good, "--smtp-tls", "perhaps")},
		{
			"--smtp-tls",
			append(good, "--smtp-tls", "none", "--smtp-user", "a", "--smtp-password-file", empty),
		},
		{"--smtp-password-file", append(good, "--smtp-user", "a")},
		{"--smtp-password-file", append(good, "--smtp-user", "a", "--smtp-password-file", "/nowhere")},
		{"--smtp-password-file", append(good, "--smtp-user", "a", "--smtp-password-file", empty)},
		{"--smtp-password-file", append(good, "--smtp-password-file", empty)},
	} {
		args := append([]string{"run", "--data-dir", t.TempDir()}, c.args...)
		out, err := program(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.flag+" \"") {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}
