package ledger

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// Raw is a closed ledger as a source returns it. Hash is the source's claim, 64 lowercase hex
// characters; XDR is one LedgerCloseMeta.
type Raw struct {
	Sequence uint32
	Hash     string
	XDR      []byte

	verified *opened // set by Verify
}

// Header holds a ledger's own description. Hashes are 64 lowercase hex characters.
type Header struct {
	Sequence       uint32
	Hash           string
	PreviousHash   string
	ClosedAtMillis int64
}

// assetsCached bounds the memory of contract identifiers. A name takes at most 69 bytes; longer
// names are not assets.
const assetsCached = 4096

// Extractor reads ledgers of one network. It may be used by several goroutines.
type Extractor struct {
	passphrase string
	contracts  *lru.Cache[string, assetContract]
	moves      bool // ledgers return balance moves
}

// GiveMoves makes ledgers return their balance moves. A ledger then keeps its bytes in memory, and
// reads the moves when they are requested. Call it before the first read.
func (e *Extractor) GiveMoves() { e.moves = true }

// NewExtractor returns an extractor for the network with this passphrase.
func NewExtractor(passphrase string) (*Extractor, error) {
	if strings.TrimSpace(passphrase) == "" {
		return nil, errors.New("ledger: the network passphrase is empty: set the passphrase of the " +
			"network to follow")
	}
	contracts, err := lru.New[string, assetContract](assetsCached)
	if err != nil {
		return nil, fmt.Errorf("ledger: making the cache of asset contracts: %w", err)
	}
	return &Extractor{passphrase: passphrase, contracts: contracts}, nil
}

// Extract reads one LedgerCloseMeta. It fails if the ledger as a whole cannot be read. The caller
// must then stop, and never skip the ledger.
func (e *Extractor) Extract(raw []byte) (domain.Ledger, error) {
	parts, err := open(raw, e.passphrase, believing)
	if err != nil {
		return domain.Ledger{}, fmt.Errorf("ledger: reading a LedgerCloseMeta of %d bytes: %w",
			len(raw), err)
	}
	return e.extract(parts), nil
}

// Read returns the content of a ledger.
func (e *Extractor) Read(raw Raw) (l domain.Ledger, err error) {
	defer guard(&err)
	if raw.verified != nil {
		l = e.extract(raw.verified)
		l.Verified = true
		return l, nil
	}
	return e.Extract(raw.XDR)
}

// guard turns a panic into an error: a bug in reading one source's ledger must not end the process.
// Reading changes no shared state.
func guard(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("ledger: this program panicked in reading it, which is a mistake in it: %v\n%s",
			cause, debug.Stack())
	}
}

// opened is a parsed ledger.
type opened struct {
	head Header
	located
}

// open parses a ledger.
func open(raw []byte, passphrase string, how demands) (*opened, error) {
	normal, closeTimeMillis, err := normalise(raw)
	if err != nil {
		return nil, err
	}
	parts, err := locate(normal, passphrase, how)
	if err != nil {
		return nil, err
	}
	head, err := readHeader(parts.header, closeTimeMillis)
	return &opened{head: head, located: parts}, err
}

func (e *Extractor) extract(parts *opened) domain.Ledger {
	l := domain.Ledger{
		Sequence:       parts.head.Sequence,
		Hash:           parts.head.Hash,
		ClosedAtMillis: parts.head.ClosedAtMillis,
		Transactions:   len(parts.transactions),
	}
	known := newNames()
	for i := range parts.transactions {
		tx := &parts.transactions[i]
		payments, err := e.paymentsOf(parts.head, i+1, tx, known, l.Payments)
		if err == nil {
			l.Payments = payments
		} else {
			l.Quarantined = append(l.Quarantined, domain.QuarantinedTransaction{
				TxHash: tx.hexHash(),
				Order:  i + 1,
				Reason: err.Error(),
			})
		}
	}
	if e.moves {
		payments := l.Payments
		l.Moves = func(watched func(string) (bool, error)) (domain.LedgerMoves, error) {
			return movesOf(parts, payments, watched)
		}
	}
	return l
}
