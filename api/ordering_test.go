package api_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestTheOrderOfAnEndpoint(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	create := func(ordering string) answer {
		t.Helper()
		return w.call("POST", "/v1/endpoints", k,
			`{"url":"https://a.example/","ordering":`+ordering+`}`)
	}
	for sent, want := range map[string]string{
		`""`:         "/ordering INVALID_VALUE",
		`"Wallet"`:   "/ordering INVALID_VALUE",
		`"endpoint"`: "/ordering INVALID_VALUE",
		`["wallet"]`: "/ordering INVALID_TYPE",
		`true`:       "/ordering INVALID_TYPE",
	} {
		wantFault(t, create(sent), want)
	}
	shows := func(path string, want any) {
		t.Helper()
		got := in(t, wantStatus(t, w.call("GET", path, k, ""), 200).body, "ordering")
		if got != want {
			t.Errorf("shows %v, want %v", got, want)
		}
	}
	made := wantStatus(t, create(`null`), 201)
	shows("/v1/endpoints/"+in(t, made.body, "id").(string), nil)
	made = wantStatus(t, create(`"wallet"`), 201)
	path := "/v1/endpoints/" + in(t, made.body, "id").(string)
	shows(path, "wallet")
	for _, change := range []struct {
		patch string
		want  any
	}{
		{`{"description":"mine"}`, "wallet"},
		{`{"ordering":null}`, nil},
		{`{"ordering":"wallet"}`, "wallet"},
	} {
		wantStatus(t, w.call("PATCH", path, k, change.patch,
			"Content-Type", "application/merge-patch+json"), 200)
		shows(path, change.want)
	}
}
