package config

import (
	"errors"
	"net"
	netmail "net/mail"
	"slices"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// Mail are the flags of the mail server that emails account holders. Addr is empty where none is
// named.
type Mail struct {
	mailer.SMTPConfig
	flags        Flags
	passwordFile string
	tls          string
}

func (m *Mail) register(f *pflag.FlagSet) {
	m.flags.Group(f, "Mail", "mailer",
		Value("smtp-addr", &m.Addr, "", "mail server, host:port; without one, mails are written "+
			"to the terminal and to mail/ in the data folder", Optional(checkMailServer)),
		Value("smtp-from", &m.From, "",
			"sender of mails: webhooks@example.com, or Name <webhooks@example.com>", m.checkFrom),
		Value("smtp-user", &m.User, "", "user at the mail server", m.checkUnused),
		Value("smtp-password-file", &m.passwordFile, "", "file that holds the user's password",
			m.checkPassword),
		Value("smtp-tls", &m.tls, string(mailer.TLSStartTLS), "starttls, opportunistic "+
			"(starttls if offered), implicit (TLS from the start) or none", m.checkTLS).
			Of("starttls", "opportunistic", "implicit", "none"))
}

func checkMailServer(addr string) error {
	if _, port, _ := net.SplitHostPort(addr); cli.CheckAddress(addr) != nil || port == "0" {
		return errors.New("must be host:port, such as smtp.example.com:587")
	}
	return nil
}

// checkUnused refuses a setting of a mail server where none is named.
func (m *Mail) checkUnused(value string) error {
	if m.Addr == "" && value != "" {
		return errors.New("needs --smtp-addr")
	}
	return nil
}

func (m *Mail) checkFrom(from string) error {
	if m.Addr == "" {
		return m.checkUnused(from)
	}
	if _, err := netmail.ParseAddress(from); err != nil {
		return errors.New("must be an address such as webhooks@example.com")
	}
	return nil
}

var tlsModes = []mailer.TLSMode{
	mailer.TLSStartTLS, mailer.TLSOpportunistic, mailer.TLSImplicit, mailer.TLSNone,
}

func (m *Mail) checkTLS(mode string) error {
	m.TLS = mailer.TLSMode(mode)
	host, _, _ := net.SplitHostPort(m.Addr)
	switch {
	case m.Addr == "" && m.flags.Changed("smtp-tls"):
		return errors.New("needs --smtp-addr")
	case m.TLS == mailer.TLSNone && m.User != "" && !isLoopback(host):
		return errors.New("would send the password of --smtp-user in the clear; use starttls or implicit")
	case !slices.Contains(tlsModes, m.TLS):
		return errors.New("must be starttls, opportunistic, implicit or none")
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkPassword reads the password.
func (m *Mail) checkPassword(file string) (err error) {
	switch {
	case m.Addr == "":
		return m.checkUnused(file)
	case m.User == "" && file == "":
		return nil
	case m.User == "":
		return errors.New("needs --smtp-user")
	case file == "":
		return errors.New("must be set for --smtp-user")
	}
	m.Password, err = readPassword(file)
	return err
}

// Sender returns the sender that uses the mail server; nil where none is named.
func (m *Mail) Sender() (*mailer.SMTP, error) {
	if m.Addr == "" {
		return nil, nil
	}
	return mailer.NewSMTP(m.SMTPConfig)
}
