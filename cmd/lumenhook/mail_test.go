package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/pki"
)

// goneReceiver answers every webhook with 410, under a certificate of the run's
// authority.
func goneReceiver(t *testing.T, dir string) (url string) {
	t.Helper()
	ca, err := pki.LoadOrCreateCA(filepath.Join(dir, "secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	s.TLS = &tls.Config{GetCertificate: ca.GetCertificate(pki.DefaultHosts()...)}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// mailServer takes any mail.
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

func TestAReceiverThatIsGoneIsMailedAbout(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535"}
	s.start(flags...)
	var endpoint struct{ ID, Status string }
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": goneReceiver(t, s.dir), "description": "the shop"}, &endpoint); status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	disable := func() {
		t.Helper()
		if status := s.call("POST", "/v1/endpoints/"+endpoint.ID+"/test", nil, nil); status != http.StatusOK {
			t.Fatalf("the test was answered %d", status)
		}
		s.eventually("the endpoint is disabled", func() bool {
			s.call("GET", "/v1/endpoints/"+endpoint.ID, nil, &endpoint)
			return endpoint.Status == "disabled"
		})
	}
	disable()
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
	for _, want := range []string{"To: <you@localhost>", endpoint.ID, "the shop", "410 Gone", "Message-ID: <endpoint-disabled." + endpoint.ID + "."} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("%q is not in:\n%s", want, raw)
		}
	}
	s.eventually("the mail on the terminal", func() bool { return strings.Contains(s.output.String(), "Last answer  HTTP 410") })
	s.interrupt()

	addr, mails := startMailServer(t)
	s.start(append(flags, "--smtp-addr", addr, "--smtp-from", "Lumenhook <hooks@example.com>", "--smtp-tls", "none")...)
	if status := s.call("POST", "/v1/endpoints/"+endpoint.ID+"/enable", nil, nil); status != http.StatusOK {
		t.Fatalf("enabling was answered %d", status)
	}
	disable()
	select {
	case mail := <-mails:
		if !strings.Contains(mail, endpoint.ID) {
			t.Errorf("the server got:\n%s", mail)
		}
	case <-time.After(60 * time.Second):
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
		{"--smtp-tls", append(good, "--smtp-tls", "none", "--smtp-user", "a", "--smtp-password-file", empty)},
		{"--smtp-password-file", append(good, "--smtp-user", "a")},
		{"--smtp-password-file", append(good, "--smtp-user", "a", "--smtp-password-file", "/nowhere")},
		{"--smtp-password-file", append(good, "--smtp-user", "a", "--smtp-password-file", empty)},
		{"--smtp-password-file", append(good, "--smtp-password-file", empty)},
	} {
		out, err := program(append([]string{"run", "--data-dir", t.TempDir()}, c.args...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.flag+" \"") {
			t.Errorf("%v: %v\n%s", c.args, err, out)
		}
	}
}

func TestRunTimeIsThatOfTheSchedule(t *testing.T) {
	if got := runTime(domain.DefaultSchedule(), 10*time.Second); got < 56*time.Hour || got > 57*time.Hour {
		t.Errorf("all attempts take %s", got)
	}
}
