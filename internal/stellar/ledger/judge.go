package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Unreadable bytes are damaged, or of a form that this program does not know. Damage may be gone if
// the ledger is requested again; a new form stays. Bytes are of a new form only if they have the
// hash that the ledger names for them; for others it is unknown.

// judgeHeader decides whether an unreadable header is damaged or newer. No hash covers the version
// of the LedgerCloseMeta and its extension, so values that are slightly too large count as newer.
func (p *prover) judgeHeader(raw []byte, err error) error {
	if errors.Is(err, ErrNotProved) {
		return err
	}
	c := scanner{raw: raw}
	version := c.uint32()
	if version > versionMax && version <= unknownMetaVersion {
		return err
	}
	extension := uint32(0)
	if version > 0 {
		extension = c.uint32()
	}
	at := headerOffset(raw)
	if len(raw) < at+4 {
		return notProved(err)
	}
	newer := binary.BigEndian.Uint32(raw[at:]) > protocolKnown
	claimed := xdr.Hash(raw[at-hashSizeBytes : at])
	found := p.provesPrefix(claimed, raw[at:min(len(raw), headSizeBytesMax)])
	switch {
	case extension > 1 && !found && extension <= unknownMetaVersion: // it includes its length
		return err
	case extension <= 1 && found && newer:
		return err
	}
	return notProved(err)
}

// judge decides the same for a ledger whose header was proved, and whose rest cannot be read.
func (p *prover) judge(raw []byte, h provedHeader, err error) error {
	if h.protocol <= protocolKnown || !errors.Is(err, errUnknownForm) ||
		!p.provesPrefix(h.setHash, raw[h.setAt:]) {
		return notProved(err)
	}
	return err
}

func notProved(err error) error {
	if errors.Is(err, ErrNotProved) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotProved, err)
}

// provesPrefix reports whether a prefix of these bytes has the hash.
func (p *prover) provesPrefix(claimed xdr.Hash, raw []byte) bool {
	digest := sha256.New()
	var sum xdr.Hash
	for at := 0; at+4 <= len(raw) && p.spend(placeSizeBytes); at += 4 {
		digest.Write(raw[at : at+4])
		if digest.Sum(sum[:0]); sum == claimed {
			return true
		}
	}
	return false
}
