package api_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

type checkedWatch struct {
	EventType    *string
	Verification struct {
		Outcome string
		Reasons []string
	}
	NotReported []string
}

// The check must use the same rules that decide about payments on the network.
func TestAWatchSaysWhatItWouldMakeOfAPayment(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	made := func(more string) string {
		return in(t, wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, more)), 201).body,
			"id").(string)
	}
	strict := made(`,"amountRule":{"kind":"range","min":"10","max":"20"},"memoRule":{"kind":` +
		`"equals",` +
		`"type":"id","value":"1042"},"senderAllowlist":["` + payer + `"]`)
	all := made(`,"amountRule":{"kind":"min","amount":"10"},` +
		`"eventTypes":["payment.received","payment.rejected"]`)
	ending := made(`,"expiresAt":"` + w.now.Add(time.Minute).UTC().Format(time.RFC3339) + `"`)
	right := "amount=12.5&asset=XLM&memo=1042&memoType=id&sender=" + payer
	facts := w.facts
	ask := func(watch, query string) checkedWatch {
		t.Helper()
		return decode[checkedWatch](t,
			wantStatus(t, w.call("GET", "/v1/watches/"+watch+"/check?"+query, k, ""), 200).body)
	}
	for _, c := range []struct {
		watch, query, event string
		reasons, silent     []string
	}{
		{strict, right, "payment.received", []string{}, []string{}},
		{strict, "amount=9.9999999&asset=XLM", "", []string{
			"AMOUNT_TOO_LOW", "MEMO_REQUIRED", "SENDER_NOT_ALLOWED",
		}, []string{"NOT_REPORTED"}},
		{strict, "amount=20.0000001&memo=1042&memoType=text&asset=USDC:" + issuer, "", []string{
			"ASSET_NOT_ACCEPTED", "AMOUNT_TOO_HIGH", "MEMO_TYPE_MISMATCH", "SENDER_NOT_ALLOWED",
		}, []string{"NOT_REPORTED"}},
		{all, "amount=10&asset=XLM", "payment.received", []string{}, []string{}},
		{all, "amount=1&asset=XLM", "payment.rejected", []string{"AMOUNT_TOO_LOW"}, []string{}},
	} {
		got := ask(c.watch, c.query)
		event := ""
		if got.EventType != nil {
			event = *got.EventType
		}
		if event != c.event || !slices.Equal(got.Verification.Reasons, c.reasons) ||
			!slices.Equal(got.NotReported, c.silent) ||
			(got.Verification.Outcome == "VERIFIED") != (len(c.reasons) == 0) {
			t.Errorf("%s: %+v, %q", c.query, got, event)
		}
	}
	w.now = w.now.Add(time.Hour)
	if got := ask(ending, "amount=1&asset=XLM"); !slices.Equal(got.NotReported, []string{"EXPIRED"}) {
		t.Errorf("expired: %+v", got)
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+e, k, ""), 200)
	if got := ask(all, "amount=10&asset=XLM"); got.EventType != nil ||
		!slices.Equal(got.NotReported, []string{"ENDPOINT_DELETED"}) {
		t.Errorf("without its endpoint: %+v", got)
	}
}

func TestPaymentsThatNobodyCouldMakeAreRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	watch := in(t, w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), "")).body,
		"id").(string)
	for query, parameter := range map[string]string{
		"asset=XLM":                                 "amount REQUIRED",
		"amount=1":                                  "asset REQUIRED",
		"amount=0&asset=XLM":                        "amount INVALID_AMOUNT",
		"amount=0.00000001&asset=XLM":               "amount INVALID_AMOUNT",
		"amount=1&asset=XLM&memo=x":                 "memoType REQUIRED",
		"amount=1&asset=XLM&memoType=text":          "memoType REQUIRED",
		"amount=1&asset=XLM&memo=x&memoType=id":     "memo INVALID_MEMO",
		"amount=1&asset=XLM&memo=x&memoType=return": "memoType INVALID_VALUE",
		"amount=1&asset=USDC":                       "asset INVALID_VALUE",
		"amount=1&asset=XLM&sender=" + wallet:       "sender INVALID_VALUE",
	} {
		p := wantProblem(t, w.call("GET", "/v1/watches/"+watch+"/check?"+query, k, ""), 400,
			"INVALID_PARAMETER")
		if len(p.Errors) != 1 || p.Errors[0].Parameter+" "+p.Errors[0].Code != parameter {
			t.Errorf("%s: %+v", query, p.Errors)
		}
	}
	query := "/check?amount=1&asset=XLM&sender=" + url.QueryEscape(w.secretSeed())
	wantProblem(t, w.call("GET", "/v1/watches/"+watch+query, k, ""), 422, "SECRET_KEY_REFUSED")
}
