package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// checkDetail reports a problem whose detail contains the text of none of its faults, because
// clients log the detail.
func checkDetail(t testing.TB, request *http.Request, body []byte) {
	t.Helper()
	var p problem.Problem
	if json.Unmarshal(body, &p) != nil || len(p.Errors) == 0 || p.Code == problem.CodeMalformedJSON {
		return // MALFORMED_JSON has the position first, and then the text
	}
	for _, fault := range p.Errors {
		place := strings.TrimPrefix(fault.Pointer+fault.Parameter, "/")
		text := strings.TrimPrefix(fault.Detail, place+" ")
		if strings.Contains(p.Detail, text) {
			return
		}
	}
	t.Errorf("%s %s: %q does not say what is wrong: %+v", request.Method, request.URL.Path, p.Detail,
		p.Errors)
}

func TestTheDetailOfAProblemSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	const secret = "SCZANGBA5YHTNYVVV4C3U252E2B6P6F5T3U6MM63WBSBZATAQI3EBTQ4"
	for _, c := range []struct{ method, path, body, code, detail string }{
		{"POST", "/v1/endpoints", `{}`, "VALIDATION_FAILED", "url: is required."},
		{
			"POST", "/v1/endpoints", `[]`, "VALIDATION_FAILED",
			"body: must be an object, got an array.",
		},
		{
			"POST", "/v1/endpoints", `{"url":"http://a.example/","x":1}`, "VALIDATION_FAILED",
			"x: is not a field here; the fields are url, description, headers, rateLimitPerSecond, " +
				"signatures, ordering, noticesTo. And 1 more: see errors.",
		},
		{
			"POST", "/v1/watches", `{"walletAddress":"` + wallet + `","endpointId":"` + e +
				`","assets":[{"code":"US D"}],"label":7}`, "VALIDATION_FAILED",
			"label: must be a string, got a number. And 1 more: see errors.",
		},
		{
			"POST", "/v1/watches", `{"label":7,"walletAddress":"` + secret + `"}`, "SECRET_KEY_REFUSED",
			"walletAddress: holds a secret key, which was not kept.",
		},
		{"PATCH", "/v1/endpoints/" + e, `{"description":7}`, "VALIDATION_FAILED",
			"description: must be a string, got a number."},
		{"POST", "/v1/endpoints/" + e + "/enable", `{"force":true}`, "VALIDATION_FAILED",
			"force: is not a field here: this operation takes no body."},
		{"POST", "/v1/endpoints/" + e + "/test", `{"type":"x"}`, "VALIDATION_FAILED",
			"type: must be test.ping or payment.received."},
		{"POST", "/v1/events/resend", `{"state":"x"}`, "VALIDATION_FAILED", "state: must be one of"},
		{"POST", "/v1/api-keys", `{"permissions":["x"]}`, "VALIDATION_FAILED",
			"permissions/0: must be read, write or operate."},
		{"GET", "/v1/endpoints?limit=0", "", "INVALID_PARAMETER",
			"limit: must be a number from 1 to 250."},
		{"GET", "/v1/endpoints?limit=0&x=1&y=2", "", "INVALID_PARAMETER",
			"x: is not a parameter here; the parameters are"},
		{"GET", "/v1/endpoints?%zz", "", "INVALID_PARAMETER", "query: is not well-formed"},
		{"GET", "/v1/coverage?x=1", "", "INVALID_PARAMETER",
			"x: is not a parameter here; there are none."},
		{"GET", "/v1/events?walletAddress=" + secret, "", "SECRET_KEY_REFUSED",
			"walletAddress: holds a secret key, which was not kept."},
	} {
		answered := w.call(c.method, c.path, k, c.body)
		p := decode[problem.Problem](t, answered.body)
		if p.Code != c.code || !strings.HasPrefix(p.Detail, c.detail) ||
			strings.Contains(p.Detail, secret) || !strings.HasSuffix(p.Detail, ".") {
			t.Errorf("%s %s %s was answered %s", c.method, c.path, c.body, answered.body)
		}
	}
}
