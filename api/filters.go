package api

import (
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Filters of events by payment. Each one is either absent or must match exactly.

// paymentForm matches a payment's id: an operation's id and, for contract calls, the number of the
// change.
var paymentForm = regexp.MustCompile(`^[1-9][0-9]{0,18}(-[0-9]{1,9})?$`)

func paymentParameter(q *decode.Query, name string) string {
	s := q.Text(name)
	if s != "" && !paymentForm.MatchString(s) {
		q.Fault(name, problem.FaultInvalidValue,
			"must be a payment's id: digits, or digits-digits, as data.payment.id of an event has it")
		return ""
	}
	return s
}

func hashParameter(q *decode.Query, name string) string {
	s := strings.ToLower(q.Text(name))
	if s == "" {
		return ""
	}
	if raw, err := hex.DecodeString(s); err != nil || len(raw) != 32 {
		q.Fault(name, problem.FaultInvalidValue,
			"must be a transaction's hash: 64 hex digits, as data.payment.txHash of an event has it")
		return ""
	}
	return s
}

// maxMemoBytes is larger than any memo in events: 64 hex digits, or 28 bytes of text, each of which
// may be shown as three.
const maxMemoBytes = 84

func memoParameter(q *decode.Query, name string) string {
	s := q.Text(name)
	if len(s) > maxMemoBytes {
		q.Fault(name, problem.FaultTooLong,
			"must be a memo as data.payment.memo of an event has it: a text of at most 28 bytes, an id, "+
				"or 64 hex digits")
		return ""
	}
	return s
}

// assetParameter reads an asset such as XLM or CODE:ISSUER.
func assetParameter(q *decode.Query, name string) (asset domain.Asset) {
	s := q.Text(name)
	if s == "" || s == domain.NativeCode {
		if s != "" {
			asset = domain.NativeAsset()
		}
		return asset
	}
	code, issuer, ok := strings.Cut(s, ":")
	if !ok || !assetCodeForm.MatchString(code) {
		q.Fault(name, problem.FaultInvalidValue,
			"must be XLM, or CODE:ISSUER with a code of 1 to 12 letters and digits")
		return asset
	}
	if faulty, detail := accountFault(issuer); faulty != "" {
		q.Fault(name, faulty, "the issuer "+detail)
		return asset
	}
	return domain.Asset{Code: code, Issuer: issuer}
}

// amountParameter reads an amount in units; nil if absent.
func amountParameter(q *decode.Query, name string) *int64 {
	s := q.Text(name)
	if s == "" {
		return nil
	}
	stroops, err := domain.ParseAmount(s)
	if err != nil {
		q.Fault(name, problem.FaultInvalidAmount, err.Error())
		return nil
	}
	return &stroops
}

// maxFilterCharacters is larger than any valid filter.
const maxFilterCharacters = 256

// selection selects events in a body, with the filters of lists.
type selection struct {
	filter readmodel.EventFilter
	values *decode.Query // the filters as given
	dryRun bool          // only count the events
}

func (s selection) filtered() bool { return len(s.values.Names()) > 0 }

func decodeSelection(
	r *request, names []string, others ...decode.Field,
) (s selection, faults *problem.Faults) {
	given := make(url.Values)
	fields := append(others, decode.Into("dryRun", &s.dryRun, func(v decode.Value) bool {
		dry, _ := v.Boolean()
		return dry
	}))
	for _, name := range names {
		fields = append(fields, decode.Field{Name: name, Read: func(v decode.Value) {
			if text, ok := v.Text(maxFilterCharacters); ok {
				given.Set(name, text)
			}
		}})
	}
	faults = decode.Object(r.body, fields...)
	s.values = decode.QueryOf(given, names...)
	s.filter = eventFilterOf(r, s.values)
	s.values.FaultsAsFields(faults)
	return s, faults
}

// without returns names without some of them. It modifies names.
func without(names []string, some ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(some, name) })
}
