package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Readiness reports whether requests should be sent to a node.
type Readiness struct {
	Status string  `json:"status"`
	Checks []Check `json:"checks"`
}

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// GetHealth fails unless the node answers.
func (c *Client) GetHealth(ctx context.Context) error {
	_, err := ask[json.RawMessage](ctx, c, get, "/healthz", nil, nil)
	return err
}

// GetReadiness reports whether requests should be sent to the node.
func (c *Client) GetReadiness(ctx context.Context) (ready Readiness, err error) {
	const notReady = http.StatusServiceUnavailable // answers with a body too
	err = c.do(ctx, call{method: get, path: "/readyz", into: &ready, accept: notReady})
	return ready, err
}

// GetOpenAPI reads the description of the API, in YAML.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.yaml")
}

// GetOpenAPIJSON reads the description of the API, as JSON.
func (c *Client) GetOpenAPIJSON(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.json")
}

// GetSignatureVectors reads the test vectors for implementations of the signature, as JSON.
func (c *Client) GetSignatureVectors(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/docs/signature-vectors.json")
}

// GetEndpointKeys reads the public keys that check the Ed25519 signatures of an endpoint's
// webhooks, as a JWK set (RFC 7517).
func (c *Client) GetEndpointKeys(ctx context.Context, endpointID string) ([]byte, error) {
	return c.text(ctx, id("/.well-known/endpoints", endpointID, "jwks.json"))
}

// GetSigningKeys reads the deployment's public keys, which check receipts, as a JWK set (RFC 7517).
func (c *Client) GetSigningKeys(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/.well-known/jwks.json")
}

// GetDocs reads the API's documentation page, in HTML.
func (c *Client) GetDocs(ctx context.Context) ([]byte, error) { return c.text(ctx, "/docs") }

func (c *Client) text(ctx context.Context, path string) (text []byte, err error) {
	err = c.do(ctx, call{method: get, path: path, into: &text, raw: true})
	return text, err
}

// Coverage says which ledgers were read, and verified.
type Coverage struct {
	NetworkPassphrase *string       `json:"networkPassphrase"` // nil: none was read yet
	Cursor            *LedgerCursor `json:"cursor"`            // nil: none was read yet
	SinceLedger       *uint32       `json:"sinceLedger"`       // from it to the cursor there is no gap
	Verified          bool          `json:"verified"`          // all ranges are
	Ranges            []LedgersRead `json:"ranges"`
	Gaps              []LedgerGap   `json:"gaps"`
	BalanceMovesSince *uint32       `json:"balanceMovesSince"` // nil: they are not recorded
}

// LedgerCursor is the newest ledger that was read.
type LedgerCursor struct {
	Ledger   uint32     `json:"ledger"`
	Hash     string     `json:"hash"`
	ClosedAt *time.Time `json:"closedAt"`
	ReadAt   *time.Time `json:"readAt"`
}

// LedgersRead are ledgers that were read one after the other, the first and the last included.
type LedgersRead struct {
	From     uint32 `json:"from"`
	To       uint32 `json:"to"`
	Verified bool   `json:"verified"` // checked against their hashes
}

// LedgerGap are ledgers that were not read, the first and the last included.
type LedgerGap struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// GetCoverage reads which ledgers were read, and verified.
func (c *Client) GetCoverage(ctx context.Context) (Coverage, error) {
	return ask[Coverage](ctx, c, get, "/v1/coverage", nil, nil)
}
