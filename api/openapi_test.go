package api_test

import (
	"bytes"
	"context"
	"io"
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

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/schemas"
)

var loadOpenAPI = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData(schemas.OpenAPI)
})

var loadRouter = sync.OnceValues(func() (routers.Router, error) {
	openapi3filter.RegisterBodyDecoder("application/yaml", func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		text, err := io.ReadAll(body)
		return string(text), err
	})
	document, err := loadOpenAPI()
	if err != nil {
		return nil, err
	}
	return gorillamux.NewRouter(document)
})

// checkAgainstOpenAPI holds an exchange against the document. What the API took
// must be described as valid; what it answered must be described, always.
func checkAgainstOpenAPI(t testing.TB, request *http.Request, body string, response *http.Response, got []byte) {
	t.Helper()
	router, err := loadRouter()
	if err != nil {
		t.Fatal(err)
	}
	asked, err := http.NewRequest(request.Method, request.URL.Path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	asked.Header = request.Header
	if asked.Method == http.MethodHead { // HEAD works wherever GET does, as the document says once
		asked.Method = http.MethodGet
	}
	route, parameters, err := router.FindRoute(asked)
	if err != nil {
		checkProblemSchema(t, response, got)
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: asked, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true},
	}
	if response.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			t.Errorf("%s %s was taken, and openapi.yaml says: %v\n%s", asked.Method, asked.URL.Path, err, body)
		}
	}
	if request.Method == http.MethodHead {
		return
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(got)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		t.Errorf("%s %s answered %d, and openapi.yaml says: %v\n%s", asked.Method, asked.URL.Path, response.StatusCode, err, got)
	}
}

// checkProblemSchema is for what no operation describes: unknown paths and
// methods.
func checkProblemSchema(t testing.TB, response *http.Response, got []byte) {
	t.Helper()
	if response.StatusCode != http.StatusNotFound && response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%s is not described, and answered %d", response.Request.URL.Path, response.StatusCode)
	}
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if len(got) == 0 && response.Request.Method == http.MethodHead {
		return
	}
	if err := document.Components.Schemas["Problem"].Value.VisitJSON(decode[any](t, got), openapi3.EnableJSONSchema2020()); err != nil {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestOpenAPIDocumentIsValid(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(context.Background(), openapi3.EnableExamplesValidation()); err != nil {
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
		if !slices.Contains(described, r) {
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

func TestEveryProblemCodeIsDescribed(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	enum := document.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum
	codes := api.ProblemCodes()
	for _, code := range codes {
		if !slices.Contains(enum, any(code)) {
			t.Errorf("openapi.yaml does not name the code %s", code)
		}
	}
	if len(enum) != len(codes) {
		t.Errorf("openapi.yaml names %d codes, the API has %d", len(enum), len(codes))
	}
	text := string(schemas.OpenAPI)
	for _, code := range api.FaultCodes() {
		if !regexp.MustCompile("`" + code + "`").MatchString(text) {
			t.Errorf("openapi.yaml does not name the fault %s", code)
		}
	}
}
