package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	get    = http.MethodGet
	post   = http.MethodPost
	patch  = http.MethodPatch
	remove = http.MethodDelete
)

func (c *Client) endpoint(ctx context.Context, one call, o []Option) (e Endpoint, err error) {
	one.into, one.etag = &e, &e.ETag
	err = c.do(ctx, one, o...)
	return e, err
}

func (c *Client) watch(ctx context.Context, one call, o []Option) (w Watch, err error) {
	one.into, one.etag = &w, &w.ETag
	err = c.do(ctx, one, o...)
	return w, err
}

func ask[T any](ctx context.Context, c *Client, one call, o ...Option) (answer T, err error) {
	one.into = &answer
	err = c.do(ctx, one, o...)
	return answer, err
}

func id(prefix, id string, rest ...string) string {
	path := prefix + "/" + url.PathEscape(id)
	for _, r := range rest {
		path += "/" + r
	}
	return path
}

const (
	endpoints = "/v1/endpoints"
	watches   = "/v1/watches"
	events    = "/v1/events"
	keys      = "/v1/api-keys"
)

// query makes the parameters of a list; empty ones are left out.
func query(p Page, pairs ...string) url.Values {
	v := url.Values{}
	if p.Limit != 0 {
		pairs = append(pairs, "limit", strconv.Itoa(p.Limit))
	}
	pairs = append(pairs, "cursor", p.Cursor)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// CreateEndpoint registers an endpoint. Its secret is shown here only.
func (c *Client) CreateEndpoint(
	ctx context.Context, e EndpointCreate, o ...Option,
) (Endpoint, error) {
	return c.endpoint(ctx, call{method: post, path: endpoints, body: e}, o)
}

// ListEndpoints lists endpoints, newest first.
func (c *Client) ListEndpoints(
	ctx context.Context, f EndpointFilter, p Page,
) (List[Endpoint], error) {
	return ask[List[Endpoint]](ctx, c,
		call{method: get, path: endpoints, query: query(p, "status", f.Status)})
}

// GetEndpoint reads an endpoint.
func (c *Client) GetEndpoint(ctx context.Context, endpointID string) (Endpoint, error) {
	return c.endpoint(ctx, call{method: get, path: id(endpoints, endpointID)}, nil)
}

// UpdateEndpoint changes an endpoint.
func (c *Client) UpdateEndpoint(
	ctx context.Context, endpointID string, p Patch, o ...Option,
) (Endpoint, error) {
	return c.endpoint(ctx, call{method: patch, path: id(endpoints, endpointID), body: p}, o)
}

// DeleteEndpoint deletes an endpoint; what waits for it is cancelled.
func (c *Client) DeleteEndpoint(ctx context.Context, endpointID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(endpoints, endpointID)}, o...)
}

// EnableEndpoint lets the sending go on.
func (c *Client) EnableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return c.endpoint(ctx, call{method: post, path: id(endpoints, endpointID, "enable")}, o)
}

// DisableEndpoint stops the sending.
func (c *Client) DisableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return c.endpoint(ctx, call{method: post, path: id(endpoints, endpointID, "disable")}, o)
}

// RotateSecret gives an endpoint a new secret, which is shown here only.
func (c *Client) RotateSecret(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return c.endpoint(ctx, call{method: post, path: id(endpoints, endpointID, "rotate-secret")}, o)
}

// TestEndpoint sends a test.ping and waits for its first attempt.
func (c *Client) TestEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (TestResult, error) {
	return ask[TestResult](ctx, c, call{method: post, path: id(endpoints, endpointID, "test")}, o...)
}

// ReplayEndpoint queues failed deliveries again.
func (c *Client) ReplayEndpoint(
	ctx context.Context, endpointID string, r Replay, o ...Option,
) (ReplayResult, error) {
	return ask[ReplayResult](ctx, c,
		call{method: post, path: id(endpoints, endpointID, "replay"), body: r}, o...)
}

// CreateWatch watches a wallet.
func (c *Client) CreateWatch(ctx context.Context, w WatchCreate, o ...Option) (Watch, error) {
	return c.watch(ctx, call{method: post, path: watches, body: w}, o)
}

// ListWatches lists watches, newest first.
func (c *Client) ListWatches(ctx context.Context, f WatchFilter, p Page) (List[Watch], error) {
	return ask[List[Watch]](ctx, c,
		call{
			method: get,
			path:   watches,
			query:  query(p, "endpointId", f.EndpointID, "walletAddress", f.WalletAddress),
		})
}

// GetWatch reads a watch.
func (c *Client) GetWatch(ctx context.Context, watchID string) (Watch, error) {
	return c.watch(ctx, call{method: get, path: id(watches, watchID)}, nil)
}

// UpdateWatch changes a watch.
func (c *Client) UpdateWatch(
	ctx context.Context, watchID string, p Patch, o ...Option,
) (Watch, error) {
	return c.watch(ctx, call{method: patch, path: id(watches, watchID), body: p}, o)
}

// DeleteWatch deletes a watch.
func (c *Client) DeleteWatch(ctx context.Context, watchID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(watches, watchID)}, o...)
}

// ListEvents lists events, newest first and without their attempts.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p Page) (List[Event], error) {
	return ask[List[Event]](ctx, c, call{method: get, path: events, query: query(p,
		"endpointId", f.EndpointID, "watchId", f.WatchID, "walletAddress", f.WalletAddress,
		"type", f.Type, "state", f.State, "since", instant(f.Since), "until", instant(f.Until),
	)})
}

// GetEvent reads an event and every attempt to deliver it.
func (c *Client) GetEvent(ctx context.Context, eventID string) (Event, error) {
	return ask[Event](ctx, c, call{method: get, path: id(events, eventID)})
}

// ResendEvent queues an event again.
func (c *Client) ResendEvent(ctx context.Context, eventID string, o ...Option) (Resent, error) {
	return ask[Resent](ctx, c, call{method: post, path: id(events, eventID, "resend")}, o...)
}

// CreateKey makes an API key, which is shown here only.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate, o ...Option) (Key, error) {
	return ask[Key](ctx, c, call{method: post, path: keys, body: k}, o...)
}

// ListKeys lists API keys, newest first.
func (c *Client) ListKeys(ctx context.Context, p Page) (List[Key], error) {
	return ask[List[Key]](ctx, c, call{method: get, path: keys, query: query(p)})
}

// GetKey reads an API key by its id, which is not the key.
func (c *Client) GetKey(ctx context.Context, keyID string) (Key, error) {
	return ask[Key](ctx, c, call{method: get, path: id(keys, keyID)})
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, keyID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(keys, keyID)}, o...)
}

// RollKey puts a new API key in the place of another.
func (c *Client) RollKey(ctx context.Context, keyID string, r KeyRoll, o ...Option) (Key, error) {
	return ask[Key](ctx, c, call{method: post, path: id(keys, keyID, "roll"), body: r}, o...)
}

// GetOpenAPI reads the description of the API, in YAML.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.yaml")
}

// GetOpenAPIJSON reads the description of the API, as JSON.
func (c *Client) GetOpenAPIJSON(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.json")
}

// GetSignatureVectors reads what an implementation of the signature is held
// against, as JSON.
func (c *Client) GetSignatureVectors(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/docs/signature-vectors.json")
}

// GetDocs reads the page of the API, in HTML.
func (c *Client) GetDocs(ctx context.Context) ([]byte, error) { return c.text(ctx, "/docs") }

func (c *Client) text(ctx context.Context, path string) (text []byte, err error) {
	err = c.do(ctx, call{method: get, path: path, into: &text, raw: true})
	return text, err
}

// GetHealth fails unless the node answers.
func (c *Client) GetHealth(ctx context.Context) error {
	_, err := ask[json.RawMessage](ctx, c, call{method: get, path: "/healthz"})
	return err
}

// GetReadiness tells whether requests should be sent to the node.
func (c *Client) GetReadiness(ctx context.Context) (Readiness, error) {
	return ask[Readiness](ctx, c,
		call{method: get, path: "/readyz", accept: http.StatusServiceUnavailable})
}
