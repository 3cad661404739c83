package mailer_test

import (
	"context"
	"errors"
	"io"
	"mime/quotedprintable"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/lumenhook/lumenhook/streams/mailer"
)

func aMail() mailer.Mail {
	return mailer.Mail{
		ID:      "endpoint-disabled.ep_1.7",
		To:      "holder@example.com",
		Subject: "Gone – 410",
		Text:    "Grüße\n.\nfrom a line with a dot\n" + strings.Repeat("long ", 300) + "\n",
		At:      time.Unix(1_800_000_000, 0),
	}
}

func smtpTo(t *testing.T, s *server, cfg mailer.SMTPConfig) *mailer.SMTP {
	t.Helper()
	cfg.Addr, cfg.RootCAs = s.addr, s.roots
	if cfg.From == "" {
		cfg.From = "Lumenhook <hooks@example.net>"
	}
	sender, err := mailer.NewSMTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func body(t *testing.T, m taken) string {
	t.Helper()
	text, err := io.ReadAll(quotedprintable.NewReader(m.message.Body))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func TestSMTPHandsAMailOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		how serving
		cfg mailer.SMTPConfig
		tls bool
	}{
		"starttls and a password": {
			serving{startTLS: true, auth: true},
			mailer.SMTPConfig{TLS: mailer.TLSStartTLS, User: "hook", Password: "secret"}, true,
		},
		"implicit and a password": {
			serving{implicit: true, auth: true},
			mailer.SMTPConfig{TLS: mailer.TLSImplicit, User: "hook", Password: "secret"}, true,
		},
		"opportunistic, offered": {
			serving{startTLS: true}, mailer.SMTPConfig{TLS: mailer.TLSOpportunistic}, true,
		},
		"opportunistic, not": {serving{}, mailer.SMTPConfig{TLS: mailer.TLSOpportunistic}, false},
		"none": {
			serving{startTLS: true},
			mailer.SMTPConfig{TLS: mailer.TLSNone, Helo: "hooks.example.net"}, false,
		},
		"a password within here": {
			serving{auth: true},
			mailer.SMTPConfig{TLS: mailer.TLSNone, User: "hook", Password: "secret"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.start(c.how)
			want := aMail()
			if err := smtpTo(t, s, c.cfg).Send(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			got := s.mails()
			if len(got) != 1 {
				t.Fatalf("%d mails", len(got))
			}
			m := got[0]
			if m.tls != c.tls || m.user != c.cfg.User || m.from != "hooks@example.net" || m.to != want.To {
				t.Errorf("came as %+v", m)
			}
			if text := body(t, m); text != want.Text {
				t.Errorf("the text became %q", text)
			}
			for header, value := range map[string]string{
				"Message-Id": "<endpoint-disabled.ep_1.7@example.net>",
				"To":         "<holder@example.com>", "Auto-Submitted": "auto-generated",
				"Content-Type": "text/plain; charset=UTF-8", "Date": "Fri, 15 Jan 2027 08:00:00 +0000",
			} {
				if got := m.message.Header.Get(header); got != value {
					t.Errorf("%s: %q", header, got)
				}
			}
		})
	}
}

// Only a server's response to one recipient or one content concerns that mail. Anything else
// concerns all mails.
func TestSMTPTellsWhoseFaultItIs(t *testing.T) {
	type fault int
	const (
		own fault = iota
		ownTemporary
		everybodys
	)
	rcpt := func(code int) func(*server) {
		return func(s *server) { s.onRcpt = func(string) error { return answer(code) } }
	}
	data := func(code int) func(*server) {
		return func(s *server) { s.onData = func(*smtp.Conn, []byte) error { return answer(code) } }
	}
	from := func(code int) func(*server) {
		return func(s *server) { s.onMail = func(string) error { return answer(code) } }
	}
	for name, c := range map[string]struct {
		behave func(*server)
		want   fault
	}{
		"no such mailbox":       {rcpt(550), own},
		"content refused":       {data(554), own},
		"too large":             {data(552), own},
		"mailbox full":          {rcpt(452), ownTemporary},
		"greylisted":            {rcpt(450), ownTemporary},
		"greylisted after DATA": {data(451), ownTemporary},
		"sender refused":        {from(550), everybodys},
		"sender refused so far": {from(451), everybodys},
		"authenticate first":    {rcpt(530), everybodys},
		"bad sequence":          {rcpt(503), everybodys},
		"closing":               {rcpt(421), everybodys},
		"dropped after DATA":    {func(s *server) { s.onData = drop }, everybodys},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			c.behave(s)
			s.start(serving{})
			err := smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSNone}).Send(t.Context(), aMail())
			var refusal *mailer.Refusal
			got := everybodys
			if errors.As(err, &refusal) {
				got = own
				if refusal.Temporary {
					got = ownTemporary
				}
			}
			if err != nil && strings.Contains(err.Error(), aMail().To) {
				t.Errorf("the error, which is logged, tells the address: %v", err)
			}
			if err == nil || got != c.want {
				t.Errorf("%v is %d", err, got)
			}
		})
	}
}

func TestSMTPRefusesToSendInTheClear(t *testing.T) {
	s := newServer(t)
	s.start(serving{})
	if err := smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSStartTLS}).Send(t.Context(),
		aMail()); err == nil || s.tries() > 0 {
		t.Errorf("a mail went in the clear: %v", err)
	}
}

func TestSMTPTrustsNotAnybody(t *testing.T) {
	s, other := newServer(t), newServer(t)
	s.start(serving{startTLS: true})
	s.roots = other.roots
	if err := smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSStartTLS}).Send(t.Context(),
		aMail()); err == nil || s.tries() > 0 {
		t.Errorf("a stranger's certificate was taken: %v", err)
	}
}

func TestSMTPWrongPasswordIsEverybodysFault(t *testing.T) {
	s := newServer(t)
	s.start(serving{startTLS: true, auth: true})
	cfg := mailer.SMTPConfig{TLS: mailer.TLSStartTLS, User: "hook", Password: "guess"}
	err := smtpTo(t, s, cfg).Send(
		t.Context(), aMail(),
	)
	if err == nil || errors.As(err, new(*mailer.Refusal)) {
		t.Errorf("a wrong password is %v", err)
	}
	if strings.Contains(err.Error(), "guess") {
		t.Error("the error tells the password")
	}
}

// The 250 counts, however the server ends the connection.
func TestSMTPConnectionThatEndsAfterThe250(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buffer := make([]byte, 64<<10)
		reply := func(text string) { _, _ = io.WriteString(conn, text+"\r\n"); _, _ = conn.Read(buffer) }
		reply("220 here")
		for _, text := range []string{"250 localhost", "250 ok", "250 ok", "354 go on"} {
			reply(text)
		}
		for content := string(buffer); !strings.Contains(content, "\r\n.\r\n"); {
			n, err := conn.Read(buffer)
			if content += string(buffer[:n]); err != nil {
				return
			}
		}
		_, _ = io.WriteString(conn, "250 mine now\r\n")
	}()
	sender, err := mailer.NewSMTP(mailer.SMTPConfig{
		Addr: l.Addr().String(),
		From: "hooks@example.net",
		TLS:  mailer.TLSNone,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), aMail()); err != nil {
		t.Error(err)
	}
}

func TestSMTPIsBoundedInTime(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	release := make(chan struct{})
	defer close(release)
	s.onData = func(*smtp.Conn, []byte) error { <-release; return nil }
	s.start(serving{})
	cfg := mailer.SMTPConfig{TLS: mailer.TLSNone, Timeout: 200 * time.Millisecond}
	err := smtpTo(t, s, cfg).Send(t.Context(), aMail())
	if err == nil || errors.As(err, new(*mailer.Refusal)) {
		t.Errorf("a server that hangs: %v", err)
	}
	cfg.Timeout = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := smtpTo(t, s, cfg).Send(ctx, aMail()); err == nil {
		t.Error("a context that ended was no error")
	}
}

func TestSMTPSettingsNameTheirFault(t *testing.T) {
	good := mailer.SMTPConfig{
		Addr: "smtp.example.com:587",
		From: "a@example.com",
		TLS:  mailer.TLSStartTLS,
	}
	for want, spoil := range map[string]func(*mailer.SMTPConfig){
		"host:port":        func(c *mailer.SMTPConfig) { c.Addr = "smtp.example.com" },
		"from 1 to 65535":  func(c *mailer.SMTPConfig) { c.Addr = "smtp.example.com:0" },
		"an address such":  func(c *mailer.SMTPConfig) { c.From = "a" },
		"needs a password": func(c *mailer.SMTPConfig) { c.User = "a" },
		"must be starttls": func(c *mailer.SMTPConfig) { c.TLS = "maybe" },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := mailer.NewSMTP(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if _, err := mailer.NewSMTP(good); err != nil {
		t.Error(err)
	}
}

// An address must stay one address, whatever a client put into it.
func TestNoAddressInjectsAHeader(t *testing.T) {
	s := newServer(t)
	s.start(serving{})
	for _, to := range []string{
		"a@example.com\r\nBcc: b@example.com", "a@example.com, b@example.com",
		"a@example.com>\r\nRCPT TO:<b@example.com", "nobody", "",
	} {
		m := aMail()
		m.To = to
		err := smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSNone}).Send(t.Context(), m)
		var refusal *mailer.Refusal
		if !errors.As(err, &refusal) || refusal.Temporary {
			t.Errorf("%q: %v", to, err)
		}
	}
	if s.tries() > 0 {
		t.Error("the server was asked")
	}
	m := aMail()
	m.Subject = "a\r\nBcc: b@example.com\r\n\r\nbody"
	if err := smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSNone}).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := s.mails()[0]; got.message.Header.Get("Bcc") != "" || body(t, got) != m.Text {
		t.Errorf("the subject injected:\n%s", got.raw)
	}
}
