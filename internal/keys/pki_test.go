package keys

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

type place struct{ dir, secrets, certFile string }

func newPlace(t *testing.T) place {
	dir := t.TempDir()
	return place{dir, filepath.Join(dir, "secrets"), filepath.Join(dir, "ca.pem")}
}

func (p place) open(t *testing.T, at time.Time) *CA {
	t.Helper()
	ca, err := LoadOrCreateCA(p.secrets, p.certFile, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func verify(cert *x509.Certificate, host string, at time.Time, roots ...*x509.Certificate) error {
	pool := x509.NewCertPool()
	for _, r := range roots {
		pool.AddCert(r)
	}
	_, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: at})
	return err
}

func TestAuthorityIsKept(t *testing.T) {
	p := newPlace(t)
	first := p.open(t, start)
	written := read(t, p.certFile)
	again := p.open(t, start.Add(24*time.Hour))
	if !first.cert.Equal(again.cert) || !bytes.Equal(written, read(t, p.certFile)) {
		t.Error("a second start made another authority")
	}
	for path, want := range map[string]fs.FileMode{
		p.secrets:                         0o700,
		filepath.Join(p.secrets, KeyFile): 0o600,
		p.certFile:                        0o644,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, %v; want %o", path, info.Mode().Perm(), err, want)
		}
	}
	if bytes.Contains(written, []byte("PRIVATE")) {
		t.Error("the public file holds the key")
	}
	if err := os.Remove(p.certFile); err != nil {
		t.Fatal(err)
	}
	if p.open(t, start); !bytes.Equal(written, read(t, p.certFile)) {
		t.Error("a lost ca.pem was not restored")
	}
}

func TestAuthorityIsRenewedInTime(t *testing.T) {
	p := newPlace(t)
	old := p.open(t, start)
	leaf := issue(t, old)
	late := start.Add(7 * 365 * 24 * time.Hour)
	renewed := p.open(t, late)
	if renewed.cert.Equal(old.cert) || !renewed.key.Equal(old.key) {
		t.Fatal("not renewed with the same key")
	}
	if err := verify(leaf.Leaf, "localhost", start, renewed.cert); err == nil {
		t.Error("the new authority vouches for a time before it")
	}
	fresh := issue(t, renewed)
	if err := verify(fresh.Leaf, "localhost", late, old.cert); err != nil {
		t.Errorf("a client that trusts the old certificate refuses the new leaf: %v", err)
	}
	if p.open(t, late).cert.SerialNumber.Cmp(renewed.cert.SerialNumber) != 0 {
		t.Error("renewed again at once")
	}
}

func TestBrokenAuthorityIsAnError(t *testing.T) {
	p := newPlace(t)
	p.open(t, start)
	path := filepath.Join(p.secrets, KeyFile)
	whole := read(t, path)
	other := newPlace(t)
	other.open(t, start)
	foreign := read(t, filepath.Join(other.secrets, KeyFile))
	cut := bytes.Index(whole, []byte("-----BEGIN CERT"))
	for name, content := range map[string][]byte{
		"empty": nil, "half": whole[:cut], "garbage": []byte("x"),
		"another's certificate": append(bytes.Clone(whole[:cut]),
			foreign[bytes.Index(foreign, []byte("-----BEGIN CERT")):]...),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreateCA(p.secrets, p.certFile, time.Now); err == nil ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v does not name %s", name, err, path)
		}
	}
}

func TestIssue(t *testing.T) {
	ca := newPlace(t).open(t, start)
	cert := issue(t, ca)
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if err := verify(cert.Leaf, host, start, ca.cert); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := verify(cert.Leaf, "127.0.0.2", start, ca.cert); err == nil {
		t.Error("valid for a host it was not issued for")
	}
}

// Even with the authority's key, nobody must be able to create a valid certificate for anything
// beyond loopback.
func TestConstraints(t *testing.T) {
	ca := newPlace(t).open(t, start)
	key := issue(t, ca).PrivateKey.(*ecdsa.PrivateKey)
	forge := func(change func(*x509.Certificate)) *x509.Certificate {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(5),
			NotBefore:    start,
			NotAfter:     start.Add(time.Hour),
		}
		change(template)
		der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	if err := verify(forge(func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} }),
		"example.com", start, ca.cert); err == nil {
		t.Error("example.com verifies")
	}
	if err := verify(forge(func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.IPv4(8, 8, 8, 8)}
	}), "8.8.8.8", start, ca.cert); err == nil {
		t.Error("8.8.8.8 verifies")
	}
	if err := verify(forge(func(c *x509.Certificate) { c.DNSNames = []string{"localhost"} }),
		"localhost", start, ca.cert); err != nil {
		t.Errorf("the forgery itself is at fault: %v", err)
	}
}

func TestGetCertificateRenews(t *testing.T) {
	p := newPlace(t)
	now := start
	ca, err := LoadOrCreateCA(p.secrets, p.certFile, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	take := func() *tls.Certificate {
		c, err := ca.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := take()
	now = start.Add(200 * 24 * time.Hour)
	if take() != first {
		t.Error("renewed too early")
	}
	now = start.Add(300 * 24 * time.Hour)
	if take() == first {
		t.Error("not renewed near its end")
	}
}

func TestWriteFiles(t *testing.T) {
	p := newPlace(t)
	ca := p.open(t, start)
	out := filepath.Join(p.dir, "a", "out")
	certFile, keyFile, err := ca.WriteFiles(out)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(pair.Leaf, "127.0.0.1", start, ca.cert); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(keyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key.pem: mode %v, %v", info.Mode().Perm(), err)
	}
	key := read(t, keyFile)
	if _, _, err := ca.WriteFiles(out); err != nil || !bytes.Equal(key, read(t, keyFile)) {
		t.Errorf("a second call changed the key: %v", err)
	}
	if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(keyFile, []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ca.WriteFiles(out); err == nil || !strings.Contains(err.Error(), keyFile) {
		t.Errorf("a foreign key.pem: %v", err)
	}
	foreign := newPlace(t)
	othersCert, othersKey, err := foreign.open(t, start).WriteFiles(foreign.dir)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := read(t, othersCert), read(t, othersKey)
	if _, _, err := ca.WriteFiles(foreign.dir); err == nil ||
		!strings.Contains(err.Error(), othersCert) {
		t.Errorf("a cert.pem of another authority: %v", err)
	}
	if !bytes.Equal(read(t, othersCert), cert) || !bytes.Equal(read(t, othersKey), key) {
		t.Error("files of another authority were written over")
	}
}

// TestOpenSSLAgrees verifies the chain with independent code, if openssl is installed.
func TestOpenSSLAgrees(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Logf("no openssl on this machine: %v", err)
		return
	}
	p := newPlace(t)
	ca := p.open(t, time.Now())
	certFile, _, err := ca.WriteFiles(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range [][]string{
		{"-verify_hostname", "localhost"}, {"-verify_ip", "127.0.0.1"},
		{"-verify_ip", "::1"},
	} {
		args := append([]string{"verify", "-x509_strict", "-CAfile", p.certFile}, append(host,
			certFile)...)
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Errorf("openssl verify %v: %v\n%s", host, err, out)
		}
	}
}

func issue(t *testing.T, ca *CA) tls.Certificate {
	t.Helper()
	cert, err := ca.Issue()
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
