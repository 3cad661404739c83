package api_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

type signingKeys struct {
	public  []api.PublicKey
	signs   bool
	private []domain.Secret
}

func (s *signingKeys) Published() []api.PublicKey { return s.public }
func (s *signingKeys) Signs() bool                { return s.signs }

func (s *signingKeys) Signers(int64) ([]domain.Secret, error) { return s.private, nil }

// EndpointSigners returns the deployment's keys for every endpoint.
func (s *signingKeys) EndpointSigners(string, int64) ([]domain.Secret, error) {
	return s.private, nil
}

func (s *signingKeys) EndpointPublished(id string) (list []api.PublicKey, err error) {
	for _, k := range s.public {
		list = append(list, api.PublicKey{ID: id + k.ID, Key: k.Key})
	}
	return list, nil
}

func wantFault(t *testing.T, got answer, want string) {
	t.Helper()
	p := decode[problem.Problem](t, got.body)
	if got.StatusCode != 422 || !slices.Equal(pointers(p), []string{want}) {
		t.Errorf("%d %v, want %s", got.StatusCode, pointers(p), want)
	}
}

// The signatures that an endpoint asks for must be stored and shown. Those that the deployment
// cannot make must be refused, unless the endpoint asked for them before.
func TestSignaturesOfAnEndpoint(t *testing.T) {
	keys := &signingKeys{}
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	k := w.newKey(account("a"), domain.Permissions()...)
	create := func(signatures string) answer {
		t.Helper()
		return w.call("POST", "/v1/endpoints", k,
			`{"url":"https://a.example/","signatures":`+signatures+`}`)
	}
	const both = `["standard-webhooks-ed25519","standard-webhooks"]`
	wantFault(t, create(both), "/signatures INVALID_VALUE")
	for sent, want := range map[string]string{
		`["v1"]`:              "/signatures/0 INVALID_VALUE",
		`"standard-webhooks"`: "/signatures INVALID_TYPE",
		`["standard-webhooks","standard-webhooks"]`: "/signatures/1 DUPLICATE",
	} {
		wantFault(t, create(sent), want)
	}

	keys.signs = true
	made := wantStatus(t, create(both), 201)
	path := "/v1/endpoints/" + in(t, made.body, "id").(string)
	shows := func(want any) {
		t.Helper()
		got := in(t, wantStatus(t, w.call("GET", path, k, ""), 200).body, "signatures")
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("shows %v, want %v", got, want)
		}
	}
	shows("[standard-webhooks standard-webhooks-ed25519]")
	patch := func(signatures string) answer {
		t.Helper()
		return w.call("PATCH", path, k, `{"signatures":`+signatures+`}`,
			"Content-Type", "application/merge-patch+json")
	}
	keys.signs = false
	wantStatus(t, patch(`["standard-webhooks-ed25519"]`), 200)
	shows("[standard-webhooks-ed25519]")
	wantStatus(t, patch(`null`), 200)
	shows(nil)
	wantFault(t, patch(both), "/signatures INVALID_VALUE")
	wantStatus(t, patch(`["standard-webhooks"]`), 200)
	shows("[standard-webhooks]")
	wantStatus(t, patch(`[]`), 200)
	shows(nil)
}

// Anyone may read and cache the public keys. An empty list must not be cached, because the first
// key signs at once. The key and its id are those of RFC 8037, appendix A.
func TestPublishedKeys(t *testing.T) {
	const x, kid = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
		"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
	keys := &signingKeys{}
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	read := func(caching string) string {
		t.Helper()
		got := wantStatus(t, w.call("GET", "/.well-known/jwks.json", "", ""), 200)
		if got.Header.Get("Content-Type") != "application/jwk-set+json" ||
			got.Header.Get("Cache-Control") != caching {
			t.Errorf("headers %v", got.Header)
		}
		return string(got.body)
	}
	if got := read("no-store"); got != `{"keys":[]}` {
		t.Errorf("without keys: %s", got)
	}
	public, err := base64.RawURLEncoding.DecodeString(x)
	if err != nil {
		t.Fatal(err)
	}
	keys.public = []api.PublicKey{{ID: kid, Key: ed25519.PublicKey(public)}}
	var set struct {
		Keys []map[string]string
	}
	if err := json.Unmarshal([]byte(read("public, max-age=3600")), &set); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "use": "sig", "alg": "EdDSA",
	}
	if len(set.Keys) != 1 || fmt.Sprint(set.Keys[0]) != fmt.Sprint(want) {
		t.Errorf("published %v, want %v", set.Keys, want)
	}
	e := domain.DeriveID(domain.EndpointPrefix, "e")
	got := wantStatus(t, w.call("GET", "/.well-known/endpoints/"+e+"/jwks.json", "", ""), 200)
	if !strings.Contains(string(got.body), `"kid":"`+e+kid) ||
		got.Header.Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("of an endpoint: %v %s", got.Header, got.body)
	}
	wantProblem(t, w.call("GET", "/.well-known/endpoints/x/jwks.json", "", ""), 404, "NOT_FOUND")
	w.restart(func(c *api.Config) { c.SigningKeys = nil })
	if got := read("no-store"); got != `{"keys":[]}` {
		t.Errorf("of a deployment without keys: %s", got)
	}
}

// After a rotation, an endpoint must publish both keys until the overlap ends. A repeat must not
// add a third one. The keys of other endpoints, and of ids without an endpoint, must not change.
func TestAnEndpointPublishesBothKeysOfARotation(t *testing.T) {
	keys := &signingKeys{public: []api.PublicKey{{ID: "-kid", Key: make([]byte, 32)}}, signs: true}
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	k := w.newKey(account("a"), domain.Permissions()...)
	e, other := w.newEndpoint(k), w.newEndpoint(k)
	path := "/v1/endpoints/" + e + "/rotate-signing-key"
	published := func(id string) (kids []string) {
		t.Helper()
		got := wantStatus(t, w.call("GET", "/.well-known/endpoints/"+id+"/jwks.json", "", ""), 200)
		for _, key := range in(t, got.body, "keys").([]any) {
			kids = append(kids, key.(map[string]any)["kid"].(string))
		}
		return kids
	}
	want := func(id string, names ...string) {
		t.Helper()
		if kids := published(id); strings.Join(kids, " ") != strings.Join(names, " ") {
			t.Errorf("%q are published, want %q", kids, names)
		}
	}
	want(e, e+"-kid")
	for range 2 {
		made := wantStatus(t, w.call("POST", path, k, "", "Idempotency-Key", "1"), 200)
		if in(t, made.body, "signingKeyRotatedAt") == nil {
			t.Errorf("%s", made.body)
		}
	}
	want(e, e+"/1-kid", e+"-kid")
	wantProblem(t, w.call("POST", path, k, ""), 409, "TOO_MANY_SECRETS")
	reader := w.newKey(account("a"), domain.PermissionRead)
	wantProblem(t, w.call("POST", path, reader, ""), 403, "MISSING_PERMISSION")
	w.now = w.now.Add(24 * time.Hour)
	want(e, e+"/1-kid")
	want(other, other+"-kid")
	absent := domain.DeriveID(domain.EndpointPrefix, "none")
	want(absent, absent+"-kid")
}
