package horizon

import (
	"context"
	"errors"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const pathOfAccounts = "/accounts/"

// NewLookup makes a lookup at the server of the configuration.
func NewLookup(config Config) (*source.Lookup, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	return source.NewLookup(c.wallet, config.Logger, "horizon", c.base.Host)
}

func (c *client) wallet(
	ctx context.Context, wallet string, _ []domain.Asset,
) (source.Wallet, error) {
	var got struct {
		Balances []struct {
			asset
			Authorized *bool `json:"is_authorized"`
		}
	}
	err := c.get(ctx, pathOfAccounts+wallet, nil, &got)
	if errors.Is(err, errNotFound) {
		return source.Wallet{}, nil
	}
	known := source.Wallet{Exists: true, Usable: map[domain.Asset]bool{}}
	for _, b := range got.Balances {
		known.Usable[b.named()] = b.Authorized == nil || *b.Authorized
	}
	return known, err
}
