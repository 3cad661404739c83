package source

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// Warnings about a wallet (specification, "Watch").
const (
	warningAccountNotFound = "ACCOUNT_NOT_FOUND"
	warningNoTrustline     = "NO_TRUSTLINE:" // followed by the asset's code
	warningLookupFailed    = "LOOKUP_FAILED" // the lookup failed
)

const (
	lookupTimeout = 2 * time.Second
	lookupKept    = time.Second // short, so that warnings disappear soon after a wallet is funded
	lookupsCached = 1024
)

// Lookup determines whether wallets can receive assets. It is safe for concurrent use.
type Lookup struct {
	Now func() time.Time // time.Now, except in tests

	ask   QueryWallet
	log   *slog.Logger
	cache *lru.Cache[string, kept]
}

// QueryWallet queries a server for a wallet and at least its trustlines for the given assets.
type QueryWallet func(ctx context.Context, wallet string, assets []domain.Asset) (Wallet, error)

// Wallet is a server's information about a wallet.
type Wallet struct {
	Exists bool
	Usable map[domain.Asset]bool // authorized trustlines
}

type kept struct {
	warnings []string
	until    time.Time
}

// NewLookup returns a lookup at a server of a kind and host. A nil log discards failures.
func NewLookup(ask QueryWallet, log *slog.Logger, kind, host string) (*Lookup, error) {
	cache, err := lru.New[string, kept](lookupsCached)
	if err != nil {
		return nil, fmt.Errorf("%s: creating the lookup cache: %w", kind, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Lookup{Now: time.Now, ask: ask, log: log.With(kind, host), cache: cache}, nil
}

// Warnings returns, within two seconds, why a wallet can't receive the given assets.
func (l *Lookup) Warnings(ctx context.Context, wallet string, assets []domain.Asset) []string {
	question := wallet
	for _, asset := range assets {
		question += " " + asset.String()
	}
	if earlier, ok := l.cache.Get(question); ok && l.Now().Before(earlier.until) {
		return slices.Clone(earlier.warnings)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	// A wallet needs no trustline for the native asset and the assets that it issues.
	trusted := slices.DeleteFunc(slices.Clone(assets), func(a domain.Asset) bool {
		return a.IsNative() || a.Issuer == wallet
	})
	known, err := l.ask(ctx, wallet, trusted)
	if err != nil {
		l.log.Warn("a wallet could not be looked up", "wallet", wallet, "err", err)
		return []string{warningLookupFailed}
	}
	warnings := []string{}
	if !known.Exists {
		warnings = append(warnings, warningAccountNotFound)
	}
	for _, asset := range trusted {
		warning := warningNoTrustline + asset.Code
		if !known.Usable[asset] && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	l.cache.Add(question, kept{warnings: slices.Clone(warnings), until: l.Now().Add(lookupKept)})
	return warnings
}

// Accounts queries a server for the balances of accounts.
type Accounts interface {
	// Holdings returns at least the given balances of an account after the server's newest ledger.
	// Balances are named like in domain.BalanceMove, and all are from the same ledger. If the server
	// serves another network, it returns domain.ErrWrongNetwork.
	Holdings(ctx context.Context, wallet string, balances []string) (Holdings, error)
}

// Holdings are an account's balances after a ledger.
type Holdings struct {
	Ledger  uint32
	Exists  bool             // the account exists
	Stroops map[string]int64 // by name; missing balances are 0
}
