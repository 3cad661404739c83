package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Number of cached names, each at an index derived from its bytes; another name with the same index
// replaces it. Powers of two.
const (
	addressesKept = 1024
	assetsKept    = 256
)

// assetSizeBytesMax is a kind, a code of 12, and an issuer.
const assetSizeBytesMax = 4 + 12 + 4 + hashSizeBytes

// workspace is memory that is used for one ledger after the other. In most ledgers the same
// accounts and assets come again and again, so their names are kept.
type workspace struct {
	payments  []domain.Payment
	addresses [addressesKept]struct {
		key  [hashSizeBytes]byte
		text string // empty: nothing is kept here
	}
	assets [assetsKept]struct {
		raw       [assetSizeBytesMax]byte
		sizeBytes int // 0: nothing is kept here
		asset     domain.Asset
	}
}

// address writes an account's key as a G address.
func (w *workspace) address(key []byte) (string, error) {
	kept := &w.addresses[binary.BigEndian.Uint32(key)%addressesKept]
	if kept.text != "" && bytes.Equal(kept.key[:], key) {
		return kept.text, nil
	}
	text, err := strkey.Encode(strkey.VersionByteAccountID, key)
	if err != nil {
		return "", err
	}
	kept.key, kept.text = [hashSizeBytes]byte(key), text
	return text, nil
}

// asset names one that is given as it is in the ledger; nil is the native one.
func (w *workspace) asset(raw []byte) (domain.Asset, error) {
	if len(raw) <= 4 {
		return domain.NativeAsset(), nil
	}
	place := binary.BigEndian.Uint32(raw[4:]) ^ binary.BigEndian.Uint32(raw[len(raw)-4:])
	kept := &w.assets[(place^place>>16)%assetsKept]
	if kept.sizeBytes == len(raw) && bytes.Equal(kept.raw[:kept.sizeBytes], raw) {
		return kept.asset, nil
	}
	asset, err := assetOf(raw)
	if err != nil {
		return domain.Asset{}, err
	}
	if asset.Issuer, err = w.address(raw[len(raw)-hashSizeBytes:]); err != nil {
		return domain.Asset{}, err
	}
	kept.asset, kept.sizeBytes = asset, copy(kept.raw[:], raw)
	return asset, nil
}

// assetOf reads the code of an asset that is not native. Codes are padded with NUL on the
// wire, and made of letters and digits alone.
func assetOf(raw []byte) (domain.Asset, error) {
	code := bytes.TrimRight(raw[4:len(raw)-4-hashSizeBytes], "\x00")
	for _, c := range code {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return domain.Asset{}, fmt.Errorf("the asset code %q is none", code)
		}
	}
	if len(code) == 0 {
		return domain.Asset{}, errors.New("the asset has no code")
	}
	return domain.Asset{Code: string(code)}, nil
}

// named returns the name of an asset.
func named(asset xdr.Asset) (domain.Asset, error) {
	raw, err := asset.MarshalBinary()
	if err != nil {
		return domain.Asset{}, err
	}
	if asset.IsNative() {
		return domain.NativeAsset(), nil
	}
	name, err := assetOf(raw)
	name.Issuer = asset.GetIssuer()
	return name, err
}
