package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
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

// watchView is a watch as the API shows it.
type watchView struct {
	ID              string             `json:"id"`
	WalletAddress   string             `json:"walletAddress"`
	Label           string             `json:"label"`
	EndpointID      string             `json:"endpointId"`
	Status          watchStatus        `json:"status"`
	Assets          []domain.AssetView `json:"assets"`
	AmountRule      amountRuleView     `json:"amountRule"`
	MemoRule        memoRuleView       `json:"memoRule"`
	SenderAllowlist []string           `json:"senderAllowlist"`
	EventTypes      []domain.EventType `json:"eventTypes"`
	Backfill        *backfillView      `json:"backfill"`
	CreatedAt       string             `json:"createdAt"`
	UpdatedAt       string             `json:"updatedAt"`
}

// watchMade is a watch as its creation and its update answer with it.
type watchMade struct {
	watchView
	Warnings []string `json:"warnings"`
}

// watchStatus tells whether what a watch reports can be delivered.
type watchStatus string

// A watch outlives its endpoint, and matches nothing until it is given another.
const (
	watchActive          watchStatus = "active"
	watchEndpointDeleted watchStatus = "endpoint_deleted"
)

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
func viewWatch(w domain.Watch, status watchStatus) watchView {
	v := watchView{
		ID:              w.ID,
		WalletAddress:   w.WalletAddress,
		Label:           w.Label,
		EndpointID:      w.EndpointID,
		Status:          status,
		AmountRule:      amountRuleView{Kind: w.Rules.Amount.Kind},
		MemoRule:        memoRuleView{Kind: w.Rules.Memo.Kind},
		SenderAllowlist: w.Rules.SenderAllowlist,
		EventTypes:      w.EventTypes,
		Backfill:        viewBackfill(w.Backfill),
		CreatedAt:       domain.FormatMillis(w.CreatedAtMillis),
		UpdatedAt:       domain.FormatMillis(w.UpdatedAtMillis),
	}
	for _, asset := range w.Rules.Assets {
		v.Assets = append(v.Assets, domain.ViewAsset(asset))
	}
	switch amount := w.Rules.Amount; amount.Kind {
	case domain.AmountExact, domain.AmountMin, domain.AmountMax:
		v.AmountRule.Amount = domain.FormatAmount(amount.AmountStroops)
	case domain.AmountRange:
		v.AmountRule.Min, v.AmountRule.Max = domain.FormatAmount(amount.MinStroops),
			domain.FormatAmount(amount.MaxStroops)
	}
	if memo := w.Rules.Memo; memo.Kind == domain.MemoEquals {
		v.MemoRule.Value, v.MemoRule.Type = memo.Value.String(), memo.Value.Type
	}
	return v
}

func (a *API) createWatch(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	id := domain.DeriveID(domain.WatchPrefix, command.ID)
	repeated := a.repeats(x, command.ID, func() (bool, error) {
		_, made, err := a.Directory.Watch(id)
		return made, err
	})
	watch, problem := a.readNewWatch(ctx, x, repeated)
	if problem != nil {
		return reply{}, problem
	}
	watch.ID, watch.AccountID = id, x.caller.accountID
	command.Body = domain.CreateWatch{Watch: watch}
	made, warnings, replayed, problem := a.askWatch(ctx, x, command, func() []string {
		return a.Wallets.Warnings(ctx, watch.WalletAddress, watch.Rules.Assets)
	})
	if problem != nil {
		return reply{}, problem
	}
	answer, problem := created("/v1/watches/"+made.ID, replayed,
		watchMade{viewWatch(*made, watchActive), warnings})
	answer.etag = etag(made.Revision)
	return answer, problem
}

// askWatch submits a command that is answered with a watch, looks the wallet up
// meanwhile, and waits until this node has read the change.
func (a *API) askWatch(
	ctx context.Context, x *exchange, c domain.Command, warn func() []string,
) (*domain.Watch, []string, bool, *Problem) {
	found := make(chan []string, 1)
	go func() { found <- warn() }()
	result, problem := a.submit(ctx, x, c)
	watch, problem := answerOf(result, problem, c, result.Answer.Watch)
	if problem != nil {
		return nil, nil, false, problem
	}
	a.awaitAnswer(ctx, x, result, watch.ID, watch.Revision, a.Directory.AwaitWatch)
	return watch, a.answered.settle(x, c.ID, result.Replayed, <-found), result.Replayed, nil
}

// readNewWatch reads all fields of a watch and looks its endpoint up, unless the
// watch was made before.
func (a *API) readNewWatch(
	ctx context.Context, x *exchange, repeated bool,
) (domain.Watch, *Problem) {
	root, problem := parseJSON(x.body)
	if problem != nil {
		return domain.Watch{}, problem
	}
	var f faults
	watch := readWatch(root, &f)
	if watch.EndpointID != "" && !repeated {
		if problem := a.checkEndpoint(ctx, x, watch.EndpointID, &f); problem != nil {
			return watch, problem
		}
	}
	return watch, f.problem()
}

// checkEndpoint adds a fault if a watch names an endpoint that the caller does
// not have.
func (a *API) checkEndpoint(ctx context.Context, x *exchange, id string, f *faults) *Problem {
	_, found, problem := a.ownEndpoint(ctx, x.caller.accountID, id)
	if problem == nil && !found {
		f.add("/endpointId", faultEndpointNotFound,
			"names no endpoint of your account: create one with POST /v1/endpoints and use its id")
	}
	return problem
}

// statusOf tells whether a watch's endpoint is still there.
func (a *API) statusOf(w domain.Watch) (watchStatus, error) {
	e, found, err := a.Directory.Endpoint(w.EndpointID)
	if err != nil {
		return "", fmt.Errorf("looking up the endpoint of a watch: %w", err)
	}
	if !found || e.Deleted() {
		return watchEndpointDeleted, nil
	}
	return watchActive, nil
}

func (a *API) getWatch(_ context.Context, x *exchange) (reply, *Problem) {
	status, err := a.statusOf(x.watch)
	if err != nil {
		return reply{}, internal(err)
	}
	answer, problem := jsonReply(http.StatusOK, viewWatch(x.watch, status))
	answer.etag = etag(x.watch.Revision)
	return answer, problem
}

func (a *API) listWatches(_ context.Context, x *exchange) (reply, *Problem) {
	q := newQuery(x, "endpointId", "walletAddress")
	f := WatchFilter{
		AccountID:     x.caller.accountID,
		EndpointID:    q.id("endpointId", domain.EndpointPrefix),
		WalletAddress: q.wallet("walletAddress"),
	}
	after, limit, problem := a.page(x, q)
	if problem != nil {
		return reply{}, problem
	}
	page, next, err := a.Directory.Watches(f, after, limit)
	if err != nil {
		return reply{}, internal(fmt.Errorf("listing watches: %w", err))
	}
	views := make([]watchView, len(page))
	known := make(map[string]watchStatus)
	for i, w := range page {
		status, looked := known[w.EndpointID]
		if !looked {
			if status, err = a.statusOf(w); err != nil {
				return reply{}, internal(err)
			}
			known[w.EndpointID] = status
		}
		views[i] = viewWatch(w, status)
	}
	return listReply(a, x, q, views, next)
}

func (a *API) updateWatch(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	body, problem := a.readWatchChange(ctx, x, a.maybeRepeats(x, command.ID))
	if problem != nil {
		return reply{}, problem
	}
	command.Body = body
	assets := x.watch.Rules.Assets
	if body.Change.Assets != nil {
		assets = *body.Change.Assets
	}
	watch, warnings, replayed, problem := a.askWatch(ctx, x, command, func() []string {
		if x.missing != "" {
			return []string{} // there is no wallet to look up
		}
		return a.Wallets.Warnings(ctx, x.watch.WalletAddress, assets)
	})
	if problem != nil {
		return reply{}, problem
	}
	status, err := a.statusOf(*watch)
	if err != nil {
		return reply{}, internal(err)
	}
	answer, problem := jsonReply(http.StatusOK, watchMade{viewWatch(*watch, status), warnings})
	answer.etag, answer.replayed = etag(watch.Revision), replayed
	return answer, problem
}

// readWatchChange reads a merge patch: what it names changes, null makes it what
// it is by default. A rule that names no kind, or the one that it has, is merged
// into the rule; one of another kind takes its place.
func (a *API) readWatchChange(
	ctx context.Context, x *exchange, repeated bool,
) (domain.UpdateWatch, *Problem) {
	u := domain.UpdateWatch{WatchID: x.watch.ID, IfRevision: x.ifMatch.revision(x.watch.Revision)}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return u, problem
	}
	var f faults
	o, ok := asObject(root, "", &f)
	if !ok {
		return u, f.problem()
	}
	o.only(watchFieldNames...)
	merged, err := mergeRules(o.node, x.watch)
	if err != nil {
		return u, internal(err)
	}
	if merged.partly && u.IfRevision == 0 {
		u.IfRevision = x.watch.Revision // merged into what was read: it must still be that
	}
	o.node = merged.node
	u.Change = readWatchFields(o, x.watch)
	if id := u.Change.EndpointID; id != nil && *id != "" && *id != x.watch.EndpointID {
		judged := &f
		if repeated {
			judged = &faults{}
		}
		if problem := a.checkEndpoint(ctx, x, *id, judged); problem != nil {
			return u, problem
		}
		if repeated && judged.count > 0 {
			u.IfRevision = noRevision // it must be a repeat, or come to nothing
		}
	}
	if x.missing != "" {
		u.IfRevision = noRevision
	}
	return u, f.problem()
}

// readWatchFields reads the fields that a patch names.
func readWatchFields(o object, w domain.Watch) domain.WatchChange {
	var c domain.WatchChange
	if n, given := o.get("walletAddress"); o.names("walletAddress") &&
		(!given || n.kind != '"' || n.text != w.WalletAddress) {
		if given && n.kind == '"' && looksLikeSecretKey(n.text) {
			refuseSecretKey(o.pointer("walletAddress"), o.faults)
		} else {
			o.fault("walletAddress", faultCannotChange,
				"cannot be changed: delete the watch and create one for the other wallet")
		}
	}
	if o.names("label") {
		c.Label = pointer(readFreeText(o, "label", maxLabelCharacters))
	}
	if o.names("endpointId") {
		c.EndpointID = pointer(readEndpointID(o))
	}
	if o.names("assets") {
		c.Assets = pointer(readAssets(o))
	}
	if o.names("amountRule") {
		c.Amount = pointer(readAmountRule(o))
	}
	if o.names("memoRule") {
		c.Memo = pointer(readMemoRule(o))
	}
	if o.names("senderAllowlist") {
		c.SenderAllowlist = pointer(readSenders(o))
	}
	if o.names("eventTypes") {
		c.EventTypes = pointer(readEventTypes(o))
	}
	return c
}

func pointer[T any](v T) *T { return &v }

// mergedPatch is a patch whose rules are whole.
type mergedPatch struct {
	node   node
	partly bool // a rule was completed out of the watch
}

// mergeRules completes the rules of a patch out of the watch's.
func mergeRules(patch node, w domain.Watch) (mergedPatch, error) {
	view := viewWatch(w, watchActive)
	have := map[string]any{"amountRule": view.AmountRule, "memoRule": view.MemoRule}
	m := mergedPatch{node: patch}
	m.node.members = slices.Clone(patch.members)
	for i, given := range m.node.members {
		if have[given.name] == nil || given.value.kind != '{' {
			continue
		}
		body, err := json.Marshal(have[given.name])
		if err != nil {
			return m, fmt.Errorf("writing a rule: %w", err)
		}
		rule, problem := parseJSON(body)
		if problem != nil {
			return m, fmt.Errorf("reading a rule of ours: %s", problem.Detail)
		}
		kind, named := given.value.member("kind")
		if present, _ := rule.member("kind"); named && (kind.kind != '"' || kind.text != present.text) {
			continue
		}
		m.partly = true
		m.node.members[i].value = mergePatch(rule, given.value)
	}
	return m, nil
}

// mergePatch applies one object to another (RFC 7396).
func mergePatch(target, patch node) node {
	merged := node{kind: '{'}
	for _, m := range target.members {
		if _, changed := patch.member(m.name); !changed {
			merged.members = append(merged.members, m)
		}
	}
	for _, m := range patch.members {
		if m.value.kind != 'n' {
			merged.members = append(merged.members, m)
		}
	}
	return merged
}

func (n node) member(name string) (node, bool) {
	for _, m := range n.members {
		if m.name == name {
			return m.value, true
		}
	}
	return node{}, false
}

func (a *API) deleteWatch(ctx context.Context, x *exchange) (reply, *Problem) {
	id := x.watch.ID
	return a.delete(ctx, x,
		domain.DeleteWatch{WatchID: id, IfRevision: x.ifMatch.revision(x.watch.Revision)},
		func(ctx context.Context) error {
			return a.Directory.AwaitWatchGone(ctx, id)
		})
}

var watchFieldNames = []string{
	"walletAddress", "label", "endpointId", "assets", "amountRule", "memoRule",
	"senderAllowlist", "eventTypes",
}

// readWatch reads a watch out of a body and collects everything wrong with it.
// The endpoint's id is left empty if it cannot be one.
func readWatch(root node, f *faults) domain.Watch {
	o, ok := asObject(root, "", f)
	if !ok {
		return domain.Watch{}
	}
	o.only(watchFieldNames...)
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
	if n, _ := o.get("walletAddress"); n.kind == '"' && looksLikeSecretKey(n.text) { // however long
		refuseSecretKey(o.pointer("walletAddress"), o.faults)
		return ""
	}
	wallet, ok := o.requiredText("walletAddress", maxFormCharacters)
	if !ok || !readAccount(wallet, o.pointer("walletAddress"), o.faults) {
		return ""
	}
	return wallet
}

func readEndpointID(o object) string {
	id, ok := o.requiredText("endpointId", maxFormCharacters)
	if ok && !domain.IsID(domain.EndpointPrefix, id) {
		o.fault("endpointId", faultInvalidValue,
			"must be an endpoint's id: ep_ and 26 characters, as POST /v1/endpoints returned it")
		return ""
	}
	return id
}

func readAssets(o object) []domain.Asset {
	if _, present := o.get("assets"); !present {
		o.fault("assets", faultRequired,
			`is required: name the assets to accept, such as [{"code":"XLM","issuer":null}]`)
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
		o.fault("issuer", faultRequired,
			"is required for every asset but the native one, whose code is XLM")
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
			rule.fault(field, faultNotAllowed,
				fmt.Sprintf("does not belong to a rule of the kind %s: leave it out", kind))
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
		o.fault("eventTypes", faultEmpty,
			"must name at least one type; leave the field out for payment.received")
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
