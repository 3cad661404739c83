package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// LedgerRead records that a ledger was read. It is the follower's cursor.
type LedgerRead struct {
	NetworkPassphrase string
	Sequence          uint32
	Hash              string
	ClosedAtMillis    int64
	Transactions      int
	Payments          int // to all wallets
	Observed          int // to watched wallets
	Matches           int
	// The next offset per partition of "watches" when the ledger was matched.
	WatchesOffsets  map[int32]int64
	MatchesOffsets  map[int32]int64 // per partition of "matches"; matches of later ledgers follow
	PaymentsOffsets map[int32]int64 // per partition of "payments"; payments of later ledgers follow
	ReadAtMillis    int64
	// Coverage lists the ledgers read up to and including this one.
	Coverage domain.Coverage
	// The first ledger of an unbroken record of balance moves; 0 if none are recorded.
	MovesSince       uint32
	MovesSinceMillis int64 // its close time
}

// EncodeLedgerRead encodes a record of the topic "ledgers".
func EncodeLedgerRead(l LedgerRead) Message {
	var read []*kafka.LedgersRead
	for _, r := range l.Coverage {
		read = append(read, &kafka.LedgersRead{From: r.From, To: r.To, Verified: r.Verified})
	}
	return pack("LedgerRead", "", &kafka.LedgerRead{
		NetworkPassphrase: l.NetworkPassphrase,
		Sequence:          l.Sequence,
		Hash:              l.Hash,
		ClosedAtMillis:    l.ClosedAtMillis,
		Transactions:      uint32(l.Transactions),
		Payments:          uint32(l.Payments),
		Observed:          uint32(l.Observed),
		Matches:           uint32(l.Matches),
		WatchesOffsets:    l.WatchesOffsets,
		MatchesOffsets:    l.MatchesOffsets,
		PaymentsOffsets:   l.PaymentsOffsets,
		ReadAtMillis:      l.ReadAtMillis,
		Read:              read,
		MovesSince:        l.MovesSince,
		MovesSinceMillis:  l.MovesSinceMillis,
	})
}

// DecodeLedgerRead decodes a record of the topic "ledgers".
func DecodeLedgerRead(m Message) (LedgerRead, error) {
	var b kafka.LedgerRead
	err := unpackAs(m, "LedgerRead", &b)
	var coverage domain.Coverage
	for _, r := range b.GetRead() {
		coverage = append(coverage, domain.LedgersRead{
			Range:    domain.Range{From: r.GetFrom(), To: r.GetTo()},
			Verified: r.GetVerified(),
		})
	}
	return LedgerRead{
		NetworkPassphrase: b.GetNetworkPassphrase(),
		Sequence:          b.GetSequence(),
		Hash:              b.GetHash(),
		ClosedAtMillis:    b.GetClosedAtMillis(),
		Transactions:      int(b.GetTransactions()),
		Payments:          int(b.GetPayments()),
		Observed:          int(b.GetObserved()),
		Matches:           int(b.GetMatches()),
		WatchesOffsets:    b.GetWatchesOffsets(),
		MatchesOffsets:    b.GetMatchesOffsets(),
		PaymentsOffsets:   b.GetPaymentsOffsets(),
		ReadAtMillis:      b.GetReadAtMillis(),
		Coverage:          coverage,
		MovesSince:        b.GetMovesSince(),
		MovesSinceMillis:  b.GetMovesSinceMillis(),
	}, err
}

// TransactionQuarantined records that a transaction could not be decoded.
type TransactionQuarantined struct {
	NetworkPassphrase string
	Ledger            uint32
	ClosedAtMillis    int64
	TxHash            string
	Order             int // position in which it was applied, from 1
	Reason            string
	ReadAtMillis      int64
}

// EncodeTransactionQuarantined encodes a record of the topic "quarantine".
func EncodeTransactionQuarantined(q TransactionQuarantined) Message {
	return pack("TransactionQuarantined", "", &kafka.TransactionQuarantined{
		NetworkPassphrase: q.NetworkPassphrase,
		Ledger:            q.Ledger,
		ClosedAtMillis:    q.ClosedAtMillis,
		TxHash:            q.TxHash,
		Order:             uint32(q.Order),
		Reason:            printed(q.Reason, deadReasonBytes),
		ReadAtMillis:      q.ReadAtMillis,
	})
}

// DecodeTransactionQuarantined decodes a record of the topic "quarantine".
func DecodeTransactionQuarantined(m Message) (TransactionQuarantined, error) {
	var b kafka.TransactionQuarantined
	err := unpackAs(m, "TransactionQuarantined", &b)
	return TransactionQuarantined{
		NetworkPassphrase: b.GetNetworkPassphrase(),
		Ledger:            b.GetLedger(),
		ClosedAtMillis:    b.GetClosedAtMillis(),
		TxHash:            b.GetTxHash(),
		Order:             int(b.GetOrder()),
		Reason:            b.GetReason(),
		ReadAtMillis:      b.GetReadAtMillis(),
	}, err
}
