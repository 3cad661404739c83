package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// PaymentObserved is a payment to a watched wallet, as recorded by the follower.
type PaymentObserved struct {
	Payment          domain.Payment
	ObservedAtMillis int64
}

// EncodePaymentObserved encodes a record of the topic "payments".
func EncodePaymentObserved(p PaymentObserved) Message {
	return pack("PaymentObserved", "",
		&kafka.PaymentObserved{Payment: paymentOut(p.Payment), ObservedAtMillis: p.ObservedAtMillis})
}

// DecodePaymentObserved decodes a record of the topic "payments".
func DecodePaymentObserved(m Message) (PaymentObserved, error) {
	var b kafka.PaymentObserved
	err := unpackAs(m, "PaymentObserved", &b)
	return PaymentObserved{
		Payment:          paymentIn(b.GetPayment()),
		ObservedAtMillis: b.GetObservedAtMillis(),
	}, err
}

func paymentOut(p domain.Payment) *kafka.Payment {
	return &kafka.Payment{
		Id:             p.ID,
		TxHash:         p.TxHash,
		Ledger:         p.Ledger,
		ClosedAtMillis: p.ClosedAtMillis,
		Operation:      p.Operation,
		From:           p.From,
		To:             p.To,
		ToMuxedId:      p.ToMuxedID,
		Memo:           memoOut(p.Memo),
		Asset:          assetOut(p.Asset),
		AmountStroops:  p.AmountStroops,
	}
}

func paymentIn(p *kafka.Payment) domain.Payment {
	return domain.Payment{
		ID:             p.GetId(),
		TxHash:         p.GetTxHash(),
		Ledger:         p.GetLedger(),
		ClosedAtMillis: p.GetClosedAtMillis(),
		Operation:      p.GetOperation(),
		From:           p.GetFrom(),
		To:             p.GetTo(),
		ToMuxedID:      p.GetToMuxedId(),
		Memo:           memoIn(p.GetMemo()),
		Asset:          assetIn(p.GetAsset()),
		AmountStroops:  p.GetAmountStroops(),
	}
}

func memoOut(m domain.Memo) *kafka.Memo {
	if m.Type == domain.MemoNone {
		return nil
	}
	return &kafka.Memo{Type: string(m.Type), Raw: m.Raw}
}

func memoIn(m *kafka.Memo) domain.Memo {
	return domain.Memo{Type: domain.MemoType(m.GetType()), Raw: m.GetRaw()}
}
