package egress

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"
)

// Trial is how far the way to a receiver leads, without a request.
type Trial struct {
	Addrs []netip.Addr // that its name leads to; none where it does not resolve

	Resolved, Connected, Secured time.Duration // since the beginning; 0: it did not come to that

	TLSVersion string
	Protocol   string    // h2, or http/1.1
	Issuer     string    // of its certificate
	NotAfter   time.Time // of the chain's certificate that ends first

	Error  Code   // that an attempt would end with; empty: a request could be sent
	Detail string // for an operator: it may name internal addresses
}

// Try goes the way of an attempt to a receiver up to the request: its URL and name are checked,
// a connection is opened under the guard and secured, and closed. The receiver gets nothing.
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
	found.TLSVersion, found.Protocol = tls.VersionName(state.Version), state.NegotiatedProtocol
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

// LookUp asks for the addresses of a name as an attempt does, whatever the policy says of them.
func (c *Client) LookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	return c.cfg.Resolver.LookupNetIP(ctx, "ip", host+".")
}
