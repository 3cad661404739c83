package domain

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxMemoTextBytes is the network's size limit for text memos.
const MaxMemoTextBytes = 28

const memoHashBytes = 32

// Errors returned by [ParseMemo].
var (
	ErrMemoType = errors.New("must be text, id or hash")
	ErrMemoText = errors.New("must be 1 to 28 bytes of UTF-8 for a text memo")
	ErrMemoID   = errors.New("must be an integer from 0 to 18446744073709551615, in digits without " +
		"leading zeros, for an id memo")
	ErrMemoHash = errors.New("must be 32 bytes, as 64 hex digits or in base64, for a hash memo")
)

// ParseMemo parses a memo as users write it (specification, "Memo rule"). A hash may be hex, as
// wallets show it, or base64, as the network's API shows it.
func ParseMemo(t MemoType, value string) (Memo, error) {
	switch t {
	case MemoText:
		if value == "" || len(value) > MaxMemoTextBytes || !utf8.ValidString(value) {
			return Memo{}, ErrMemoText
		}
		return Memo{Type: t, Raw: []byte(value)}, nil
	case MemoID:
		// Memos are compared byte by byte, so each ID must have a single spelling.
		if !allDigits(value) || len(value) > 1 && value[0] == '0' {
			return Memo{}, ErrMemoID
		}
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return Memo{}, ErrMemoID
		}
		return Memo{Type: t, Raw: []byte(value)}, nil
	case MemoHash:
		raw, ok := parseHash(value)
		if !ok {
			return Memo{}, ErrMemoHash
		}
		return Memo{Type: t, Raw: raw}, nil
	default: // none, and types that no rule accepts
		return Memo{}, ErrMemoType
	}
}

func parseHash(value string) ([]byte, bool) {
	if len(value) == hex.EncodedLen(memoHashBytes) {
		raw, err := hex.DecodeString(value)
		return raw, err == nil
	}
	unpadded := strings.TrimSuffix(value, "=")
	if len(unpadded) != base64.RawStdEncoding.EncodedLen(memoHashBytes) ||
		len(value) > len(unpadded)+1 {
		return nil, false
	}
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(unpadded, "-_") {
		encoding = base64.RawURLEncoding
	}
	raw, err := encoding.Strict().DecodeString(unpadded)
	return raw, err == nil && len(raw) == memoHashBytes
}
