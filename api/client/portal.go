package client

import (
	"context"
	"time"
)

// PortalLinkCreate is what a portal link gives; Permissions must be set.
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
