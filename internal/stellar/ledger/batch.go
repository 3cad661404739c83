package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// batchHeadSizeBytes is the size before the ledgers of a LedgerCloseMetaBatch: first and last
// sequence, and the number of ledgers.
const batchHeadSizeBytes = 12

// millisWindowSizeBytes is copied at first to measure a ledger whose header is to be rewritten. It
// is more than most of them take.
const millisWindowSizeBytes = 8 << 20

// SplitBatch splits a LedgerCloseMetaBatch; a LedgerCloseMeta stays whole. With an error it returns
// the ledgers before the one whose end is unknown, and all the remaining bytes as the last one.
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

// takeLedgers splits off count consecutive ledgers. With an error it returns those before the one
// that cannot be read, with which the rest begins.
func takeLedgers(raw []byte, count int) (ledgers [][]byte, rest []byte, err error) {
	for i := range count {
		sizeBytes, err := ledgerSize(raw)
		if err != nil && count > 1 {
			return ledgers, raw, fmt.Errorf("ledger %d of a batch of %d: %w", i+1, count, err)
		}
		if err != nil {
			return ledgers, raw, fmt.Errorf("a ledger that is damaged or cut short: %w", err)
		}
		ledgers, raw = append(ledgers, raw[:sizeBytes]), raw[sizeBytes:]
	}
	return ledgers, raw, nil
}

// batchCount distinguishes a batch from a ledger: a batch begins with two sequences and the number
// of ledgers between them, a ledger with its small version.
func batchCount(raw []byte) (count int, ok bool) {
	if len(raw) < batchHeadSizeBytes {
		return 0, false
	}
	first, last, n := binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:]),
		binary.BigEndian.Uint32(raw[8:])
	ok = first > 0 && last >= first && uint64(n) == uint64(last)-uint64(first)+1
	return int(n), ok
}

// ledgerSize finds the end of the first ledger of several.
func ledgerSize(raw []byte) (sizeBytes int, err error) {
	for window := millisWindowSizeBytes; ; window *= 4 {
		part := raw[:min(window, len(raw))]
		normal, _, err := normalise(part)
		if err != nil {
			return 0, err
		}
		if &normal[0] == &part[0] {
			part, normal = raw, raw // nothing was copied
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

// followerOffset finds where the next ledger begins if this one has an unknown form: the next one
// contains this one's hash as its previous hash. Without a next ledger, the rest belongs to this
// one.
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
		// Before it are the version, an extension, the next hash and the protocol.
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
