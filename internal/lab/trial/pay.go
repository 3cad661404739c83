package trial

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Payment is a payment in a ledger, as the model knows it.
type Payment struct {
	ID, TxHash string
	Ledger     uint32
	ClosedAt   int64 // Unix seconds
	From, To   string
	Muxed      *uint64
	Memo       *Memo
	Asset      Asset
	Stroops    int64
}

// pay makes the payments of an operation and adds the results to the model.
func (w *world) pay(ctx context.Context, op Op) error {
	p, payer, to := op.Pay, w.payers[op.Pay.Payer], w.walletOf(op.Wallet)
	from, bumper, asset := payer, (*keypair.Full)(nil), w.asset(p.Asset)
	switch p.Kind {
	case "merge":
		from = keypair.MustRandom()
		if err := w.chain.fund(ctx, from.Address()); err != nil {
			return err
		}
	case "fee-bump":
		bumper = w.bumper
	case "strict-send", "strict-receive":
		asset = w.asset("DEMO")
	}
	ops, err := w.operations(op, from, to.Address())
	if err != nil {
		return err
	}
	e, err := w.chain.signed(ctx, from, p.Memo.build(), nil, bumper, ops)
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
	amounts, err := moved(mined.ResultXDR, ops)
	if err != nil {
		return err
	}
	for i, stroops := range amounts {
		id := paymentID(mined, i)
		if p.Kind == "contract" {
			id += "-0" // an operation may hold several transfers
		}
		w.model.paid(Payment{
			ID:       id,
			TxHash:   e.hash,
			Ledger:   mined.Ledger,
			ClosedAt: mined.LedgerCloseTime,
			From:     from.Address(),
			To:       to.Address(),
			Muxed:    p.muxed(),
			Memo:     p.Memo,
			Asset:    asset,
			Stroops:  stroops,
		})
	}
	return nil
}

// paymentID returns the id of an operation of a transaction (SEP-35).
func paymentID(mined protocol.GetTransactionResponse, operation int) string {
	id := toid.New(int32(mined.Ledger), mined.ApplicationOrder, int32(operation+1)) // #nosec G115
	return strconv.FormatInt(id.ToInt64(), 10)
}

// muxed returns the id of the muxed address that is paid; an account is created by its own
// address.
func (p *Pay) muxed() *uint64 {
	if p.Kind == "create" {
		return nil
	}
	return p.Muxed
}

// operations returns the operations of the transaction.
func (w *world) operations(op Op, from *keypair.Full, to string) ([]txnbuild.Operation, error) {
	p, destination := op.Pay, to
	if muxed := p.muxed(); muxed != nil {
		account, err := xdr.MuxedAccountFromAccountId(to, *muxed)
		if err != nil {
			return nil, err
		}
		destination = account.Address()
	}
	payment := func(stroops int64) txnbuild.Operation {
		return &txnbuild.Payment{
			Destination: destination,
			Amount:      decimal(stroops),
			Asset:       w.asset(p.Asset).build(),
		}
	}
	demo, lumens := w.asset("DEMO").build(), txnbuild.NativeAsset{}
	switch p.Kind {
	case "strict-send":
		return []txnbuild.Operation{&txnbuild.PathPaymentStrictSend{
			SendAsset:   lumens,
			SendAmount:  decimal(p.Amount),
			Destination: destination,
			DestAsset:   demo,
			DestMin:     "0.0000001",
		}}, nil
	case "strict-receive":
		return []txnbuild.Operation{&txnbuild.PathPaymentStrictReceive{
			SendAsset:   lumens,
			SendMax:     "500",
			Destination: destination,
			DestAsset:   demo,
			DestAmount:  decimal(p.Amount / 10),
		}}, nil
	case "create":
		return []txnbuild.Operation{&txnbuild.CreateAccount{
			Destination: to,
			Amount:      decimal(p.Amount + 2*stroopsPerUnit),
		}}, nil
	case "merge":
		return []txnbuild.Operation{&txnbuild.AccountMerge{Destination: destination}}, nil
	case "contract":
		op, err := asContract(w.service.info.Stellar.Passphrase, from, w.asset("XLM"), to, p.Muxed,
			p.Amount)
		return []txnbuild.Operation{op}, err
	case "failing":
		return []txnbuild.Operation{payment(p.Amount), payment(90_000_000_000 * stroopsPerUnit)}, nil
	}
	var ops []txnbuild.Operation
	for i := range int64(max(p.Times, 1)) {
		ops = append(ops, payment(p.Amount+i%7))
	}
	return ops, nil
}

// moved returns the amount that each operation of a successful transaction moved.
func moved(resultXDR string, ops []txnbuild.Operation) ([]int64, error) {
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		return nil, fmt.Errorf("trial: the result of a transaction: %w", err)
	}
	results, ok := result.OperationResults()
	if !ok || len(results) != len(ops) {
		return nil, fmt.Errorf("trial: %d results of %d operations", len(results), len(ops))
	}
	var amounts []int64
	for i, op := range ops {
		stroops, err := movedBy(op, results[i])
		if err != nil {
			return nil, err
		}
		amounts = append(amounts, stroops)
	}
	return amounts, nil
}

func movedBy(op txnbuild.Operation, result xdr.OperationResult) (int64, error) {
	switch op := op.(type) {
	case *txnbuild.Payment:
		return parseStroops(op.Amount)
	case *txnbuild.CreateAccount:
		return parseStroops(op.Amount)
	case *txnbuild.PathPaymentStrictReceive:
		return parseStroops(op.DestAmount)
	case *txnbuild.PathPaymentStrictSend:
		return int64(result.MustTr().MustPathPaymentStrictSendResult().MustSuccess().Last.Amount), nil
	case *txnbuild.AccountMerge:
		return int64(result.MustTr().MustAccountMergeResult().MustSourceAccountBalance()), nil
	case *txnbuild.InvokeHostFunction:
		amount := op.HostFunction.InvokeContract.Args[2].MustI128()
		return int64(amount.Lo), nil // #nosec G115 -- it is one of ours
	}
	return 0, fmt.Errorf("trial: what a %T moves is not known", op)
}

func parseStroops(amount string) (int64, error) {
	var units, fraction int64
	_, err := fmt.Sscanf(amount, "%d.%7d", &units, &fraction)
	return units*stroopsPerUnit + fraction, err
}

func (m *Memo) build() txnbuild.Memo {
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
