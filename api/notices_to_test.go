package api_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// noticesTo must be stored and shown, and null must remove it. It must be another endpoint of the
// same account.
func TestWhoIsToldOfAnEndpoint(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	stranger := w.newKey(account("b"), domain.Permissions()...)
	create := func(key, noticesTo string) answer {
		t.Helper()
		return w.call("POST", "/v1/endpoints", key,
			`{"url":"https://a.example/","noticesTo":`+noticesTo+`}`)
	}
	told := in(t, wantStatus(t, create(k, `null`), 201).body, "id").(string)
	others := in(t, wantStatus(t, create(stranger, `null`), 201).body, "id").(string)
	for sent, want := range map[string]string{
		`"ep_1"`:           "/noticesTo INVALID_VALUE",
		`["ep_1"]`:         "/noticesTo INVALID_TYPE",
		`"` + others + `"`: "/noticesTo ENDPOINT_NOT_FOUND",
	} {
		wantFault(t, create(k, sent), want)
	}
	made := in(t, wantStatus(t, create(k, `"`+told+`"`), 201).body, "id").(string)
	path := "/v1/endpoints/" + made
	for _, change := range []struct {
		patch string
		want  any
	}{
		{`{"description":"mine"}`, told},
		{`{"noticesTo":null}`, nil},
		{`{"noticesTo":"` + told + `"}`, told},
	} {
		wantStatus(t, w.call("PATCH", path, k, change.patch,
			"Content-Type", "application/merge-patch+json"), 200)
		got := in(t, wantStatus(t, w.call("GET", path, k, ""), 200).body, "noticesTo")
		if got != change.want {
			t.Errorf("%s: shows %v, want %v", change.patch, got, change.want)
		}
	}
	wantFault(t, w.call("PATCH", path, k, `{"noticesTo":"`+made+`"}`,
		"Content-Type", "application/merge-patch+json"), "/noticesTo INVALID_VALUE")
}
