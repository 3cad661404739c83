package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
)

// receive answers 200 to every webhook and notes when it arrived, until it is terminated.
func (t *task) receive(ctx context.Context) error {
	arrived := &tally{at: make(map[string]int64)}
	url, err := arrived.serve()
	if err != nil {
		return err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived.note(r.Header.Get("Webhook-Id"))
		}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	err = os.WriteFile(t.Roots, pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: server.Certificate().Raw,
	}), 0o600)
	if err != nil {
		return err
	}
	report(event{Kind: eventReady, URL: server.URL, Counter: url})
	<-ctx.Done()
	return nil // connections end with the process
}

// roots reads the receiver's certificate.
func roots(file string) (*x509.CertPool, error) {
	certificate, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificate) {
		return nil, errors.New("the receiver's certificate cannot be read")
	}
	return pool, nil
}
