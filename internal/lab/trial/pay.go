package trial

import (
	"context"
	"encoding/hex"
	"strconv"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// Payment is a payment of XLM in a ledger.
type Payment struct {
	draw.Payment
	ID, TxHash string
	Ledger     uint32
	ClosedAt   int64 // Unix seconds
	From, To   string
	Muxed      *uint64
}

func (w *world) pay(ctx context.Context, op Op) error {
	p, payer, to := op.Pay, w.payers[op.Pay.Payer], w.walletOf(op.Wallet).Address()
	destination := to
	if p.Muxed != nil {
		account, err := xdr.MuxedAccountFromAccountId(to, *p.Muxed)
		if err != nil {
			return err
		}
		destination = account.Address()
	}
	var ops []txnbuild.Operation
	var amounts []int64
	for i := range int64(max(p.Times, 1)) {
		amounts = append(amounts, p.Amount+i%7)
		ops = append(ops, &txnbuild.Payment{
			Destination: destination,
			Amount:      decimal(amounts[i]),
			Asset:       txnbuild.NativeAsset{},
		})
	}
	if p.Creates {
		amounts[0] += 2 * draw.StroopsPerUnit
		ops[0] = &txnbuild.CreateAccount{Destination: to, Amount: decimal(amounts[0])}
	}
	e, err := w.chain.signed(ctx, payer, memoOf(p.Memo), ops)
	if err != nil {
		return err
	}
	mined, err := w.chain.mine(ctx, e)
	if err != nil {
		return err
	}
	w.log("%s: %s in ledger %d, %s", op.Lane, e.hash[:8], mined.Ledger, mined.Status)
	if mined.Status != protocol.TransactionStatusSuccess {
		return nil
	}
	for i, stroops := range amounts {
		id := toid.New(int32(mined.Ledger), mined.ApplicationOrder, int32(i+1)) // #nosec G115
		w.model.paid(Payment{
			Payment:  draw.Payment{Payer: p.Payer, Stroops: stroops, Memo: p.Memo},
			ID:       strconv.FormatInt(id.ToInt64(), 10), // SEP-35
			TxHash:   e.hash,
			Ledger:   mined.Ledger,
			ClosedAt: mined.LedgerCloseTime,
			From:     payer.Address(),
			To:       to,
			Muxed:    p.Muxed,
		})
	}
	return nil
}

func memoOf(m *draw.Memo) txnbuild.Memo {
	if m == nil {
		return nil
	}
	raw, _ := hex.DecodeString(m.Value)
	switch m.Type {
	case "id":
		id, _ := strconv.ParseUint(m.Value, 10, 64)
		return txnbuild.MemoID(id)
	case "hash":
		return txnbuild.MemoHash(raw)
	case "return":
		return txnbuild.MemoReturn(raw)
	}
	return txnbuild.MemoText(m.Value)
}
