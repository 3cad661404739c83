package devclient

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// meanings explains the result codes that users of the devnet are likely to see, and what to do.
var meanings = map[string]string{
	"PAYMENT_LINE_FULL":      "the destination's trustline limit is too low: raise it",
	"PAYMENT_NO_DESTINATION": "the destination account does not exist: create it first",
	"PAYMENT_NO_TRUST":       "the destination has no trustline for the asset: add one first",
	"PAYMENT_SRC_NO_TRUST":   "the payer has no trustline for the asset",
	"PAYMENT_UNDERFUNDED":    "the payer's balance above its reserve is too low",
	"CHANGE_TRUST_NO_ISSUER": "the issuer's account does not exist",
	"txBAD_AUTH":             "a signature is missing or wrong: is it for this network's passphrase?",
	"txINSUFFICIENT_BALANCE": "the fee would take the account below its reserve",
	"txNO_ACCOUNT":           "the source account does not exist: fund it with friendbot first",
}

// inWords returns the codes of failures as Stellar's documentation spells them, with explanations.
func inWords(resultXDR string) string {
	var result xdr.TransactionResult
	if err := xdr.SafeUnmarshalBase64(resultXDR, &result); err != nil {
		return "its result cannot be read: " + err.Error()
	}
	var codes []string
	if results, ok := result.OperationResults(); ok {
		for _, op := range results {
			if code := operationCode(op); code != "" {
				codes = append(codes, explain(code))
			}
		}
	}
	if len(codes) > 0 {
		return strings.Join(codes, "; ")
	}
	return explain("tx" + afterPrefix(result.Result.Code, "TransactionResultCodeTx"))
}

// operationCode returns the code of a failed operation, or "". Each kind of operation has its own
// field, with a result that has a field Code.
func operationCode(op xdr.OperationResult) string {
	if op.Tr == nil {
		return "op" + afterPrefix(op.Code, "OperationResultCodeOp")
	}
	results := reflect.ValueOf(*op.Tr)
	for i := range results.NumField() {
		field := results.Field(i)
		if field.Kind() != reflect.Pointer || field.IsNil() {
			continue
		}
		if code := field.Elem().FieldByName("Code"); code.IsValid() && code.Int() != 0 {
			return afterPrefix(code.Interface(), "ResultCode")
		}
	}
	return ""
}

func explain(code string) string {
	if meaning := meanings[code]; meaning != "" {
		return code + ": " + meaning
	}
	return code
}

// afterPrefix converts a code such as PaymentResultCodePaymentNoTrust to PAYMENT_NO_TRUST.
func afterPrefix(code any, prefix string) string {
	_, camel, _ := strings.Cut(fmt.Sprint(code), prefix)
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
