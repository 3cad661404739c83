// Package openapicheck validates requests to the API and its responses against openapi.yaml. It
// hides the library that reads the document, and is stricter: a response may only have documented
// statuses, headers and fields.
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

// Document loads openapi.yaml. Objects that don't declare additional properties may not have any:
// clients must ignore new fields, but the tests must find undocumented ones.
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

// Compare returns an error if an exchange doesn't match the document. Only requests that the API
// accepted must be valid. Responses must always match.
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
	if asked.Method == http.MethodHead { // the document allows HEAD wherever it describes GET
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
			return fmt.Errorf("the API accepted a request that does not match openapi.yaml: %w", err)
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
			return fmt.Errorf("the response does not match openapi.yaml: %w", err)
		}
	}
	return compareRest(route.Operation.Responses.Status(response.StatusCode), response, got)
}

// beforeRoutes reports whether the server responds with a status before it looks at the path.
func beforeRoutes(status int) bool {
	return status == http.StatusMisdirectedRequest || status == http.StatusExpectationFailed ||
		status == http.StatusRequestHeaderFieldsTooLarge
}

// commonHeaders are headers of HTTP itself, or of every response.
var commonHeaders = []string{
	"Cache-Control", "Connection", "Content-Length", "Content-Security-Policy", "Content-Type", "Date",
	"Referrer-Policy", "Vary", "X-Content-Type-Options",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers",
}

// compareRest finds deviations that the library accepts: undocumented bodies, headers and codes.
func compareRest(ref *openapi3.ResponseRef, response *http.Response, got []byte) error {
	if ref == nil {
		return errors.New("openapi.yaml does not describe this status")
	}
	if len(ref.Value.Content) == 0 && len(got) > 0 {
		return errors.New("openapi.yaml describes no body for this status")
	}
	for name := range response.Header {
		known := slices.Contains(commonHeaders, name)
		for header := range ref.Value.Headers {
			known = known || http.CanonicalHeaderKey(header) == name
		}
		if !known {
			return fmt.Errorf("openapi.yaml does not describe the header %s for this status", name)
		}
	}
	var p struct{ Code string }
	if json.Unmarshal(got, &p) == nil && response.StatusCode >= 400 && p.Code != "" &&
		!slices.Contains(Codes(ref), p.Code) {
		return fmt.Errorf("openapi.yaml does not declare the code %s for this status", p.Code)
	}
	return nil
}

var codeOfProblem = regexp.MustCompile("`([A-Z_]+)`: ")

// Codes returns the problem codes that a response documents. A description next to a $ref replaces
// that of the referenced response.
func Codes(ref *openapi3.ResponseRef) (codes []string) {
	text := cmp.Or(ref.Description, ref.Value.Description)
	for _, found := range codeOfProblem.FindAllStringSubmatch(*text, -1) {
		codes = append(codes, found[1])
	}
	return codes
}

// compareWithProblem checks responses that don't belong to an operation: unknown paths and methods,
// and requests that are rejected before routing.
func (d described) compareWithProblem(
	request *http.Request, response *http.Response, got []byte,
) error {
	if response.StatusCode == http.StatusTemporaryRedirect &&
		response.Header.Get("Location") == "/docs" && len(got) == 0 {
		return nil
	}
	if strings.HasPrefix(request.URL.Path, "/docs/") && response.StatusCode == http.StatusOK {
		return nil // an asset of the docs page
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

// Is returns an error if a JSON text doesn't match a schema of the document.
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

// Transport checks every exchange between a client and the API.
type Transport struct {
	Base http.RoundTripper
	// Departs is called with an error for each exchange that doesn't match openapi.yaml.
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
	if err != nil || response.Header.Get("X-Request-Id") == "" { // not a response of the API
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

// CheckDefaultTransport checks every plain HTTP exchange through http.DefaultTransport. It is for
// tests that don't create their own clients.
func CheckDefaultTransport(departs func(error)) {
	base := http.DefaultTransport.(*http.Transport)
	base.RegisterProtocol("http", Transport{Base: base.Clone(), Departs: departs})
}
