package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of an endpoint's own headers.
const (
	maxHeaders               = 20
	maxHeaderNameCharacters  = 128
	maxHeaderValueCharacters = 1024
)

// refusedHeaders belong to the connection (RFC 9110, section 7.6.1), to the
// message, or to the signature, and not to an account.
var refusedHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
	"Host", "Http2-Settings", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Traceparent", "Tracestate",
}

func refusedHeader(name string) bool {
	return slices.Contains(refusedHeaders, name) || strings.HasPrefix(name, "Webhook-") ||
		strings.HasPrefix(name, "Proxy-")
}

// ownHeader is a header that an endpoint is to have: with a value that was given,
// or as it is.
type ownHeader struct {
	value string
	kept  bool
}

// readHeaders reads an endpoint's own headers, an object from name to value, on
// top of those it has: a value of null takes one away.
func readHeaders(o object, have []domain.Header) map[string]ownHeader {
	n, present := o.get("headers")
	if !present {
		return nil
	}
	given, ok := asObject(n, o.pointer("headers"), o.faults)
	if !ok {
		return nil
	}
	wanted := make(map[string]ownHeader, len(have))
	for _, h := range have {
		wanted[h.Name] = ownHeader{kept: true}
	}
	seen := make(map[string]bool, len(given.node.members))
	for _, m := range given.node.members {
		name := http.CanonicalHeaderKey(m.name)
		switch {
		case len(m.name) > maxHeaderNameCharacters || !httpguts.ValidHeaderFieldName(m.name):
			given.fault(m.name, faultInvalidValue,
				fmt.Sprintf("is not the name of a header: use at most %d letters, digits and hyphens",
					maxHeaderNameCharacters))
		case refusedHeader(name):
			given.fault(m.name, faultHeaderRefused,
				"is set by the service, or belongs to the connection: leave it out")
		case seen[name]:
			given.fault(m.name, faultDuplicate, "is named twice, in another case")
		case m.value.kind == 'n':
			delete(wanted, name)
		default:
			wanted[name] = ownHeader{value: readHeaderValue(given, m)}
		}
		seen[name] = true
	}
	if len(wanted) > maxHeaders {
		o.fault("headers", faultTooMany,
			fmt.Sprintf("must be at most %d, and would be %d", maxHeaders, len(wanted)))
	}
	return wanted
}

// sealHeaders seals the values that were given, before they go anywhere. One that
// the endpoint has already is kept, so that asking for it changes nothing.
func (a *API) sealHeaders(
	endpointID string, wanted map[string]ownHeader, have []domain.Header,
) ([]domain.Header, error) {
	present := make(map[string][]byte, len(have))
	for _, h := range have {
		present[h.Name] = h.Sealed
	}
	headers := make([]domain.Header, 0, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		h := domain.Header{Name: name}
		given := wanted[name]
		if sealed, has := present[name]; has && !given.kept {
			value, err := a.Sealer.Open(sealed, h.SealedFor(endpointID))
			given.kept = err == nil && string(value) == given.value // what does not open is replaced
		}
		if !given.kept {
			var err error
			if h.Sealed, err = a.Sealer.Seal([]byte(given.value), h.SealedFor(endpointID)); err != nil {
				return nil, fmt.Errorf("sealing the header %s of %s: %w", name, endpointID, err)
			}
		}
		headers = append(headers, h)
	}
	return headers, nil
}

// openHeaders gives an endpoint's own headers as its account set them, and the
// names of those whose value does not open.
func (a *API) openHeaders(
	e domain.Endpoint,
) (values map[string]string, lost []string, cause error) {
	values = make(map[string]string, len(e.Headers))
	for _, h := range e.Headers {
		value, err := a.Sealer.Open(h.Sealed, h.SealedFor(e.ID))
		if err != nil {
			lost, cause = append(lost, h.Name),
				fmt.Errorf("opening the header %s of %s: %w", h.Name, e.ID, err)
			continue
		}
		values[h.Name] = string(value)
	}
	return values, lost, cause
}

func readHeaderValue(o object, m member) string {
	value, ok := o.text(m.name, maxHeaderValueCharacters)
	switch {
	case !ok:
	case !printable(value) || value != strings.TrimSpace(value):
		o.fault(m.name, faultInvalidValue, "must be printable ASCII without spaces at its ends")
	case holdsSecret(value):
		o.fault(m.name, faultSecretTextRefused,
			"holds what looks like a secret of the ledger network or of this service: leave it out, and "+
				"treat the secret as exposed")
	}
	return value
}

// printable tells whether a text is of printable ASCII characters only.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
