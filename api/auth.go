package api

import (
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// caller identifies who sent a request and what they may do.
type caller struct {
	accountID   string
	keyID       string
	permissions []domain.Permission
	// expiresAtMillis is when the key expires. 0 means never, or that the caller uses a link, which
	// cannot create links.
	expiresAtMillis int64
	byLink          bool   // with the credential of a portal link that the key created
	endpointID      string // the only endpoint of the link; empty: the whole account
}

const directoryRetrySeconds = 1

// authenticate admits a request if its key has the permission and its account is within the rate
// limit. The response is the same for a mistyped, unknown, revoked or expired key and for a key
// used from a forbidden network.
func (a *API) authenticate(
	h http.Header, r *request, needed domain.Permission,
) (err error) {
	text, ok := bearerKey(r.http.Header.Values("Authorization"))
	if !ok || !domain.WellFormedAPIKey(text) && !domain.LooksLikePortal(text) {
		return unauthenticated()
	}
	if err := a.Directory.Fresh(); err != nil {
		return problem.New(problem.CodeDirectoryBehind,
			"This node has not confirmed the newest keys and endpoints. Repeat the request after the time "+
				"in Retry-After.").RetryAfter(directoryRetrySeconds).Because(err)
	}
	now := a.Now()
	if r.caller, err = a.callerWith(r, text, now); err != nil {
		return err
	}
	a.noteUse(r.caller.keyID, now)
	if err := a.limits.take(h, r.caller); err != nil {
		return err
	}
	if !slices.Contains(r.caller.permissions, needed) {
		return problem.New(problem.CodeMissingPermission,
			fmt.Sprintf("The API key lacks the permission %q. Use a key that has it.", needed))
	}
	return nil
}

// refuseLink refuses the credential of a portal link for operations that require a key. What a link
// could create there would outlive it.
func refuseLink(r *request) error {
	if !r.caller.byLink {
		return nil
	}
	return problem.New(problem.CodeMissingPermission,
		"A portal link gives no access to API keys and portal links. Use an API key.")
}

// callerWith finds the caller by the key. For the credential of a portal link, it is the owner of
// the key that created the link, with the link's permissions.
func (a *API) callerWith(r *request, text string, now time.Time) (caller, error) {
	if domain.LooksLikePortal(text) {
		return a.callerByLink(r, text, now)
	}
	hash := domain.APIKeyHash(text)
	key, accountID, known, err := a.Directory.KeyByHash(hash)
	if err != nil {
		return caller{}, fmt.Errorf("looking up an API key: %w", err)
	}
	if !known || subtle.ConstantTimeCompare(key.Hash, hash) != 1 || key.Expired(now.UnixMilli()) ||
		!a.usableFrom(key, r.http) {
		return caller{}, unauthenticated()
	}
	return caller{
		accountID:       accountID,
		keyID:           key.ID,
		permissions:     key.Permissions,
		expiresAtMillis: key.ExpiresAtMillis,
	}, nil
}

func (a *API) callerByLink(r *request, credential string, now time.Time) (caller, error) {
	grant, ok := a.PortalLinks.Read(credential, now.UnixMilli())
	if !ok {
		return caller{}, unauthenticated()
	}
	account, _, err := a.Directory.Account(grant.AccountID)
	if err != nil {
		return caller{}, fmt.Errorf("looking up the account of a portal link: %w", err)
	}
	key, there := account.Key(grant.KeyID)
	if !there || key.Expired(now.UnixMilli()) || !a.usableFrom(key, r.http) {
		return caller{}, unauthenticated()
	}
	return caller{
		accountID:   grant.AccountID,
		keyID:       key.ID,
		permissions: grant.Narrow(key).Permissions,
		byLink:      true,
		endpointID:  grant.EndpointID,
	}, nil
}

// stillValid checks again, after a request has waited, that its key has not been revoked and has
// not expired.
func (a *API) stillValid(r *request) error {
	text, _ := bearerKey(r.http.Header.Values("Authorization"))
	_, err := a.callerWith(r, text, a.Now())
	return err
}

func unauthenticated() error {
	return problem.New(problem.CodeUnauthenticated,
		"Send a valid API key in the header Authorization: Bearer <API_KEY>.")
}

func bearerKey(headers []string) (string, bool) {
	if len(headers) != 1 {
		return "", false
	}
	scheme, key, ok := strings.Cut(headers[0], " ")
	return strings.TrimSpace(key), ok && strings.EqualFold(scheme, "Bearer")
}

// usableFrom reports whether a key may be used from the request's address.
func (a *API) usableFrom(key domain.Key, r *http.Request) bool {
	if len(key.AllowedCIDRs) == 0 {
		return true
	}
	address, known := a.clientAddress(r)
	if !known {
		return false
	}
	for _, text := range key.AllowedCIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Contains(address) {
			return true
		}
	}
	return false
}

// clientAddress returns the peer's address. While that is a trusted proxy, it is replaced with the
// last remaining entry of X-Forwarded-For. Entries before the first untrusted address are ignored,
// because anyone can send them.
func (a *API) clientAddress(r *http.Request) (netip.Addr, bool) {
	end, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	address := end.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for a.trusts(address) && len(hops) > 0 {
		hop := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		if hop == "" && len(hops) == 0 {
			break // the proxy itself sent the request
		}
		named, ok := parseHop(hop)
		if !ok {
			return netip.Addr{}, false
		}
		address = named
	}
	return address, true
}

func (a *API) trusts(address netip.Addr) bool {
	return slices.ContainsFunc(a.TrustedProxies,
		func(p netip.Prefix) bool { return p.Contains(address) })
}

// parseHop parses an address, to which some proxies add a port.
func parseHop(s string) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return address.Unmap().WithZone(""), true
	}
	end, err := netip.ParseAddrPort(s)
	return end.Addr().Unmap().WithZone(""), err == nil
}
