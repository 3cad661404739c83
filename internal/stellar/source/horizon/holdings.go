package horizon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const (
	// headerOfLedger names the ledger that an answer is of: Horizon reads an account's row and the
	// ledger's sequence in one transaction of its database.
	headerOfLedger = "Latest-Ledger"
	typeOfShares   = "liquidity_pool_shares" // asset_type of shares in a liquidity pool
)

// Accounts asks a server what accounts hold. It is a source.Accounts.
type Accounts struct {
	client     *client
	passphrase string
}

// NewAccounts makes one of the server of the configuration.
func NewAccounts(config Config) (*Accounts, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	return &Accounts{client: c, passphrase: config.Passphrase}, nil
}

// Holdings returns all balances of the account, whichever are asked for.
func (a *Accounts) Holdings(
	ctx context.Context, wallet string, _ []string,
) (held source.Holdings, err error) {
	host := a.client.base.Host
	r, err := a.client.root(ctx)
	if err != nil {
		return held, err
	}
	if r.Passphrase != a.passphrase {
		return held, fmt.Errorf("%w: the Horizon at %s serves %q, and the service follows %q: name a "+
			"server of that network", domain.ErrWrongNetwork, host, r.Passphrase, a.passphrase)
	}
	var got struct{ Balances []holding }
	header, err := a.client.getWithHeader(ctx, pathOfAccounts+wallet, nil, &got)
	missing := errors.Is(err, errNotFound)
	if err != nil && !missing {
		return held, err
	}
	held = source.Holdings{Exists: !missing, Stroops: map[string]int64{}}
	if held.Ledger, err = ledgerOf(header); err != nil {
		return held, fmt.Errorf("the Horizon at %s: %w", host, err)
	}
	for _, b := range got.Balances {
		if held.Stroops[b.name()], err = domain.ParseAmount(b.Balance); err != nil {
			return held, fmt.Errorf("the Horizon at %s: the balance of %.80q is %.40q: %w", host, b.name(),
				b.Balance, err)
		}
	}
	return held, nil
}

func ledgerOf(header http.Header) (uint32, error) {
	n, err := strconv.ParseUint(header.Get(headerOfLedger), 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("it does not say of which ledger its answer is (%s): name a Stellar RPC "+
			"server, or a Horizon without a proxy that drops headers", headerOfLedger)
	}
	return uint32(n), nil
}

// holding is a balance in Horizon's form.
type holding struct {
	asset
	Pool    string `json:"liquidity_pool_id"`
	Balance string `json:"balance"`
}

// name is that of domain.BalanceMove.
func (h holding) name() string {
	var of domain.BalanceMove
	if h.Type == typeOfShares {
		of.Pool = h.Pool
	} else {
		of.Asset = h.named()
	}
	return of.BalanceName()
}
