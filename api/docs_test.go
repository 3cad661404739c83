package api_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"github.com/lumenhook/lumenhook/schemas"
)

var writeDocs = flag.Bool("write-docs", false, "write schemas/openapi.json")

// The JSON is generated here from openapi.yaml rather than when it is served, so that the program
// needs no YAML parser.
func TestDocsAreMadeOfTheDocument(t *testing.T) {
	now, err := openAPIAsJSON()
	if err != nil {
		t.Fatal(err)
	}
	if *writeDocs {
		if err := os.WriteFile("../schemas/openapi.json", now, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(now, schemas.OpenAPIJSON) {
		t.Error("schemas/openapi.json is stale: run `go test ./api -run TestDocs -write-docs`")
	}
}

// The renderer must be the file of the npm package, except for one address from which it would load
// a picture.
func TestRedocIsTheReleasedOne(t *testing.T) {
	const released = "dcaf76612bc4a3fbcc923a8966dee2f6146a5f32e5ce1b6f02dd60cbbf89500b" // redoc 2.5.4
	file, err := schemas.Docs.ReadFile("docs/redoc.js")
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Replace(file, []byte(`src:"data:,"`),
		[]byte(`src:"https://cdn.redoc.ly/redoc/logo-mini.svg"`), 1)
	if sum := fmt.Sprintf("%x", sha256.Sum256(before)); sum != released {
		t.Errorf("schemas/docs/redoc.js has the hash %s", sum)
	}
	license, err := os.ReadFile("../schemas/docs/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"npm package redoc 2.5.4", "The MIT License", `Version: "2.5.4"`} {
		if !strings.Contains(string(license), want) {
			t.Errorf("schemas/docs/LICENSE lacks %s", want)
		}
	}
}

func openAPIAsJSON() ([]byte, error) {
	var document struct {
		Paths map[string]map[string]map[string]any `yaml:"paths"`
		Rest  map[string]any                       `yaml:",inline"`
	}
	if err := yaml.Unmarshal(schemas.OpenAPI, &document); err != nil {
		return nil, err
	}
	typed, err := loadOpenAPI()
	if err != nil {
		return nil, err
	}
	samples := samplesOf(typed)
	for _, item := range document.Paths {
		for _, operation := range item {
			operation["x-codeSamples"] = samples[operation["operationId"].(string)]
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	document.Rest["paths"] = document.Paths
	err = e.Encode(document.Rest)
	return out.Bytes(), err
}

// The JSON and the YAML must describe the same API, except that the JSON also has samples.
func TestTheJSONDescriptionIsTheDocument(t *testing.T) {
	inYAML, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	inJSON, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPIJSON)
	if err != nil {
		t.Fatal(err)
	}
	if err := inJSON.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Error(err)
	}
	for _, item := range inJSON.Paths.Map() {
		for _, operation := range item.Operations() {
			delete(operation.Extensions, "x-codeSamples")
		}
	}
	one, err := json.Marshal(inYAML)
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(inJSON)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, other) {
		t.Error("openapi.json and openapi.yaml are not the same document")
	}
}

// TestTheDocsExampleVerifies runs the page's example of a receiver, unchanged, with Node and the
// published vectors.
func TestTheDocsExampleVerifies(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	_, example, found := strings.Cut(document.Webhooks["event"].Post.Description, "```js\n")
	example, _, ended := strings.Cut(example, "```")
	if !found || !ended {
		t.Fatal("the description of the webhook shows no example")
	}
	program := example + `
import { readFileSync } from "node:fs";
const { checks } = JSON.parse(readFileSync(process.argv[2], "utf8"));
for (const c of checks) {
  Date.now = () => c.clock * 1000;
  const headers = { "webhook-timestamp": c.timestamp, "webhook-signature": c.signature };
  if (verify(c.secret, headers, Buffer.from(c.body)) !== c.accepted) console.log(c.name);
}
console.log(checks.length + " checks");
`
	file := filepath.Join(t.TempDir(), "example.mjs")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), "node", file, "../schemas/vectors/signature.json")
	out, err := check.CombinedOutput()
	if err != nil || string(out) != "16 checks\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// The API's root address and the page's address with a slash must redirect to the page.
func TestTheDoorLeadsToTheDocs(t *testing.T) {
	w := newWorld(t)
	w.server.Client().CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	for _, path := range []string{"/", "/docs/"} {
		got := wantStatus(t, w.call("GET", path, "", ""), http.StatusTemporaryRedirect)
		if got.Header.Get("Location") != "/docs" || len(got.body) > 0 ||
			got.Header.Get("Content-Type") != "" {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	if got := wantStatus(t, w.call("GET", "/v1/openapi.json", "", ""), 200); !bytes.Equal(got.body,
		schemas.OpenAPIJSON) || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v", got.Header)
	}
	got := wantStatus(t, w.call("GET", "/docs/signature-vectors.json", "", ""), 200)
	if !bytes.Equal(got.body, schemas.SignatureVectors) {
		t.Errorf("%s", got.body)
	}
}

func TestTheReferenceLoadsFromHere(t *testing.T) {
	w := newWorld(t)
	page := wantStatus(t, w.call("GET", "/docs", "", ""), 200)
	loads := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllSubmatch(page.body, -1)
	if len(loads) != 4 {
		t.Errorf("the page loads %q", loads)
	}
	for _, one := range loads {
		file := wantStatus(t, w.call("GET", "/"+string(one[1]), "", ""), 200)
		if kind := file.Header.Get("Content-Type"); len(file.body) < 1000 ||
			!strings.HasPrefix(kind, "text/javascript") && !strings.HasPrefix(kind, "text/css") {
			t.Errorf("%s: %d bytes of %s", one[1], len(file.body), kind)
		}
	}
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") ||
		strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") {
		t.Error(policy)
	}
	wantProblem(t, w.call("GET", "/docs/other.js", "", ""), 404, "NOT_FOUND")
}

// Clients without a key may read slowly, so the service must not keep a copy of the files in memory
// for each of them.
func TestStrangersGetNoCopyOfTheDocs(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/docs/openapi.js", "/docs/redoc.js", "/v1/openapi.json", "/v1/openapi.yaml",
	} {
		const requests = 10
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			w.api.ServeHTTP(discard{}, httptest.NewRequest("GET", path, nil))
		}
		runtime.ReadMemStats(&after)
		if size := (after.TotalAlloc - before.TotalAlloc) / requests; size > 100<<10 {
			t.Errorf("GET %s takes %d bytes", path, size)
		}
	}
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
