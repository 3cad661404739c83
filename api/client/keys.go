package client

import (
	"context"
	"time"
)

const keys = "/v1/api-keys"

// Account is the account of an API key, with its usage and limits.
type Account struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Quotas    []Quota   `json:"quotas"`
}

// Quota is the usage and the limit of one resource.
type Quota struct {
	Name  string `json:"name"`
	Used  uint64 `json:"used"`
	Limit uint64 `json:"limit"`
}

// GetAccount returns the account of the API key.
func (c *Client) GetAccount(ctx context.Context) (Account, error) {
	return ask[Account](ctx, c, get, "/v1/account", nil, nil)
}

// Key is an API key. The field Key is set only after creation and rolling.
type Key struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Permissions  []string   `json:"permissions"`
	AllowedCIDRs []string   `json:"allowedCidrs"`
	ExpiresAt    *time.Time `json:"expiresAt"`
	LastUsedAt   *time.Time `json:"lastUsedAt"`
	RolledTo     *string    `json:"rolledTo"`
	CreatedAt    time.Time  `json:"createdAt"`
	Key          *string    `json:"key,omitzero"`
}

// KeyCreate holds the fields of a new key. Permissions is required.
type KeyCreate struct {
	Name         string     `json:"name,omitempty"`
	Permissions  []string   `json:"permissions"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
	AllowedCIDRs []string   `json:"allowedCidrs,omitempty" flag:"allow-cidr"`
}

// KeyRoll holds the options for rolling a key. A nil field means the default.
type KeyRoll struct {
	GraceSeconds *int       `json:"graceSeconds,omitempty" flag:"grace"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
}

// CreateKey creates an API key. Only this response contains its text.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, keys, k, o)
}

// ListKeys lists API keys, newest first.
func (c *Client) ListKeys(ctx context.Context, p Page) (List[Key], error) {
	return list[Key](ctx, c, keys, p, struct{}{})
}

// GetKey returns an API key's description. keyID is the id of the key, not its text.
func (c *Client) GetKey(ctx context.Context, keyID string) (Key, error) {
	return ask[Key](ctx, c, get, id(keys, keyID), nil, nil)
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, keyID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(keys, keyID)}, o...)
}

// RollKey replaces an API key with a new one.
func (c *Client) RollKey(ctx context.Context, keyID string, r KeyRoll, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, id(keys, keyID, "roll"), r, o)
}

// PortalLinkCreate holds the grants of a portal link. Permissions is required.
type PortalLinkCreate struct {
	Permissions []string `json:"permissions" flag:"permission"`
	// EndpointID limits the link to one endpoint. nil gives access to the whole account.
	EndpointID *string `json:"endpointId,omitempty"`
	// ExpiresInSeconds is how long the portal can be used. nil means an hour.
	ExpiresInSeconds *int `json:"expiresInSeconds,omitempty" flag:"expires-in"`
}

// PortalLink opens the account's pages in a browser. Path is relative to the API's base URL.
type PortalLink struct {
	Path        string    `json:"path"`
	Permissions []string  `json:"permissions"`
	EndpointID  *string   `json:"endpointId"` // nil: the whole account
	OpensUntil  time.Time `json:"opensUntil"`
	ExpiresAt   time.Time `json:"expiresAt"`

	URL string `json:"-"` // Path, resolved against the client's base URL
}

// CreatePortalLink creates a link to the pages of the account or of one endpoint. The link can have
// only permissions that this client's key has.
func (c *Client) CreatePortalLink(
	ctx context.Context, l PortalLinkCreate, o ...Option,
) (PortalLink, error) {
	made, err := ask[PortalLink](ctx, c, post, "/v1/portal-links", l, o)
	made.URL = c.base + made.Path
	return made, err
}
