package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Readiness reports whether a node accepts requests.
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

// GetHealth returns an error unless the node responds.
func (c *Client) GetHealth(ctx context.Context) error {
	_, err := ask[json.RawMessage](ctx, c, get, "/healthz", nil, nil)
	return err
}

// GetReadiness reports whether the node accepts requests.
func (c *Client) GetReadiness(ctx context.Context) (ready Readiness, err error) {
	const notReady = http.StatusServiceUnavailable // also has a body
	err = c.do(ctx, call{method: get, path: "/readyz", into: &ready, accept: notReady})
	return ready, err
}

// GetOpenAPI returns the OpenAPI document as YAML.
func (c *Client) GetOpenAPI(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.yaml")
}

// GetOpenAPIJSON returns the OpenAPI document as JSON.
func (c *Client) GetOpenAPIJSON(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/v1/openapi.json")
}

// GetSignatureVectors returns test vectors for signature implementations, as JSON.
func (c *Client) GetSignatureVectors(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/docs/signature-vectors.json")
}

// GetEndpointKeys returns the public keys for an endpoint's Ed25519 signatures, as a JWK set (RFC
// 7517).
func (c *Client) GetEndpointKeys(ctx context.Context, endpointID string) ([]byte, error) {
	return c.text(ctx, id("/.well-known/endpoints", endpointID, "jwks.json"))
}

// GetSigningKeys returns the deployment's public keys for receipts, as a JWK set (RFC 7517).
func (c *Client) GetSigningKeys(ctx context.Context) ([]byte, error) {
	return c.text(ctx, "/.well-known/jwks.json")
}

// GetDocs returns the API's documentation page as HTML.
func (c *Client) GetDocs(ctx context.Context) ([]byte, error) { return c.text(ctx, "/docs") }

func (c *Client) text(ctx context.Context, path string) (text []byte, err error) {
	err = c.do(ctx, call{method: get, path: path, into: &text, raw: true})
	return text, err
}

// Coverage describes which ledgers were read and verified.
type Coverage struct {
	NetworkPassphrase *string       `json:"networkPassphrase"` // nil: no ledger read yet
	Cursor            *LedgerCursor `json:"cursor"`            // nil: no ledger read yet
	SinceLedger       *uint32       `json:"sinceLedger"`       // no gaps from here to the cursor
	Verified          bool          `json:"verified"`          // true if all ranges are
	Ranges            []LedgersRead `json:"ranges"`
	Gaps              []LedgerGap   `json:"gaps"`
	BalanceMovesSince *uint32       `json:"balanceMovesSince"` // nil: not recorded
}

// LedgerCursor is the latest ledger read.
type LedgerCursor struct {
	Ledger   uint32     `json:"ledger"`
	Hash     string     `json:"hash"`
	ClosedAt *time.Time `json:"closedAt"`
	ReadAt   *time.Time `json:"readAt"`
}

// LedgersRead is a contiguous range of ledgers that were read, including both ends.
type LedgersRead struct {
	From     uint32 `json:"from"`
	To       uint32 `json:"to"`
	Verified bool   `json:"verified"` // against their hashes
}

// LedgerGap is a range of ledgers that were not read, including both ends.
type LedgerGap struct {
	From uint32 `json:"from"`
	To   uint32 `json:"to"`
}

// GetCoverage returns which ledgers were read and verified.
func (c *Client) GetCoverage(ctx context.Context) (Coverage, error) {
	return ask[Coverage](ctx, c, get, "/v1/coverage", nil, nil)
}
