// Package openapicheck compares requests to the API and its answers with openapi.yaml. It hides the
// library that reads the document, and it is stricter than that library: an answer has only the
// statuses, headers and fields that the document names.
package openapicheck

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/lumenhook/lumenhook/schemas"
)

// Document loads openapi.yaml. An object that does not declare additional fields must have none:
// receivers must ignore new fields, and the tests must find them.
func Document() (*openapi3.T, error) {
	document, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPI)
	if err != nil {
		return nil, err
	}
	for _, schema := range document.Components.Schemas {
		closeObjects(schema)
	}
	return document, nil
}

func closeObjects(ref *openapi3.SchemaRef) {
	if ref == nil || ref.Ref != "" {
		return
	}
	s := ref.Value
	if more := &s.AdditionalProperties; s.Properties != nil && more.Has == nil && more.Schema == nil {
		more.Has = new(bool)
	}
	closeObjects(s.Items)
	for _, property := range s.Properties {
		closeObjects(property)
	}
	for _, of := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
		closeObjects(of)
	}
}

type described struct {
	document *openapi3.T
	router   routers.Router
}

var load = sync.OnceValues(func() (d described, err error) {
	asText := func(
		body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn,
	) (any, error) {
		text, err := io.ReadAll(body)
		return string(text), err
	}
	openapi3filter.RegisterBodyDecoder("application/yaml", asText)
	openapi3filter.RegisterBodyDecoder("text/html", asText)
	openapi3filter.RegisterBodyDecoder("text/csv", asText)
	if d.document, err = Document(); err == nil {
		d.router, err = gorillamux.NewRouter(d.document)
	}
	return d, err
})

// Compare returns where an exchange departs from the document. A request that the API accepted
// must be described as valid; a response must always be described.
func Compare(request *http.Request, sent string, response *http.Response, got []byte) error {
	d, err := load()
	if err != nil {
		return err
	}
	// #nosec G704 -- it is compared with the document, and not sent
	asked, err := http.NewRequest(request.Method, request.URL.RequestURI(), strings.NewReader(sent))
	if err != nil {
		return err
	}
	asked.Header = request.Header
	if asked.Method == http.MethodHead { // HEAD is allowed wherever GET is, as the document says once
		asked.Method = http.MethodGet
	}
	route, parameters, err := d.router.FindRoute(asked)
	if err != nil || beforeRoutes(response.StatusCode) {
		return d.compareWithProblem(request, response, got)
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
			return fmt.Errorf("the request was accepted, but openapi.yaml says: %w", err)
		}
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input,
		Status:                 response.StatusCode,
		Header:                 response.Header,
		Body:                   io.NopCloser(bytes.NewReader(got)),
		Options:                &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if request.Method != http.MethodHead {
		if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
			return fmt.Errorf("of the response openapi.yaml says: %w", err)
		}
	}
	return compareRest(route.Operation.Responses.Status(response.StatusCode), response, got)
}

// beforeRoutes reports whether a status is of a server that refuses a request whatever it asks for.
func beforeRoutes(status int) bool {
	return status == http.StatusMisdirectedRequest || status == http.StatusExpectationFailed ||
		status == http.StatusRequestHeaderFieldsTooLarge
}

// commonHeaders are of HTTP, or of every response.
var commonHeaders = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Security-Policy", "Content-Type", "Date",
	"Referrer-Policy", "Vary", "X-Content-Type-Options",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
}

// compareRest finds deviations that the library accepts: a body or a header that is not described.
func compareRest(ref *openapi3.ResponseRef, response *http.Response, got []byte) error {
	if ref == nil {
		return errors.New("openapi.yaml does not describe this status")
	}
	if len(ref.Value.Content) == 0 && len(got) > 0 {
		return errors.New("openapi.yaml describes no body of this status")
	}
	for name := range response.Header {
		known := slices.Contains(commonHeaders, name)
		for header := range ref.Value.Headers {
			known = known || http.CanonicalHeaderKey(header) == name
		}
		if !known {
			return fmt.Errorf("openapi.yaml does not describe the header %s of this status", name)
		}
	}
	var p struct{ Code string }
	if json.Unmarshal(got, &p) == nil && response.StatusCode >= 400 && p.Code != "" &&
		!slices.Contains(Codes(ref), p.Code) {
		return fmt.Errorf("openapi.yaml does not declare the code %s of this status", p.Code)
	}
	return nil
}

var codeOfProblem = regexp.MustCompile("`([A-Z_]+)`: ")

// Codes are the codes of problems that a response declares. The description next to a reference
// replaces that of the response.
func Codes(ref *openapi3.ResponseRef) (codes []string) {
	text := cmp.Or(ref.Description, ref.Value.Description)
	for _, found := range codeOfProblem.FindAllStringSubmatch(*text, -1) {
		codes = append(codes, found[1])
	}
	return codes
}

// compareWithProblem is for answers that no operation describes: unknown paths and methods, and
// refusals that come before both.
func (d described) compareWithProblem(
	request *http.Request, response *http.Response, got []byte,
) error {
	if response.StatusCode == http.StatusTemporaryRedirect &&
		response.Header.Get("Location") == "/docs" && len(got) == 0 {
		return nil
	}
	if strings.HasPrefix(request.URL.Path, "/docs/") && response.StatusCode == http.StatusOK {
		return nil // a file that the page loads
	}
	switch response.StatusCode {
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		if beforeRoutes(response.StatusCode) {
			break
		}
		return errors.New("openapi.yaml describes no such operation")
	}
	if request.Method == http.MethodHead {
		return nil
	}
	return Is("Problem", got)
}

// Is returns where a JSON text departs from a schema of the document.
func Is(schema string, text []byte) error {
	d, err := load()
	if err != nil {
		return err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	return d.document.Components.Schemas[schema].Value.VisitJSON(value,
		openapi3.EnableJSONSchema2020())
}

// Transport compares every exchange of a client with the API.
type Transport struct {
	Base http.RoundTripper
	// Departs gets each exchange that openapi.yaml does not describe.
	Departs func(error)
}

// RoundTrip implements http.RoundTripper.
func (c Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil && r.Body != http.NoBody {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := c.Base.RoundTrip(r)
	if err != nil || response.Header.Get("X-Request-Id") == "" { // not the API's
		return response, err
	}
	got, err := io.ReadAll(response.Body)
	response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(got))
	if err != nil {
		return nil, err
	}
	if err := Compare(r, string(sent), response, got); err != nil {
		c.Departs(fmt.Errorf("%s %s answered %d: %w\nsent %s\ngot  %s", r.Method, r.URL.Path,
			response.StatusCode, err, sent, got))
	}
	return response, nil
}

// CheckDefaultTransport compares every exchange over http that goes through
// http.DefaultTransport, for tests that do not make their clients themselves.
func CheckDefaultTransport(departs func(error)) {
	base := http.DefaultTransport.(*http.Transport)
	base.RegisterProtocol("http", Transport{Base: base.Clone(), Departs: departs})
}
