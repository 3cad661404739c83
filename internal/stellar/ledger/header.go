package ledger

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Forms of StellarValue.ext. CAP-88's last two prepend a close time in milliseconds.
const (
	valueSigned       = 1
	valueEmptySet     = 2
	valueSignedMillis = 3
	valueEmptyMillis  = 4
)

const (
	versionMax           = 2 // of LedgerCloseMeta
	hashSizeBytes        = 32
	closeMillisSizeBytes = 8
	upgradesMax          = 6
	upgradeSizeBytesMax  = 128

	// headSizeBytesMax is more than a LedgerCloseMeta's header needs, even with all upgrades.
	headSizeBytesMax = 8 << 10
)

var errShort = errors.New("the ledger ends inside its header")

// normalise converts a header in a form of CAP-88 to the form up to protocol 29, which is the only
// one that the SDK decodes. It returns the converted ledger and the close time in milliseconds that
// it removed, or 0. It doesn't modify raw.
func normalise(raw []byte) (ledger []byte, closeTimeMillis uint64, err error) {
	at, err := valueFormOffset(raw)
	if err != nil {
		return nil, 0, err
	}
	form := binary.BigEndian.Uint32(raw[at:])
	if form != valueSignedMillis && form != valueEmptyMillis {
		return raw, 0, nil
	}
	rest := at + 4 + closeMillisSizeBytes
	if len(raw) < rest {
		return nil, 0, errShort
	}
	out := make([]byte, 0, len(raw)-closeMillisSizeBytes)
	out = append(out, raw[:at]...)
	out = binary.BigEndian.AppendUint32(out, form-valueSignedMillis+valueSigned)
	return append(out, raw[rest:]...), binary.BigEndian.Uint64(raw[at+4:]), nil
}

// valueFormOffset returns the offset of StellarValue.ext, whose discriminant is in raw.
func valueFormOffset(raw []byte) (int, error) {
	c := scanner{raw: raw}
	switch version := c.uint32(); version {
	case 0:
	case 1, versionMax:
		if extension := c.uint32(); extension == 1 {
			c.take(4 + 8) // LedgerCloseMetaExtV1: extension point, fee
		}
	default:
		if c.bad {
			return 0, errShort
		}
		return 0, fmt.Errorf("LedgerCloseMeta version %d is not known", version)
	}
	c.take(hashSizeBytes) // hash of the ledger
	// version, previous hash, transaction set hash, close time
	c.take(4 + hashSizeBytes + hashSizeBytes + 8)
	for n := c.limited(upgradesMax); n > 0; n-- {
		c.take((c.limited(upgradeSizeBytesMax) + 3) &^ 3)
	}
	if c.bad || len(c.rest()) < 4 {
		return 0, errShort
	}
	return c.at, nil
}

// ReadHeader decodes the header of a LedgerCloseMeta. It ignores the rest, which may be invalid.
func ReadHeader(raw []byte) (Header, error) {
	normal, closeTimeMillis, err := normalise(raw[:min(len(raw), headSizeBytesMax)])
	if err != nil {
		return Header{}, fmt.Errorf("ledger: reading a header: %w", err)
	}
	entry, err := xdr.LedgerCloseMetaView(normal).LedgerHeader()
	if err != nil {
		return Header{}, fmt.Errorf("ledger: reading a header: %w", err)
	}
	h, err := readHeader(entry, closeTimeMillis)
	if err != nil {
		return Header{}, fmt.Errorf("ledger: %w", err)
	}
	return h, nil
}

// readHeader decodes a normalised header. closeTimeMillis is the value that normalise removed.
func readHeader(
	entry xdr.LedgerHeaderHistoryEntryView, closeTimeMillis uint64,
) (h Header, err error) {
	var closeTimeSeconds uint64
	err = xdr.TryVoid(func() {
		header := entry.MustHeader()
		hash, previous := entry.MustHash().MustValue(), header.MustPreviousLedgerHash().MustValue()
		h.Hash, h.PreviousHash = hex.EncodeToString(hash[:]), hex.EncodeToString(previous[:])
		h.Sequence = header.MustLedgerSeq().MustValue()
		closeTimeSeconds = header.MustScpValue().MustCloseTime().MustValue()
	})
	if err != nil {
		return Header{}, fmt.Errorf("reading the header: %w", err)
	}
	if h.Sequence == 0 || h.Sequence > math.MaxInt32 {
		return Header{}, fmt.Errorf("the header's sequence %d is out of range", h.Sequence)
	}
	if closeTimeSeconds > math.MaxInt64/1000 {
		return Header{}, fmt.Errorf("the header's close time %d is out of range", closeTimeSeconds)
	}
	h.ClosedAtMillis = int64(closeTimeSeconds) * 1000
	// More precise, but only if it is in the same second.
	if closeTimeMillis/1000 == closeTimeSeconds {
		h.ClosedAtMillis = int64(closeTimeMillis)
	}
	return h, nil
}
