package ledger

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// Raw is a closed ledger as returned by a source. Hash is the hash that the source claims, as 64
// lowercase hex characters. XDR is a LedgerCloseMeta.
type Raw struct {
	Sequence uint32
	Hash     string
	XDR      []byte

	verified *opened // set by Verify
}

// Header is the decoded header of a ledger. Hashes are 64 lowercase hex characters.
type Header struct {
	Sequence       uint32
	Hash           string
	PreviousHash   string
	ClosedAtMillis int64
}

// assetsCached limits the cache of contract IDs. Names have at most 69 bytes.
const assetsCached = 4096

// Extractor reads the ledgers of one network. It is safe for concurrent use.
type Extractor struct {
	passphrase string
	contracts  *lru.Cache[string, assetContract]
	moves      bool // ledgers can return balance moves
}

// EnableMoves lets ledgers return their balance moves. Such ledgers keep their bytes in memory and
// read the moves on request. Call it before the first read.
func (e *Extractor) EnableMoves() { e.moves = true }

// NewExtractor returns an extractor for the network with the given passphrase.
func NewExtractor(passphrase string) (*Extractor, error) {
	if strings.TrimSpace(passphrase) == "" {
		return nil, errors.New("ledger: the network passphrase is empty: set the passphrase of the " +
			"network to follow")
	}
	contracts, err := lru.New[string, assetContract](assetsCached)
	if err != nil {
		return nil, fmt.Errorf("ledger: creating the asset contract cache: %w", err)
	}
	return &Extractor{passphrase: passphrase, contracts: contracts}, nil
}

// Extract reads a LedgerCloseMeta. If it fails, the ledger as a whole can't be read, and the caller
// must stop instead of skipping the ledger.
func (e *Extractor) Extract(raw []byte) (domain.Ledger, error) {
	parts, err := open(raw, e.passphrase, believing)
	if err != nil {
		return domain.Ledger{}, fmt.Errorf("ledger: reading a LedgerCloseMeta of %d bytes: %w",
			len(raw), err)
	}
	return e.extract(parts), nil
}

// Read returns the content of a ledger. A verified ledger is not parsed again.
func (e *Extractor) Read(raw Raw) (l domain.Ledger, err error) {
	defer guard(&err)
	if raw.verified != nil {
		l = e.extract(raw.verified)
		l.Verified = true
		return l, nil
	}
	return e.Extract(raw.XDR)
}

// guard converts a panic to an error, so that a bug in reading a ledger from one source doesn't
// crash the process. Reading changes no shared state.
func guard(err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("ledger: this program panicked while reading it, which is a bug: %v\n%s",
			cause, debug.Stack())
	}
}

type opened struct {
	head Header
	located
}

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
