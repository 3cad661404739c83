package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

const typeBalanceMoved = "BalanceMoved"

// BalanceMoved is a balance move of a watched wallet, as recorded by the follower.
type BalanceMoved struct {
	Move             domain.BalanceMove
	ObservedAtMillis int64
}

// IsBalanceMoved reports whether a record of the topic "payments" is a balance move.
func IsBalanceMoved(h Headers) bool { return h.Header(HeaderType) == typeBalanceMoved }

// EncodeBalanceMoved encodes a record of the topic "payments".
func EncodeBalanceMoved(m BalanceMoved) Message {
	return pack(typeBalanceMoved, "",
		&kafka.BalanceMoved{Move: moveOut(m.Move), ObservedAtMillis: m.ObservedAtMillis})
}

// DecodeBalanceMoved decodes a record of the topic "payments".
func DecodeBalanceMoved(m Message) (BalanceMoved, error) {
	var b kafka.BalanceMoved
	err := unpackAs(m, typeBalanceMoved, &b)
	return BalanceMoved{
		Move:             moveIn(b.GetMove()),
		ObservedAtMillis: b.GetObservedAtMillis(),
	}, err
}

func moveOut(m domain.BalanceMove) *kafka.BalanceMove {
	out := &kafka.BalanceMove{
		Id:             m.ID,
		Wallet:         m.Wallet,
		Ledger:         m.Ledger,
		ClosedAtMillis: m.ClosedAtMillis,
		Place:          m.Place,
		TxHash:         m.TxHash,
		Operation:      uint32(m.Operation),
		Kind:           string(m.Kind),
		Pool:           m.Pool,
		BeforeStroops:  m.BeforeStroops,
		AfterStroops:   m.AfterStroops,
		PaymentIds:     m.PaymentIDs,
	}
	if m.Pool == "" {
		out.Asset = assetOut(m.Asset)
	}
	return out
}

func moveIn(m *kafka.BalanceMove) domain.BalanceMove {
	return domain.BalanceMove{
		ID:             m.GetId(),
		Wallet:         m.GetWallet(),
		Ledger:         m.GetLedger(),
		ClosedAtMillis: m.GetClosedAtMillis(),
		Place:          m.GetPlace(),
		TxHash:         m.GetTxHash(),
		Operation:      int(m.GetOperation()),
		Kind:           domain.MoveKind(m.GetKind()),
		Asset:          assetIn(m.GetAsset()),
		Pool:           m.GetPool(),
		BeforeStroops:  m.GetBeforeStroops(),
		AfterStroops:   m.GetAfterStroops(),
		PaymentIDs:     m.GetPaymentIds(),
	}
}
