package console

import (
	"net/url"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
)

type watchFormView struct {
	form
	ID        string // the watch to change; empty for a new one
	Wallet    string // the watch's wallet
	Once      bool   // the watch is for a single payment
	Endpoints []client.Endpoint
	More      bool // there are more endpoints
	Title     string
}

type choice struct{ Value, Words string }

// The options for amounts and memos. The memo type is the option for memos that must match a value.
var (
	amountChoices = []choice{
		{"any", "any amount"},
		{"exact", "exactly"},
		{"min", "at least"},
		{"max", "at most"},
		{"range", "between"},
	}
	memoChoices = []choice{
		{"any", "optional"},
		{"present", "required"},
		{"absent", "not allowed"},
		{"text", "this text"},
		{"id", "this ID"},
		{"hash", "this hash"},
	}
)

var watchFields = [][2]string{
	{"/walletAddress", "walletAddress"}, {"/label", "label"}, {"/endpointId", "endpointId"},
	{"/assets", "assets"}, {"/amountRule/max", "amountTo"}, {"/amountRule/min", "amount"},
	{"/amountRule/amount", "amount"}, {"/amountRule", "amount"}, {"/memoRule/value", "memo"},
	{"/memoRule/type", "memo"}, {"/memoRule", "memo"},
	{"/senderAllowlist", "senders"}, {"/eventTypes", "eventTypes"},
	{"/expiresAt", "expiresAt"}, {"/once", "forOne"},
}

func (x *Console) watchForm(v *visit, f watchFormView) (page, error) {
	f.Title = "New watch"
	if f.ID != "" {
		f.Title = "Edit watch"
	}
	found, err := v.api.ListEndpoints(v.r.Context(), client.EndpointFilter{},
		client.Page{Limit: longestPage})
	f.Endpoints, f.More = found.Data, found.NextCursor != nil
	return page{"watch-form", f.Title, "watches", f}, err
}

func (x *Console) newWatch(v *visit) (page, error) {
	return x.watchForm(v, watchFormView{form: form{Values: url.Values{
		"assets": {"XLM"}, "eventTypes": {"payment.received"},
		"endpointId": {v.r.URL.Query().Get("endpointId")},
	}}})
}

func (x *Console) editWatch(v *visit) (page, error) {
	w, err := v.api.GetWatch(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	f := form{Values: valuesOf(w), ETag: w.ETag}
	return x.watchForm(v, watchFormView{form: f, ID: w.ID, Wallet: w.WalletAddress, Once: w.Once})
}

func valuesOf(w client.Watch) url.Values {
	values := url.Values{
		"label": {w.Label}, "endpointId": {w.EndpointID}, "eventTypes": w.EventTypes,
		"senders":    {strings.Join(w.SenderAllowlist, "\n")},
		"amountKind": {w.AmountRule.Kind}, "amount": {w.AmountRule.Amount + w.AmountRule.Min},
		"amountTo": {w.AmountRule.Max},
		"memoKind": {w.MemoRule.Kind}, "memo": {w.MemoRule.Value},
	}
	if w.MemoRule.Kind == "equals" {
		values.Set("memoKind", w.MemoRule.Type)
	}
	if w.ExpiresAt != nil {
		values.Set("expiresAt", w.ExpiresAt.UTC().Format("2006-01-02T15:04:05"))
	}
	var assets []string
	for _, a := range w.Assets {
		assets = append(assets, a.String())
	}
	values.Set("assets", strings.Join(assets, "\n"))
	return values
}

// watch returns the form's request to the API, without the fields that only new watches have.
func (f *form) watch() client.WatchCreate {
	w := client.WatchCreate{
		Label: f.Value("label"), EndpointID: f.text("endpointId"), Assets: []client.Asset{},
		AmountRule: f.amountRule(), MemoRule: f.memoRule(), SenderAllowlist: f.lines("senders"),
		EventTypes: f.Values["eventTypes"],
	}
	for _, line := range f.lines("assets") {
		a := client.Asset{}
		code, issuer, issued := strings.Cut(line, ":")
		if a.Code = strings.TrimSpace(code); issued {
			issuer = strings.TrimSpace(issuer)
			a.Issuer = &issuer
		}
		w.Assets = append(w.Assets, a)
	}
	if len(w.EventTypes) == 0 {
		f.fault("eventTypes", "choose at least one")
	}
	if text := f.text("expiresAt"); text != "" {
		at, err := readTime(text)
		if err != nil {
			f.fault("expiresAt", "must be a time like 2026-11-23T10:15, in UTC, or empty")
		}
		w.ExpiresAt = &at
	}
	return w
}

func (f *form) amountRule() *client.AmountRule {
	r := client.AmountRule{Kind: f.text("amountKind")}
	switch r.Kind {
	case "exact", "min", "max":
		r.Amount = f.text("amount")
	case "range":
		r.Min, r.Max = f.text("amount"), f.text("amountTo")
	}
	return &r
}

func (f *form) memoRule() *client.MemoRule {
	r := client.MemoRule{Kind: f.text("memoKind")}
	switch r.Kind {
	case "text", "id", "hash":
		r = client.MemoRule{Kind: "equals", Type: r.Kind, Value: f.Value("memo")}
	}
	return &r
}

func (x *Console) createWatch(v *visit) (string, *page, error) {
	f := v.posted()
	w := f.watch()
	w.WalletAddress, w.Once = f.text("walletAddress"), f.Has("forOne", "on")
	if !f.Wrong() {
		made, err := v.api.CreateWatch(v.r.Context(), w, v.once())
		if err == nil {
			return v.watchPath(made, "watched"), nil, nil
		}
		if err := f.refused(err, watchFields); err != nil {
			return "", nil, err
		}
	}
	p, err := x.watchForm(v, watchFormView{form: f})
	return "", v.again(p), err
}

// watchPath returns the URL of a watch after a change, including the API's warnings.
func (v *visit) watchPath(w client.Watch, done string) string {
	q := url.Values{"done": {done}}
	for _, warning := range w.Warnings {
		q.Add("warning", warning)
	}
	return v.console.at + "/watches/" + url.PathEscape(w.ID) + "?" + q.Encode()
}

func (x *Console) updateWatch(v *visit) (string, *page, error) {
	f, id := v.posted(), v.r.PathValue("id")
	w := f.watch()
	if !f.Wrong() {
		made, err := v.api.UpdateWatch(v.r.Context(), id, patchOf(w), v.once(), client.IfMatch(f.ETag))
		if err == nil {
			return v.watchPath(made, "rules"), nil, nil
		}
		if err := f.refused(err, watchFields); err != nil {
			return "", nil, err
		}
	}
	have, err := v.api.GetWatch(v.r.Context(), id)
	if err != nil {
		return "", nil, err
	}
	p, err := x.watchForm(v,
		watchFormView{form: f, ID: id, Wallet: have.WalletAddress, Once: have.Once})
	return "", v.again(p), err
}

// patchOf sets every field of the form, so that fields the user has cleared become empty.
func patchOf(w client.WatchCreate) client.Patch {
	return client.Patch{
		"label": w.Label, "endpointId": w.EndpointID, "assets": w.Assets,
		"amountRule": w.AmountRule, "memoRule": w.MemoRule, "eventTypes": w.EventTypes,
		"senderAllowlist": append([]string{}, w.SenderAllowlist...), "expiresAt": w.ExpiresAt,
	}
}

func (x *Console) watchToDelete(v *visit) (confirmView, error) {
	w, err := v.api.GetWatch(v.r.Context(), v.r.PathValue("id"))
	at := v.console.at + "/watches/" + url.PathEscape(w.ID)
	c := confirmView{
		Title: "Delete watch", Button: "Delete permanently", Action: at + "/delete", Back: at,
		Lines: []string{
			"The watch no longer matches new payments.",
			"Its existing events are kept and still delivered.",
		},
		Name: w.Label, Danger: true, Section: "watches",
	}
	if strings.TrimSpace(c.Name) != c.Name || c.Name == "" {
		c.Name = w.WalletAddress
	}
	return c, err
}
