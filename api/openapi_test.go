package api_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit/openapicheck"
	"github.com/lumenhook/lumenhook/schemas"
)

var loadOpenAPI = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(schemas.OpenAPI)
})

// checkAgainstOpenAPI compares a request and its response with the document.
func checkAgainstOpenAPI(
	t testing.TB, request *http.Request, body string, response *http.Response, got []byte,
) {
	t.Helper()
	if err := openapicheck.Compare(request, body, response, got); err != nil {
		t.Errorf("%s %s answered %d: %v\nsent %s\ngot  %s", request.Method, request.URL.Path,
			response.StatusCode, err, body, got)
	}
}

// The comparison must be able to fail. Otherwise the other tests would prove nothing.
func TestDeparturesFromOpenAPIAreFound(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionWrite)
	e := w.newEndpoint(k)
	body := watchBody(e, "")
	got := w.call("POST", "/v1/watches", k, body)
	for _, change := range []struct{ from, to string }{
		{`"label":""`, `"label":null`},
		{`"label":""`, `"lable":""`},
		{`"label":""`, `"label":"","more":1`},
		{`"kind":"any"`, `"kind":"exact"`},
		{`"kind":"any"`, `"kind":"any","amount":"1.0000000"`},
		{`"issuer":null`, `"issuer":"x"`},
		{`.123Z`, `Z`},
		{`"payment.received"`, `"test.ping"`},
	} {
		changed := strings.Replace(string(got.body), change.from, change.to, 1)
		if changed == string(got.body) ||
			openapicheck.Compare(got.Request, body, got.Response, []byte(changed)) == nil {
			t.Errorf("%s for %s passes", change.to, change.from)
		}
	}
	for _, change := range []struct{ from, to string }{
		{`"endpointId"`, `"endpoint"`}, {`"issuer":null`, `"issuer":1`},
		{`{`, `{"more":1,`},
	} {
		sent := strings.Replace(body, change.from, change.to, 1)
		if openapicheck.Compare(got.Request, sent, got.Response, got.body) == nil {
			t.Errorf("a request with %s for %s passes", change.to, change.from)
		}
	}
	odd := *got.Response
	odd.Header = got.Header.Clone()
	odd.Header.Set("X-Odd", "1")
	if openapicheck.Compare(got.Request, body, &odd, got.body) == nil {
		t.Error("a header that is not described passes")
	}
	refused := w.call("POST", "/v1/watches", k, "{}")
	for _, code := range []string{"KEY_ROLLED", "EVENT_EXPIRED", "SSRF_BLOCKED"} {
		changed := strings.Replace(string(refused.body), "VALIDATION_FAILED", code, 1)
		if openapicheck.Compare(refused.Request, "{}", refused.Response, []byte(changed)) == nil {
			t.Errorf("the code %s, which is not of the operation, passes", code)
		}
	}
	teapot := *got.Response
	teapot.StatusCode = http.StatusTeapot
	if openapicheck.Compare(got.Request, body, &teapot, got.body) == nil {
		t.Error("a status that is not described passes")
	}
}

func TestOpenAPIDocumentIsValid(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	err = document.Validate(context.Background(), openapi3.EnableExamplesValidation())
	if err != nil {
		t.Fatal(err)
	}
	if document.OpenAPI != "3.1.0" {
		t.Fatalf("the document is of OpenAPI %s", document.OpenAPI)
	}
}

func TestEveryRouteIsDescribedAndNoOther(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var described []string
	for path, item := range document.Paths.Map() {
		for method := range item.Operations() {
			described = append(described, method+" "+path)
		}
	}
	w := newWorld(t)
	routes := w.api.Routes()
	for _, r := range routes {
		ofPage := r == "GET /" || strings.HasPrefix(r, "GET /docs/{file:") || r == "GET /docs/"
		if !ofPage && !slices.Contains(described, r) {
			t.Errorf("openapi.yaml does not describe %s", r)
		}
	}
	for _, d := range described {
		if !slices.Contains(routes, d) {
			t.Errorf("openapi.yaml describes %s, which does not exist", d)
		}
	}
	if len(routes) < 7 {
		t.Fatalf("only %d routes: %v", len(routes), routes)
	}
}

var faultCodes = []string{
	problem.FaultSyntax, problem.FaultDuplicateName, problem.FaultInvalidUTF8,
	problem.FaultTrailingData, problem.FaultTooDeep, problem.FaultTooManyValues,
	problem.FaultUnknownField, problem.FaultRequired, problem.FaultInvalidType,
	problem.FaultInvalidValue, problem.FaultNotAllowed, problem.FaultEmpty,
	problem.FaultTooLong, problem.FaultTooMany, problem.FaultDuplicate,
	problem.FaultInvalidAddress, problem.FaultMuxedAddress, problem.FaultContractAddress,
	problem.FaultInvalidAmount, problem.FaultInvalidMemo, problem.FaultEndpointNotFound,
	problem.FaultRangeIsEmpty, problem.FaultSecretTextRefused, problem.CodeSecretKeyRefused,
	problem.CodeSSRFBlocked, problem.FaultUnknownParameter, problem.FaultOutOfRange,
	problem.FaultInvalidTime, problem.FaultHeaderRefused, problem.FaultInvalidCIDR,
	problem.FaultCannotChange,
}

func TestEveryProblemCodeIsDescribed(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	enum := document.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum
	codes := append(problem.Codes(), "HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED") // from internal/ingress
	for _, code := range codes {
		if !slices.Contains(enum, any(code)) {
			t.Errorf("openapi.yaml does not name the code %s", code)
		}
	}
	if len(enum) != len(codes) {
		t.Errorf("openapi.yaml names %d codes, the API has %d", len(enum), len(codes))
	}
	text := string(schemas.OpenAPI)
	for _, code := range faultCodes {
		if !regexp.MustCompile("`" + code + "`").MatchString(text) {
			t.Errorf("openapi.yaml does not name the fault %s", code)
		}
	}
}

// Every request and response body must have an example, which TestOpenAPIDocumentIsValid validates
// against its schema.
func TestEveryBodyHasAnExample(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	check := func(where string, content openapi3.Content) {
		for name, media := range content {
			if strings.Contains(name, "json") && media.Example == nil && len(media.Examples) == 0 {
				t.Errorf("%s: %s has no example", where, name)
			}
		}
	}
	checked := 0
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if body := operation.RequestBody; body != nil && body.Value.Required {
				check(method+" "+path, body.Value.Content)
			}
			for status, response := range operation.Responses.Map() {
				check(method+" "+path+" "+status, response.Value.Content)
				checked++
			}
		}
	}
	if checked < 200 {
		t.Errorf("only %d answers were looked at", checked)
	}
}

// The published events of every type must match the document, with every field.
func TestEveryEventTypeIsDescribed(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	sent := document.Webhooks["event"].Post.RequestBody.Value.Content["application/json"].Schema
	if sent.Ref != "#/components/schemas/Event" {
		t.Fatalf("the webhook sends %s", sent.Ref)
	}
	types := make(map[string]bool)
	for _, file := range []string{"events", "notices"} {
		text, err := os.ReadFile("../schemas/vectors/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range decode[[]json.RawMessage](t, text) {
			if err := openapicheck.Is("Event", event); err != nil {
				t.Errorf("%v\n%s", err, event)
			}
			types[decode[struct{ Type string }](t, event).Type] = true
			for _, change := range []struct{ from, to string }{
				{`"data":{`, `"data":{"more":1,`},
				{`"type":"`, `"type":"x`},
				{`"createdAt":"2`, `"createdAt":"x`},
			} {
				changed := strings.Replace(string(event), change.from, change.to, 1)
				if openapicheck.Is("Event", []byte(changed)) == nil {
					t.Errorf("%s passes", changed)
				}
			}
		}
	}
	described := document.Components.Schemas["EventType"].Value.Enum
	for _, name := range described {
		if !types[name.(string)] {
			t.Errorf("no published event is of the type %v", name)
		}
	}
	if len(described) != len(types) {
		t.Errorf("openapi.yaml names %v, and there are %v", described, types)
	}
}

// The pattern of Webhook-Signature must match every value that an endpoint can ask for.
func TestEverySignatureIsDescribed(t *testing.T) {
	secrets := []domain.Secret{domain.NewSecret([32]byte{1}), domain.NewSecret([32]byte{2})}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for wanted := range domain.Signatures(4) {
		for n := 1; n <= len(secrets); n++ {
			value := domain.Attempt{
				EventID:     "evt_1",
				Secrets:     secrets[:n],
				Signatures:  wanted,
				SigningKeys: []domain.Secret{domain.Secret(key), domain.Secret(key)},
			}.SignatureHeader(1)
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if err := openapicheck.Is("SignatureHeader", text); err != nil {
				t.Errorf("%s: %v", value, err)
			}
			for _, wrong := range []string{value + ",", "v1=" + value, value[:len(value)-1], ""} {
				if openapicheck.Is("SignatureHeader", []byte(`"`+wrong+`"`)) == nil {
					t.Errorf("%s passes", wrong)
				}
			}
		}
	}
}

// OpenAPI linters require every operation to describe a refusal.
func TestEveryOperationDescribesARefusal(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			refused := slices.ContainsFunc(slices.Collect(maps.Keys(operation.Responses.Map())),
				func(status string) bool { return status[0] == '4' })
			if !refused || operation.Summary == "" || operation.OperationID == "" ||
				len(operation.Tags) != 1 {
				t.Errorf("%s %s lacks an answer of 4xx, a summary, an operationId or its tag", method, path)
			}
		}
	}
}

// Each refusal of an operation must declare its problem codes, which must belong to its status. All
// responses in these tests are compared with them.
func TestEveryOperationDeclaresItsCodes(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				codes := openapicheck.Codes(response)
				if status >= "400" && len(codes) == 0 && path != "/readyz" {
					t.Errorf("%s %s %s declares no code", method, path, status)
				}
				for _, code := range codes {
					declared[code] = true
					if of := problem.New(code, "").Status; strconv.Itoa(of) != status {
						t.Errorf("%s %s %s declares %s, which is of %d", method, path, status, code, of)
					}
				}
			}
		}
	}
	for _, code := range problem.Codes() {
		if !declared[code] && !slices.Contains(ofNoOperation, code) {
			t.Errorf("no operation declares %s", code)
		}
	}
}

// ofNoOperation lists the codes of requests that reach no operation.
var ofNoOperation = []string{
	problem.CodeMethodNotAllowed, problem.CodeExpectationFailed, problem.CodeMalformedRequest,
	problem.CodeTLSRequired, problem.CodeTransferCoding, problem.CodeVersion,
}

func TestWhatEveryOperationMayAnswerIsDescribed(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if operation.Responses.Value("401") == nil {
				if strings.HasPrefix(path, "/v1/") && !strings.HasPrefix(path, "/v1/openapi.") {
					t.Errorf("%s %s: 401 is not described", method, path)
				}
				continue
			}
			asked++
			for _, status := range []string{"403", "429", "500", "503"} {
				if operation.Responses.Value(status) == nil {
					t.Errorf("%s %s: %s is not described", method, path, status)
				}
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d operations ask for a key", asked)
	}
}
