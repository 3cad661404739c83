package mailer

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// TLSMode is how the connection to a mail server is protected.
type TLSMode string

// TLS modes.
const (
	TLSStartTLS      TLSMode = "starttls"      // STARTTLS is required
	TLSOpportunistic TLSMode = "opportunistic" // STARTTLS if the server offers it
	TLSImplicit      TLSMode = "implicit"      // TLS from the first byte
	TLSNone          TLSMode = "none"
)

// defaultSMTPTimeout is long, because a server may scan a mail before it answers, and a mail that
// is repeated after a timeout is a duplicate.
const defaultSMTPTimeout = time.Minute

// SMTPConfig configures the connection to a mail server.
type SMTPConfig struct {
	Addr     string // host:port
	From     string // an address, with or without a name
	User     string // empty for no authentication
	Password string
	TLS      TLSMode
	Helo     string         // our HELO name; default: this machine's name
	Timeout  time.Duration  // for one mail, including the connection; default: 1 min
	RootCAs  *x509.CertPool // nil for the system's
}

// SMTP sends each mail to a server over a new connection.
type SMTP struct {
	cfg  SMTPConfig
	host string
	opts []mail.Option
}

// authMechanisms are in order of preference. PLAIN and LOGIN send the password, so the library uses
// them only over TLS or to this machine.
var authMechanisms = []mail.SMTPAuthType{
	mail.SMTPAuthSCRAMSHA256PLUS, mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthSCRAMSHA1PLUS,
	mail.SMTPAuthSCRAMSHA1, mail.SMTPAuthPlain, mail.SMTPAuthLogin,
}

// NewSMTP checks the settings. It does not connect.
func NewSMTP(cfg SMTPConfig) (*SMTP, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultSMTPTimeout)
	host, portText, err := net.SplitHostPort(cfg.Addr)
	if err != nil || host == "" {
		return nil, errors.New("the mail server must be host:port, such as smtp.example.com:587")
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 1 || port > 65535 {
		return nil, fmt.Errorf("the mail server's port %q must be from 1 to 65535", portText)
	}
	if _, err := netmail.ParseAddress(cfg.From); err != nil {
		return nil, fmt.Errorf("the sender %q must be an address such as webhooks@example.com: %w",
			cfg.From, err)
	}
	if (cfg.User == "") != (cfg.Password == "") {
		return nil, errors.New("a user needs a password, and a password needs a user")
	}
	s := &SMTP{cfg: cfg, host: host, opts: []mail.Option{
		mail.WithPort(port), mail.WithTimeout(cfg.Timeout), mail.WithoutNoop(), mail.WithoutRset(),
	}}
	if cfg.Helo != "" {
		s.opts = append(s.opts, mail.WithHELO(cfg.Helo))
	}
	if cfg.User != "" {
		s.opts = append(s.opts, mail.WithUsername(cfg.User), mail.WithPassword(cfg.Password),
			mail.WithOpportunisticSMTPAuth(authMechanisms...))
	}
	policy, err := tlsPolicy(cfg)
	if err != nil {
		return nil, err
	}
	s.opts = append(s.opts, policy, mail.WithTLSConfig(s.tlsConfig()))
	_, err = mail.NewClient(s.host, s.opts...)
	return s, err
}

func tlsPolicy(cfg SMTPConfig) (mail.Option, error) {
	switch cfg.TLS {
	case TLSStartTLS:
		return mail.WithTLSPolicy(mail.TLSMandatory), nil
	case TLSOpportunistic:
		return mail.WithTLSPolicy(mail.TLSOpportunistic), nil
	case TLSImplicit:
		return mail.WithSSL(), nil
	case TLSNone:
		return mail.WithTLSPolicy(mail.NoTLS), nil
	}
	return nil, fmt.Errorf("invalid TLS mode %q: must be starttls, opportunistic, implicit or none",
		cfg.TLS)
}

func (s *SMTP) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: s.host, RootCAs: s.cfg.RootCAs, MinVersion: tls.VersionTLS12}
}

// Send returns at the server's 250, whatever happens to the connection afterwards.
func (s *SMTP) Send(ctx context.Context, m Mail) error {
	msg, err := message(m, s.cfg.From)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	client, conversation, err := s.connect(ctx)
	if err != nil {
		return err
	}
	err = client.SendWithSMTPClient(conversation, msg)
	if msg.IsDelivered() {
		_, _ = conversation.Text.Cmd("QUIT")
		return nil
	}
	return s.classified(err, m.To)
}

// Try connects, secures the connection and logs in, but sends no mail.
func (s *SMTP) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	_, conversation, err := s.connect(ctx)
	if err != nil {
		return err
	}
	_, _ = conversation.Text.Cmd("QUIT") // the answer does not matter
	return nil
}

// connect opens a connection that is closed when ctx is done. The library leaves some open after
// errors, and reads without a context.
func (s *SMTP) connect(ctx context.Context) (*mail.Client, *smtp.Client, error) {
	client, err := mail.NewClient(s.host, append(s.opts[:len(s.opts):len(s.opts)],
		mail.WithDialContextFunc(func(dialing context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.dial(dialing, network, addr)
			if err == nil {
				context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		}))...)
	if err != nil {
		return nil, nil, err
	}
	conversation, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the mail server %s: %w", s.cfg.Addr, err)
	}
	return client, conversation, nil
}

func (s *SMTP) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.cfg.TLS == TLSImplicit {
		return (&tls.Dialer{Config: s.tlsConfig()}).DialContext(ctx, network, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// classified distinguishes errors about this mail from errors about any mail. Only responses to the
// recipient or the content can be about the mail. Of those, 421 ends the service, 50x is a syntax
// error, and 53x is about our login (RFC 4954, section 6).
func (s *SMTP) classified(err error, to string) error {
	failure, ok := errors.AsType[*mail.SendError](err)
	if !ok {
		return fmt.Errorf("sending a mail to %s: %w", s.cfg.Addr, err)
	}
	err = errors.New("sending a mail to " + s.cfg.Addr + ": " + withoutAddress(failure, to))
	switch failure.Reason {
	case mail.ErrGetRcpts:
		return &Refusal{Err: err}
	case mail.ErrSMTPRcptTo, mail.ErrSMTPData, mail.ErrSMTPDataClose:
	default:
		return err
	}
	code := failure.ErrorCode()
	if code == 0 || code == 421 || code/10 == 50 || code/10 == 53 {
		return err
	}
	return &Refusal{Temporary: code < 500, Err: err}
}

// withoutAddress removes the recipient's address, which the library and many servers repeat,
// because errors are logged.
func withoutAddress(failure *mail.SendError, to string) string {
	text, _, _ := strings.Cut(failure.Error(), ", affected ")
	if a, err := netmail.ParseAddress(to); err == nil {
		text = strings.ReplaceAll(text, a.Address, "the recipient")
	}
	return text
}
