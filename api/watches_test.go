package api_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
)

// newer is an engine with a rejection code that this version doesn't know.
type newer struct{}

func (newer) Submit(_ context.Context, c domain.Command) (domain.Result, error) {
	return domain.Result{
		CommandID: c.ID,
		BodyHash:  c.BodyHash,
		Answer:    domain.Answer{Rejection: &domain.Rejection{Code: "MOON_IN_THE_WRONG_HOUSE"}},
	}, nil
}

// older is an engine that cannot decode the command, not even its hash.
type older struct{}

func (older) Submit(_ context.Context, c domain.Command) (domain.Result, error) {
	rejection := domain.Rejection{Code: domain.CodeCommandUnreadable, Detail: "it was set aside"}
	return domain.Result{CommandID: c.ID, Answer: domain.Answer{Rejection: &rejection}}, nil
}

func seed(n byte) *keypair.Full {
	var raw [32]byte
	raw[0] = n
	k, err := keypair.FromRawSeed(raw)
	if err != nil {
		panic(err)
	}
	return k
}

// secretSeed returns a secret key that must not appear anywhere.
func (w *world) secretSeed() string { return seed(200).Seed() }

var (
	wallet   = seed(1).Address()
	issuer   = seed(2).Address()
	payer    = seed(3).Address()
	contract = strkey.MustEncode(strkey.VersionByteContract, make([]byte, 32))
)

func muxed(address string) string {
	var m strkey.MuxedAccount
	if err := m.SetAccountID(address); err != nil {
		panic(err)
	}
	m.SetID(7)
	s, err := m.Address()
	if err != nil {
		panic(err)
	}
	return s
}

// watchBody returns a valid watch with more members.
func watchBody(endpointID, more string) string {
	return fmt.Sprintf(`{"walletAddress":%q,"endpointId":%q,"assets":[{"code":"XLM","issuer":null}]%s}`,
		wallet, endpointID, more)
}

func (w *world) newEndpoint(apiKey string) string {
	w.t.Helper()
	got := w.call("POST", "/v1/endpoints", apiKey, `{"url":"https://a.example"}`)
	if got.StatusCode != http.StatusCreated {
		w.t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	return decode[endpointAnswer](w.t, got.body).ID
}

func TestCreateWatchWithTheLeast(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	got := w.call("POST", "/v1/watches", k, watchBody(e, ""))
	if got.StatusCode != 201 {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	id := decode[struct{ ID string }](t, got.body).ID
	want := fmt.Sprintf(`{"id":%q,"walletAddress":%q,"label":"","endpointId":%q,"status":"active","assets":[{"code":"XLM","issuer":null}],"amountRule":{"kind":"any"},"memoRule":{"kind":"any"},`+
		`"senderAllowlist":[],"eventTypes":["payment.received"],"backfill":null,"expiresAt":null,"once":false,"fulfilled":null,"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z","warnings":["ACCOUNT_NOT_FOUND"],"warningDetails":["The wallet's account does not exist yet: it must exist before it can receive."]}`,
		id, wallet, e)
	if string(got.body) != want || got.Header.Get("Location") != "/v1/watches/"+id {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	if w.watches[id].AccountID != account("a") || w.seen[id] != w.watches[id].Version {
		t.Errorf("%+v", w.watches[id])
	}
	nulls := w.call("POST", "/v1/watches", k,
		watchBody(e,
			`,"label":null,"amountRule":null,"memoRule":null,"senderAllowlist":null,"eventTypes":null`))
	want = strings.ReplaceAll(want, id, decode[struct{ ID string }](t, nulls.body).ID)
	want = strings.Replace(want, `"ACCOUNT_NOT_FOUND"`, `"ACCOUNT_NOT_FOUND","TWIN_WATCH:`+id+`"`, 1)
	want = strings.Replace(want, `receive."`, `receive.","The watch `+id+` has the same wallet and `+
		`endpoint: a payment that matches both creates two events."`, 1)
	if nulls.StatusCode != 201 || string(nulls.body) != want {
		t.Errorf("%d %s", nulls.StatusCode, nulls.body)
	}
}

func TestCreateWatchWithEverything(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	w.wallets[wallet] = []domain.Asset{{Code: "EUR", Issuer: issuer}}
	body := fmt.Sprintf(`{"walletAddress":%q,"label":"Café <1>","endpointId":%q,"assets":[{"code":"XLM"},{"code":"EUR","issuer":%q},{"code":"eur","issuer":%q}],`+
		`"amountRule":{"kind":"range","min":"0.5","max":"00010","amount":null},"memoRule":{"kind":"equals","type":"hash","value":%q},"senderAllowlist":[%q,%q],"eventTypes":["payment.rejected","payment.received"]}`,
		wallet, e, issuer, issuer, base64.StdEncoding.EncodeToString(make([]byte, 32)), payer, contract)
	got := w.call("POST", "/v1/watches", k, body)
	id := decode[struct{ ID string }](t, got.body).ID
	want := fmt.Sprintf(`{"id":%q,"walletAddress":%q,"label":"Café <1>","endpointId":%q,"status":"active","assets":[{"code":"XLM","issuer":null},{"code":"EUR","issuer":%q},{"code":"eur","issuer":%q}],`+
		`"amountRule":{"kind":"range","min":"0.5000000","max":"10.0000000"},"memoRule":{"kind":"equals","value":%q,"type":"hash"},`+
		`"senderAllowlist":[%q,%q],"eventTypes":["payment.rejected","payment.received"],"backfill":null,"expiresAt":null,"once":false,"fulfilled":null,"createdAt":"2026-11-21T10:15:30.123Z","updatedAt":"2026-11-21T10:15:30.123Z","warnings":["NO_TRUSTLINE:eur"],"warningDetails":["The wallet has no trustline for eur yet, and cannot receive it."]}`,
		id, wallet, e, issuer, issuer, strings.Repeat("0", 64), payer, contract)
	if got.StatusCode != 201 || string(got.body) != want {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	rules := w.watches[id].Rules
	if rules.Amount != (domain.AmountRule{
		Kind:       domain.AmountRange,
		MinStroops: 5_000_000,
		MaxStroops: 100_000_000,
	}) || len(rules.Memo.Value.Raw) != 32 {
		t.Errorf("%+v", rules)
	}
}

func TestWatchRulesThatAreTaken(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	for more, want := range map[string]string{
		`"amountRule":{"kind":"any"}`:                                              `"amountRule":{"kind":"any"}`,
		`"amountRule":{"kind":"exact","amount":"1"}`:                               `"amountRule":{"kind":"exact","amount":"1.0000000"}`,
		`"amountRule":{"kind":"min","amount":"0.0000001"}`:                         `"amountRule":{"kind":"min","amount":"0.0000001"}`,
		`"amountRule":{"kind":"max","amount":"922337203685.4775807"}`:              `"amountRule":{"kind":"max","amount":"922337203685.4775807"}`,
		`"amountRule":{"kind":"range","min":"2","max":"2.0"}`:                      `"amountRule":{"kind":"range","min":"2.0000000","max":"2.0000000"}`,
		`"memoRule":{"kind":"present"}`:                                            `"memoRule":{"kind":"present"}`,
		`"memoRule":{"kind":"absent","value":null,"type":null}`:                    `"memoRule":{"kind":"absent"}`,
		`"memoRule":{"kind":"equals","type":"id","value":"18446744073709551615"}`:  `"memoRule":{"kind":"equals","value":"18446744073709551615","type":"id"}`,
		`"memoRule":{"kind":"equals","type":"text","value":"28 bytes: äöüäöüäöü"}`: `"memoRule":{"kind":"equals","value":"28 bytes: äöüäöüäöü","type":"text"}`,
		`"memoRule":{"kind":"equals","type":"hash","value":"` + strings.Repeat("AB",
			32) + `"}`: `"memoRule":{"kind":"equals","value":"` + strings.Repeat("ab",
			32) + `","type":"hash"}`,
		`"senderAllowlist":[]`:                           `"senderAllowlist":[]`,
		`"expiresAt":"2026-11-22T11:00:00Z","once":true`: `"expiresAt":"2026-11-22T11:00:00.000Z","once":true,"fulfilled":null`,
		`"expiresAt":null,"once":null`:                   `"expiresAt":null,"once":false`,
		`"eventTypes":["payment.rejected"]`:              `"eventTypes":["payment.rejected"]`,
	} {
		if got := w.call("POST", "/v1/watches", k, watchBody(e, ","+more)); got.StatusCode != 201 ||
			!strings.Contains(string(got.body), want) {
			t.Errorf("%s: %d %s", more, got.StatusCode, got.body)
		}
	}
}

// fieldFaults lists every fault of every field: the value that is put into a valid watch, and the
// expected faults.
var fieldFaults = []struct {
	field, value string
	faults       []string
}{
	{"expiresAt", `"tomorrow"`, []string{"/expiresAt INVALID_TIME"}},
	{"expiresAt", `7`, []string{"/expiresAt INVALID_TYPE"}},
	{"once", `"yes"`, []string{"/once INVALID_TYPE"}},
	{"walletAddress", `null`, []string{"/walletAddress REQUIRED"}},
	{"walletAddress", `7`, []string{"/walletAddress INVALID_TYPE"}},
	{"walletAddress", `""`, []string{"/walletAddress INVALID_ADDRESS"}},
	{"walletAddress", `"` + wallet[:55] + `"`, []string{"/walletAddress INVALID_ADDRESS"}},
	{"walletAddress", `"` + wallet[:54] + `AA"`, []string{"/walletAddress INVALID_ADDRESS"}},
	{"walletAddress", `" ` + wallet + `"`, []string{"/walletAddress INVALID_ADDRESS"}},
	{"walletAddress", `"` + strings.ToLower(wallet) + `"`, []string{"/walletAddress INVALID_ADDRESS"}},
	{"walletAddress", `"` + muxed(wallet) + `"`, []string{"/walletAddress MUXED_ADDRESS_REFUSED"}},
	{"walletAddress", `"` + contract + `"`, []string{"/walletAddress CONTRACT_ADDRESS_REFUSED"}},
	{"walletAddress", `"` + seed(200).Seed() + `"`, []string{"/walletAddress SECRET_KEY_REFUSED"}},
	{"walletAddress", `"Smistyped"`, []string{"/walletAddress SECRET_KEY_REFUSED"}},
	{"walletAddress", `"` + strings.Repeat("G", 129) + `"`, []string{"/walletAddress TOO_LONG"}},

	{"label", `1`, []string{"/label INVALID_TYPE"}},
	{"label", `"` + strings.Repeat("x", 257) + `"`, []string{"/label TOO_LONG"}},
	{"label", `"my key: ` + seed(200).Seed() + `"`, []string{"/label SECRET_REFUSED"}},

	{"endpointId", `null`, []string{"/endpointId REQUIRED"}},
	{"endpointId", `{}`, []string{"/endpointId INVALID_TYPE"}},
	{"endpointId", `"ep_1"`, []string{"/endpointId INVALID_VALUE"}},
	{
		"endpointId", `"` + domain.DeriveID(domain.EndpointPrefix, "nowhere") + `"`,
		[]string{"/endpointId ENDPOINT_NOT_FOUND"},
	},

	{"assets", `null`, []string{"/assets REQUIRED"}},
	{"assets", `{}`, []string{"/assets INVALID_TYPE"}},
	{"assets", `[]`, []string{"/assets EMPTY"}},
	{
		"assets", `[` + strings.Repeat(`{"code":"XLM"},`, 100) + `{"code":"XLM"}]`,
		[]string{"/assets TOO_MANY"},
	},
	{
		"assets", `["XLM",null,{}]`,
		[]string{"/assets/0 INVALID_TYPE", "/assets/1 INVALID_TYPE", "/assets/2/code REQUIRED"},
	},
	{"assets", `[{"code":"XLM"},{"code":"XLM","issuer":null}]`, []string{"/assets/1 DUPLICATE"}},
	{"assets", `[{"code":"XLM","issuer":"` + issuer + `"}]`, []string{"/assets/0/issuer NOT_ALLOWED"}},
	{
		"assets", `[{"code":"EUR"},{"code":"EUR","issuer":null}]`,
		[]string{"/assets/0/issuer REQUIRED", "/assets/1/issuer REQUIRED"},
	},
	{
		"assets",
		`[{"code":"EUR","issuer":"` + issuer + `"},{"code":"EUR","issuer":"` + issuer + `"}]`,
		[]string{"/assets/1 DUPLICATE"},
	},
	{"assets", `[{"code":"","issuer":"` + issuer + `"}]`, []string{"/assets/0/code INVALID_VALUE"}},
	{
		"assets", `[{"code":"ABCDEFGHIJKLM","issuer":"` + issuer + `"}]`,
		[]string{"/assets/0/code INVALID_VALUE"},
	},
	{"assets", `[{"code":"E-R","issuer":"` + issuer + `"}]`, []string{"/assets/0/code INVALID_VALUE"}},
	{"assets", `[{"code":"ÄÖ","issuer":"` + issuer + `"}]`, []string{"/assets/0/code INVALID_VALUE"}},
	{
		"assets", `[{"code":5,"issuer":5,"name":"x"}]`,
		[]string{
			"/assets/0/code INVALID_TYPE", "/assets/0/issuer INVALID_TYPE",
			"/assets/0/name UNKNOWN_FIELD",
		},
	},
	{
		"assets", `[{"code":"EUR","issuer":"` + muxed(issuer) + `"}]`,
		[]string{"/assets/0/issuer MUXED_ADDRESS_REFUSED"},
	},
	{
		"assets", `[{"code":"EUR","issuer":"` + contract + `"}]`,
		[]string{"/assets/0/issuer CONTRACT_ADDRESS_REFUSED"},
	},
	{
		"assets", `[{"code":"EUR","issuer":"` + seed(200).Seed() + `"}]`,
		[]string{"/assets/0/issuer SECRET_KEY_REFUSED"},
	},
	{"assets", `[{"code":"EUR","issuer":"nobody"}]`, []string{"/assets/0/issuer INVALID_ADDRESS"}},

	{"amountRule", `"any"`, []string{"/amountRule INVALID_TYPE"}},
	{"amountRule", `{}`, []string{"/amountRule/kind REQUIRED"}},
	{
		"walletAddress", `"` + strings.Repeat(seed(200).Seed(), 5) + `"`,
		[]string{"/walletAddress SECRET_KEY_REFUSED"},
	},
	{"amountRule", `{"kind":1}`, []string{"/amountRule/kind INVALID_TYPE"}},
	{"amountRule", `{"kind":"most"}`, []string{"/amountRule/kind INVALID_VALUE"}},
	{"amountRule", `{"kind":"any","amount":"1"}`, []string{"/amountRule/amount NOT_ALLOWED"}},
	{
		"amountRule", `{"kind":"min","min":"1"}`,
		[]string{"/amountRule/amount REQUIRED", "/amountRule/min NOT_ALLOWED"},
	},
	{
		"amountRule", `{"kind":"range","amount":"1","value":"2"}`,
		[]string{
			"/amountRule/amount NOT_ALLOWED", "/amountRule/max REQUIRED",
			"/amountRule/min REQUIRED", "/amountRule/value UNKNOWN_FIELD",
		},
	},
	{
		"amountRule", `{"kind":"range","min":"2","max":"1.9999999"}`,
		[]string{"/amountRule/min RANGE_IS_EMPTY"},
	},
	{"amountRule", `{"kind":"exact","amount":1.5}`, []string{"/amountRule/amount INVALID_TYPE"}},
	{"amountRule", `{"kind":"exact","amount":"0"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":"-1"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":"+1"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":"1e3"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":"1,5"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":" 1"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":"1."}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":".5"}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{"amountRule", `{"kind":"exact","amount":""}`, []string{"/amountRule/amount INVALID_AMOUNT"}},
	{
		"amountRule", `{"kind":"exact","amount":"0.00000001"}`,
		[]string{"/amountRule/amount INVALID_AMOUNT"},
	},
	{
		"amountRule", `{"kind":"exact","amount":"1.00000000"}`,
		[]string{"/amountRule/amount INVALID_AMOUNT"},
	},
	{
		"amountRule", `{"kind":"exact","amount":"922337203685.4775808"}`,
		[]string{"/amountRule/amount INVALID_AMOUNT"},
	},
	{
		"amountRule", `{"kind":"exact","amount":"99999999999999999999"}`,
		[]string{"/amountRule/amount INVALID_AMOUNT"},
	},

	{"memoRule", `[]`, []string{"/memoRule INVALID_TYPE"}},
	{"memoRule", `{"kind":"like"}`, []string{"/memoRule/kind INVALID_VALUE"}},
	{
		"memoRule", `{"kind":"any","value":"x","type":"text"}`,
		[]string{"/memoRule/type NOT_ALLOWED", "/memoRule/value NOT_ALLOWED"},
	},
	{"memoRule", `{"kind":"equals"}`, []string{"/memoRule/type REQUIRED", "/memoRule/value REQUIRED"}},
	{
		"memoRule", `{"kind":"equals","type":"return","value":"x"}`,
		[]string{"/memoRule/type INVALID_VALUE"},
	},
	{"memoRule", `{"kind":"equals","type":"","value":"x"}`, []string{"/memoRule/type INVALID_VALUE"}},
	{"memoRule", `{"kind":"equals","type":"id","value":5}`, []string{"/memoRule/value INVALID_TYPE"}},
	{
		"memoRule", `{"kind":"equals","type":"id","value":"007"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule", `{"kind":"equals","type":"id","value":"-1"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule", `{"kind":"equals","type":"id","value":"18446744073709551616"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule", `{"kind":"equals","type":"text","value":""}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule",
		`{"kind":"equals","type":"text","value":"ääääääääääääääa"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule", `{"kind":"equals","type":"hash","value":"abcd"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule",
		`{"kind":"equals","type":"hash","value":"` + strings.Repeat("zz", 32) + `"}`,
		[]string{"/memoRule/value INVALID_MEMO"},
	},
	{
		"memoRule", `{"kind":"equals","type":"text","value":"` + seed(200).Seed() + `"}`,
		[]string{"/memoRule/value SECRET_KEY_REFUSED"},
	},

	{"senderAllowlist", `"all"`, []string{"/senderAllowlist INVALID_TYPE"}},
	{
		"senderAllowlist", `[null,1]`,
		[]string{"/senderAllowlist/0 INVALID_TYPE", "/senderAllowlist/1 INVALID_TYPE"},
	},
	{
		"senderAllowlist", `["` + payer + `","` + contract + `","` + payer + `"]`,
		[]string{"/senderAllowlist/2 DUPLICATE"},
	},
	{
		"senderAllowlist", `["` + muxed(payer) + `"]`,
		[]string{"/senderAllowlist/0 MUXED_ADDRESS_REFUSED"},
	},
	{
		"senderAllowlist", `["` + seed(200).Seed() + `","G"]`,
		[]string{"/senderAllowlist/0 SECRET_KEY_REFUSED", "/senderAllowlist/1 INVALID_ADDRESS"},
	},
	{
		"senderAllowlist", `[` + strings.Repeat(`"`+payer+`",`, 1000) + `"` + payer + `"]`,
		[]string{"/senderAllowlist TOO_MANY"},
	},

	{"eventTypes", `"payment.received"`, []string{"/eventTypes INVALID_TYPE"}},
	{"eventTypes", `[]`, []string{"/eventTypes EMPTY"}},
	{
		"eventTypes", `["test.ping",1,null]`,
		[]string{
			"/eventTypes/0 INVALID_VALUE", "/eventTypes/1 INVALID_TYPE",
			"/eventTypes/2 INVALID_TYPE",
		},
	},
	{"eventTypes", `["payment.received","payment.received"]`, []string{"/eventTypes/1 DUPLICATE"}},
	{"eventTypes", `[1,2,3,4,5,6,7,8,9,10,11]`, []string{"/eventTypes TOO_MANY"}},

	{"state", `"on"`, []string{"/state UNKNOWN_FIELD"}},
	{"id", `null`, []string{"/id UNKNOWN_FIELD"}},
	{"a\nb", `1`, []string{"/a\nb UNKNOWN_FIELD"}},
}

func TestEachFaultOfEachWatchField(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	for _, c := range fieldFaults {
		body := withField(t, watchBody(e, ""), c.field, c.value)
		code := "VALIDATION_FAILED"
		if slices.ContainsFunc(c.faults,
			func(f string) bool { return strings.HasSuffix(f, "SECRET_KEY_REFUSED") }) {
			code = "SECRET_KEY_REFUSED"
		}
		p := wantProblem(t, w.call("POST", "/v1/watches", k, body), 422, code)
		if !slices.Equal(pointers(p), c.faults) {
			t.Errorf("%s %.90s: %v, want %v", c.field, c.value, pointers(p), c.faults)
		}
		for _, f := range p.Errors {
			if len(f.Detail) < 10 {
				t.Errorf("%s: %q does not help", f.Pointer, f.Detail)
			}
		}
	}
	if len(w.watches) != 0 {
		t.Error("a refused watch was saved")
	}
}

func withField(t testing.TB, body, field, value string) string {
	t.Helper()
	members := decode[map[string]json.RawMessage](t, []byte(body))
	members[field] = json.RawMessage(value)
	changed, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(changed)
}

func TestAllFaultsAreReportedAtOnce(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	p := wantProblem(t,
		w.call("POST", "/v1/watches", k,
			`{"label":3,"assets":[],"amountRule":{"kind":"min"},"memoRule":{"kind":"equals","type":"id","value":"x"},"senderAllowlist":["?"],"eventTypes":[],"foo":1}`),
		422, "VALIDATION_FAILED")
	want := []string{
		"/amountRule/amount REQUIRED", "/assets EMPTY", "/endpointId REQUIRED", "/eventTypes EMPTY",
		"/foo UNKNOWN_FIELD", "/label INVALID_TYPE",
		"/memoRule/value INVALID_MEMO", "/senderAllowlist/0 INVALID_ADDRESS", "/walletAddress REQUIRED",
	}
	if !slices.Equal(pointers(p), want) {
		t.Errorf("%q", pointers(p))
	}
}

func TestAMuxedAddressIsRefusedWithItsAccount(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	got := w.call("POST", "/v1/watches", k,
		fmt.Sprintf(`{"walletAddress":%q,"senderAllowlist":[%q]}`, muxed(wallet), muxed(payer)))
	if text := string(got.body); !strings.Contains(text, wallet) || !strings.Contains(text, payer) {
		t.Error(text)
	}
}

func TestAnotherAccountsEndpointIsUnknown(t *testing.T) {
	w := newWorld(t)
	theirs := w.newEndpoint(w.newKey(account("b"), domain.PermissionWrite))
	ours := w.newKey(account("a"), domain.PermissionWrite)
	p := wantProblem(t, w.call("POST", "/v1/watches", ours, watchBody(theirs, "")), 422,
		"VALIDATION_FAILED")
	nowhere := wantProblem(t,
		w.call("POST", "/v1/watches", ours, watchBody(domain.DeriveID(domain.EndpointPrefix, "no"), "")),
		422, "VALIDATION_FAILED")
	if !slices.Equal(p.Errors, nowhere.Errors) || p.Errors[0].Pointer != "/endpointId" {
		t.Errorf("%v differs from %v", p.Errors, nowhere.Errors)
	}
}

// A secret key anywhere in a request must not appear in a response, a header, a log line or a
// command.
func TestASecretKeyShowsUpNowhere(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	secret := w.secretSeed()
	quoted := `"` + secret + `"`
	bodies := []string{
		quoted, `{` + quoted + `:1}`, `{` + quoted + `:1,` + quoted + `:2}`,
		`{"walletAddress":` + secret + `}`, `{"walletAddress":"` + secret, quoted + `x`,
		strings.Repeat(`[`, 10) + quoted, `{"walletAddress":"` + secret + ` "}`,
		`{"walletAddress":` + strings.ToLower(quoted) + `}`,
		`{"walletAddress":[` + quoted + `]}`, `{"walletAddress":{` + quoted + `:` + quoted + `}}`,
	}
	for _, field := range []string{
		"walletAddress", "label", "endpointId", "assets", "amountRule", "memoRule",
		"senderAllowlist", "eventTypes", "other",
	} {
		for _, value := range []string{
			quoted, `[` + quoted + `]`, `{"kind":` + quoted + `}`,
			`{"kind":"equals","type":"text","value":` + quoted + `}`,
			`{"kind":"exact","amount":` + quoted + `}`,
			`[{"code":` + quoted + `,"issuer":` + quoted + `}]`,
		} {
			bodies = append(bodies, withField(t, watchBody(e, ""), field, value))
		}
	}
	check := func(got answer, what string) {
		t.Helper()
		text := strings.ToUpper(fmt.Sprint(got.Header) + string(got.body))
		if strings.Contains(text, secret) || got.StatusCode < 400 || got.StatusCode > 499 {
			t.Errorf("%d to %s: %s", got.StatusCode, what, got.body)
		}
	}
	for _, body := range bodies {
		check(w.call("POST", "/v1/watches", k, body), body)
		check(w.call("POST", "/v1/endpoints", k, body), body)
	}
	check(w.call("POST", "/v1/endpoints", k, `{"url":"https://a.example","description":`+quoted+`}`),
		"a description")
	check(w.call("GET", "/v1/events/"+secret+"?q="+secret, k, "", "X-Request-Id", secret), "a path")
	check(w.call("GET", "/"+secret, k, ""), "an unknown path")
	check(w.call("POST", "/v1/watches", secret, "{}"), "a bearer key")
	check(w.call(secret, "/v1/watches", k, "{}"), "a method")
	check(w.call("POST", "/v1/watches", k, "{}", "Content-Type", secret), "a content type")
	if strings.Contains(strings.ToUpper(w.log.String()), secret) {
		t.Error("the log holds the secret key")
	}
	if len(w.watches) != 0 || len(w.answers) != 1 {
		t.Error("a command was made of a secret key")
	}
}

func FuzzWatchBody(f *testing.F) {
	// otherwise there would be millions of lines
	w := newWorld(f, func(c *api.Config) { c.Log = slog.New(slog.DiscardHandler) })
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	f.Add([]byte(watchBody(e, "")))
	for _, c := range fieldFaults {
		f.Add([]byte(withField(f, watchBody(e, ""), c.field, c.value)))
	}
	f.Add([]byte("{\"walletAddress\":\"\xff\"}"))
	f.Add([]byte(`{"a":1,"a":2}`))
	handler := w.api
	f.Fuzz(func(t *testing.T, body []byte) {
		request := httptest.NewRequest("POST", "/v1/watches", strings.NewReader(string(body)))
		request.Header.Set("Authorization", "Bearer "+k)
		request.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, request)
		if out.Code >= 500 {
			t.Fatalf("%d %s", out.Code, out.Body)
		}
		checkAgainstOpenAPI(t, request, string(body), out.Result(), out.Body.Bytes())
	})
}

// BenchmarkCreateWatch measures the API itself: authentication, reading, checks, command and
// response. Everything behind the API is in memory.
func BenchmarkCreateWatch(b *testing.B) {
	w := newWorld(b, func(c *api.Config) { c.Log = slog.New(slog.DiscardHandler) })
	k := w.newKey(account("a"), domain.PermissionWrite)
	body := watchBody(w.newEndpoint(k),
		`,"amountRule":{"kind":"range","min":"1","max":"2"},"senderAllowlist":["`+payer+`"]`)
	b.ReportAllocs()
	for b.Loop() {
		request := httptest.NewRequest("POST", "/v1/watches", strings.NewReader(body))
		request.Header.Set("Authorization", "Bearer "+k)
		request.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		if w.api.ServeHTTP(out, request); out.Code != http.StatusCreated {
			b.Fatalf("%d %s", out.Code, out.Body)
		}
	}
}

func TestAWalletThatCannotBeLookedUpIsWatched(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	node := newWorld(t, func(c *api.Config) { c.Commands, c.Directory, c.Wallets = w, w, unknowing{} })
	made := wantStatus(t, node.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), "")), 201)
	if got := fmt.Sprint(in(t, made.body, "warnings")); got != "[LOOKUP_FAILED]" {
		t.Errorf("%s", made.body)
	}
	path := "/v1/watches/" + in(t, made.body, "id").(string)
	changed := wantStatus(t, node.call("PATCH", path, k, `{"label":"x"}`), 200)
	if got := fmt.Sprint(in(t, changed.body, "warnings")); got != "[LOOKUP_FAILED]" {
		t.Errorf("%s", changed.body)
	}
	wantStatus(t, node.call("GET", path, k, ""), 200)
}

type unknowing struct{}

func (unknowing) Warnings(context.Context, string, []domain.Asset) []string {
	return []string{"LOOKUP_FAILED"}
}

// A watch for one payment must not report rejections, and must stay a watch for one payment.
func TestAWatchForOnePaymentIsForReceivedPayments(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	both := `,"once":true,"eventTypes":["payment.received","payment.rejected"]`
	got := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, both)), 422)
	if !strings.Contains(string(got.body), `"pointer":"/eventTypes","code":"NOT_ALLOWED"`) {
		t.Errorf("%s", got.body)
	}
	made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, `,"once":true`)), 201)
	path := "/v1/watches/" + in(t, made.body, "id").(string)
	for body, fault := range map[string]string{
		`{"once":false}`:                      `"pointer":"/once","code":"CANNOT_CHANGE"`,
		`{"eventTypes":["payment.rejected"]}`: `"pointer":"/eventTypes","code":"NOT_ALLOWED"`,
	} {
		got := wantStatus(t, w.call("PATCH", path, k, body), 422)
		if !strings.Contains(string(got.body), fault) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	wantStatus(t, w.call("PATCH", path, k, `{"once":true,"label":"x"}`), 200)
}

// Lists and the watch itself must show whether it is active, expired or fulfilled.
func TestWatchesThatAreOver(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	expiry := w.now.Add(time.Hour).UTC().Format(time.RFC3339Nano)
	made := wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(e, `,"once":true,"expiresAt":"`+expiry+`"`)), 201)
	id := in(t, made.body, "id").(string)
	shows := func(status string) {
		t.Helper()
		one := wantStatus(t, w.call("GET", "/v1/watches/"+id, k, ""), 200)
		listed := in(t, wantStatus(t, w.call("GET", "/v1/watches", k, ""), 200).body, "data")
		if in(t, one.body, "status") != status || listed.([]any)[0].(map[string]any)["status"] != status {
			t.Errorf("not %s: %s, %v", status, one.body, listed)
		}
	}
	shows("active")
	w.now = w.now.Add(time.Hour)
	shows("active")
	w.now = w.now.Add(time.Second)
	shows("expired")
	wantStatus(t, w.call("PATCH", "/v1/watches/"+id, k, `{"expiresAt":null}`), 200)
	shows("active")
	w.mu.Lock()
	watch := w.watches[id]
	watch.Fulfilled = domain.Fulfilment{PaymentID: "1-2", Ledger: 9, ClosedAtMillis: 1000}
	w.watches[id] = watch
	w.mu.Unlock()
	shows("fulfilled")
	one := w.call("GET", "/v1/watches/"+id, k, "")
	want := fmt.Sprintf(`"fulfilled":{"paymentId":"1-2","eventId":%q,"ledger":9,`+
		`"ledgerClosedAt":"1970-01-01T00:00:01.000Z"}`, domain.EventID(id, "1-2"))
	if !strings.Contains(string(one.body), want) {
		t.Errorf("%s", one.body)
	}
}
