package domain

import (
	"encoding/hex"
	"strings"
)

// NativeCode is the code of the network's native asset.
const NativeCode = "XLM"

// Asset identifies an asset. The native asset has the code XLM and no issuer.
type Asset struct {
	Code   string
	Issuer string // G address; empty for the native asset
}

// NativeAsset returns the native asset.
func NativeAsset() Asset { return Asset{Code: NativeCode} }

// IsNative reports whether the asset is the native asset.
func (a Asset) IsNative() bool { return a.Issuer == "" }

// String returns XLM, or CODE:ISSUER for other assets.
func (a Asset) String() string {
	if a.IsNative() {
		return a.Code
	}
	return a.Code + ":" + a.Issuer
}

// MemoType is the type of a memo; empty means no memo.
type MemoType string

// Memo types. Rules accept text, id and hash. A return memo never equals a rule's memo.
const (
	MemoNone   MemoType = ""
	MemoText   MemoType = "text"
	MemoID     MemoType = "id"
	MemoHash   MemoType = "hash"
	MemoReturn MemoType = "return"
)

// Memo is the memo of a transaction. Raw contains the bytes of a text, the decimal digits of an ID,
// or the 32 bytes of a hash or return memo.
type Memo struct {
	Type MemoType
	Raw  []byte
}

// String returns the memo as it appears in events: an ID in decimal, a hash in lowercase hex, and a
// text as Horizon shows it, with U+FFFD for invalid UTF-8. It omits NUL, which databases don't
// accept. Rules compare the raw bytes instead.
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
	ID             string // operation ID, followed by "-n" for a contract call's n-th balance change
	TxHash         string // 64 lowercase hex characters; the outer hash of a fee bump
	Ledger         uint32
	ClosedAtMillis int64
	Operation      string // name of the operation, such as "payment"; not part of the event
	From           string // G address, or the C address of a contract
	To             string // G address
	ToMuxedID      string // decimal, or empty
	Memo           Memo
	Asset          Asset
	AmountStroops  int64
}

// IsSelfPayment reports whether sender and receiver are the same. Such a payment is a path trade or
// has no effect. It isn't income, so it matches no watch.
func (p Payment) IsSelfPayment() bool { return p.From == p.To }
