package ledger

import (
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// operations explains balance changes by a transaction's operations and the ledger's payments.
type operations struct {
	payments []domain.Payment
	places   map[uint64]int // index of an operation's first payment, by TOID; nil if not yet computed
	tx       *transaction   // the transaction of all
	all      []operation    // nil if the envelope can't be read
	source   party          // of the transaction
}

func (o *operations) explain(m *domain.BalanceMove, tx *transaction, at *step) {
	switch at.name {
	case stepFee, stepAfter, stepRefund:
		m.Kind = domain.MoveFee
		return
	case stepBefore:
		m.Kind = domain.MoveOther
		return
	}
	o.read(tx)
	var stroops int64
	m.PaymentIDs, stroops = o.paid(m, at)
	switch {
	case len(m.PaymentIDs) > 0 && stroops == m.ChangeStroops():
		m.Kind = domain.MovePaymentIn
	case m.Pool != "":
		m.Kind = domain.MovePool
	case at.operation > len(o.all):
		m.Kind = domain.MoveOther
	default:
		op := &o.all[at.operation-1]
		m.Kind = o.kindOf(op, m)
	}
}

// read reads the operations of a transaction up to the first unknown form.
func (o *operations) read(tx *transaction) {
	if o.tx == tx {
		return
	}
	o.tx, o.all, o.source = tx, nil, party{}
	if tx.call != nil {
		o.all = []operation{{kind: xdr.OperationTypeInvokeHostFunction}}
		return
	}
	b, err := readBody(tx.envelope)
	if err != nil {
		return
	}
	o.source = b.source
	s := &b.rest
	for range b.operations {
		op := s.operationHead()
		if isPayment(op.kind) {
			s.operationBody(&op)
		} else {
			s.stepOverBody()
		}
		if s.bad {
			return
		}
		o.all = append(o.all, op)
	}
}

// paid returns the payments of an operation to the move's wallet in the move's asset.
func (o *operations) paid(m *domain.BalanceMove, at *step) (ids []string, stroops int64) {
	if o.places == nil {
		o.places = make(map[uint64]int, len(o.payments))
		for i := range o.payments {
			toid := operationOf(o.payments[i].ID)
			if _, known := o.places[toid]; !known {
				o.places[toid] = i
			}
		}
	}
	toid := uint64(m.Ledger)<<32 | uint64(at.order)<<12 | uint64(at.operation)
	i, found := o.places[toid]
	if !found {
		return nil, 0
	}
	for ; i < len(o.payments) && operationOf(o.payments[i].ID) == toid; i++ {
		p := &o.payments[i]
		if p.To == m.Wallet && p.Asset == m.Asset && p.AmountStroops > 0 && !p.IsSelfPayment() {
			ids = append(ids, p.ID)
			stroops += p.AmountStroops
		}
	}
	return ids, stroops
}

func operationOf(paymentID string) uint64 {
	number, _, _ := strings.Cut(paymentID, "-")
	toid, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0 // the extractor returns no such ID
	}
	return toid
}

// kindOf returns how an operation changed a balance if not by a payment.
func (o *operations) kindOf(op *operation, m *domain.BalanceMove) domain.MoveKind {
	source := o.source
	if op.source.key != nil {
		source = op.source
	}
	own := isOf(source.key, m.Wallet)
	switch op.kind {
	case xdr.OperationTypeCreateAccount:
		return ofOwn(own, domain.MoveCreate)
	case xdr.OperationTypeAccountMerge:
		return ofOwn(own, domain.MoveMerge)
	case xdr.OperationTypePayment:
		return ofOwn(own, domain.MoveOutgoing)
	case xdr.OperationTypePathPaymentStrictReceive, xdr.OperationTypePathPaymentStrictSend:
		if own && !isOf(op.to.key, m.Wallet) {
			return domain.MoveOutgoing
		}
		return domain.MoveTrade
	case xdr.OperationTypeManageSellOffer, xdr.OperationTypeManageBuyOffer,
		xdr.OperationTypeCreatePassiveSellOffer:
		return domain.MoveTrade
	case xdr.OperationTypeCreateClaimableBalance, xdr.OperationTypeClaimClaimableBalance,
		xdr.OperationTypeClawbackClaimableBalance:
		return domain.MoveClaim
	case xdr.OperationTypeLiquidityPoolDeposit, xdr.OperationTypeLiquidityPoolWithdraw:
		return domain.MovePool
	case xdr.OperationTypeClawback:
		return domain.MoveClawback
	case xdr.OperationTypeInvokeHostFunction:
		return domain.MoveContract
	}
	return domain.MoveOther
}

func ofOwn(own bool, kind domain.MoveKind) domain.MoveKind {
	if own {
		return kind
	}
	return domain.MoveOther
}

func isOf(key []byte, wallet string) bool {
	address, err := strkey.Encode(strkey.VersionByteAccountID, key)
	return err == nil && len(key) == hashSizeBytes && address == wallet
}
