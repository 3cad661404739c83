package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of a watch's fields. Texts of a fixed form are bounded only to keep
// noise short.
const (
	maxLabelCharacters = 256
	maxAssets          = 100
	maxSenders         = 1000
	maxEventTypes      = 10
	maxFormCharacters  = 128
	maxAssetCodeLength = 12
)

// watchView is a watch as its creation answers with it.
type watchView struct {
	ID              string             `json:"id"`
	WalletAddress   string             `json:"walletAddress"`
	Label           string             `json:"label"`
	EndpointID      string             `json:"endpointId"`
	Assets          []domain.AssetView `json:"assets"`
	AmountRule      amountRuleView     `json:"amountRule"`
	MemoRule        memoRuleView       `json:"memoRule"`
	SenderAllowlist []string           `json:"senderAllowlist"`
	EventTypes      []domain.EventType `json:"eventTypes"`
	CreatedAt       string             `json:"createdAt"`
	UpdatedAt       string             `json:"updatedAt"`
	Warnings        []string           `json:"warnings"`
}

type amountRuleView struct {
	Kind   domain.AmountKind `json:"kind"`
	Amount string            `json:"amount,omitempty"`
	Min    string            `json:"min,omitempty"`
	Max    string            `json:"max,omitempty"`
}

type memoRuleView struct {
	Kind  domain.MemoKind `json:"kind"`
	Value string          `json:"value,omitempty"`
	Type  domain.MemoType `json:"type,omitempty"`
}

// viewWatch puts a watch into the form of the specification's "Watch".
func viewWatch(w domain.Watch) watchView {
	v := watchView{
		ID: w.ID, WalletAddress: w.WalletAddress, Label: w.Label, EndpointID: w.EndpointID,
		AmountRule: amountRuleView{Kind: w.Rules.Amount.Kind}, MemoRule: memoRuleView{Kind: w.Rules.Memo.Kind},
		SenderAllowlist: w.Rules.SenderAllowlist, EventTypes: w.EventTypes,
		CreatedAt: domain.FormatMillis(w.CreatedAtMillis), UpdatedAt: domain.FormatMillis(w.UpdatedAtMillis),
	}
	for _, asset := range w.Rules.Assets {
		v.Assets = append(v.Assets, domain.ViewAsset(asset))
	}
	switch amount := w.Rules.Amount; amount.Kind {
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		v.AmountRule.Amount = domain.FormatAmount(amount.AmountStroops)
	case domain.AmountRange:
		v.AmountRule.Min, v.AmountRule.Max = domain.FormatAmount(amount.MinStroops), domain.FormatAmount(amount.MaxStroops)
	}
	if memo := w.Rules.Memo; memo.Kind == domain.MemoEquals {
		v.MemoRule.Value, v.MemoRule.Type = memo.Value.String(), memo.Value.Type
	}
	return v
}

func (a *API) createWatch(ctx context.Context, x *exchange) (reply, *Problem) {
	watch, problem := a.readNewWatch(x)
	if problem != nil {
		return reply{}, problem
	}
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	watch.ID, watch.AccountID = domain.DeriveID(domain.WatchPrefix, command.ID), x.caller.accountID
	command.Body = domain.CreateWatch{Watch: watch}
	result, problem := a.submit(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	made := result.Answer.Watch
	if made == nil {
		return reply{}, internal(errors.New("the answer to CreateWatch holds no watch"))
	}
	a.await(ctx, x, made.ID, made.Version, a.Directory.AwaitWatch)
	view := viewWatch(*made)
	view.Warnings = a.Wallets.Warnings(ctx, made.WalletAddress, made.Rules.Assets)
	return created("/v1/watches/"+made.ID, result.Replayed, view)
}

// readNewWatch reads all fields of a watch and looks its endpoint up.
func (a *API) readNewWatch(x *exchange) (domain.Watch, *Problem) {
	root, problem := parseJSON(x.body)
	if problem != nil {
		return domain.Watch{}, problem
	}
	var f faults
	watch := readWatch(root, &f)
	if watch.EndpointID != "" {
		endpoint, found, err := a.Directory.Endpoint(watch.EndpointID)
		if err != nil {
			return watch, internal(fmt.Errorf("looking up an endpoint: %w", err))
		}
		if !found || endpoint.AccountID != x.caller.accountID {
			f.add("/endpointId", faultEndpointNotFound, "names no endpoint of your account: create one with POST /v1/endpoints and use its id")
		}
	}
	return watch, f.problem()
}

// readWatch reads a watch out of a body and collects everything wrong with it.
// The endpoint's id is left empty if it cannot be one.
func readWatch(root node, f *faults) domain.Watch {
	o, ok := asObject(root, "", f)
	if !ok {
		return domain.Watch{}
	}
	o.only("walletAddress", "label", "endpointId", "assets", "amountRule", "memoRule", "senderAllowlist", "eventTypes")
	return domain.Watch{
		WalletAddress: readWallet(o),
		Label:         readFreeText(o, "label", maxLabelCharacters),
		EndpointID:    readEndpointID(o),
		Rules: domain.Rules{
			Assets:          readAssets(o),
			Amount:          readAmountRule(o),
			Memo:            readMemoRule(o),
			SenderAllowlist: readSenders(o),
		},
		EventTypes: readEventTypes(o),
	}
}

func readWallet(o object) string {
	wallet, ok := o.requiredText("walletAddress", maxFormCharacters)
	if !ok || !readAccount(wallet, o.pointer("walletAddress"), o.faults) {
		return ""
	}
	return wallet
}

func readEndpointID(o object) string {
	id, ok := o.requiredText("endpointId", maxFormCharacters)
	if ok && !domain.IsID(domain.EndpointPrefix, id) {
		o.fault("endpointId", faultInvalidValue, "must be an endpoint's id: ep_ and 26 characters, as POST /v1/endpoints returned it")
		return ""
	}
	return id
}

func readAssets(o object) []domain.Asset {
	if _, present := o.get("assets"); !present {
		o.fault("assets", faultRequired, `is required: name the assets to accept, such as [{"code":"XLM","issuer":null}]`)
		return nil
	}
	elements, ok := o.array("assets", maxAssets)
	if ok && len(elements) == 0 {
		o.fault("assets", faultEmpty, "must name at least one asset")
	}
	seen := make(map[domain.Asset]int, len(elements))
	var assets []domain.Asset
	for i, element := range elements {
		at := o.element("assets", i)
		asset, ok := readAsset(element, at, o.faults)
		if !ok {
			continue
		}
		if first, twice := seen[asset]; twice {
			o.faults.add(at, faultDuplicate, fmt.Sprintf("is the same asset as element %d", first))
			continue
		}
		seen[asset] = i
		assets = append(assets, asset)
	}
	return assets
}

func readAsset(n node, at jsontext.Pointer, f *faults) (domain.Asset, bool) {
	o, ok := asObject(n, at, f)
	if !ok {
		return domain.Asset{}, false
	}
	o.only("code", "issuer")
	code, codeOK := o.requiredText("code", maxFormCharacters)
	if codeOK && !isAssetCode(code) {
		o.fault("code", faultInvalidValue, "must be 1 to 12 letters and digits")
		codeOK = false
	}
	_, hasIssuer := o.get("issuer")
	issuer, issuerOK := o.text("issuer", maxFormCharacters)
	if issuerOK {
		issuerOK = readAccount(issuer, o.pointer("issuer"), f)
	}
	switch {
	case codeOK && code == domain.NativeCode && hasIssuer:
		o.fault("issuer", faultNotAllowed, "must be null: XLM is the native asset, which nobody issues")
		return domain.Asset{}, false
	case codeOK && code == domain.NativeCode:
		return domain.NativeAsset(), true
	case codeOK && !hasIssuer:
		o.fault("issuer", faultRequired, "is required for every asset but the native one, whose code is XLM")
	}
	return domain.Asset{Code: code, Issuer: issuer}, codeOK && hasIssuer && issuerOK
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

// readKind reads an optional rule: its kind, and that its fields are those of
// the kind. A rule that is not given is "any", the first of the kinds.
func readKind(parent object, name string, kinds []kindFields) (rule object, kind string, ok bool) {
	n, present := parent.get(name)
	if !present {
		return object{}, kinds[0].kind, false
	}
	rule, ok = asObject(n, parent.pointer(name), parent.faults)
	if !ok {
		return object{}, "", false
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
	rule.only(all...)
	kind, ok = rule.requiredText("kind", maxFormCharacters)
	i := slices.Index(names, kind)
	if !ok || i < 0 {
		if ok {
			rule.fault("kind", faultInvalidValue, "must be one of "+strings.Join(names, ", "))
		}
		return object{}, "", false
	}
	for _, field := range all[1:] {
		if _, given := rule.get(field); given && !slices.Contains(kinds[i].fields, field) {
			rule.fault(field, faultNotAllowed, fmt.Sprintf("does not belong to a rule of the kind %s: leave it out", kind))
		}
	}
	return rule, kind, true
}

func readAmountRule(o object) domain.AmountRule {
	rule, kind, ok := readKind(o, "amountRule", amountKinds)
	r := domain.AmountRule{Kind: domain.AmountKind(kind)}
	if !ok {
		return r
	}
	switch r.Kind {
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		r.AmountStroops, _ = readAmount(rule, "amount")
	case domain.AmountRange:
		var minOK, maxOK bool
		r.MinStroops, minOK = readAmount(rule, "min")
		r.MaxStroops, maxOK = readAmount(rule, "max")
		if minOK && maxOK && r.MinStroops > r.MaxStroops {
			rule.fault("min", faultRangeIsEmpty, "must not be greater than max")
		}
	}
	return r
}

func readAmount(o object, name string) (int64, bool) {
	s, ok := o.requiredText(name, maxFormCharacters)
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
		o.fault(name, faultInvalidAmount, err.Error())
		return 0, false
	}
	return stroops, true
}

var errAmountZero = errors.New("must be greater than 0")

func readMemoRule(o object) domain.MemoRule {
	rule, kind, ok := readKind(o, "memoRule", memoKinds)
	r := domain.MemoRule{Kind: domain.MemoKind(kind)}
	if !ok || r.Kind != domain.MemoEquals {
		return r
	}
	value, valueOK := rule.requiredText("value", maxFormCharacters)
	memoType, typeOK := rule.requiredText("type", maxFormCharacters)
	if !typeOK {
		return r
	}
	t := domain.MemoType(memoType)
	if t != domain.MemoText && t != domain.MemoID && t != domain.MemoHash {
		rule.fault("type", faultInvalidValue, domain.ErrMemoType.Error())
		return r
	}
	if !valueOK {
		return r
	}
	memo, err := domain.ParseMemo(t, value)
	switch {
	case holdsSecret(value):
		refuseSecretKey(rule.pointer("value"), rule.faults)
	case err != nil:
		rule.fault("value", faultInvalidMemo, err.Error())
	}
	r.Value = memo
	return r
}

func readSenders(o object) []string {
	elements, _ := o.array("senderAllowlist", maxSenders)
	seen := make(map[string]int, len(elements))
	var senders []string
	for i, element := range elements {
		at := o.element("senderAllowlist", i)
		s, ok := asText(element, at, o.faults)
		if !ok || !readSender(s, at, o.faults) {
			continue
		}
		if first, twice := seen[s]; twice {
			o.faults.add(at, faultDuplicate, fmt.Sprintf("is the same address as element %d", first))
			continue
		}
		seen[s] = i
		senders = append(senders, s)
	}
	return senders
}

func readEventTypes(o object) []domain.EventType {
	elements, ok := o.array("eventTypes", maxEventTypes)
	if !ok {
		return []domain.EventType{domain.PaymentReceived}
	}
	if len(elements) == 0 {
		o.fault("eventTypes", faultEmpty, "must name at least one type; leave the field out for payment.received")
	}
	var types []domain.EventType
	for i, element := range elements {
		at := o.element("eventTypes", i)
		s, ok := asText(element, at, o.faults)
		t := domain.EventType(s)
		switch {
		case !ok:
		case t != domain.PaymentReceived && t != domain.PaymentRejected:
			o.faults.add(at, faultInvalidValue, "must be payment.received or payment.rejected")
		case slices.Contains(types, t):
			o.faults.add(at, faultDuplicate, "is named twice")
		default:
			types = append(types, t)
		}
	}
	return types
}
