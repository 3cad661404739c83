package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/stellar/go-stellar-sdk/xdr"
)

var errResult = errors.New("its result cannot be read")

// Offsets and sizes in a result.
const (
	feeChargedSizeBytes = 8
	codeSizeBytes       = 4
	innerResultOffset   = feeChargedSizeBytes + codeSizeBytes + hashSizeBytes // in a fee bump
)

// codeOf returns a result's code, or false if the result is too short.
func codeOf(result []byte) (code xdr.TransactionResultCode, ok bool) {
	if len(result) < feeChargedSizeBytes+codeSizeBytes {
		return 0, false
	}
	return xdr.TransactionResultCode(binary.BigEndian.Uint32(result[feeChargedSizeBytes:])), true
}

// succeeded reports whether a transaction, or a fee bump's inner one, succeeded.
func succeeded(result xdr.TransactionResultView) (bool, error) {
	switch code, ok := codeOf(result); {
	case !ok:
		return false, errResult
	case code == xdr.TransactionResultCodeTxSuccess:
		return true, nil
	}
	return xdr.Try(func() bool {
		body := result.MustResult()
		if body.MustCode() != xdr.TransactionResultCodeTxFeeBumpInnerSuccess {
			return false
		}
		inner := body.MustInnerResultPair().MustResult().MustResult()
		return inner.MustCode() == xdr.TransactionResultCodeTxSuccess
	})
}

type results struct {
	scanner
	count int
	next  int // index of the result at the scanner's position
}

func resultsOf(result []byte) (r results) {
	r.raw = result
	r.take(feeChargedSizeBytes)
	if xdr.TransactionResultCode(r.uint32()) == xdr.TransactionResultCodeTxFeeBumpInnerSuccess {
		r.at = 0
		r.take(innerResultOffset + feeChargedSizeBytes + codeSizeBytes)
	}
	r.count = r.scanner.count(listed)
	return r
}

// of returns the result of operation i. i must not decrease between calls.
func (r *results) of(i int) []byte {
	for ; r.next < i; r.next++ {
		over[xdr.OperationResultView](&r.scanner)
	}
	at := r.at
	result := over[xdr.OperationResultView](&r.scanner)
	r.at = at
	return result
}

func (r *results) amountOf(o *operation, i int) error {
	result := r.of(i)
	if r.bad {
		return errResult
	}
	var outcome xdr.OperationResult
	if err := decode("the operation's result", &outcome, result); err != nil {
		return err
	}
	tr, _ := outcome.GetTr()
	if o.kind == xdr.OperationTypeAccountMerge {
		merge, _ := tr.GetAccountMergeResult()
		if merge.SourceAccountBalance == nil {
			return errors.New("its transaction succeeded, but its result is not that of a successful merge")
		}
		o.amount = int64(*merge.SourceAccountBalance)
		return nil
	}
	send, _ := tr.GetPathPaymentStrictSendResult()
	if send.Success == nil {
		return errors.New("its transaction succeeded, but its result is not that of a successful " +
			"path payment")
	}
	o.amount = int64(send.Success.Last.Amount)
	return nil
}

// invoked is the start of a successful contract call's result, before the hash of its events.
var invoked = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(
	binary.BigEndian.AppendUint32(nil, uint32(xdr.OperationResultCodeOpInner)),
	uint32(xdr.OperationTypeInvokeHostFunction)),
	uint32(xdr.InvokeHostFunctionResultCodeInvokeHostFunctionSuccess))

func mayCall(pair []byte) bool { return bytes.Contains(pair, invoked) }

func eventsHash(result []byte) (h xdr.Hash, ok bool) {
	if len(result) < len(invoked)+hashSizeBytes || !bytes.HasPrefix(result, invoked) {
		return h, false
	}
	return xdr.Hash(result[len(invoked) : len(invoked)+hashSizeBytes]), true
}
