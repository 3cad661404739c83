package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

var loadOpenAPI = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(schemas.OpenAPI)
})

var loadRouter = sync.OnceValues(func() (routers.Router, error) {
	asText := func(
		body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn,
	) (any, error) {
		text, err := io.ReadAll(body)
		return string(text), err
	}
	openapi3filter.RegisterBodyDecoder("application/yaml", asText)
	openapi3filter.RegisterBodyDecoder("text/html", asText)
	document, err := loadOpenAPI()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(document)
})

// checkAgainstOpenAPI compares a request and its response with the document.
func checkAgainstOpenAPI(
	t testing.TB, request *http.Request, body string, response *http.Response, got []byte,
) {
	t.Helper()
	if err := compareWithOpenAPI(request, body, response, got); err != nil {
		t.Errorf("%s %s answered %d: %v\nsent %s\ngot  %s", request.Method, request.URL.Path,
			response.StatusCode, err, body, got)
	}
}

// compareWithOpenAPI returns where an exchange departs from the document. A request that
// the API accepted must be described as valid; a response must always be described.
func compareWithOpenAPI(
	request *http.Request, body string, response *http.Response, got []byte,
) error {
	router, err := loadRouter()
	if err != nil {
		return err
	}
	asked, err := http.NewRequest(request.Method, request.URL.RequestURI(), strings.NewReader(body))
	if err != nil {
		return err
	}
	asked.Header = request.Header
	if asked.Method == http.MethodHead { // HEAD is allowed wherever GET is, as the document says once
		asked.Method = http.MethodGet
	}
	route, parameters, err := router.FindRoute(asked)
	if err != nil {
		return compareWithProblem(request, response, got)
	}
	input := &openapi3filter.RequestValidationInput{
		Request:    asked,
		PathParams: parameters,
		Route:      route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
			MultiError:         true,
		},
	}
	if response.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("the request was taken, and openapi.yaml says: %w", err)
		}
	}
	if request.Method == http.MethodHead {
		return nil
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 response.StatusCode,
		Header:                 response.Header,
		Body:                   io.NopCloser(bytes.NewReader(got)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		return fmt.Errorf("of the answer openapi.yaml says: %w", err)
	}
	return nil
}

// compareWithProblem is for what no operation describes: unknown paths and
// methods.
func compareWithProblem(request *http.Request, response *http.Response, got []byte) error {
	if response.StatusCode == http.StatusTemporaryRedirect &&
		response.Header.Get("Location") == "/docs" && len(got) == 0 {
		return nil
	}
	if response.StatusCode != http.StatusNotFound &&
		response.StatusCode != http.StatusMethodNotAllowed {
		return errors.New("openapi.yaml describes no such operation")
	}
	if request.Method == http.MethodHead {
		return nil
	}
	document, err := loadOpenAPI()
	if err != nil {
		return err
	}
	var problem any
	if err := json.Unmarshal(got, &problem); err != nil {
		return err
	}
	return document.Components.Schemas["Problem"].Value.VisitJSON(problem,
		openapi3.EnableJSONSchema2020())
}

// The comparison must be able to fail, or the other tests would prove nothing.
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
			compareWithOpenAPI(got.Request, body, got.Response, []byte(changed)) == nil {
			t.Errorf("%s for %s passes", change.to, change.from)
		}
	}
	for _, change := range []struct{ from, to string }{
		{`"endpointId"`, `"endpoint"`}, {`"issuer":null`, `"issuer":1`},
		{`{`, `{"more":1,`},
	} {
		if compareWithOpenAPI(got.Request, strings.Replace(body, change.from, change.to, 1), got.Response,
			got.body) == nil {
			t.Errorf("a request with %s for %s passes", change.to, change.from)
		}
	}
	teapot := *got.Response
	teapot.StatusCode = http.StatusTeapot
	if compareWithOpenAPI(got.Request, body, &teapot, got.body) == nil {
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
		if leads := r == "GET /" || r == "GET /docs/"; !leads && !slices.Contains(described, r) {
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

// faultCodes are the codes of faults that the API returns.
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
	codes := problem.Codes()
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

// Every body of a request or response has an example, which TestOpenAPIDocumentIsValid
// validates against its schema.
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

// What endpoints receive is described too.
func TestDeliveriesAreDescribed(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	request := document.Webhooks["event"].Post.RequestBody.Value
	described := request.Content["application/json"].Schema.Value
	w := assemble(t)
	w.furnish(domain.DeriveID(domain.EndpointPrefix, "1"),
		w.newKey(account("a"), domain.Permissions()...))
	bodies := map[string][]byte{
		"test": domain.NewTestEvent(domain.Endpoint{
			ID:               domain.DeriveID(domain.EndpointPrefix, "1"),
			EndpointSettings: domain.EndpointSettings{URL: "https://a.example/"},
		}, domain.EventID("wat_1", "1"), 1).Body,
	}
	for id, r := range w.history {
		bodies[id] = r.record.Body
	}
	if len(bodies) != 2 {
		t.Fatalf("%d events", len(bodies))
	}
	for name, body := range bodies {
		if err := described.VisitJSON(decode[any](t, body), openapi3.EnableJSONSchema2020()); err != nil {
			t.Errorf("%s: %v\n%s", name, err, body)
		}
	}
	err = described.VisitJSON(map[string]any{"id": "x"}, openapi3.EnableJSONSchema2020())
	if err == nil {
		t.Error("anything passes")
	}
}

// TestEveryOperationDescribesARefusal, which linters of OpenAPI ask for.
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

// TestWhatEveryOperationMayAnswerIsDescribed: every operation that needs a key may answer
// 401, 403, 429, 500 and 503.
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
