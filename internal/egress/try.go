package egress

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"
)

// Trial is the result of connecting to a receiver without sending a request.
type Trial struct {
	Addrs []netip.Addr // of the host; empty if it doesn't resolve

	Resolved, Connected, Secured time.Duration // time since the start; 0 if not reached

	TLSVersion string
	Issuer     string    // of the receiver's certificate
	NotAfter   time.Time // earliest expiry in the certificate chain

	Error  Code   // code that an attempt would return; empty if a request could be sent
	Detail string // for an operator; may contain internal addresses
}

// Try performs all steps of an attempt up to the request: it checks the URL, resolves the name,
// opens a guarded connection and performs the TLS handshake. It sends no request.
func (c *Client) Try(ctx context.Context, rawURL string) (found Trial) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	t, err := c.target(rawURL)
	if err != nil {
		found.Error, found.Detail = SSRFBlocked, err.Error()
		return found
	}
	if err := c.try(ctx, t, begin, &found); err != nil {
		found.Error, found.Detail = classify(err), err.Error()+chainHint(err)
	}
	return found
}

func (c *Client) try(ctx context.Context, t *target, begin time.Time, found *Trial) (err error) {
	if found.Addrs, err = c.resolve(ctx, t.host); err != nil {
		return err
	}
	found.Resolved = time.Since(begin)
	along, err := c.carry(ctx, t, found.Addrs, begin.Add(c.cfg.AttemptTimeout))
	if err != nil {
		return err
	}
	defer along.raw.Close()
	found.Connected = time.Since(begin)
	secured, err := c.handshake(ctx, along.conn, t)
	if err != nil {
		return err
	}
	found.Secured = time.Since(begin)
	state := secured.ConnectionState()
	found.TLSVersion = tls.VersionName(state.Version)
	for _, certificate := range state.PeerCertificates {
		if found.NotAfter.IsZero() || certificate.NotAfter.Before(found.NotAfter) {
			found.NotAfter = certificate.NotAfter
		}
	}
	if len(state.PeerCertificates) > 0 {
		found.Issuer = state.PeerCertificates[0].Issuer.String()
	}
	return nil
}

// LookUp returns the addresses of a host, even if the policy forbids them.
func (c *Client) LookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	return c.cfg.Resolver.LookupNetIP(ctx, "ip", host+".")
}
