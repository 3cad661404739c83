package horizon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// Warnings about a wallet, as those of package rpc.
const (
	warningAccountNotFound = "ACCOUNT_NOT_FOUND"
	warningNoTrustline     = "NO_TRUSTLINE:" // and the asset's code
	warningLookupFailed    = "LOOKUP_FAILED"
)

const (
	lookupTimeout  = 2 * time.Second
	lookupKept     = time.Second // a wallet that was just funded is not warned of for long
	lookupsCached  = 1024
	pathOfAccounts = "/accounts/"
)

// Lookup finds out whether a wallet can receive an asset. It may be used by
// several goroutines.
type Lookup struct {
	client *client
	log    *slog.Logger
	cache  *lru.Cache[string, account]
	now    func() time.Time
}

// account is what is known of one, and until when.
type account struct {
	missing  bool
	balances []balance
	until    time.Time
}

type balance struct {
	asset
	Authorized *bool `json:"is_authorized"`
}

// NewLookup makes a lookup at the server of the configuration.
func NewLookup(config Config) (*Lookup, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	cache, err := lru.New[string, account](lookupsCached)
	if err != nil {
		return nil, fmt.Errorf("horizon: making the cache of lookups: %w", err)
	}
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Lookup{client: c, log: log.With("horizon", c.base.Host), cache: cache, now: time.Now}, nil
}

// Warnings says what keeps a wallet from receiving these assets; nothing, if all
// is well. It returns within two seconds.
func (l *Lookup) Warnings(ctx context.Context, wallet string, assets []domain.Asset) []string {
	found, err := l.account(ctx, wallet)
	if err != nil {
		l.log.Warn("a wallet could not be looked up", "wallet", wallet, "err", err)
		return []string{warningLookupFailed}
	}
	warnings := []string{}
	if found.missing {
		warnings = append(warnings, warningAccountNotFound)
	}
	for _, asset := range assets {
		if asset.IsNative() || asset.Issuer == wallet || found.holds(asset) {
			continue
		}
		if warning := warningNoTrustline + asset.Code; !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	return warnings
}

// holds reports whether there is a trustline that may be used.
func (a account) holds(wanted domain.Asset) bool {
	for _, b := range a.balances {
		if b.named() == wanted {
			return b.Authorized == nil || *b.Authorized
		}
	}
	return false
}

func (l *Lookup) account(ctx context.Context, wallet string) (account, error) {
	if earlier, ok := l.cache.Get(wallet); ok && l.now().Before(earlier.until) {
		return earlier, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	var got struct{ Balances []balance }
	err := l.client.get(ctx, pathOfAccounts+wallet, nil, &got)
	found := account{
		balances: got.Balances,
		missing:  errors.Is(err, errNotFound),
		until:    l.now().Add(lookupKept),
	}
	if err != nil && !found.missing {
		return account{}, err
	}
	l.cache.Add(wallet, found)
	return found, nil
}
