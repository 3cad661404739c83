package ledger

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// names caches the names of a ledger's accounts and assets by XDR, because most occur repeatedly.
type names struct {
	accounts map[[hashSizeBytes]byte]string // G addresses by public key
	assets   map[string]domain.Asset
}

func newNames() names {
	return names{map[[hashSizeBytes]byte]string{}, map[string]domain.Asset{}}
}

func (n names) address(key []byte) (text string, err error) {
	id := [hashSizeBytes]byte(key)
	text, known := n.accounts[id]
	if !known {
		text, err = strkey.Encode(strkey.VersionByteAccountID, key)
		n.accounts[id] = text
	}
	return text, err
}

// asset returns the asset encoded in raw. An empty raw is the native asset.
func (n names) asset(raw []byte) (asset domain.Asset, err error) {
	if len(raw) <= 4 {
		return domain.NativeAsset(), nil
	}
	asset, known := n.assets[string(raw)]
	if known {
		return asset, nil
	}
	if asset, err = assetOf(raw); err == nil {
		asset.Issuer, err = n.address(raw[len(raw)-hashSizeBytes:])
	}
	if err == nil {
		n.assets[string(raw)] = asset
	}
	return asset, err
}

// assetOf returns the code of a non-native asset. XDR pads codes of letters and digits with NUL.
func assetOf(raw []byte) (domain.Asset, error) {
	code := bytes.TrimRight(raw[4:len(raw)-4-hashSizeBytes], "\x00")
	for _, c := range code {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return domain.Asset{}, fmt.Errorf("invalid asset code %q: must be letters and digits", code)
		}
	}
	if len(code) == 0 {
		return domain.Asset{}, errors.New("the asset has no code")
	}
	return domain.Asset{Code: string(code)}, nil
}

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
