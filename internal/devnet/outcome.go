package devnet

import (
	"bytes"
	"encoding/binary"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// outcome is what became of an operation, or of its check; the zero is success. The results of all
// kinds have one form in XDR: the kind's own code, and after a success what the kind returns.
type outcome struct {
	general xdr.OperationResultCode // not of the kind; OpInner if the kind's own code counts
	code    int32                   // of the operation's kind; 0 is success
	value   encodable               // nil: none
}

// encodable is any value of the ledger.
type encodable interface{ MarshalBinary() ([]byte, error) }

func (o outcome) ok() bool { return o.general == xdr.OperationResultCodeOpInner && o.code == 0 }

func general(code xdr.OperationResultCode) outcome { return outcome{general: code} }

// because returns the outcome of a code of an operation's kind.
func because[C ~int32](code C) outcome { return outcome{code: int32(code)} }

// result is the outcome in XDR.
func (o outcome) result(kind xdr.OperationType) xdr.OperationResult {
	if o.general != xdr.OperationResultCodeOpInner {
		return xdr.OperationResult{Code: o.general}
	}
	raw := binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(kind))
	raw = binary.BigEndian.AppendUint32(raw, uint32(o.code))
	if o.ok() && o.value != nil {
		raw = append(raw, mustEncode(o.value)...)
	}
	return decodeResult(raw)
}

// notAsked is the result of an operation that was not checked because another one was refused:
// all zeros, as the network has it.
func notAsked(kind xdr.OperationType) xdr.OperationResult {
	return decodeResult(binary.BigEndian.AppendUint32(make([]byte, 4, 64), uint32(kind)))
}

// decodeResult reads a result; zeros follow what is given.
func decodeResult(raw []byte) (result xdr.OperationResult) {
	padded := append(raw, make([]byte, 256)...)
	if _, err := xdr.Unmarshal(bytes.NewReader(padded), &result); err != nil {
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpNotSupported}
	}
	return result
}
