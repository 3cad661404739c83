package ledger

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// fileSizeBytesMax bounds a file of ledgers, before and after decompression. A
// busy ledger takes some 3 MB, and a batch holds 64 of them at most as a rule.
const fileSizeBytesMax = 1 << 30

// wrappersMax bounds compression within compression: there are files that
// decompress to themselves.
const wrappersMax = 3

// batchHeadSizeBytes is what comes before the ledgers of a LedgerCloseMetaBatch:
// first and last sequence, and the number of ledgers.
const batchHeadSizeBytes = 12

var errFileTooLarge = fmt.Errorf("it holds more than %d bytes", fileSizeBytesMax)

// ReadFile reads ledgers as people keep them: one LedgerCloseMeta or a
// LedgerCloseMetaBatch, in raw XDR or base64 (one for each word), compressed by
// gzip or zstd or not. It answers with one LedgerCloseMeta for each ledger.
func ReadFile(r io.Reader) ([][]byte, error) {
	raw, err := readAll(r)
	if err != nil {
		return nil, fmt.Errorf("ledger: reading a file: %w", err)
	}
	ledgers, err := unpack(raw, wrappersMax)
	if err != nil {
		return nil, fmt.Errorf("ledger: reading a file of %d bytes: %w", len(raw), err)
	}
	return ledgers, nil
}

func readAll(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, fileSizeBytesMax+1))
	if err == nil && len(raw) > fileSizeBytesMax {
		err = errFileTooLarge
	}
	return raw, err
}

func unpack(raw []byte, wrappers int) ([][]byte, error) {
	switch {
	case wrappers < 0:
		return nil, fmt.Errorf("it is compressed more than %d times over", wrappersMax)
	case len(raw) == 0:
		return nil, errors.New("it is empty")
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, fmt.Errorf("it begins like gzip: %w", err)
		}
		if raw, err = readAll(z); err != nil {
			return nil, fmt.Errorf("decompressing it by gzip: %w", err)
		}
		return unpack(raw, wrappers-1)
	case bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		raw, err := Decompress(raw)
		if err != nil {
			return nil, err
		}
		return unpack(raw, wrappers-1)
	case isText(raw):
		return unpackBase64(raw)
	}
	return SplitBatch(raw)
}

var decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(fileSizeBytesMax))

// Decompress undoes zstd, to at most 1 GiB.
func Decompress(raw []byte) ([]byte, error) {
	out, err := decompressor.DecodeAll(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("decompressing by zstd: %w", err)
	}
	return out, nil
}

// isText tells base64 from XDR, which begins with a number below 2^31 and so
// with a zero byte for any version or sequence there will be.
func isText(raw []byte) bool {
	return raw[0] > ' ' || raw[0] == '\n' || raw[0] == '\r' || raw[0] == ' ' || raw[0] == '\t'
}

func unpackBase64(text []byte) (ledgers [][]byte, err error) {
	for i, word := range bytes.Fields(text) {
		raw, err := base64.StdEncoding.DecodeString(string(word))
		if err != nil {
			return nil, fmt.Errorf("word %d is no base64, and the file is no raw XDR, gzip or zstd: %w", i+1, err)
		}
		some, err := SplitBatch(raw)
		if err != nil {
			return nil, fmt.Errorf("word %d: %w", i+1, err)
		}
		ledgers = append(ledgers, some...)
	}
	if len(ledgers) == 0 {
		return nil, errors.New("it holds nothing but blanks")
	}
	return ledgers, nil
}

// SplitBatch takes a LedgerCloseMetaBatch apart; a LedgerCloseMeta stays whole.
func SplitBatch(raw []byte) ([][]byte, error) {
	count, ok := batchCount(raw)
	if !ok {
		return [][]byte{raw}, nil
	}
	rest := raw[batchHeadSizeBytes:]
	var ledgers [][]byte
	for i := range count {
		sizeBytes, err := ledgerSize(rest)
		if err != nil {
			return nil, fmt.Errorf("ledger %d of %d in the batch: %w", i+1, count, err)
		}
		ledgers, rest = append(ledgers, rest[:sizeBytes]), rest[sizeBytes:]
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%d bytes are left over after the %d ledgers of the batch", len(rest), count)
	}
	return ledgers, nil
}

// batchCount tells a batch from a ledger: it begins with two sequences and the
// number of ledgers from the one to the other, a ledger with its small version.
func batchCount(raw []byte) (count int, ok bool) {
	if len(raw) < batchHeadSizeBytes {
		return 0, false
	}
	first, last, n := binary.BigEndian.Uint32(raw), binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	ok = first > 0 && last >= first && uint64(n) == uint64(last)-uint64(first)+1
	return int(n), ok
}

// ledgerSize finds the end of the first ledger of several.
func ledgerSize(raw []byte) (sizeBytes int, err error) {
	at, err := valueFormOffset(raw)
	if err != nil {
		return 0, err
	}
	taken := 0
	normal := raw
	if form := binary.BigEndian.Uint32(raw[at:]); form == valueSignedMillis || form == valueEmptyMillis {
		if normal, _, err = normalise(raw); err != nil {
			return 0, err
		}
		taken = closeMillisSizeBytes
	}
	whole, err := xdr.LedgerCloseMetaView(normal).Raw()
	if isUnknownForm(err) {
		return followerOffset(raw)
	}
	if err != nil {
		return 0, err
	}
	return len(whole) + taken, nil
}

// followerOffset finds where the next ledger begins when this one holds a form
// that is not known: the next names this one's hash as the one before it. With
// nobody behind it, the rest is this ledger's.
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
		for _, headSizeBytes := range []int{4 + 4 + hashSizeBytes + 4, 4 + 4 + 12 + hashSizeBytes + 4, 4 + hashSizeBytes + 4} {
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
