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

// wrappersMax bounds compression and base64 within each other: there are files
// that decompress to themselves.
const wrappersMax = 3

// batchHeadSizeBytes is what comes before the ledgers of a LedgerCloseMetaBatch:
// first and last sequence, and the number of ledgers.
const batchHeadSizeBytes = 12

var errFileTooLarge = fmt.Errorf("it holds more than %d bytes", fileSizeBytesMax)

// Records of a stream of XDR as stellar-core and the SDK write it (RFC 5531,
// section 11): before each is its length, with the top bit set for the last
// fragment. They write a record in one fragment.
const (
	recordHeadSizeBytes = 4
	lastFragment        = 1 << 31
)

// millisWindowSizeBytes is what is copied at first to measure a ledger whose
// header is to be rewritten: more than most of them take.
const millisWindowSizeBytes = 8 << 20

// ReadFile reads ledgers as people keep them: LedgerCloseMeta and
// LedgerCloseMetaBatch one after another, with record marks as in stellar-core's
// stream or without, in raw XDR or base64 (with lines of any width), compressed
// by gzip or zstd or not. It returns one LedgerCloseMeta for each ledger, or
// fails: what is left over or cut short is an error.
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
		return nil, fmt.Errorf("it is wrapped more than %d times over (gzip, zstd, base64)", wrappersMax)
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
	case raw[0]&(lastFragment>>24) != 0:
		return splitRecords(raw)
	case isText(raw):
		return unpackBase64(bytes.Fields(raw), wrappers-1)
	}
	return splitSequence(raw)
}

var decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
	zstd.WithDecoderMaxMemory(fileSizeBytesMax))

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

// unpackBase64 takes each word for ledgers of its own, as RPC servers answer
// with, else all of them for one text that was wrapped into lines.
func unpackBase64(words [][]byte, wrappers int) ([][]byte, error) {
	ledgers, err := unpackWords(words, wrappers)
	if err == nil || len(words) < 2 {
		return ledgers, err
	}
	raw, wrapped := decodeWrapped(bytes.Join(words, nil))
	if wrapped == nil {
		ledgers, wrapped = unpack(raw, wrappers)
	}
	if wrapped != nil {
		return nil, fmt.Errorf("%w; as one text of %d lines: %w", err, len(words), wrapped)
	}
	return ledgers, nil
}

func unpackWords(words [][]byte, wrappers int) (ledgers [][]byte, err error) {
	for i, word := range words {
		raw, err := base64.StdEncoding.DecodeString(string(word))
		if err != nil {
			return nil, fmt.Errorf("word %d is no base64, and the file is no raw XDR, gzip or zstd: %w", i+1,
				err)
		}
		some, err := unpack(raw, wrappers)
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

// decodeWrapped decodes texts one after another; padding ends one.
func decodeWrapped(text []byte) (raw []byte, err error) {
	for len(text) > 0 {
		end := len(text)
		if padding := bytes.IndexByte(text, '='); padding >= 0 {
			end = padding + len(text[padding:]) - len(bytes.TrimLeft(text[padding:], "="))
		}
		if raw, err = base64.StdEncoding.AppendDecode(raw, text[:end]); err != nil {
			return nil, err
		}
		text = text[end:]
	}
	return raw, nil
}

// splitRecords takes a stream of records apart, each of which is a ledger.
func splitRecords(raw []byte) (ledgers [][]byte, err error) {
	for i := 1; len(raw) > 0; i++ {
		if len(raw) < recordHeadSizeBytes {
			return nil, fmt.Errorf("the stream ends inside the length of record %d", i)
		}
		head := binary.BigEndian.Uint32(raw)
		raw = raw[recordHeadSizeBytes:]
		sizeBytes := int64(head &^ lastFragment)
		if head&lastFragment == 0 {
			return nil, fmt.Errorf("record %d of the stream comes in fragments: give it as stellar-core "+
				"writes it, in one", i)
		}
		if sizeBytes > int64(len(raw)) {
			return nil, fmt.Errorf("it is no raw XDR, base64, gzip or zstd; as a stream of records it is "+
				"cut short: record %d has %d bytes, and %d are there", i, sizeBytes, len(raw))
		}
		some, err := splitSequence(raw[:sizeBytes])
		if err != nil {
			return nil, fmt.Errorf("record %d of the stream: %w", i, err)
		}
		ledgers, raw = append(ledgers, some...), raw[sizeBytes:]
	}
	return ledgers, nil
}

// splitSequence takes ledgers and batches apart that follow each other.
func splitSequence(raw []byte) (ledgers [][]byte, err error) {
	for rest := raw; len(rest) > 0; {
		var some [][]byte
		at := len(raw) - len(rest)
		if count, ok := batchCount(rest); ok {
			some, rest, err = takeLedgers(rest[batchHeadSizeBytes:], count)
		} else {
			some, rest, err = takeLedgers(rest, 1)
		}
		if err != nil && at > 0 {
			return nil, fmt.Errorf("after the first %d ledgers, at byte %d: %w", len(ledgers), at, err)
		}
		if err != nil {
			return nil, err
		}
		ledgers = append(ledgers, some...)
	}
	return ledgers, nil
}

// SplitBatch takes a LedgerCloseMetaBatch apart; a LedgerCloseMeta stays whole. With an error it
// gives the ledgers before the one that cannot be told from what follows it, and as the last one
// all that is left.
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

// takeLedgers takes so many ledgers that follow each other. With an error it gives those before
// the one that cannot be taken, with which the rest begins.
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

// batchCount tells a batch from a ledger: it begins with two sequences and the
// number of ledgers from the one to the other, a ledger with its small version.
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
