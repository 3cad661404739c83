package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 397 * 24 * time.Hour // the longest that browsers accept
	// backdate lets a peer whose clock is a little behind accept a new certificate.
	backdate = time.Hour
	// KeyFile is the name of the authority's file in its secrets folder.
	KeyFile = "ca-key.pem"
)

// CA is a certificate authority for loopback hosts. It is safe for concurrent use.
type CA struct {
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	certFile string
	now      func() time.Time

	mu     sync.Mutex
	leaves map[string]*leaf
}

// LoadOrCreateCA opens the authority kept in secretsDir, making or renewing it when needed,
// and writes its certificate, which is public, to certFile. A file that cannot be read as
// an authority is an error, not a reason to make a new one: clients trust the old one.
func LoadOrCreateCA(secretsDir, certFile string, now func() time.Time) (*CA, error) {
	if err := os.MkdirAll(secretsDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the secrets folder: %w", err)
	}
	path := filepath.Join(secretsDir, KeyFile)
	ca := &CA{certFile: certFile, now: now, leaves: make(map[string]*leaf)}
	err := ca.load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = ca.create(path)
	case err != nil:
		return nil, fmt.Errorf("read the certificate authority in %s: %w; mend it, or remove the file "+
			"to make a new authority (clients must then trust the new one)", path, err)
	case nearEnd(ca.cert, now()):
		err = ca.certify(path)
	}
	if err != nil {
		return nil, fmt.Errorf("make the certificate authority in %s: %w", path, err)
	}
	if err := writeIfOther(certFile, encodeCert(ca.cert.Raw), 0o644); err != nil {
		return nil, fmt.Errorf("write the certificate authority's certificate: %w", err)
	}
	return ca, nil
}

func (ca *CA) load(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if ca.key, ca.cert, err = decodePair(raw); err != nil {
		return err
	}
	if !ca.cert.IsCA {
		return errors.New("the certificate is not an authority's")
	}
	// An older umask or a copied folder must not leave the key readable.
	return os.Chmod(path, 0o600)
}

func (ca *CA) create(path string) (err error) {
	if ca.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	return ca.certify(path)
}

// certify signs a certificate for the key and writes both (P1).
func (ca *CA) certify(path string) error {
	serial, err := newSerial()
	if err != nil {
		return err
	}
	now := ca.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		// The same name each time: certificates issued before must find their issuer.
		Subject: pkix.Name{
			Organization: []string{"Lumenhook"},
			CommonName:   "Lumenhook local receivers",
		},
		NotBefore:                   now.Add(-backdate),
		NotAfter:                    now.Add(caLife),
		IsCA:                        true,
		BasicConstraintsValid:       true,
		MaxPathLenZero:              true,
		KeyUsage:                    x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{"localhost"},
		PermittedIPRanges:           loopback(),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	key, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	return writeByRename(path, append(key, encodeCert(der)...), 0o600)
}

// CertFile is where the authority's certificate lies, for clients to trust.
func (ca *CA) CertFile() string { return ca.certFile }

// AddTo makes a pool trust what the authority issues.
func (ca *CA) AddTo(pool *x509.CertPool) { pool.AddCert(ca.cert) }

func loopback() []*net.IPNet {
	return []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
}

// nearEnd reports whether less than a third of a certificate's life is left.
func nearEnd(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.After(cert.NotAfter.Add(-life/3)) || now.Before(cert.NotBefore)
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}
