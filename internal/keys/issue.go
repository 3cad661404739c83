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
	"net"
	"os"
	"path/filepath"
	"strings"
)

// leaf is an issued certificate kept for GetCertificate.
type leaf struct {
	tls  *tls.Certificate
	cert *x509.Certificate
}

// DefaultHosts are what a certificate is issued for when no host is named.
func DefaultHosts() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// Issue makes a certificate and key for a server on the hosts, all of them
// loopback names or addresses; DefaultHosts when none is given.
func (ca *CA) Issue(hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	cert, err := ca.issueFor(key, hosts)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}, nil
}

func (ca *CA) issueFor(key *ecdsa.PrivateKey, hosts []string) (*x509.Certificate, error) {
	if len(hosts) == 0 {
		hosts = DefaultHosts()
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := ca.now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{Organization: []string{"Lumenhook"}, CommonName: hosts[0]},
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(leafLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, host := range hosts {
		if err := addHost(template, host); err != nil {
			return nil, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return x509.ParseCertificate(der)
}

func addHost(template *x509.Certificate, host string) error {
	if ip := net.ParseIP(host); ip != nil {
		if !ip.IsLoopback() {
			return fmt.Errorf("host %s is not a loopback address: this authority issues for 127.0.0.0/8, "+
				"::1 and localhost only", host)
		}
		template.IPAddresses = append(template.IPAddresses, ip)
		return nil
	}
	name := strings.ToLower(host)
	if name != "localhost" &&
		(!strings.HasSuffix(name, ".localhost") ||
			strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "") {
		return fmt.Errorf("host %q is not a loopback name: this authority issues for localhost, names "+
			"below it, 127.0.0.0/8 and ::1 only", host)
	}
	template.DNSNames = append(template.DNSNames, name)
	return nil
}

// GetCertificate returns a function for tls.Config.GetCertificate which issues
// for the hosts at first use and again when the certificate nears its end, for
// servers that outlive one certificate.
func (ca *CA) GetCertificate(hosts ...string) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.Join(hosts, ",")
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		ca.mu.Lock()
		defer ca.mu.Unlock()
		if l := ca.leaves[name]; l != nil && !nearEnd(l.cert, ca.now()) {
			return l.tls, nil
		}
		issued, err := ca.Issue(hosts...)
		if err != nil {
			return nil, err
		}
		ca.leaves[name] = &leaf{tls: &issued, cert: issued.Leaf}
		return &issued, nil
	}
}

// WriteFiles writes a certificate for the hosts as cert.pem and its key as
// key.pem into dir. A key that is there already is used again, so that a kill
// between the two files leaves a pair that fits; a certificate that is there is
// exchanged if it is this authority's, and if not left alone, with an error.
func (ca *CA) WriteFiles(dir string, hosts ...string) (certFile, keyFile string, err error) {
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", "", fmt.Errorf("make the folder for the certificate: %w", err)
	}
	if err := ca.checkOwn(certFile); err != nil {
		return "", "", err
	}
	key, err := loadOrCreateKey(keyFile)
	if err != nil {
		return "", "", err
	}
	cert, err := ca.issueFor(key, hosts)
	if err != nil {
		return "", "", err
	}
	if err := writeByRename(certFile, encodeCert(cert.Raw), 0o644); err != nil {
		return "", "", fmt.Errorf("write the certificate: %w", err)
	}
	return certFile, keyFile, nil
}

var errForeignCert = errors.New("is there and is no certificate of this authority: " +
	"name another folder, or take it away")

// checkOwn refuses a file that is there and holds no certificate of this authority.
func (ca *CA) checkOwn(certFile string) error {
	raw, err := os.ReadFile(certFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the certificate that is there: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != certBlock {
		return fmt.Errorf("%s %w", certFile, errForeignCert)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || cert.CheckSignatureFrom(ca.cert) != nil {
		return fmt.Errorf("%s %w", certFile, errForeignCert)
	}
	return nil
}

func loadOrCreateKey(path string) (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if err == nil {
		key, err := decodeKey(raw)
		if err != nil {
			return nil, fmt.Errorf("%s is there but is no EC key of ours (%w): name another folder, or "+
				"remove it", path, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	if err := writeByRename(path, encoded, 0o600); err != nil {
		return nil, fmt.Errorf("write the key: %w", err)
	}
	return key, nil
}
