package rpc

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Warnings about a wallet (specification, "Watch"). The last says that the
// question could not be answered.
const (
	WarningAccountNotFound = "ACCOUNT_NOT_FOUND"
	WarningNoTrustline     = "NO_TRUSTLINE:" // and the asset's code
	WarningLookupFailed    = "LOOKUP_FAILED"
)

const (
	lookupTimeout  = 2 * time.Second
	lookupKept     = time.Second // a wallet that was just funded is not warned of for long
	lookupsCached  = 1024
	entriesPerCall = 200 // the most that a Stellar RPC server looks up at once
)

// Lookup finds out whether a wallet can receive an asset. It may be used by
// several goroutines.
type Lookup struct {
	client *client
	log    *slog.Logger
	cache  *lru.Cache[string, found]
	now    func() time.Time
}

// found is an earlier answer, and until when it may be given again.
type found struct {
	warnings []string
	until    time.Time
}

// NewLookup makes a lookup at the server of the configuration.
func NewLookup(config Config) (*Lookup, error) {
	c, err := newClient(config.URL, config.HTTPClient)
	if err != nil {
		return nil, err
	}
	cache, err := lru.New[string, found](lookupsCached)
	if err != nil {
		return nil, fmt.Errorf("rpc: making the cache of lookups: %w", err)
	}
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Lookup{client: c, log: log.With("rpc", c.host), cache: cache, now: time.Now}, nil
}

// Warnings says what keeps a wallet from receiving these assets; nothing, if all
// is well. It returns within two seconds.
func (l *Lookup) Warnings(ctx context.Context, wallet string, assets []domain.Asset) []string {
	question := wallet
	for _, asset := range assets {
		question += " " + asset.String()
	}
	if earlier, ok := l.cache.Get(question); ok && l.now().Before(earlier.until) {
		return slices.Clone(earlier.warnings)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	warnings, err := l.lookUp(ctx, wallet, assets)
	if err != nil {
		l.log.Warn("a wallet could not be looked up", "wallet", wallet, "err", err)
		return []string{WarningLookupFailed}
	}
	l.cache.Add(question, found{warnings: slices.Clone(warnings), until: l.now().Add(lookupKept)})
	return warnings
}

func (l *Lookup) lookUp(
	ctx context.Context, wallet string, assets []domain.Asset,
) ([]string, error) {
	keys, err := keysOf(wallet, assets)
	if err != nil {
		return nil, err
	}
	entries, err := l.entries(ctx, keys)
	if err != nil {
		return nil, err
	}
	warnings := []string{}
	if _, ok := entries[keys[0]]; !ok {
		warnings = append(warnings, WarningAccountNotFound)
	}
	for i, asset := range assets {
		key := keys[i+1]
		if key == "" {
			continue
		}
		usable, err := isAuthorised(entries[key])
		if err != nil {
			return nil, fmt.Errorf("the trustline for %s: %w", asset, err)
		}
		if warning := WarningNoTrustline + asset.Code; !usable && !slices.Contains(warnings, warning) {
			warnings = append(warnings, warning)
		}
	}
	return warnings, nil
}

// keysOf are the keys of the account and of its trustline for each asset, empty
// where none is needed: for the native asset and those that the wallet issues.
func keysOf(wallet string, assets []domain.Asset) ([]string, error) {
	account, err := xdr.AddressToAccountId(wallet)
	if err != nil {
		return nil, fmt.Errorf("the wallet address %s: %w", clip(wallet), err)
	}
	key, err := xdr.MarshalBase64(xdr.LedgerKey{
		Type:    xdr.LedgerEntryTypeAccount,
		Account: &xdr.LedgerKeyAccount{AccountId: account},
	})
	if err != nil {
		return nil, fmt.Errorf("the key of account %s: %w", wallet, err)
	}
	keys := []string{key}
	for _, asset := range assets {
		if asset.IsNative() || asset.Issuer == wallet {
			keys = append(keys, "")
			continue
		}
		line, err := xdr.NewCreditAsset(asset.Code, asset.Issuer)
		if err != nil {
			return nil, fmt.Errorf("the asset %s: %w", asset, err)
		}
		key, err := xdr.MarshalBase64(xdr.LedgerKey{
			Type:      xdr.LedgerEntryTypeTrustline,
			TrustLine: &xdr.LedgerKeyTrustLine{AccountId: account, Asset: line.ToTrustLineAsset()},
		})
		if err != nil {
			return nil, fmt.Errorf("the key of the trustline for %s: %w", asset, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// entries asks for ledger entries, by key; what is not there is left out.
func (l *Lookup) entries(ctx context.Context, keys []string) (map[string]string, error) {
	asked := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return key == "" })
	entries := map[string]string{}
	for chunk := range slices.Chunk(asked, entriesPerCall) {
		var got protocol.GetLedgerEntriesResponse
		if err := l.client.call(ctx, protocol.GetLedgerEntriesMethodName,
			protocol.GetLedgerEntriesRequest{Keys: chunk}, &got, answerSizeBytesMax); err != nil {
			return nil, err
		}
		for _, entry := range got.Entries {
			entries[entry.KeyXDR] = entry.DataXDR
		}
	}
	return entries, nil
}

// isAuthorised reads a trustline; none is "".
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
		return false, fmt.Errorf("the server gave an entry of type %s", entry.Type)
	}
	return xdr.TrustLineFlags(line.Flags).IsAuthorized(), nil
}
