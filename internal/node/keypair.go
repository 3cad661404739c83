package node

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookAtCertificateEvery is the minimum interval between checks of the files.
const lookAtCertificateEvery = time.Second

// keyPair is a certificate and its key, reloaded when the files change.
type keyPair struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	cert   *tls.Certificate
	stamp  [2]fileStamp
	looked time.Time
}

type fileStamp struct {
	sizeBytes int64
	modified  time.Time
}

func loadKeyPair(certFile, keyFile string, log *slog.Logger) (*keyPair, error) {
	p := &keyPair{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	p.stamp = p.stampNow()
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("api: invalid certificate %s or key %s: %w",
			certFile, keyFile, err)
	}
	p.cert = &cert
	return p, nil
}

func (p *keyPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.looked) >= lookAtCertificateEvery {
		p.looked = now
		p.look()
	}
	return p.cert, nil
}

// look loads a changed pair if the two files match. It tries each change once. A renewal may write
// one file after the other.
func (p *keyPair) look() {
	stamp := p.stampNow()
	if stamp == p.stamp {
		return
	}
	p.stamp = stamp
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		p.log.Warn("cannot load the API's changed certificate; the previous one stays in use",
			"certificate", p.certFile, "error", err)
		return
	}
	p.cert = &cert
	p.log.Info("the API's certificate was renewed", "certificate", p.certFile)
}

func (p *keyPair) stampNow() (stamps [2]fileStamp) {
	for i, path := range []string{p.certFile, p.keyFile} {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = fileStamp{info.Size(), info.ModTime()}
		}
	}
	return stamps
}
