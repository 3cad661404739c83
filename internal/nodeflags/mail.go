package nodeflags

import (
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// mailFlags say how account holders are emailed.
type mailFlags struct {
	addr         string
	from         string
	user         string
	passwordFile string
	tls          string
	changed      func(name string) bool
	password     string
}

func (m *mailFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.addr, "smtp-addr", "", "mail server, host:port; without one, mails are written "+
		"to the terminal and to mail/ in the data folder")
	f.StringVar(&m.from, "smtp-from", "",
		"sender of mails: webhooks@example.com, or Name <webhooks@example.com>")
	f.StringVar(&m.user, "smtp-user", "", "user at the mail server")
	f.StringVar(&m.passwordFile, "smtp-password-file", "", "file that holds the user's password")
	f.StringVar(&m.tls, "smtp-tls", string(mailer.TLSStartTLS), "starttls, opportunistic "+
		"(starttls if offered), implicit (TLS from the start) or none")
	m.changed = f.Changed
}

var tlsModes = []mailer.TLSMode{
	mailer.TLSStartTLS, mailer.TLSOpportunistic, mailer.TLSImplicit, mailer.TLSNone,
}

// check names every fault at once, and reads the password.
func (m *mailFlags) check() (faults []error) {
	fault := func(flag, value, format string, args ...any) {
		args = append([]any{flag, value}, args...)
		faults = append(faults, fmt.Errorf("--%s %q: "+format, args...))
	}
	if m.addr == "" {
		for flag, value := range map[string]string{
			"smtp-from": m.from, "smtp-user": m.user, "smtp-password-file": m.passwordFile,
		} {
			if value != "" {
				fault(flag, value, "needs --smtp-addr")
			}
		}
		if m.changed("smtp-tls") {
			fault("smtp-tls", m.tls, "needs --smtp-addr")
		}
		return faults
	}
	host, port, _ := net.SplitHostPort(m.addr)
	if err := cli.CheckAddress(m.addr); err != nil || port == "0" {
		fault("smtp-addr", m.addr, "must be host:port, such as smtp.example.com:587")
	}
	if _, err := netmail.ParseAddress(m.from); err != nil {
		fault("smtp-from", m.from, "must be an address such as webhooks@example.com")
	}
	switch mode := mailer.TLSMode(m.tls); {
	case mode == mailer.TLSNone && m.user != "" && !isLoopback(host):
		fault("smtp-tls", m.tls, "would send the password of --smtp-user in the clear; "+
			"use starttls or implicit")
	case !slices.Contains(tlsModes, mode):
		fault("smtp-tls", m.tls, "must be starttls, opportunistic, implicit or none")
	}
	if err := m.readPassword(); err != nil {
		fault("smtp-password-file", m.passwordFile, "%w", err)
	}
	return faults
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (m *mailFlags) readPassword() error {
	switch {
	case m.user == "" && m.passwordFile == "":
		return nil
	case m.user == "":
		return errors.New("needs --smtp-user")
	case m.passwordFile == "":
		return errors.New("must be set for --smtp-user")
	}
	data, err := os.ReadFile(m.passwordFile)
	if err != nil {
		return err
	}
	if m.password = strings.TrimRight(string(data), "\r\n"); m.password == "" {
		return errors.New("holds no password")
	}
	return nil
}

// sender hands mails to the configured server.
func (m *mailFlags) sender() (*mailer.SMTP, error) {
	return mailer.NewSMTP(mailer.SMTPConfig{
		Addr:     m.addr,
		From:     m.from,
		User:     m.user,
		Password: m.password,
		TLS:      mailer.TLSMode(m.tls),
	})
}
