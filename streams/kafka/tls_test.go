package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/keys"
)

// askWho listens for clients that have a certificate of the authority, and sends the name of each.
func askWho(
	t *testing.T, clients *kafkatest.ClientCA, caFile string,
) (address string, names <-chan string) {
	t.Helper()
	ca, err := keys.LoadOrCreateCA(t.TempDir(), caFile, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(clients.Certificate())
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: ca.GetCertificate,
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      trusted,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	told := make(chan string, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c := conn.(*tls.Conn)
			if err := c.HandshakeContext(t.Context()); err != nil {
				told <- err.Error()
			} else {
				told <- c.ConnectionState().PeerCertificates[0].Subject.CommonName
			}
			c.Close()
		}
	}()
	return l.Addr().String(), told
}

func TestARenewedCertificateIsUsedAndABrokenOneIsNot(t *testing.T) {
	dir := t.TempDir()
	files := TLS{
		Enabled:  true,
		CAFile:   filepath.Join(dir, "ca.pem"),
		CertFile: filepath.Join(dir, "cert.pem"),
		KeyFile:  filepath.Join(dir, "key.pem"),
	}
	clients, err := kafkatest.NewClientCA(filepath.Join(dir, "clients.pem"))
	if err != nil {
		t.Fatal(err)
	}
	address, names := askWho(t, clients, files.CAFile)
	d := &tlsDialer{files: files, logger: slog.New(slog.DiscardHandler)}
	if _, err := d.dial(t.Context(), "tcp", address); err == nil ||
		!strings.Contains(err.Error(), files.CertFile) {
		t.Errorf("without its files it said %v", err)
	}
	for _, name := range []string{"first", "second"} {
		if err := clients.Issue(name, files.CertFile, files.KeyFile); err != nil {
			t.Fatal(err)
		}
		if got := dialAs(t, d, address, names); got != name {
			t.Errorf("%s came as %s", name, got)
		}
	}
	if err := os.WriteFile(files.KeyFile, []byte("half of a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := dialAs(t, d, address, names); got != "second" {
		t.Errorf("with a broken key it came as %s", got)
	}
	if err := files.Check(); err == nil {
		t.Error("a broken key passed the check")
	}
}

func dialAs(t *testing.T, d *tlsDialer, address string, names <-chan string) string {
	t.Helper()
	conn, err := d.dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case name := <-names:
		return name
	case <-t.Context().Done():
		return ""
	}
}

func TestTLSSaysWhatIsNotTrusted(t *testing.T) {
	clients, err := kafkatest.NewClientCA(filepath.Join(t.TempDir(), "clients.pem"))
	if err != nil {
		t.Fatal(err)
	}
	address, _ := askWho(t, clients, filepath.Join(t.TempDir(), "ca.pem"))
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		for {
			conn, err := plain.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("this is no TLS"))
			conn.Close()
		}
	}()
	for address, says := range map[string]string{
		address:               "--kafka-ca-file",
		plain.Addr().String(): "does not speak TLS",
	} {
		d := &tlsDialer{files: TLS{Enabled: true}, logger: slog.New(slog.DiscardHandler)}
		if _, err := d.dial(context.Background(), "tcp", address); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("it does not say %q: %v", says, err)
		}
	}
}

func TestSecretsAndCertificatesThatDoNotFitAreFaults(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, empty, large := write("secret", "s\n"), write("empty", "\n"),
		write("large", strings.Repeat("s", mostFileBytes+1))
	for _, s := range []SASL{
		{Mechanism: "GSSAPI", User: "u", Password: "p"},
		{User: "u"},
		{Password: "p"},
		{Mechanism: SASLPlain, User: "u"},
		{Mechanism: SASLPlain, User: "u", Password: "p", PasswordFile: secret},
		{Mechanism: SASLPlain, User: "u", PasswordFile: empty},
		{Mechanism: SASLPlain, User: "u", PasswordFile: large},
		{Mechanism: SASLScramSHA512, User: "u", PasswordFile: filepath.Join(dir, "none")},
		{Mechanism: SASLScramSHA256, User: "u", Password: "p", TokenFile: secret},
		{Mechanism: SASLOAuthBearer},
		{Mechanism: SASLOAuthBearer, User: "u", TokenFile: secret},
		{Mechanism: SASLOAuthBearer, TokenFile: empty},
	} {
		if err := s.Check(); err == nil {
			t.Errorf("%v passed", s)
		}
	}
	for _, s := range []SASL{
		{},
		{Mechanism: SASLPlain, User: "u", PasswordFile: secret},
		{Mechanism: SASLOAuthBearer, TokenFile: secret},
	} {
		if err := s.Check(); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	for _, c := range []TLS{
		{CAFile: secret},
		{Enabled: true, CAFile: secret},
		{Enabled: true, CAFile: large},
		{Enabled: true, CertFile: secret},
		{Enabled: true, KeyFile: secret},
		{Enabled: true, CertFile: secret, KeyFile: secret},
	} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v passed", c)
		}
	}
}
