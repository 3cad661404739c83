package domain

import (
	"encoding/hex"
	"strings"
)

// NativeCode is the code of the network's own asset, which has no issuer.
const NativeCode = "XLM"

// Asset identifies an asset. The native asset has the code XLM and no issuer.
type Asset struct {
	Code   string
	Issuer string // G address; empty for the native asset
}

// NativeAsset returns the network's own asset.
func NativeAsset() Asset { return Asset{Code: NativeCode} }

// IsNative reports whether the asset is the network's own.
func (a Asset) IsNative() bool { return a.Issuer == "" }

// String formats the asset as people write it: XLM, or CODE:ISSUER.
func (a Asset) String() string {
	if a.IsNative() {
		return a.Code
	}
	return a.Code + ":" + a.Issuer
}

// MemoType is the type of a memo; empty means none.
type MemoType string

// Types of memo. Rules accept text, id and hash; a payment may have a return memo too,
// which no rule equals.
const (
	MemoNone   MemoType = ""
	MemoText   MemoType = "text"
	MemoID     MemoType = "id"
	MemoHash   MemoType = "hash"
	MemoReturn MemoType = "return"
)

// Memo is a transaction's memo. Raw is the bytes of a text, the decimal digits of an id, or
// the 32 bytes of a hash or return memo.
type Memo struct {
	Type MemoType
	Raw  []byte
}

// String returns the memo as events show it: an id in decimal, a hash in lowercase hex, a
// text as Horizon shows it, with U+FFFD for each byte that is not UTF-8 and without NUL,
// which databases do not accept. Rules compare the raw bytes.
func (m Memo) String() string {
	switch m.Type {
	case MemoHash, MemoReturn:
		return hex.EncodeToString(m.Raw)
	default:
		return strings.ReplaceAll(string([]rune(string(m.Raw))), "\x00", "")
	}
}

// Payment is one incoming payment in a closed ledger.
type Payment struct {
	ID             string // operation id; with "-n" for the n-th balance change of a contract call
	TxHash         string // 64 lowercase hex characters; the outer hash of a fee bump
	Ledger         uint32
	ClosedAtMillis int64
	Operation      string // the operation's name, such as "payment"; not part of the event
	From           string // G address, or C address of a contract
	To             string // G address
	ToMuxedID      string // decimal; empty without one
	Memo           Memo
	Asset          Asset
	AmountStroops  int64
}

// PaysOneself reports whether sender and receiver are the same. Such a payment is a trade
// over a path, or nothing at all: it is no income and matches no watch.
func (p Payment) PaysOneself() bool { return p.From == p.To }
