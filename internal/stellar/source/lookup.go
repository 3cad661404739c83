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
	warningNoTrustline     = "NO_TRUSTLINE:" // and the asset's code
	warningLookupFailed    = "LOOKUP_FAILED" // the question could not be answered
)

const (
	lookupTimeout = 2 * time.Second
	lookupKept    = time.Second // a wallet that was just funded is not warned of for long
	lookupsCached = 1024
)

// Lookup finds out whether a wallet can receive an asset. It may be used by several
// goroutines.
type Lookup struct {
	Now func() time.Time // time.Now, but in tests

	ask   AskWallet
	log   *slog.Logger
	cache *lru.Cache[string, kept]
}

// AskWallet asks a server for a wallet, and for its trustlines for these assets at least.
type AskWallet func(ctx context.Context, wallet string, assets []domain.Asset) (Wallet, error)

// Wallet is a server's information about a wallet.
type Wallet struct {
	Exists bool
	Usable map[domain.Asset]bool // its trustlines that are authorised
}

// kept is an earlier answer, and until when it may be given again.
type kept struct {
	warnings []string
	until    time.Time
}

// NewLookup returns a lookup that asks a server of this kind and host, and logs what fails,
// unless log is nil.
func NewLookup(ask AskWallet, log *slog.Logger, kind, host string) (*Lookup, error) {
	cache, err := lru.New[string, kept](lookupsCached)
	if err != nil {
		return nil, fmt.Errorf("%s: making the cache of lookups: %w", kind, err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Lookup{Now: time.Now, ask: ask, log: log.With(kind, host), cache: cache}, nil
}

// Warnings returns what keeps a wallet from receiving these assets; nothing, if all is well.
// It returns within two seconds.
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
	// The native asset and those that the wallet issues need no trustline.
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

// Accounts asks a server what accounts hold.
type Accounts interface {
	// Holdings returns an account's balances after the server's newest ledger: the given ones,
	// named like domain.BalanceMove, and others if the server reports them. All are of that one
	// ledger. For a server of another network it returns a domain.ErrWrongNetwork.
	Holdings(ctx context.Context, wallet string, balances []string) (Holdings, error)
}

// Holdings are the balances of an account after a ledger.
type Holdings struct {
	Ledger  uint32
	Exists  bool             // the account is in the ledger
	Stroops map[string]int64 // by name; a missing balance is 0
}
