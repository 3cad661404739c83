package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TLS configures the encryption of connections to the brokers. The zero value means no encryption.
// Files are read at each connection, so certificates can be renewed while the program runs.
type TLS struct {
	Enabled bool
	// CAFile contains the certificate authorities for the brokers' certificates, in PEM form. If
	// empty, the system's authorities apply.
	CAFile string
	// CertFile and KeyFile are the client's certificate and key, in PEM form, for brokers that require
	// mutual TLS.
	CertFile, KeyFile string
}

// Check returns an error that names the invalid setting.
func (t TLS) Check() error {
	switch {
	case !t.Enabled && t != TLS{}:
		return errors.New("certificate files require TLS, which is not enabled")
	case !t.Enabled:
		return nil
	case (t.CertFile == "") != (t.KeyFile == ""):
		return errors.New("a client certificate requires a key, and vice versa")
	}
	_, err := t.Config()
	return err
}

// Config reads the files.
func (t TLS) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := readBounded(t.CAFile)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate in PEM form", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the client's certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// dialTimeout is short because a broker whose machine is gone does not answer, and each of its
// partitions waits that long before looking for its new leader.
const dialTimeout = 2 * time.Second

func (t TLS) option(l *slog.Logger) kgo.Opt {
	if !t.Enabled {
		return kgo.DialTimeout(dialTimeout)
	}
	return kgo.Dialer((&tlsDialer{files: t, logger: l}).dial)
}

// tlsDialer dials with the current files. While they are unusable, for example between writing a
// certificate and its key, it uses their previous content.
type tlsDialer struct {
	files  TLS
	logger *slog.Logger
	mu     sync.Mutex
	latest *tls.Config
}

func (d *tlsDialer) config() (*tls.Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.files.Config()
	switch {
	case err == nil:
		d.latest = c
	case d.latest == nil:
		return nil, err
	default:
		d.logger.Warn("cannot use the TLS files for Kafka; still using the previous ones",
			"error", err)
	}
	return d.latest, nil
}

func (d *tlsDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.config()
	if err != nil {
		return nil, fmt.Errorf("streams: connecting to %s: %w", address, err)
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialTimeout}, Config: c}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("streams: connecting to %s over TLS: %w%s", address, err, tlsAdvice(err))
	}
	return conn, nil
}

func tlsAdvice(err error) string {
	var authority x509.UnknownAuthorityError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		return ": set --kafka-ca-file to the certificate authority of the brokers"
	case errors.As(err, &record):
		return ": that port does not speak TLS"
	}
	return ""
}

const mostFileBytes = 1 << 20

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostFileBytes+1))
	if err == nil && len(data) > mostFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, mostFileBytes)
	}
	return data, err
}

func readSecret(path string) (string, error) {
	data, err := readBounded(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}
