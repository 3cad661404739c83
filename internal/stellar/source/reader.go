package source

import (
	"context"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// paymentsAtOnce limits the payments that Next returns, except those of the last ledger.
const paymentsAtOnce = 10_000

// Reader reads a source's ledgers with their payments. It is not safe for concurrent use.
type Reader struct {
	Source
	extractor  *ledger.Extractor
	passphrase string
	page       []ledger.Raw // unread ledgers of the source's last page
}

// NewReader returns a reader of the network with the given passphrase.
func NewReader(s Source, passphrase string) (*Reader, error) {
	extractor, err := ledger.NewExtractor(passphrase)
	if err != nil {
		return nil, err
	}
	return &Reader{Source: s, extractor: extractor, passphrase: passphrase}, nil
}

// EnableMoves lets ledgers return their balance moves. Call it before the first read.
func (r *Reader) EnableMoves() { r.extractor.EnableMoves() }

// Continue sets the last ledger read, which the next one must follow.
func (r *Reader) Continue(sequence uint32, hash string) {
	r.page = nil
	r.Source.Continue(sequence, hash)
}

// Next waits for a ledger, and returns it and the available ledgers after it. It fails only if
// waiting does not help, with a domain.LedgerError.
func (r *Reader) Next(ctx context.Context, sequence uint32) (read []domain.Ledger, err error) {
	if len(r.page) == 0 || r.page[0].Sequence != sequence {
		if r.page, err = r.Source.Next(ctx, sequence); err != nil {
			return nil, err
		}
	}
	for payments := 0; len(r.page) > 0 && payments < paymentsAtOnce; {
		l, err := r.read(r.page[0])
		if err != nil && len(read) > 0 {
			break // the next call returns the error
		}
		if err != nil {
			return nil, err
		}
		read, r.page = append(read, l), r.page[1:]
		payments += len(l.Payments)
	}
	return read, nil
}

func (r *Reader) read(raw ledger.Raw) (domain.Ledger, error) {
	raw, err := ledger.Verify(raw, r.passphrase) // returns immediately if the source has verified it
	var l domain.Ledger
	if err == nil {
		l, err = r.extractor.Read(raw)
	}
	if err != nil {
		return l, fmt.Errorf("%w: ledger %d cannot be read, and skipping it would miss its "+
			"payments: upgrade lumenhook: %w", domain.ErrUnreadable, raw.Sequence, err)
	}
	return l, nil
}
