package devclient

import (
	"strings"
	"unicode"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// meanings explains the codes that a user of the development network meets, and what to do.
var meanings = map[string]string{
	"CREATE_ACCOUNT_ALREADY_EXIST": "the account exists already",
	"CREATE_ACCOUNT_LOW_RESERVE":   "an account needs at least 1 XLM to begin with",
	"CREATE_ACCOUNT_MALFORMED":     "the amount is negative or the account would create itself",
	"CREATE_ACCOUNT_UNDERFUNDED":   "the source does not have that much above its reserve",
	"PAYMENT_LINE_FULL": "the destination's trustline has no room for that much: raise " +
		"its limit",
	"PAYMENT_MALFORMED":      "the amount or the asset is not valid",
	"PAYMENT_NO_DESTINATION": "the destination account does not exist: create it first",
	"PAYMENT_NO_TRUST":       "the destination has no trustline for the asset: add one first",
	"PAYMENT_SRC_NO_TRUST":   "the payer has no trustline for the asset and so holds none",
	"PAYMENT_UNDERFUNDED": "the payer does not hold that much (the reserve of lumens cannot " +
		"be spent)",
	"CHANGE_TRUST_INVALID_LIMIT": "the limit is below the balance, or zero for a trustline that " +
		"does not exist",
	"CHANGE_TRUST_LOW_RESERVE": "the account lacks the 0.5 XLM that a trustline locks up",
	"CHANGE_TRUST_MALFORMED": "the asset or the limit is not valid, or the account would trust " +
		"itself",
	"CHANGE_TRUST_NO_ISSUER": "the issuer's account does not exist",
	"opBAD_AUTH":             "a signature of the operation's source is missing",
	"opNO_ACCOUNT":           "the operation's source account does not exist",
	"opNOT_SUPPORTED":        "the development network does not have this operation",
	"txBAD_AUTH":             "a signature is missing or wrong: is it for this network's passphrase?",
	"txBAD_AUTH_EXTRA":       "a signature is not needed by anybody",
	"txBAD_SEQ":              "the sequence number is not the account's next",
	"txINSUFFICIENT_BALANCE": "the fee would take the account below its reserve",
	"txINSUFFICIENT_FEE":     "the fee is below 100 stroops for each operation",
	"txMISSING_OPERATION":    "there is no operation",
	"txNO_ACCOUNT":           "the source account does not exist: fund it by friendbot first",
	"txTOO_EARLY":            "its time has not come",
	"txTOO_LATE":             "its time is over",
}

// inWords tells a transaction result: the codes as Stellar's documentation writes them, each
// with its meaning, the successes left out.
func inWords(resultXDR string) string {
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		return "its result cannot be read: " + err.Error()
	}
	code, results := result.Result.Code, result.Result.Results
	if pair := result.Result.InnerResultPair; pair != nil {
		code, results = pair.Result.Result.Code, pair.Result.Result.Results
	}
	codes := []string{explain(transactionCode(code))}
	if results != nil {
		codes = nil
		for _, op := range *results {
			if name := operationCode(op); name != "" {
				codes = append(codes, explain(name))
			}
		}
	}
	if len(codes) == 0 {
		return transactionCode(code)
	}
	return strings.Join(codes, "; ")
}

func explain(code string) string {
	if meaning := meanings[code]; meaning != "" {
		return code + ": " + meaning
	}
	return code
}

func transactionCode(code xdr.TransactionResultCode) string {
	return "tx" + upperSnake(strings.TrimPrefix(code.String(), "TransactionResultCodeTx"))
}

// operationCode is "" for an operation that succeeded.
func operationCode(op xdr.OperationResult) string {
	if op.Code != xdr.OperationResultCodeOpInner {
		return "op" + upperSnake(strings.TrimPrefix(op.Code.String(), "OperationResultCodeOp"))
	}
	name, prefix, success := "", "", true
	switch {
	case op.Tr == nil:
	case op.Tr.CreateAccountResult != nil:
		code := op.Tr.CreateAccountResult.Code
		name, prefix, success = code.String(), "CreateAccountResultCode", code == 0
	case op.Tr.PaymentResult != nil:
		code := op.Tr.PaymentResult.Code
		name, prefix, success = code.String(), "PaymentResultCode", code == 0
	case op.Tr.ChangeTrustResult != nil:
		code := op.Tr.ChangeTrustResult.Code
		name, prefix, success = code.String(), "ChangeTrustResultCode", code == 0
	}
	if success {
		return ""
	}
	return upperSnake(strings.TrimPrefix(name, prefix))
}

// upperSnake writes NoDestination as NO_DESTINATION.
func upperSnake(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
