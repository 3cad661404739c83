package ledger

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Sizes of the fields in the change of an entry.
const (
	changeKindSizeBytes   = 4
	lastModifiedSizeBytes = 4 // not part of a key
	entryKindSizeBytes    = 4
	accountSizeBytes      = 4 + hashSizeBytes
	changeSizeBytesMin    = changeKindSizeBytes + entryKindSizeBytes + 4
)

// change is a change of an entry with a balance, which is an account or a trust line.
type change struct {
	kind xdr.LedgerEntryChangeType
	// balance identifies the balance: the type of entry, the account and, for a trust line, the asset
	// or pool. It is nil if the entry is not an account's balance.
	balance []byte
	stroops int64 // balance after the change; 0 if the entry was removed
}

func (c *change) key() [hashSizeBytes]byte {
	return [hashSizeBytes]byte(c.balance[entryKindSizeBytes+4:])
}

func (s *scanner) change() (c change) {
	c.kind = xdr.LedgerEntryChangeType(s.uint32())
	if s.bad {
		return c
	}
	s.at -= changeKindSizeBytes
	raw := over[xdr.LedgerEntryChangeView](s)
	if s.bad {
		return c
	}
	removed := c.kind == xdr.LedgerEntryChangeTypeLedgerEntryRemoved
	from := changeKindSizeBytes
	if !removed {
		from += lastModifiedSizeBytes
	}
	at := from + entryKindSizeBytes + accountSizeBytes
	switch xdr.LedgerEntryType(binary.BigEndian.Uint32(raw[from:])) {
	case xdr.LedgerEntryTypeAccount:
	case xdr.LedgerEntryTypeTrustline:
		at += trustedSizeBytes(raw[at:])
	default:
		return c
	}
	c.balance = raw[from:at:at]
	if !removed {
		c.stroops = int64(binary.BigEndian.Uint64(raw[at:]))
	}
	return c
}

// trustedSizeBytes returns the size of a trust line's asset. The SDK has already checked it.
func trustedSizeBytes(raw []byte) int {
	switch xdr.AssetType(binary.BigEndian.Uint32(raw)) {
	case xdr.AssetTypeAssetTypeCreditAlphanum4:
		return 4 + 4 + accountSizeBytes
	case xdr.AssetTypeAssetTypeCreditAlphanum12:
		return 4 + 12 + accountSizeBytes
	case xdr.AssetTypeAssetTypePoolShare:
		return 4 + hashSizeBytes
	}
	return 4
}

func nameBalance(balance []byte, m *domain.BalanceMove) (err error) {
	trusted := balance[entryKindSizeBytes+accountSizeBytes:]
	switch {
	case len(trusted) <= 4:
		m.Asset = domain.NativeAsset()
	case xdr.AssetType(binary.BigEndian.Uint32(trusted)) == xdr.AssetTypeAssetTypePoolShare:
		m.Pool = hex.EncodeToString(trusted[4:])
	default:
		if m.Asset, err = assetOf(trusted); err != nil {
			return err
		}
		m.Asset.Issuer, err = strkey.Encode(strkey.VersionByteAccountID,
			trusted[len(trusted)-hashSizeBytes:])
	}
	return err
}
