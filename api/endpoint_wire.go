package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Limits of an endpoint's fields.
const (
	maxURLCharacters         = 2048
	maxDescriptionCharacters = 1024
	maxRatePerSecond         = 10_000
	maxHeaders               = 20
	maxHeaderNameCharacters  = 128
	maxHeaderValueCharacters = 1024
)

// headerMask replaces header values in all responses. An update that sends it back keeps the value,
// so clients can read an endpoint, change it and send it back completely.
var headerMask = domain.Secret("").String()

// viewEndpoint converts an endpoint to the API's form. lost lists the headers whose values cannot
// be decrypted. It shows no header values.
func viewEndpoint(e domain.Endpoint, lost []string) client.Endpoint {
	headers := make(map[string]string, len(e.Headers))
	for _, h := range e.Headers {
		if !slices.Contains(lost, h.Name) {
			headers[h.Name] = headerMask
		}
	}
	return client.Endpoint{
		ID:                  e.ID,
		URL:                 e.URL,
		Description:         e.Description,
		Headers:             headers,
		LostHeaders:         lost,
		RateLimitPerSecond:  unlessZero(e.RateLimitPerSecond),
		Signatures:          e.Signatures.Names(),
		Ordering:            string(e.Ordering),
		NoticesTo:           e.NoticesTo,
		SigningKeyRotatedAt: instant(e.SigningKeyRotatedAtMillis),
		Status:              string(e.Status),
		DisabledReason:      nullable(e.DisabledReason),
		DisabledAt:          instant(e.DisabledAtMillis),
		ConsecutiveFailures: e.ConsecutiveFailures,
		CreatedAt:           at(e.CreatedAtMillis),
		UpdatedAt:           at(e.UpdatedAtMillis),
	}
}

// previousSecretUntil returns when the previous secret stops signing, which may be in the past; nil
// if there is none.
func previousSecretUntil(secrets []domain.SealedSecret) *time.Time {
	var until int64
	for _, s := range secrets {
		until = max(until, s.ExpiresAtMillis)
	}
	return instant(until)
}

// endpointBody is the body of a request to create or update an endpoint. Fields that an update
// omits are nil. The URL has not been checked against the policy, and the headers must still be
// sealed.
type endpointBody struct {
	domain.EndpointChange
	headers *headerUpdates
}

// fields returns the fields of an endpoint. Headers are merged into the existing ones.
func (b *endpointBody) fields(have []domain.Header) []decode.Field {
	return []decode.Field{
		{Name: "url", Read: b.readURL},
		decode.IntoNew("description", &b.Description, freeText(maxDescriptionCharacters)),
		decode.IntoNew("headers", &b.headers, func(v decode.Value) headerUpdates {
			return readHeaders(v, have)
		}),
		decode.IntoNew("rateLimitPerSecond", &b.RateLimitPerSecond, func(v decode.Value) int {
			limit, _ := v.Integer(1, maxRatePerSecond)
			return limit
		}),
		decode.IntoNew("signatures", &b.Signatures, readSignatures),
		decode.IntoNew("ordering", &b.Ordering, readOrdering),
		decode.IntoNew("noticesTo", &b.NoticesTo, readNoticesTo),
	}
}

func readOrdering(v decode.Value) domain.Ordering {
	name, given := v.AnyText()
	if given && domain.Ordering(name) != domain.OrderingWallet {
		v.Fault(problem.FaultInvalidValue, "must be wallet, or null or left out for none")
	}
	return domain.Ordering(name)
}

// readNoticesTo reads the endpoint that receives notices. null or no value means none.
func readNoticesTo(v decode.Value) string {
	id, given := v.AnyText()
	if given && !domain.IsID(domain.EndpointPrefix, id) {
		v.Fault(problem.FaultInvalidValue, "must be the id of an endpoint that takes notices: ep_ and "+
			"26 characters; or null or left out for none")
		return ""
	}
	return id
}

func decodeNewEndpoint(body []byte) (b endpointBody, faults *problem.Faults) {
	faults = decode.Object(body, b.fields(nil)...)
	return b, faults
}

// decodeEndpointPatch decodes a merge patch: fields that are present change, and null restores a
// field's default. A field with its current value is no change, even if that value would be refused
// now.
func decodeEndpointPatch(
	body []byte, have domain.Endpoint, shown decode.Shown,
) (b endpointBody, faults *problem.Faults) {
	faults = decode.Patch(body, shown, b.fields(have.Headers)...)
	if b.URL != nil && *b.URL == have.URL {
		b.URL = nil
	}
	if b.NoticesTo != nil && *b.NoticesTo == have.NoticesTo {
		b.NoticesTo = nil
	}
	return b, faults
}

func (b *endpointBody) create(id, accountID string) domain.CreateEndpoint {
	return domain.CreateEndpoint{
		EndpointID: id,
		AccountID:  accountID,
		EndpointSettings: domain.EndpointSettings{
			URL:                *b.URL,
			Description:        *b.Description,
			RateLimitPerSecond: *b.RateLimitPerSecond,
			Signatures:         *b.Signatures,
			Ordering:           *b.Ordering,
			NoticesTo:          *b.NoticesTo,
		},
	}
}

// readURL reads the URL. If it is invalid, b.URL stays nil.
func (b *endpointBody) readURL(v decode.Value) {
	if raw, ok := v.RequiredText(maxURLCharacters); ok && !refuseSecret(v, raw) {
		b.URL = &raw
	}
}

// refusedHeaders belong to the connection (RFC 9110, section 7.6.1), to the message or to the
// signature, so accounts cannot set them.
var refusedHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect",
	"Host", "Http2-Settings", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Traceparent", "Tracestate",
}

func refusedHeader(name string) bool {
	return slices.Contains(refusedHeaders, name) || strings.HasPrefix(name, "Webhook-") ||
		strings.HasPrefix(name, "Proxy-")
}

// headerUpdates are the headers that an endpoint will have, by name.
type headerUpdates map[string]headerUpdate

// headerUpdate has a new value or keeps the current one.
type headerUpdate struct {
	value     string
	unchanged bool
}

// readHeaders reads custom headers, an object from name to value, and merges them into the existing
// ones. null removes a header.
func readHeaders(v decode.Value, have []domain.Header) headerUpdates {
	if !v.IsObject() {
		return nil
	}
	wanted := make(headerUpdates, len(have))
	for _, h := range have {
		wanted[h.Name] = headerUpdate{unchanged: true}
	}
	seen := make(map[string]bool)
	for given, value := range v.Members() {
		name := http.CanonicalHeaderKey(given)
		switch {
		case len(given) > maxHeaderNameCharacters || !httpguts.ValidHeaderFieldName(given):
			value.Fault(problem.FaultInvalidValue,
				fmt.Sprintf("is not the name of a header: use at most %d letters, digits and hyphens",
					maxHeaderNameCharacters))
		case refusedHeader(name):
			value.Fault(problem.FaultHeaderRefused,
				"is set by the service, or belongs to the connection: leave it out")
		case seen[name]:
			value.Fault(problem.FaultDuplicate, "is named twice, in another case")
		case value.Null():
			delete(wanted, name)
		default:
			given := readHeaderValue(value)
			_, has := wanted[name]
			if given == headerMask && !has {
				value.Fault(problem.FaultInvalidValue,
					"is what answers show in place of a value: send the value itself")
			}
			wanted[name] = headerUpdate{value: given, unchanged: given == headerMask}
		}
		seen[name] = true
	}
	if len(wanted) > maxHeaders {
		v.Fault(problem.FaultTooMany,
			fmt.Sprintf("must be at most %d, and would be %d", maxHeaders, len(wanted)))
	}
	return wanted
}

func readHeaderValue(v decode.Value) string {
	value, ok := v.Text(maxHeaderValueCharacters)
	switch {
	case !ok:
	case !decode.Printable(value) || value != strings.TrimSpace(value):
		v.Fault(problem.FaultInvalidValue, "must be printable ASCII without spaces at its ends")
	case holdsSecret(value):
		v.Fault(problem.FaultSecretTextRefused,
			"holds what looks like a secret of the ledger network or of this service: leave it out, and "+
				"treat the secret as exposed")
	}
	return value
}

// sealHeaders seals the given values before they leave the API. A value that the endpoint already
// has keeps its seal, so that setting it again changes nothing.
func (a *API) sealHeaders(
	endpointID string, wanted headerUpdates, have []domain.Header,
) ([]domain.Header, error) {
	present := make(map[string][]byte, len(have))
	for _, h := range have {
		present[h.Name] = h.Sealed
	}
	headers := make([]domain.Header, 0, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		h := domain.Header{Name: name}
		given := wanted[name]
		if sealed, has := present[name]; has && !given.unchanged {
			value, err := a.Sealer.Open(sealed, h.SealedFor(endpointID))
			given.unchanged = err == nil && string(value) == given.value // otherwise it is replaced
		}
		if !given.unchanged {
			var err error
			if h.Sealed, err = a.Sealer.Seal([]byte(given.value), h.SealedFor(endpointID)); err != nil {
				return nil, fmt.Errorf("sealing the header %s of %s: %w", name, endpointID, err)
			}
		}
		headers = append(headers, h)
	}
	return headers, nil
}

// lostHeaders returns the names of headers whose values the master keys cannot decrypt.
func (a *API) lostHeaders(e domain.Endpoint) (lost []string) {
	for _, h := range e.Headers {
		if _, err := a.Sealer.Open(h.Sealed, h.SealedFor(e.ID)); err != nil {
			a.Log.Warn("the master keys do not open the value of a header",
				"endpoint", e.ID, "header", h.Name, "error", err)
			lost = append(lost, h.Name)
		}
	}
	return lost
}

// moves reports whether a change gives the endpoint a URL with another origin.
func (b *endpointBody) moves(have domain.Endpoint) bool {
	return b.URL != nil && !domain.SameOrigin(*b.URL, have.URL)
}

// droppedHeaders returns the names of headers that the endpoint loses because the change moves it
// to another origin without sending their values again.
func (b *endpointBody) droppedHeaders(have domain.Endpoint) (dropped []string) {
	for _, h := range have.Headers {
		if b.moves(have) && (b.headers == nil || (*b.headers)[h.Name].unchanged) {
			dropped = append(dropped, h.Name)
		}
	}
	return dropped
}
