package api

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Limits of a watch's fields.
const (
	maxLabelCharacters = 256
	maxAssets          = 100
	maxSenders         = 1000
	maxEventTypes      = 10
)

func viewFulfilled(w domain.Watch) *client.Fulfilment {
	if !w.Fulfilled.Is() {
		return nil
	}
	return &client.Fulfilment{
		PaymentID:      w.Fulfilled.PaymentID,
		EventID:        domain.EventID(w.ID, w.Fulfilled.PaymentID),
		Ledger:         w.Fulfilled.Ledger,
		LedgerClosedAt: at(w.Fulfilled.ClosedAtMillis),
	}
}

// watchStatus is whether a watch accepts payments and can deliver their events.
type watchStatus string

// A watch outlives its endpoint, and matches nothing until it gets another one. A fulfilled watch
// accepts no more payments, regardless of its other states.
const (
	watchActive          watchStatus = "active"
	watchEndpointDeleted watchStatus = "endpoint_deleted"
	watchExpired         watchStatus = "expired"
	watchFulfilled       watchStatus = "fulfilled"
)

// viewWatch converts a watch to the form in the specification ("Watch").
func viewWatch(w domain.Watch, status watchStatus) client.Watch {
	v := client.Watch{
		ID:              w.ID,
		WalletAddress:   w.WalletAddress,
		Label:           w.Label,
		EndpointID:      w.EndpointID,
		Status:          string(status),
		AmountRule:      viewAmountRule(w.Rules.Amount),
		MemoRule:        viewMemoRule(w.Rules.Memo),
		SenderAllowlist: w.Rules.SenderAllowlist,
		EventTypes:      texts(w.EventTypes),
		Backfill:        viewBackfill(w.Backfill),
		ExpiresAt:       instant(w.ExpiresAtMillis),
		Once:            w.Once,
		Fulfilled:       viewFulfilled(w),
		CreatedAt:       at(w.CreatedAtMillis),
		UpdatedAt:       at(w.UpdatedAtMillis),
	}
	for _, asset := range w.Rules.Assets {
		v.Assets = append(v.Assets, client.Asset(domain.ViewAsset(asset)))
	}
	return v
}

// watchBody is the body of a request to create or update a watch, without the wallet. Fields that
// an update omits are nil.
type watchBody struct {
	domain.WatchChange
	completed bool // a rule was merged into the existing rule
}

// fields returns the fields of a watch, except the wallet. Rules are merged into the existing ones.
func (b *watchBody) fields(have domain.Watch) []decode.Field {
	amount, memo := viewAmountRule(have.Rules.Amount), viewMemoRule(have.Rules.Memo)
	return []decode.Field{
		decode.IntoNew("label", &b.Label, freeText(maxLabelCharacters)),
		decode.IntoNew("endpointId", &b.EndpointID, readEndpointID),
		decode.IntoNew("assets", &b.Assets, readAssets),
		decode.IntoNew("amountRule", &b.Amount, func(v decode.Value) domain.AmountRule {
			return readAmountRule(b.complete(v, amountTexts(amount)))
		}),
		decode.IntoNew("memoRule", &b.Memo, func(v decode.Value) domain.MemoRule {
			return readMemoRule(b.complete(v, memoTexts(memo)))
		}),
		decode.IntoNew("senderAllowlist", &b.SenderAllowlist, readSenders),
		decode.IntoNew("eventTypes", &b.EventTypes, readEventTypes),
		decode.IntoNew("expiresAt", &b.ExpiresAtMillis, func(v decode.Value) int64 {
			expiry, _ := v.Time()
			return expiry
		}),
	}
}

// complete merges a rule of a patch into the watch's rule.
func (b *watchBody) complete(v decode.Value, have map[string]string) decode.Value {
	merged, applied := v.Onto(have, "kind")
	b.completed = b.completed || applied
	return merged
}

// decodeNewWatch decodes the body of a creation. An invalid endpoint id becomes "".
func decodeNewWatch(body []byte) (domain.Watch, *problem.Faults) {
	var b watchBody
	var wallet string
	var once bool
	faults := decode.Object(body, append([]decode.Field{
		decode.Into("walletAddress", &wallet, readWallet),
		decode.Into("once", &once, func(v decode.Value) bool {
			one, _ := v.Boolean()
			return one
		}),
	}, b.fields(domain.Watch{})...)...)
	refuseRejections(once, b.EventTypes, faults)
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

		ExpiresAtMillis: orZero(b.ExpiresAtMillis),
		Once:            once,
	}, faults
}

// refuseRejections adds a fault if a watch for one payment is to report rejected payments, because
// such a watch has only one event.
func refuseRejections(once bool, types *[]domain.EventType, faults *problem.Faults) {
	if once && types != nil && slices.Contains(*types, domain.PaymentRejected) {
		faults.Add("/eventTypes", problem.FaultNotAllowed,
			"must not have payment.rejected in a watch for one payment: report these by another watch")
	}
}

// orZero returns the value of a field, or the zero value if the field was not read.
func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// decodeWatchPatch decodes a merge patch: fields that are present change, and null restores a
// field's default. A rule without a kind, or with the current kind, is merged into the rule. A rule
// with another kind replaces it.
func decodeWatchPatch(
	body []byte, have domain.Watch, shown decode.Shown,
) (b watchBody, faults *problem.Faults) {
	sameWallet := decode.Field{
		Name: "walletAddress",
		Read: func(v decode.Value) { refuseOtherWallet(v, have.WalletAddress) },
	}
	faults = decode.Patch(body, shown, append([]decode.Field{sameWallet}, b.fields(have)...)...)
	refuseRejections(have.Once, b.EventTypes, faults)
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
	if text, isText := v.Peek(); isText && looksLikeSecretKey(text) { // of any length
		refuseSecretKey(v)
		return ""
	}
	wallet, ok := v.RequiredText(maxFormCharacters)
	if !ok || !checkAddress(v, wallet, accountFault) {
		return ""
	}
	return wallet
}

// checkAddress reports whether an address is valid. If not, it adds a fault.
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

// distinct reads elements that must all be different.
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
	if codeOK && !assetCodeForm.MatchString(code) {
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

var assetCodeForm = regexp.MustCompile(`^[0-9A-Za-z]{1,12}$`)

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
