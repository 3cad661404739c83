package ledger

import (
	"bytes"
	"errors"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Balance moves are derived from the changes of entries. A ledger charges the fees of all its
// transactions first, then applies one after another, and since protocol 23 refunds excess fees
// after all of them. In that order the state before each change is the state after the previous
// one.

var (
	errChanges = errors.New("the changes of its entries cannot be read")
	errBefore  = errors.New("a change of a balance in it has no earlier value")
	errPartly  = errors.New("it has a form that this version does not know, so not all changes of " +
		"balances in it can be read: upgrade lumenhook")
)

// The three rounds of a ledger, in order.
const (
	roundFees uint64 = iota + 1
	roundApply
	roundRefunds
)

// step is one list of changes: its round, transaction and part.
type step struct {
	round     uint64
	order     int // of the transaction, from 1
	part      int // of the transaction, in order
	name      string
	operation int // from 1; 0 outside the operations
}

// Names of steps, which identifiers of moves are made of. They never change.
const (
	stepFee       = "fee"
	stepBefore    = "before"
	stepOperation = "operation"
	stepAfter     = "after"
	stepRefund    = "refund"
)

// place orders moves within a ledger.
func (s *step) place(i int) uint64 {
	return s.round<<60 | uint64(s.order)<<40 | uint64(s.part)<<24 | uint64(min(i, 1<<24-1))
}

// moving collects the balance moves of a ledger.
type moving struct {
	*opened
	watched  func(wallet string) (bool, error)
	wallets  map[[hashSizeBytes]byte]string // the address; empty: not watched
	of       operations
	moves    domain.LedgerMoves
	unread   map[int]bool // transactions in moves.Unread, by order
	states   []change     // of the list that is read, of watched wallets
	failure  error        // of watched
	tx       *transaction
	step     step
	listFrom int // where the list's moves begin
}

// movesOf reads the balance moves of watched wallets. It fails only if watched fails.
func movesOf(
	parts *opened, payments []domain.Payment, watched func(wallet string) (bool, error),
) (domain.LedgerMoves, error) {
	m := &moving{
		opened:  parts,
		watched: watched,
		wallets: make(map[[hashSizeBytes]byte]string),
		of:      operations{payments: payments},
		unread:  make(map[int]bool),
	}
	m.each(func(tx *transaction) { m.list(step{round: roundFees, name: stepFee}, tx.fees) })
	m.each(func(tx *transaction) {
		s := scanner{raw: tx.meta}
		if tx.meta == nil {
			return
		}
		if m.meta(&s); s.bad {
			m.note(errChanges)
		}
	})
	m.each(func(tx *transaction) { m.list(step{round: roundRefunds, name: stepRefund}, tx.refunds) })
	if m.failure != nil {
		return domain.LedgerMoves{}, m.failure
	}
	return m.moves, nil
}

// each goes through the transactions in the order of application, until watched fails.
func (m *moving) each(do func(*transaction)) {
	for i := range m.transactions {
		if m.failure != nil {
			return
		}
		m.tx, m.step.order = &m.transactions[i], i+1
		if m.tx.partly {
			m.note(errPartly)
		}
		do(m.tx)
	}
}

// note records, once per transaction, that a part of it could not be read.
func (m *moving) note(err error) {
	if m.unread[m.step.order] {
		return
	}
	m.unread[m.step.order] = true
	m.moves.Unread = append(m.moves.Unread, domain.QuarantinedTransaction{
		TxHash: m.tx.hexHash(),
		Order:  m.step.order,
		Reason: err.Error(),
	})
}

// meta reads the changes of a transaction's meta, whatever its version, up to the end of them.
func (m *moving) meta(s *scanner) {
	version := s.uint32()
	if version > metaUnified {
		s.bad = true
		return
	}
	if version > 2 {
		s.must(0)
	}
	part := step{round: roundApply, name: stepBefore}
	if version > 0 {
		m.changes(part, s)
	}
	part.name = stepOperation
	for n := s.count(listed); n > 0 && !s.bad; n-- {
		part.operation++
		part.part++
		if version > 3 {
			s.must(0)
		}
		m.changes(part, s)
		if version > 3 && !s.empty() {
			over[xdr.OperationMetaV2EventsView](s)
		}
	}
	if version > 1 {
		m.changes(step{round: roundApply, name: stepAfter, part: part.part + 1}, s)
	}
}

// list reads one list of changes.
func (m *moving) list(at step, raw []byte) {
	if len(raw) == 0 {
		return
	}
	s := scanner{raw: raw}
	if m.changes(at, &s); s.bad {
		m.note(errChanges)
	}
}

// changes reads the moves of one list of changes.
func (m *moving) changes(at step, s *scanner) {
	at.order = m.step.order
	m.step, m.states, m.listFrom = at, m.states[:0], len(m.moves.Moves)
	n := s.count(changeSizeBytesMin)
	for i := 0; i < n && !s.bad && m.failure == nil; i++ {
		c := s.change()
		if s.bad || c.balance == nil {
			continue
		}
		if wallet := m.wallet(c.key()); wallet != "" {
			m.take(wallet, c, i)
		}
	}
}

// wallet returns the address of a watched key, and calls watched once per key.
func (m *moving) wallet(key [hashSizeBytes]byte) string {
	wallet, known := m.wallets[key]
	if known || m.failure != nil {
		return wallet
	}
	address, err := strkey.Encode(strkey.VersionByteAccountID, key[:])
	is := false
	if err == nil {
		is, err = m.watched(address)
	}
	if err != nil {
		m.failure = err
		return ""
	}
	if is {
		wallet = address
	}
	m.wallets[key] = wallet
	return wallet
}

// take processes a change of a watched wallet's balance: the value before or after.
func (m *moving) take(wallet string, c change, i int) {
	before := m.before(c.balance)
	switch c.kind {
	case xdr.LedgerEntryChangeTypeLedgerEntryState, xdr.LedgerEntryChangeTypeLedgerEntryRestored:
		if before == nil {
			m.states = append(m.states, c)
			return
		}
		before.stroops = c.stroops
		return
	case xdr.LedgerEntryChangeTypeLedgerEntryCreated:
		if before == nil {
			m.states = append(m.states, change{balance: c.balance})
			before = &m.states[len(m.states)-1]
		}
	}
	if before == nil {
		m.note(errBefore)
		return
	}
	if before.stroops != c.stroops {
		m.add(wallet, before.stroops, c, i)
	}
	before.stroops = c.stroops
}

// before finds the earlier value of a balance in this list; nil: the list does not have it.
func (m *moving) before(balance []byte) *change {
	for i := range m.states {
		if bytes.Equal(m.states[i].balance, balance) {
			return &m.states[i]
		}
	}
	return nil
}

// add adds a move.
func (m *moving) add(wallet string, beforeStroops int64, c change, i int) {
	move := domain.BalanceMove{
		Wallet:         wallet,
		Ledger:         m.head.Sequence,
		ClosedAtMillis: m.head.ClosedAtMillis,
		Place:          m.step.place(i),
		TxHash:         m.tx.hexHash(),
		Operation:      m.step.operation,
		BeforeStroops:  beforeStroops,
		AfterStroops:   c.stroops,
	}
	if err := nameBalance(c.balance, &move); err != nil {
		m.note(err)
		return
	}
	n := 0
	for i := range m.moves.Moves[m.listFrom:] {
		other := &m.moves.Moves[m.listFrom+i]
		if other.Wallet == wallet && other.Asset == move.Asset && other.Pool == move.Pool {
			n++
		}
	}
	move.ID = domain.MoveID(wallet, move.BalanceName(), move.TxHash, m.step.name, move.Operation, n)
	m.of.explain(&move, m.tx, &m.step)
	m.moves.Moves = append(m.moves.Moves, move)
}
