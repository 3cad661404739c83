package schemas_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// A move must survive encoding and decoding, and must not decode as a payment.
func TestBalanceMovesAreReadAsWritten(t *testing.T) {
	move := domain.BalanceMove{
		ID:             domain.MoveID("GA", "XLM", "ab", "operation", 2, 0),
		Wallet:         "GA",
		Ledger:         7,
		ClosedAtMillis: 1234,
		Place:          1 << 63,
		TxHash:         "ab",
		Operation:      2,
		Kind:           domain.MovePaymentIn,
		Asset:          domain.NativeAsset(),
		BeforeStroops:  1,
		AfterStroops:   9,
		PaymentIDs:     []string{"4096", "4097"},
	}
	shares := move
	shares.Asset, shares.Pool, shares.PaymentIDs = domain.Asset{}, "ef", nil
	for _, want := range []domain.BalanceMove{move, shares} {
		m := schemas.EncodeBalanceMoved(schemas.BalanceMoved{Move: want, ObservedAtMillis: 5})
		got, err := schemas.DecodeBalanceMoved(m)
		if err != nil || got.ObservedAtMillis != 5 || !reflect.DeepEqual(got.Move, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		if err := want.WellFormed(); err != nil {
			t.Error(err)
		}
		if _, err := schemas.DecodePaymentObserved(m); err == nil {
			t.Error("a move is read as a payment")
		}
	}
	for name, change := range map[string]func(*domain.BalanceMove){
		"an identifier of something else": func(m *domain.BalanceMove) { m.ID = "evt_1" },
		"no wallet":                       func(m *domain.BalanceMove) { m.Wallet = "" },
		"no kind":                         func(m *domain.BalanceMove) { m.Kind = "" },
		"a balance below zero":            func(m *domain.BalanceMove) { m.AfterStroops = -1 },
		"a time that is none":             func(m *domain.BalanceMove) { m.ClosedAtMillis = -1 },
		"a payment without an identifier": func(m *domain.BalanceMove) { m.PaymentIDs = []string{""} },
	} {
		wrong := move
		change(&wrong)
		if wrong.WellFormed() == nil {
			t.Errorf("%s: %+v is well formed", name, wrong)
		}
	}
}
