package client

import (
	"context"
	"time"
)

const keys = "/v1/api-keys"

// Key is an API key. Its text is there after creation and rolling only.
type Key struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Permissions  []string   `json:"permissions"`
	AllowedCIDRs []string   `json:"allowedCidrs"`
	ExpiresAt    *time.Time `json:"expiresAt"`
	LastUsedAt   *time.Time `json:"lastUsedAt"`
	RolledTo     *string    `json:"rolledTo"`
	CreatedAt    time.Time  `json:"createdAt"`
	Key          *string    `json:"key,omitempty"`
}

// KeyCreate is what a key is made of; Permissions must be set.
type KeyCreate struct {
	Name         string     `json:"name,omitempty"`
	Permissions  []string   `json:"permissions"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
	AllowedCIDRs []string   `json:"allowedCidrs,omitempty"`
}

// KeyRoll says how a key is rolled; nil leaves what is by default.
type KeyRoll struct {
	GraceSeconds *int       `json:"graceSeconds,omitempty"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
}

// CreateKey makes an API key, which is shown here only.
func (c *Client) CreateKey(ctx context.Context, k KeyCreate, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, keys, k, o)
}

// ListKeys lists API keys, newest first.
func (c *Client) ListKeys(ctx context.Context, p Page) (List[Key], error) {
	return list[Key](ctx, c, keys, p)
}

// GetKey reads an API key by its id, which is not the key.
func (c *Client) GetKey(ctx context.Context, keyID string) (Key, error) {
	return ask[Key](ctx, c, get, id(keys, keyID), nil, nil)
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, keyID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(keys, keyID)}, o...)
}

// RollKey puts a new API key in the place of another.
func (c *Client) RollKey(ctx context.Context, keyID string, r KeyRoll, o ...Option) (Key, error) {
	return ask[Key](ctx, c, post, id(keys, keyID, "roll"), r, o)
}
