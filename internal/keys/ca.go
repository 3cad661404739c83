package keys

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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
	leafLife = 397 * 24 * time.Hour // the maximum that browsers accept
	// backdate allows for peers whose clocks are slightly behind.
	backdate = time.Hour
	// KeyFile is the name of the authority's file in the secrets folder.
	KeyFile = "ca-key.pem"

	keyBlock  = "PRIVATE KEY"
	certBlock = "CERTIFICATE"
)

// CA is a certificate authority for localhost, 127.0.0.1 and ::1. It is safe for concurrent use.
type CA struct {
	key      *ecdsa.PrivateKey
	cert     *x509.Certificate
	certFile string
	now      func() time.Time

	mu     sync.Mutex
	issued *tls.Certificate // returned by GetCertificate
}

// LoadOrCreateCA opens the authority in secretsDir, creating or renewing it if necessary, and
// writes its public certificate to certFile. If the authority can't be read, it returns an error
// instead of creating a new one, because clients trust the old one.
func LoadOrCreateCA(secretsDir, certFile string, now func() time.Time) (*CA, error) {
	if err := os.MkdirAll(secretsDir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the secrets folder: %w", err)
	}
	path := filepath.Join(secretsDir, KeyFile)
	ca := &CA{certFile: certFile, now: now}
	err := ca.load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if ca.key, err = newKey(); err == nil {
			err = ca.certify(path)
		}
	case err != nil:
		return nil, fmt.Errorf("reading the certificate authority in %s: %w; restore it, or remove the "+
			"file to create a new authority, which clients must then trust", path, err)
	case nearEnd(ca.cert, now()):
		err = ca.certify(path)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the certificate authority in %s: %w", path, err)
	}
	// Leave an up-to-date file alone, so that programs that watch it don't see a change.
	content := encode(certBlock, ca.cert.Raw)
	if old, err := os.ReadFile(certFile); err == nil && string(old) == string(content) {
		return ca, nil
	}
	return ca, WriteFile(certFile, content, 0o644)
}

func (ca *CA) load(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(raw, raw)
	if err != nil {
		return err
	}
	key, isECDSA := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !isECDSA || !pair.Leaf.IsCA {
		return errors.New("it is not the certificate of an authority with an ECDSA key")
	}
	ca.key, ca.cert = key, pair.Leaf
	// The key may be readable because of an old umask or because the folder was copied.
	return os.Chmod(path, 0o600)
}

// certify signs a certificate for the key and writes both to one file (P1).
func (ca *CA) certify(path string) error {
	template := ca.template(caLife)
	// Always the same name, so that certificates issued earlier stay valid.
	template.Subject = pkix.Name{
		Organization: []string{"Lumenhook"},
		CommonName:   "Lumenhook local receivers",
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains = []string{"localhost"}
	template.PermittedIPRanges = []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
	key, err := encodeKey(ca.key)
	if err == nil {
		ca.cert, err = ca.sign(template, template, &ca.key.PublicKey)
	}
	if err != nil {
		return err
	}
	return WriteFile(path, append(key, encode(certBlock, ca.cert.Raw)...), 0o600)
}

func (ca *CA) template(life time.Duration) *x509.Certificate {
	now := ca.now()
	return &x509.Certificate{NotBefore: now.Add(-backdate), NotAfter: now.Add(life)}
}

func (ca *CA) sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey,
) (_ *x509.Certificate, err error) {
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, ca.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

// CertFile returns the name of the file with the authority's certificate.
func (ca *CA) CertFile() string { return ca.certFile }

// AddTo makes a pool trust the authority.
func (ca *CA) AddTo(pool *x509.CertPool) { pool.AddCert(ca.cert) }

// nearEnd reports whether less than a third of a certificate's lifetime is left.
func nearEnd(cert *x509.Certificate, now time.Time) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return now.After(cert.NotAfter.Add(-life/3)) || now.Before(cert.NotBefore)
}

// Issue creates a key and a certificate for a server on this machine.
func (ca *CA) Issue() (tls.Certificate, error) {
	key, err := newKey()
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := ca.issueFor(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func (ca *CA) issueFor(key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	template := ca.template(leafLife)
	template.Subject = pkix.Name{Organization: []string{"Lumenhook"}, CommonName: "localhost"}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return ca.sign(template, ca.cert, &key.PublicKey)
}

// GetCertificate implements [tls.Config.GetCertificate]. It issues a certificate on first use and
// when the last one is about to expire.
func (ca *CA) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if ca.issued == nil || nearEnd(ca.issued.Leaf, ca.now()) {
		issued, err := ca.Issue()
		if err != nil {
			return nil, err
		}
		ca.issued = &issued
	}
	return ca.issued, nil
}

// WriteFiles writes a certificate as cert.pem and its key as key.pem into dir. It reuses an
// existing key, so that the files match even if the process is killed between writing them. It
// replaces a certificate of this authority; one of another authority is an error.
func (ca *CA) WriteFiles(dir string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", fmt.Errorf("creating the folder for the certificate: %w", err)
	}
	if err := ca.checkOwn(certFile); err != nil {
		return "", "", err
	}
	key, err := loadOrCreateKey(keyFile)
	if err != nil {
		return "", "", err
	}
	cert, err := ca.issueFor(key)
	if err == nil {
		err = WriteFile(certFile, encode(certBlock, cert.Raw), 0o644)
	}
	return certFile, keyFile, err
}

// checkOwn returns an error if the file exists but is not a certificate of this authority.
func (ca *CA) checkOwn(certFile string) error {
	raw, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the existing certificate: %w", err)
	}
	if block, _ := pem.Decode(raw); block != nil && block.Type == certBlock {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err == nil && cert.CheckSignatureFrom(ca.cert) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s exists but is not a certificate of this authority: use another folder, "+
		"or move the file away", certFile)
}

func loadOrCreateKey(path string) (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key, err := newKey()
		if err != nil {
			return nil, err
		}
		encoded, err := encodeKey(key)
		if err == nil {
			err = WriteFile(path, encoded, 0o600)
		}
		return key, err
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	if block, _ := pem.Decode(raw); block != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if key, isECDSA := parsed.(*ecdsa.PrivateKey); err == nil && isECDSA {
			return key, nil
		}
	}
	return nil, fmt.Errorf("%s exists but is not an ECDSA key: use another folder, or remove the file",
		path)
}

func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode(keyBlock, der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// ReadAuthorities reads a PEM file of certificates. If path is empty, it returns nil.
func ReadAuthorities(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
		err = errors.New("contains no certificate in PEM form")
	}
	return text, err
}
