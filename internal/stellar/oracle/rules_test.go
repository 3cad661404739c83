package oracle

import (
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/processors/token_transfer"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/xdr"
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
)

// noPayment is a kind of event that the processor reports but that is not a payment.
type noPayment struct {
	name   string
	covers func(told) bool
}

// noPayments are all events that may be left out. The first rule that covers an event counts.
var noPayments = []noPayment{
	{
		"a trade: an offer was taken",
		of(xdr.OperationTypeManageSellOffer, xdr.OperationTypeManageBuyOffer,
			xdr.OperationTypeCreatePassiveSellOffer),
	},
	{
		"a hop: what a path payment trades before it pays",
		func(e told) bool { return isPathPayment(e) && !e.last },
	},
	{
		"a claimable balance is created: nobody has been paid yet",
		of(xdr.OperationTypeCreateClaimableBalance),
	},
	{"a claim: the receiver helps himself", of(xdr.OperationTypeClaimClaimableBalance)},
	{"a clawback", of(xdr.OperationTypeClawback, xdr.OperationTypeClawbackClaimableBalance)},
	{
		"a pool: deposit and withdrawal",
		of(xdr.OperationTypeLiquidityPoolDeposit, xdr.OperationTypeLiquidityPoolWithdraw),
	},
	{
		"a trustline is revoked, which draws on pools",
		of(xdr.OperationTypeAllowTrust, xdr.OperationTypeSetTrustLineFlags),
	},
	{"inflation", of(xdr.OperationTypeInflation)},
	{
		"another token: not from the contract of an asset of this network",
		func(e told) bool { return e.raw != nil && e.GetAsset() == nil },
	},
	{
		"a contract call burns or claws back",
		func(e told) bool { return rawName(e) == "burn" || rawName(e) == "clawback" },
	},
	{
		"a contract call pays a contract",
		func(e told) bool { return e.raw != nil && toldReceiver(e) != "" && toldReceiver(e)[0] != 'G' },
	},
}

// retelling is a way in which the processor reports a payment differently. It adds the fields
// that the processor omitted, or rejects the payment.
type retelling struct {
	name   string
	covers func(told) bool
	mend   func(told, *domain.Payment) error
}

var retellings = []retelling{
	{
		"what the issuer pays is a mint, without a sender",
		func(e told) bool { return e.GetMint() != nil },
		func(e told, p *domain.Payment) error { p.From = p.Asset.Issuer; return nil },
	},
	{
		"what the issuer is paid is a burn, without a receiver or a muxed id",
		func(e told) bool { return e.GetBurn() != nil },
		func(e told, p *domain.Payment) error {
			p.To = p.Asset.Issuer
			if to := destination(e.op); to != nil {
				p.ToMuxedID = muxedID(*to)
			}
			return nil
		},
	},
	{"without a muxed id, the memo stands in for it", func(e told) bool {
		return e.raw == nil && e.GetBurn() == nil && muxedID(*destination(e.op)) == "" &&
			e.GetMeta().GetToMuxedInfo() != nil
	},
		func(e told, p *domain.Payment) error {
			p.ToMuxedID = ""
			if memo := token_transfer.NewMuxedInfoFromMemo(e.tx.Envelope.Memo()); !proto.Equal(memo,
				e.GetMeta().GetToMuxedInfo()) {
				return fmt.Errorf("the muxed id %v is neither that of the destination nor the memo %v",
					e.GetMeta().GetToMuxedInfo(), memo)
			}
			return nil
		}},
}

// operations are the operations that pay, with their names in payments.
var operations = map[xdr.OperationType]string{
	xdr.OperationTypePayment:       "payment",
	xdr.OperationTypeCreateAccount: "create_account", xdr.OperationTypeAccountMerge: "account_merge",
	xdr.OperationTypePathPaymentStrictReceive: "path_payment_strict_receive",
	xdr.OperationTypePathPaymentStrictSend:    "path_payment_strict_send",
	xdr.OperationTypeInvokeHostFunction:       "invoke_host_function",
}

// paymentOf returns the payment that an event reports. ok is false if the event is not a payment.
// used counts the rules that were applied.
func paymentOf(e told, used map[string]int) (p domain.Payment, ok bool, err error) {
	for _, rule := range noPayments {
		if rule.covers(e) {
			used[rule.name]++
			return domain.Payment{}, false, nil
		}
	}
	if p, err = literal(e); err != nil {
		return domain.Payment{}, false, err
	}
	for _, rule := range retellings {
		if rule.covers(e) {
			used[rule.name]++
			if err := rule.mend(e, &p); err != nil {
				return domain.Payment{}, false, fmt.Errorf("%s: %w", rule.name, err)
			}
		}
	}
	return p, true, nil
}

func literal(e told) (p domain.Payment, err error) {
	meta := e.GetMeta()
	name, pays := operations[e.op.Body.Type]
	if !pays {
		return p, fmt.Errorf("no rule covers %v", e.TokenTransferEvent)
	}
	id := toid.New(int32(meta.GetLedgerSequence()), int32(meta.GetTransactionIndex()),
		int32(meta.GetOperationIndex()))
	p = domain.Payment{
		ID:             strconv.FormatInt(id.ToInt64(), 10),
		TxHash:         meta.GetTxHash(),
		Ledger:         meta.GetLedgerSequence(),
		ClosedAtMillis: meta.GetClosedAt().AsTime().UnixMilli(),
		Operation:      name,
		From:           toldSender(e),
		To:             toldReceiver(e),
		Memo:           memoOf(e.tx.Envelope.Memo()),
	}
	if e.raw != nil {
		p.ID += "-" + strconv.Itoa(e.n)
	}
	if p.AmountStroops, err = strconv.ParseInt(e.GetAmount(), 10, 64); err != nil {
		return p, fmt.Errorf("the amount of %v: %w", e.TokenTransferEvent, err)
	}
	if info := meta.GetToMuxedInfo(); info != nil {
		if _, isID := info.GetContent().(*token_transfer.MuxedInfo_Id); isID {
			p.ToMuxedID = strconv.FormatUint(info.GetId(), 10)
		} else {
			p.ToMuxedID = "no number"
		}
	}
	p.Asset = domain.NativeAsset()
	if issued := e.GetAsset().GetIssuedAsset(); issued != nil {
		p.Asset = domain.Asset{Code: issued.GetAssetCode(), Issuer: issued.GetIssuer()}
	}
	return p, nil
}

func of(types ...xdr.OperationType) func(told) bool {
	return func(e told) bool {
		for _, t := range types {
			if e.op.Body.Type == t {
				return true
			}
		}
		return false
	}
}

func isPathPayment(e told) bool {
	return of(xdr.OperationTypePathPaymentStrictReceive, xdr.OperationTypePathPaymentStrictSend)(e)
}

func rawName(e told) string {
	if e.raw == nil {
		return ""
	}
	name, _ := e.raw.Body.MustV0().Topics[0].GetSym()
	return string(name)
}

func toldSender(e told) string { return e.GetTransfer().GetFrom() + e.GetBurn().GetFrom() }

func toldReceiver(e told) string { return e.GetTransfer().GetTo() + e.GetMint().GetTo() }

func destination(op xdr.Operation) *xdr.MuxedAccount {
	body := op.Body
	switch body.Type {
	case xdr.OperationTypePayment:
		return &body.PaymentOp.Destination
	case xdr.OperationTypePathPaymentStrictReceive:
		return &body.PathPaymentStrictReceiveOp.Destination
	case xdr.OperationTypePathPaymentStrictSend:
		return &body.PathPaymentStrictSendOp.Destination
	case xdr.OperationTypeAccountMerge:
		return body.Destination
	case xdr.OperationTypeCreateAccount:
		to := body.CreateAccountOp.Destination.ToMuxedAccount()
		return &to
	}
	return nil
}

func muxedID(a xdr.MuxedAccount) string {
	id, err := a.GetId()
	if err != nil {
		return ""
	}
	return strconv.FormatUint(id, 10)
}

func memoOf(m xdr.Memo) domain.Memo {
	switch m.Type {
	case xdr.MemoTypeMemoText:
		return domain.Memo{Type: domain.MemoText, Raw: []byte(*m.Text)}
	case xdr.MemoTypeMemoId:
		return domain.Memo{Type: domain.MemoID, Raw: []byte(strconv.FormatUint(uint64(*m.Id), 10))}
	case xdr.MemoTypeMemoHash:
		return domain.Memo{Type: domain.MemoHash, Raw: m.Hash[:]}
	case xdr.MemoTypeMemoReturn:
		return domain.Memo{Type: domain.MemoReturn, Raw: m.RetHash[:]}
	}
	return domain.Memo{}
}
