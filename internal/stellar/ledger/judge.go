package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Unreadable bytes are either damaged or in a form that is newer than this program. Damage may
// disappear if the ledger is requested again, but a newer form doesn't. Bytes are only considered
// to be in a newer form if they have the hash that the ledger contains for them.

// judgeHeader decides whether an unreadable header is damaged or newer. No hash covers the version
// of the LedgerCloseMeta and its extension, so slightly higher values count as newer.
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
	case extension > 1 && !found && extension <= unknownMetaVersion: // the extension moves the header
		return err
	case extension <= 1 && found && newer:
		return err
	}
	return notProved(err)
}

// judge decides whether the unreadable rest of a ledger with a verified header is damaged or newer.
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
