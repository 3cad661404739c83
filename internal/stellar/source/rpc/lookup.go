package rpc

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const entriesPerCall = 200 // maximum of a Stellar RPC server

// NewLookup returns a lookup that queries the configured server.
func NewLookup(config Config) (*source.Lookup, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	return source.NewLookup(c.wallet, config.Logger, "rpc", c.host)
}

func (c *client) wallet(
	ctx context.Context, wallet string, assets []domain.Asset,
) (source.Wallet, error) {
	keys, err := keysOf(wallet, assets)
	if err != nil {
		return source.Wallet{}, err
	}
	entries, err := c.entries(ctx, keys)
	if err != nil {
		return source.Wallet{}, err
	}
	_, exists := entries[keys[0]]
	known := source.Wallet{Exists: exists, Usable: map[domain.Asset]bool{}}
	for i, asset := range assets {
		if known.Usable[asset], err = isAuthorised(entries[keys[i+1]]); err != nil {
			return source.Wallet{}, fmt.Errorf("the trustline for %s: %w", asset, err)
		}
	}
	return known, nil
}

func keysOf(wallet string, assets []domain.Asset) ([]string, error) {
	account, err := xdr.AddressToAccountId(wallet)
	if err != nil {
		return nil, fmt.Errorf("the wallet address %s: %w", clip(wallet), err)
	}
	key, err := accountKey(account)
	if err != nil {
		return nil, err
	}
	keys := []string{key}
	for _, asset := range assets {
		line, err := xdr.NewCreditAsset(asset.Code, asset.Issuer)
		if err != nil {
			return nil, fmt.Errorf("the asset %s: %w", asset, err)
		}
		key, err := trustLineKey(account, line.ToTrustLineAsset())
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func accountKey(account xdr.AccountId) (string, error) {
	key, err := xdr.MarshalBase64(xdr.LedgerKey{
		Type:    xdr.LedgerEntryTypeAccount,
		Account: &xdr.LedgerKeyAccount{AccountId: account},
	})
	if err != nil {
		return "", fmt.Errorf("the key of account %s: %w", account.Address(), err)
	}
	return key, nil
}

func trustLineKey(account xdr.AccountId, asset xdr.TrustLineAsset) (string, error) {
	key, err := xdr.MarshalBase64(xdr.LedgerKey{
		Type:      xdr.LedgerEntryTypeTrustline,
		TrustLine: &xdr.LedgerKeyTrustLine{AccountId: account, Asset: asset},
	})
	if err != nil {
		return "", fmt.Errorf("the key of a trustline of %s: %w", account.Address(), err)
	}
	return key, nil
}

// entries returns the existing ledger entries with the given keys, by key.
func (c *client) entries(ctx context.Context, keys []string) (map[string]string, error) {
	entries := map[string]string{}
	for chunk := range slices.Chunk(keys, entriesPerCall) {
		got, err := c.entriesOnce(ctx, chunk)
		if err != nil {
			return nil, err
		}
		for _, entry := range got.Entries {
			entries[entry.KeyXDR] = entry.DataXDR
		}
	}
	return entries, nil
}

func (c *client) entriesOnce(
	ctx context.Context, keys []string,
) (got protocol.GetLedgerEntriesResponse, err error) {
	err = c.call(ctx, protocol.GetLedgerEntriesMethodName,
		protocol.GetLedgerEntriesRequest{Keys: keys}, &got, answerSizeBytesMax)
	return got, err
}

// isAuthorised reports whether a trustline is authorized. data is empty if there is none.
func isAuthorised(data string) (bool, error) {
	if data == "" {
		return false, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data))
	if err != nil {
		return false, err
	}
	var entry xdr.LedgerEntryData
	if err := entry.UnmarshalBinary(raw); err != nil {
		return false, err
	}
	line, ok := entry.GetTrustLine()
	if !ok {
		return false, fmt.Errorf("the server returned an entry of type %s", entry.Type)
	}
	return xdr.TrustLineFlags(line.Flags).IsAuthorized(), nil
}
