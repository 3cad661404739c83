package ledger

import (
	"bytes"
	"errors"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Balance moves are derived from the changes of ledger entries. A ledger first charges the fees of
// all transactions, then applies the transactions in order, and since protocol 23 refunds excess
// fees at the end. In this order, the state before each change is the state after the previous one.

var (
	errChanges = errors.New("the changes of its entries cannot be read")
	errBefore  = errors.New("a change of a balance in it has no earlier value")
	errPartly  = errors.New("it has a form that this version does not know, so not all changes of " +
		"balances in it can be read: upgrade lumenhook")
)

// Rounds of a ledger, in order.
const (
	roundFees uint64 = iota + 1
	roundApply
	roundRefunds
)

type step struct {
	round     uint64
	order     int // of the transaction, from 1
	part      int // position within the transaction
	name      string
	operation int // from 1; 0 for changes outside operations
}

// Names of steps. They are part of move IDs and must not change.
const (
	stepFee       = "fee"
	stepBefore    = "before"
	stepOperation = "operation"
	stepAfter     = "after"
	stepRefund    = "refund"
)

func (s *step) place(i int) uint64 {
	return s.round<<60 | uint64(s.order)<<40 | uint64(s.part)<<24 | uint64(min(i, 1<<24-1))
}

type moving struct {
	*opened
	watched  func(wallet string) (bool, error)
	wallets  map[[hashSizeBytes]byte]string // address by public key; empty if not watched
	of       operations
	moves    domain.LedgerMoves
	unread   map[int]bool // orders of the transactions in moves.Unread
	states   []change     // state of watched wallets' balances in the current list
	failure  error        // error of watched
	tx       *transaction
	step     step
	listFrom int // index of the current list's first move
}

// movesOf returns the balance moves of watched wallets. It only returns errors of watched.
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

// each calls do for the transactions in the order of application, until watched fails.
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

func (m *moving) list(at step, raw []byte) {
	if len(raw) == 0 {
		return
	}
	s := scanner{raw: raw}
	if m.changes(at, &s); s.bad {
		m.note(errChanges)
	}
}

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

// wallet returns the address of a key, or "" if it isn't watched. It calls watched once per key.
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

// take processes a change of a watched wallet, which has the balance before or after it.
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

// before returns the previous state of a balance in the current list, or nil.
func (m *moving) before(balance []byte) *change {
	for i := range m.states {
		if bytes.Equal(m.states[i].balance, balance) {
			return &m.states[i]
		}
	}
	return nil
}

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
