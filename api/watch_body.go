package api

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of a watch's fields.
const (
	maxLabelCharacters = 256
	maxAssets          = 100
	maxSenders         = 1000
	maxEventTypes      = 10
	maxAssetCodeLength = 12
)

// watchBody is what a client sends to make or change a watch, beside its wallet. What a
// change does not name is nil.
type watchBody struct {
	domain.WatchChange
	completed bool // a rule was completed out of the watch
}

// fields lists the fields of a watch, beside its wallet. What a rule does not name is
// that of the watch.
func (b *watchBody) fields(have domain.Watch) []decode.Field {
	view := viewWatch(have, "")
	return []decode.Field{
		decode.IntoNew("label", &b.Label, freeText(maxLabelCharacters)),
		decode.IntoNew("endpointId", &b.EndpointID, readEndpointID),
		decode.IntoNew("assets", &b.Assets, readAssets),
		decode.IntoNew("amountRule", &b.Amount, func(v decode.Value) domain.AmountRule {
			return readAmountRule(b.complete(v, map[string]string{
				"kind":   string(view.AmountRule.Kind),
				"amount": view.AmountRule.Amount,
				"min":    view.AmountRule.Min,
				"max":    view.AmountRule.Max,
			}))
		}),
		decode.IntoNew("memoRule", &b.Memo, func(v decode.Value) domain.MemoRule {
			return readMemoRule(b.complete(v, map[string]string{
				"kind":  string(view.MemoRule.Kind),
				"value": view.MemoRule.Value,
				"type":  string(view.MemoRule.Type),
			}))
		}),
		decode.IntoNew("senderAllowlist", &b.SenderAllowlist, readSenders),
		decode.IntoNew("eventTypes", &b.EventTypes, readEventTypes),
	}
}

// complete merges a rule of a patch into the one that the watch has.
func (b *watchBody) complete(v decode.Value, have map[string]string) decode.Value {
	maps.DeleteFunc(have, func(_, text string) bool { return text == "" })
	merged, applied := v.Onto(have, "kind")
	b.completed = b.completed || applied
	return merged
}

// decodeNewWatch reads the body of a creation. The endpoint's id is left empty if it
// cannot be one.
func decodeNewWatch(body []byte) (domain.Watch, *problem.Faults) {
	var b watchBody
	var wallet string
	faults := decode.Object(body, append([]decode.Field{
		decode.Into("walletAddress", &wallet, readWallet),
	}, b.fields(domain.Watch{})...)...)
	return domain.Watch{
		WalletAddress: wallet,
		Label:         orZero(b.Label),
		EndpointID:    orZero(b.EndpointID),
		Rules: domain.Rules{
			Assets:          orZero(b.Assets),
			Amount:          orZero(b.Amount),
			Memo:            orZero(b.Memo),
			SenderAllowlist: orZero(b.SenderAllowlist),
		},
		EventTypes: orZero(b.EventTypes),
	}, faults
}

// orZero is the value of a field, and the zero value if it was not read.
func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// decodeWatchPatch reads a merge patch: what it names changes, null makes it what
// it is by default. A rule that names no kind, or the one that it has, is merged
// into the rule; one of another kind takes its place.
func decodeWatchPatch(body []byte, have domain.Watch) (b watchBody, faults *problem.Faults) {
	sameWallet := decode.Field{
		Name: "walletAddress",
		Read: func(v decode.Value) { refuseOtherWallet(v, have.WalletAddress) },
	}
	faults = decode.Patch(body, append([]decode.Field{sameWallet}, b.fields(have)...)...)
	return b, faults
}

func refuseOtherWallet(v decode.Value, have string) {
	wallet, isText := v.Peek()
	switch {
	case isText && wallet == have:
	case isText && looksLikeSecretKey(wallet):
		refuseSecretKey(v)
	default:
		v.Fault(problem.FaultCannotChange,
			"cannot be changed: delete the watch and create one for the other wallet")
	}
}

func readWallet(v decode.Value) string {
	if text, isText := v.Peek(); isText && looksLikeSecretKey(text) { // however long
		refuseSecretKey(v)
		return ""
	}
	wallet, ok := v.RequiredText(maxFormCharacters)
	if !ok || !checkAddress(v, wallet, accountFault) {
		return ""
	}
	return wallet
}

// checkAddress reports whether an address is right, and adds what is wrong with it.
func checkAddress(v decode.Value, s string, faultOf func(string) (string, string)) bool {
	code, detail := faultOf(s)
	if code != "" {
		v.Fault(code, detail)
	}
	return code == ""
}

func readEndpointID(v decode.Value) string {
	id, ok := v.RequiredText(maxFormCharacters)
	if ok && !domain.IsID(domain.EndpointPrefix, id) {
		v.Fault(problem.FaultInvalidValue,
			"must be an endpoint's id: ep_ and 26 characters, as POST /v1/endpoints returned it")
		return ""
	}
	return id
}

func readAssets(v decode.Value) []domain.Asset {
	if !v.Require(`is required: name the assets to accept, such as [{"code":"XLM","issuer":null}]`) {
		return nil
	}
	elements, ok := v.Elements(maxAssets)
	if ok && len(elements) == 0 {
		v.Fault(problem.FaultEmpty, "must name at least one asset")
	}
	return distinct(elements, readAsset, "is the same asset as element %d")
}

// distinct reads elements of which no two may be the same.
func distinct[T comparable](
	elements []decode.Value, read func(decode.Value) (T, bool), twice string,
) (all []T) {
	seen := make(map[T]int, len(elements))
	for i, element := range elements {
		one, ok := read(element)
		if !ok {
			continue
		}
		if first, known := seen[one]; known {
			element.Fault(problem.FaultDuplicate, fmt.Sprintf(twice, first))
			continue
		}
		seen[one] = i
		all = append(all, one)
	}
	return all
}

func readAsset(v decode.Value) (domain.Asset, bool) {
	if !v.Only("code", "issuer") {
		return domain.Asset{}, false
	}
	code, codeOK := v.Member("code").RequiredText(maxFormCharacters)
	if codeOK && !isAssetCode(code) {
		v.Member("code").Fault(problem.FaultInvalidValue, "must be 1 to 12 letters and digits")
		codeOK = false
	}
	issuer := v.Member("issuer")
	address, issuerOK := issuer.Text(maxFormCharacters)
	issuerOK = issuerOK && checkAddress(issuer, address, accountFault)
	switch {
	case codeOK && code == domain.NativeCode && issuer.Given():
		issuer.Fault(problem.FaultNotAllowed,
			"must be null: XLM is the native asset, which nobody issues")
		return domain.Asset{}, false
	case codeOK && code == domain.NativeCode:
		return domain.NativeAsset(), true
	case codeOK && !issuer.Given():
		issuer.Fault(problem.FaultRequired,
			"is required for every asset but the native one, whose code is XLM")
	}
	return domain.Asset{Code: code, Issuer: address}, codeOK && issuerOK
}

func isAssetCode(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxAssetCodeLength
}

// kindFields says which fields belong to a kind of rule, beside kind itself.
type kindFields struct {
	kind   string
	fields []string
}

var amountKinds = []kindFields{
	{string(domain.AmountAny), nil},
	{string(domain.AmountExact), []string{"amount"}},
	{string(domain.AmountMin), []string{"amount"}},
	{string(domain.AmountMax), []string{"amount"}},
	{string(domain.AmountRange), []string{"min", "max"}},
}

var memoKinds = []kindFields{
	{string(domain.MemoAny), nil},
	{string(domain.MemoPresent), nil},
	{string(domain.MemoAbsent), nil},
	{string(domain.MemoEquals), []string{"value", "type"}},
}

// readKind reads the kind of an optional rule, and that its fields are those of
// the kind. A rule that is not given is "any", the first of the kinds.
func readKind(rule decode.Value, kinds []kindFields) (kind string, ok bool) {
	if !rule.Given() {
		return kinds[0].kind, false
	}
	names, all := make([]string, len(kinds)), []string{"kind"}
	for i, k := range kinds {
		names[i] = k.kind
		for _, field := range k.fields {
			if !slices.Contains(all, field) {
				all = append(all, field)
			}
		}
	}
	if !rule.Only(all...) {
		return "", false
	}
	kind, ok = rule.Member("kind").RequiredText(maxFormCharacters)
	i := slices.Index(names, kind)
	if !ok || i < 0 {
		if ok {
			rule.Member("kind").Fault(problem.FaultInvalidValue,
				"must be one of "+strings.Join(names, ", "))
		}
		return "", false
	}
	for _, field := range all[1:] {
		if given := rule.Member(field); given.Given() && !slices.Contains(kinds[i].fields, field) {
			given.Fault(problem.FaultNotAllowed,
				fmt.Sprintf("does not belong to a rule of the kind %s: leave it out", kind))
		}
	}
	return kind, true
}

func readAmountRule(rule decode.Value) domain.AmountRule {
	kind, ok := readKind(rule, amountKinds)
	r := domain.AmountRule{Kind: domain.AmountKind(kind)}
	if !ok {
		return r
	}
	switch r.Kind {
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		r.AmountStroops, _ = readAmount(rule.Member("amount"))
	case domain.AmountRange:
		var minOK, maxOK bool
		r.MinStroops, minOK = readAmount(rule.Member("min"))
		r.MaxStroops, maxOK = readAmount(rule.Member("max"))
		if minOK && maxOK && r.MinStroops > r.MaxStroops {
			rule.Member("min").Fault(problem.FaultRangeIsEmpty, "must not be greater than max")
		}
	}
	return r
}

func readAmount(v decode.Value) (int64, bool) {
	s, ok := v.RequiredText(maxFormCharacters)
	if !ok {
		return 0, false
	}
	stroops, err := domain.ParseAmount(s)
	if _, fraction, _ := strings.Cut(s, "."); err == nil && len(fraction) > 7 {
		err = domain.ErrAmountPrecision // zeros too: what cannot be paid should not be written
	}
	if err == nil && stroops == 0 {
		err = errAmountZero
	}
	if err != nil {
		v.Fault(problem.FaultInvalidAmount, err.Error())
		return 0, false
	}
	return stroops, true
}

var errAmountZero = errors.New("must be greater than 0")

func readMemoRule(rule decode.Value) domain.MemoRule {
	kind, ok := readKind(rule, memoKinds)
	r := domain.MemoRule{Kind: domain.MemoKind(kind)}
	if !ok || r.Kind != domain.MemoEquals {
		return r
	}
	value, valueOK := rule.Member("value").RequiredText(maxFormCharacters)
	memoType, typeOK := rule.Member("type").RequiredText(maxFormCharacters)
	if !typeOK {
		return r
	}
	t := domain.MemoType(memoType)
	if t != domain.MemoText && t != domain.MemoID && t != domain.MemoHash {
		rule.Member("type").Fault(problem.FaultInvalidValue, domain.ErrMemoType.Error())
		return r
	}
	if !valueOK {
		return r
	}
	memo, err := domain.ParseMemo(t, value)
	switch {
	case holdsSecret(value):
		refuseSecretKey(rule.Member("value"))
	case err != nil:
		rule.Member("value").Fault(problem.FaultInvalidMemo, err.Error())
	}
	r.Value = memo
	return r
}

func readSenders(v decode.Value) []string {
	elements, _ := v.Elements(maxSenders)
	return distinct(elements, func(element decode.Value) (string, bool) {
		s, ok := element.AnyText()
		return s, ok && checkAddress(element, s, senderFault)
	}, "is the same address as element %d")
}

func readEventTypes(v decode.Value) []domain.EventType {
	elements, ok := v.Elements(maxEventTypes)
	if !ok {
		return []domain.EventType{domain.PaymentReceived}
	}
	if len(elements) == 0 {
		v.Fault(problem.FaultEmpty,
			"must name at least one type; leave the field out for payment.received")
	}
	return words(elements, "must be payment.received or payment.rejected",
		domain.PaymentReceived, domain.PaymentRejected)
}

// decodeBackfill reads the ledgers that a backfill looks for payments in.
func decodeBackfill(body []byte) (b domain.BackfillWatch, faults *problem.Faults) {
	faults = decode.Object(body,
		decode.Into("from", &b.From, func(v decode.Value) uint32 {
			v.Require("is required: the sequence of the first ledger to look for payments in")
			from, _ := v.Integer(1, math.MaxInt32)
			return uint32(from)
		}),
		decode.Into("to", &b.To, func(v decode.Value) uint32 {
			to, given := v.Integer(1, math.MaxInt32)
			if given && !v.Faulty() && uint32(to) < b.From {
				v.Fault(problem.FaultRangeIsEmpty, "must not be before from")
			}
			return uint32(to)
		}))
	return b, faults
}
