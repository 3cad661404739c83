package api

import (
	"fmt"
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
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Http2-Settings", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Traceparent", "Tracestate",
}

func refusedHeader(name string) bool {
	return slices.Contains(refusedHeaders, name) || strings.HasPrefix(name, "Webhook-") || strings.HasPrefix(name, "Proxy-")
}

// readHeaders reads an endpoint's own headers, an object from name to value, on
// top of those it has: a value of null takes one away.
func readHeaders(o object, have []domain.Header) []domain.Header {
	n, present := o.get("headers")
	if !present {
		return nil
	}
	given, ok := asObject(n, o.pointer("headers"), o.faults)
	if !ok {
		return nil
	}
	values := make(map[string]string, len(have))
	for _, h := range have {
		values[h.Name] = h.Value
	}
	seen := make(map[string]bool, len(given.node.members))
	for _, m := range given.node.members {
		name := http.CanonicalHeaderKey(m.name)
		switch {
		case len(m.name) > maxHeaderNameCharacters || !httpguts.ValidHeaderFieldName(m.name):
			given.fault(m.name, faultInvalidValue, fmt.Sprintf("is not the name of a header: use at most %d letters, digits and hyphens", maxHeaderNameCharacters))
		case refusedHeader(name):
			given.fault(m.name, faultHeaderRefused, "is set by the service, or belongs to the connection: leave it out")
		case seen[name]:
			given.fault(m.name, faultDuplicate, "is named twice, in another case")
		case m.value.kind == 'n':
			delete(values, name)
		default:
			values[name] = readHeaderValue(given, m)
		}
		seen[name] = true
	}
	if len(values) > maxHeaders {
		o.fault("headers", faultTooMany, fmt.Sprintf("must be at most %d, and would be %d", maxHeaders, len(values)))
	}
	headers := make([]domain.Header, 0, len(values))
	for name, value := range values {
		headers = append(headers, domain.Header{Name: name, Value: value})
	}
	slices.SortFunc(headers, func(a, b domain.Header) int { return strings.Compare(a.Name, b.Name) })
	return headers
}

func readHeaderValue(o object, m member) string {
	value, ok := o.text(m.name, maxHeaderValueCharacters)
	switch {
	case !ok:
	case !printable(value) || value != strings.TrimSpace(value):
		o.fault(m.name, faultInvalidValue, "must be printable ASCII without spaces at its ends")
	case holdsSecret(value):
		o.fault(m.name, faultSecretTextRefused, "holds what looks like a secret of the ledger network or of this service: leave it out, and treat the secret as exposed")
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
