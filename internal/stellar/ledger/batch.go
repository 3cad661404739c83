package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

const batchHeadSizeBytes = 12

// millisWindowSizeBytes is how much is first copied to measure a ledger whose header must be
// rewritten. Most ledgers are smaller.
const millisWindowSizeBytes = 8 << 20

// SplitBatch splits a LedgerCloseMetaBatch into ledgers. A LedgerCloseMeta is returned as a single
// ledger. With an error, SplitBatch returns the ledgers before the one whose end is unknown,
// followed by all remaining bytes as the last element.
func SplitBatch(raw []byte) ([][]byte, error) {
	count, ok := batchCount(raw)
	if !ok {
		return [][]byte{raw}, nil
	}
	ledgers, rest, err := takeLedgers(raw[batchHeadSizeBytes:], count)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes are left over after the %d ledgers of the batch", len(rest), count)
	}
	if err != nil {
		ledgers = append(ledgers, rest)
	}
	return ledgers, err
}

// takeLedgers splits off count consecutive ledgers. With an error, it returns the ledgers before
// the one that can't be read, and the rest starting with that one.
func takeLedgers(raw []byte, count int) (ledgers [][]byte, rest []byte, err error) {
	for i := range count {
		sizeBytes, err := ledgerSize(raw)
		if err != nil && count > 1 {
			return ledgers, raw, fmt.Errorf("ledger %d of a batch of %d: %w", i+1, count, err)
		}
		if err != nil {
			return ledgers, raw, fmt.Errorf("a ledger that is damaged or truncated: %w", err)
		}
		ledgers, raw = append(ledgers, raw[:sizeBytes]), raw[sizeBytes:]
	}
	return ledgers, raw, nil
}

// batchCount distinguishes a batch from a ledger. A batch starts with two sequences and the number
// of ledgers from the first to the last, a ledger with a small version number.
func batchCount(raw []byte) (count int, ok bool) {
	if len(raw) < batchHeadSizeBytes {
		return 0, false
	}
	first, last, n := binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:]),
		binary.BigEndian.Uint32(raw[8:])
	ok = first > 0 && last >= first && uint64(n) == uint64(last)-uint64(first)+1
	return int(n), ok
}

func ledgerSize(raw []byte) (sizeBytes int, err error) {
	for window := millisWindowSizeBytes; ; window *= 4 {
		part := raw[:min(window, len(raw))]
		normal, _, err := normalise(part)
		if err != nil {
			return 0, err
		}
		if &normal[0] == &part[0] {
			part, normal = raw, raw // no header was rewritten
		}
		whole, err := xdr.LedgerCloseMetaView(normal).Raw()
		switch {
		case err == nil:
			return len(whole) + len(part) - len(normal), nil
		case len(part) < len(raw):
		case isUnknownForm(err):
			return followerOffset(raw)
		default:
			return 0, err
		}
	}
}

// followerOffset returns the offset of the next ledger after one with an unknown form. The next
// ledger contains this one's hash. If there is none, all bytes belong to this ledger.
func followerOffset(raw []byte) (int, error) {
	this, err := ReadHeader(raw)
	if err != nil {
		return 0, err
	}
	hash, err := hex.DecodeString(this.Hash)
	if err != nil {
		return 0, err
	}
	for from := 4; ; {
		at := bytes.Index(raw[from:], hash)
		if at < 0 {
			return len(raw), nil
		}
		from += at
		// The hash is preceded by the version, an extension, the next ledger's hash and the protocol.
		for _, headSizeBytes := range []int{
			4 + 4 + hashSizeBytes + 4, 4 + 4 + 12 + hashSizeBytes + 4, 4 + hashSizeBytes + 4,
		} {
			start := from - headSizeBytes
			if start <= 0 {
				continue
			}
			next, err := ReadHeader(raw[start:])
			if err == nil && next.Sequence == this.Sequence+1 && next.PreviousHash == this.Hash {
				return start, nil
			}
		}
		from += 4
	}
}
