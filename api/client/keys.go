package client

import (
	"context"
	"time"
)

const keys = "/v1/api-keys"

// Account is the account of an API key, with what it has and may have.
type Account struct {
	ID        string    `json:"id"`
	CreatedAt time.Time `json:"createdAt"`
	Quotas    []Quota   `json:"quotas"`
}

// Quota is how much an account has of something, and how much it may have.
type Quota struct {
	Name  string `json:"name"`
	Used  uint64 `json:"used"`
	Limit uint64 `json:"limit"`
}

// GetAccount reads the account of the API key.
func (c *Client) GetAccount(ctx context.Context) (Account, error) {
	return ask[Account](ctx, c, get, "/v1/account", nil, nil)
}

// Key is an API key. Its text is set after creation and rolling only.
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

// KeyCreate are the fields of a new key; Permissions must be set.
type KeyCreate struct {
	Name         string     `json:"name,omitempty"`
	Permissions  []string   `json:"permissions"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
	AllowedCIDRs []string   `json:"allowedCidrs,omitempty" flag:"allow-cidr"`
}

// KeyRoll says how a key is rolled; nil means the default.
type KeyRoll struct {
	GraceSeconds *int       `json:"graceSeconds,omitempty" flag:"grace"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
}

// CreateKey creates an API key, which is returned here only.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, keys, k, o)
}

// ListKeys lists API keys, newest first.
func (c *Client) ListKeys(ctx context.Context, p Page) (List[Key], error) {
	return list[Key](ctx, c, keys, p, struct{}{})
}

// GetKey reads an API key by its id, which is not the key.
func (c *Client) GetKey(ctx context.Context, keyID string) (Key, error) {
	return ask[Key](ctx, c, get, id(keys, keyID), nil, nil)
}

// RevokeKey revokes an API key.
func (c *Client) RevokeKey(ctx context.Context, keyID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(keys, keyID)}, o...)
}

// RollKey replaces an API key by a new one.
func (c *Client) RollKey(ctx context.Context, keyID string, r KeyRoll, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, id(keys, keyID, "roll"), r, o)
}

// PortalLinkCreate holds the grants of a portal link; Permissions must be set.
type PortalLinkCreate struct {
	Permissions []string `json:"permissions"`
	// EndpointID is the endpoint of which alone the link is; nil: it is of the whole account.
	EndpointID *string `json:"endpointId,omitempty"`
	// ExpiresInSeconds is how long the portal can be used; nil: an hour.
	ExpiresInSeconds *int `json:"expiresInSeconds,omitempty" flag:"expires-in"`
}

// PortalLink opens the account's pages in a browser. Path is at the address of the API.
type PortalLink struct {
	Path        string    `json:"path"`
	Permissions []string  `json:"permissions"`
	EndpointID  *string   `json:"endpointId"` // nil: of the whole account
	OpensUntil  time.Time `json:"opensUntil"`
	ExpiresAt   time.Time `json:"expiresAt"`

	URL string `json:"-"` // Path at the address that this client asks
}

// CreatePortalLink makes a link to the account's pages, or to those of one endpoint, with a part of
// this key's permissions.
func (c *Client) CreatePortalLink(
	ctx context.Context, l PortalLinkCreate, o ...Option,
) (PortalLink, error) {
	made, err := ask[PortalLink](ctx, c, post, "/v1/portal-links", l, o)
	made.URL = c.base + made.Path
	return made, err
}
