package rpc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

// holdingsTries is the number of attempts to get responses that are all from the same ledger.
const holdingsTries = 5

// Accounts implements source.Accounts with one or more servers.
type Accounts struct {
	clients    []*client
	passphrase string
}

// NewAccounts returns an Accounts for the given servers. If one fails, the next one is queried.
func NewAccounts(passphrase string, urls ...string) (*Accounts, error) {
	a := Accounts{passphrase: passphrase}
	for _, address := range urls {
		c, err := newClient(address, nil)
		if err != nil {
			return nil, err
		}
		a.clients = append(a.clients, c)
	}
	return &a, nil
}

// Holdings implements source.Accounts.
func (a *Accounts) Holdings(
	ctx context.Context, wallet string, balances []string,
) (held source.Holdings, err error) {
	names := slices.Clone(balances)
	if !slices.Contains(names, domain.NativeCode) { // its entry shows whether the account exists
		names = append(names, domain.NativeCode)
	}
	keys := make([]string, len(names))
	for i, name := range names {
		if keys[i], err = holdingKey(wallet, name); err != nil {
			return held, err
		}
	}
	for _, c := range a.clients {
		held, err = c.holdings(ctx, a.passphrase, names, keys)
		if err == nil || errors.Is(err, domain.ErrWrongNetwork) {
			break
		}
	}
	return held, err
}

func (c *client) holdings(
	ctx context.Context, passphrase string, names, keys []string,
) (held source.Holdings, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.check(ctx, passphrase); err != nil {
		return held, err
	}
	entries, ledger, err := c.entriesOfOneLedger(ctx, keys)
	if err != nil {
		return held, err
	}
	held = source.Holdings{Ledger: ledger, Stroops: map[string]int64{}}
	for i, name := range names {
		data, there := entries[keys[i]]
		if !there {
			continue
		}
		stroops, err := balanceOf(data, keys[i])
		if err != nil {
			return held, fmt.Errorf("the Stellar RPC at %s: the balance of %s: %w", c.host, name, err)
		}
		held.Stroops[name] = stroops
		held.Exists = held.Exists || name == domain.NativeCode
	}
	return held, nil
}

// entriesOfOneLedger repeats the queries if a ledger closed between them.
func (c *client) entriesOfOneLedger(
	ctx context.Context, keys []string,
) (entries map[string]string, ledger uint32, err error) {
	for range holdingsTries {
		entries, ledger = map[string]string{}, 0
		same := true
		for chunk := range slices.Chunk(keys, entriesPerCall) {
			got, err := c.entriesOnce(ctx, chunk)
			if err != nil {
				return nil, 0, err
			}
			if got.LatestLedger == 0 {
				return nil, 0, fmt.Errorf("the Stellar RPC at %s does not name the ledger of its entries",
					c.host)
			}
			same = same && (ledger == 0 || ledger == got.LatestLedger)
			ledger = got.LatestLedger
			for _, entry := range got.Entries {
				entries[entry.KeyXDR] = entry.DataXDR
			}
		}
		if same {
			return entries, ledger, nil
		}
	}
	return nil, 0, fmt.Errorf("the Stellar RPC at %s closes ledgers faster than it returns %d "+
		"balances: specify one asset", c.host, len(keys))
}

func holdingKey(wallet, name string) (string, error) {
	account, err := xdr.AddressToAccountId(wallet)
	if err != nil {
		return "", fmt.Errorf("the wallet address %s: %w", clip(wallet), err)
	}
	if name == domain.NativeCode {
		return accountKey(account)
	}
	before, after, _ := strings.Cut(name, ":")
	if before == "pool" {
		id, err := hex.DecodeString(after)
		if err != nil || len(id) != len(xdr.PoolId{}) {
			return "", fmt.Errorf("invalid pool %s: must be 64 hex characters", clip(after))
		}
		pool := xdr.PoolId(id)
		return trustLineKey(account, xdr.TrustLineAsset{
			Type:            xdr.AssetTypeAssetTypePoolShare,
			LiquidityPoolId: &pool,
		})
	}
	line, err := xdr.NewCreditAsset(before, after)
	if err != nil {
		return "", fmt.Errorf("the asset %s: %w", clip(name), err)
	}
	return trustLineKey(account, line.ToTrustLineAsset())
}

func balanceOf(data, key string) (stroops int64, err error) {
	var entry xdr.LedgerEntryData
	if err := xdr.SafeUnmarshalBase64(data, &entry); err != nil {
		return 0, fmt.Errorf("its entry cannot be read: %w", err)
	}
	of, err := entry.LedgerKey()
	if err != nil {
		return 0, fmt.Errorf("its entry has no key: %w", err)
	}
	if is, err := xdr.MarshalBase64(of); err != nil || is != key {
		return 0, errors.Join(errors.New("the server returned the entry of another key"), err)
	}
	switch {
	case entry.Account != nil:
		stroops = int64(entry.Account.Balance)
	case entry.TrustLine != nil:
		stroops = int64(entry.TrustLine.Balance)
	}
	if stroops < 0 {
		return 0, fmt.Errorf("the server returned a negative balance: %d stroops", stroops)
	}
	return stroops, nil
}
