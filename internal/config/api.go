package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
)

const (
	// requestTimeout bounds one request: a test waits for its attempt.
	requestTimeout = 45 * time.Second
	// keyTimeout bounds the wait for a new key to be known, keyInterval is how often it
	// is tried meanwhile.
	keyTimeout  = 5 * time.Second
	keyInterval = 50 * time.Millisecond
)

// API returns a client of the API.
func (s *Service) API() (*client.Client, error) {
	url, key, caFile := strings.TrimRight(s.apiURL, "/"), s.apiKey, s.caFile
	if url == "" || key == "" {
		run, err := s.Run("give --api-url and --api-key")
		switch {
		case url != "" && (err != nil || run.APIURL != strings.TrimSuffix(url, "/v1")):
			// The folder's key is only for the folder's service: it is sent to no other.
			return nil, cli.Usage(fmt.Errorf("--api-key must be given with --api-url %s, "+
				"best as the variable %s", url, cli.Variable("api-key")))
		case err != nil:
			return nil, err
		}
		url, key = cmp.Or(url, run.APIURL), cmp.Or(key, run.APIKey)
		caFile = cmp.Or(caFile, run.CAFile)
	}
	transport, err := trusting(caFile, url)
	if err != nil {
		return nil, fmt.Errorf("--ca-file %q: %w", caFile, err)
	}
	c, err := client.New(url, key, &http.Client{Transport: transport, Timeout: requestTimeout})
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--api-url %q: must be a URL such as "+
			"http://127.0.0.1:8080", url))
	}
	return c, nil
}

// trusting returns a transport that trusts the system's authorities, and over TLS those in a file.
func trusting(caFile, url string) (http.RoundTripper, error) {
	pem, err := keys.ReadAuthorities(caFile)
	if err != nil || pem == nil || strings.HasPrefix(url, "http://") {
		return http.DefaultTransport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(pem)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// AwaitKey waits, for a few seconds, until the API knows a new key. Without an API it
// returns at once: nodes know the key within 5 s.
func (s *Service) AwaitKey(ctx context.Context, key string) {
	asking := *s
	asking.apiKey = key
	c, err := asking.API()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	tick := time.NewTicker(keyInterval)
	defer tick.Stop()
	for {
		_, err := c.ListKeys(ctx, client.Page{Limit: 1})
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
