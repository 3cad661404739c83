package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"html/template"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"github.com/lumenhook/lumenhook/schemas"
)

var writeDocs = flag.Bool("write-docs", false, "write schemas/docs.html anew")

// The page and the JSON are generated from openapi.yaml here, and not while serving: the
// program needs no parser of OpenAPI or YAML.
func TestDocsAreMadeOfTheDocument(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	page, err := renderDocs(document)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := openAPIAsJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, made := range map[string]struct{ now, kept []byte }{
		"docs.html": {page, schemas.Docs}, "openapi.json": {asJSON, schemas.OpenAPIJSON},
	} {
		if *writeDocs {
			if err := os.WriteFile("../schemas/"+name, made.now, 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(made.now, made.kept) {
			t.Errorf("schemas/%s is not of this openapi.yaml: run `go test ./api -run TestDocsAreMade -write-docs`", name)
		}
	}
}

func openAPIAsJSON() ([]byte, error) {
	var document any
	if err := yaml.Unmarshal(schemas.OpenAPI, &document); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(document)
	return out.Bytes(), err
}

// TestTheJSONDescriptionIsTheDocument: a reader of OpenAPI finds the same in both.
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

// TestTheDocsExampleVerifies runs the page's receiver example with Node, unchanged, against
// the published vectors.
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

// TestTheDoorLeadsToTheDocs: the API's root address, with or without a slash, redirects to the
// page.
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
	page := string(wantStatus(t, w.call("GET", "/docs", "", ""), 200).body)
	for _, want := range []string{
		`href="/docs/signature-vectors.json"`, `href="/v1/openapi.json"`,
		"<h2 id=\"webhook\">", "Webhook-Signature", "timingSafeEqual", "<ol>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

type docOperation struct {
	ID, Method, Path, Summary string
	Description               template.HTML
	Parameters                []docField
	Request                   []docExample
	RequestSchema             string
	Live                      []string
	Answers                   []docAnswer
}

type docField struct {
	Name, Where, Type string
	Required          bool
	Description       template.HTML
}

type docAnswer struct {
	Status, Schema string
	Description    template.HTML
	Examples       []docExample
}

type docExample struct{ Name, Text string }

// docWebhook is a webhook that endpoints receive.
type docWebhook struct {
	Summary     string
	Description template.HTML
	Headers     []docField
	Examples    []docExample
	Answers     []docAnswer
}

func docWebhookOf(o *openapi3.Operation) docWebhook {
	media := o.RequestBody.Value.Content["application/json"]
	shown := docWebhook{
		Summary:     o.Summary,
		Description: prose(o.Description),
		Examples:    docExamples(media),
		Answers:     docAnswers(o),
	}
	for _, p := range o.Parameters {
		shown.Headers = append(shown.Headers,
			docField{Name: p.Value.Name, Description: prose(p.Value.Description)})
	}
	return shown
}

type docSchema struct {
	Name        string
	Description template.HTML
	Fields      []docField
	Form        string
}

type docTag struct {
	Name        string
	Description template.HTML
	Operations  []docOperation
}

func renderDocs(document *openapi3.T) ([]byte, error) {
	var tags []docTag
	for _, tag := range document.Tags {
		tags = append(tags,
			docTag{
				Name:        tag.Name,
				Description: prose(tag.Description),
				Operations:  docOperations(document, tag.Name),
			})
	}
	var schemas []docSchema
	for _, name := range slices.Sorted(maps.Keys(document.Components.Schemas)) {
		s := document.Components.Schemas[name].Value
		schemas = append(schemas,
			docSchema{Name: name, Description: prose(s.Description), Fields: docFields(s), Form: formOf(s)})
	}
	var out bytes.Buffer
	err := docsPage.Execute(&out, map[string]any{
		"Title": document.Info.Title, "Version": document.Info.Version, "Summary": document.Info.Summary,
		"Description": prose(document.Info.Description),
		"Tags":        tags, "Schemas": schemas, "Webhook": docWebhookOf(document.Webhooks["event"].Post),
	})
	return out.Bytes(), err
}

func docOperations(document *openapi3.T, tag string) (all []docOperation) {
	text := string(schemas.OpenAPI)
	paths := slices.SortedFunc(maps.Keys(document.Paths.Map()), func(a, b string) int {
		return strings.Index(text, "\n  "+a+":\n") - strings.Index(text, "\n  "+b+":\n")
	})
	for _, path := range paths {
		operations := document.Paths.Value(path).Operations()
		for _, method := range []string{"POST", "GET", "PATCH", "DELETE"} {
			o := operations[method]
			if o == nil || !slices.Contains(o.Tags, tag) {
				continue
			}
			shown := docOperation{
				ID:          o.OperationID,
				Method:      method,
				Path:        path,
				Summary:     o.Summary,
				Description: prose(o.Description),
				Live:        liveInRepeats(o),
			}
			for _, p := range o.Parameters {
				shown.Parameters = append(shown.Parameters,
					docField{
						p.Value.Name, p.Value.In, typeOf(p.Value.Schema), p.Value.Required,
						prose(p.Value.Description),
					})
			}
			if o.RequestBody != nil {
				media := o.RequestBody.Value.Content["application/json"]
				shown.RequestSchema, shown.Request = nameOf(media.Schema), docExamples(media)
			}
			shown.Answers = docAnswers(o)
			all = append(all, shown)
		}
	}
	return all
}

func docAnswers(o *openapi3.Operation) (all []docAnswer) {
	for _, status := range slices.Sorted(maps.Keys(o.Responses.Map())) {
		r := o.Responses.Value(status).Value
		answer := docAnswer{Status: status, Description: prose(*r.Description)}
		for _, kind := range slices.Sorted(maps.Keys(r.Content)) {
			media := r.Content[kind]
			if media.Schema.Ref == "" && answer.Schema != "" {
				continue // the same in another form
			}
			answer.Schema = nameOf(media.Schema)
			if status < "300" {
				answer.Examples = docExamples(media)
			}
		}
		all = append(all, answer)
	}
	return all
}

func docExamples(m *openapi3.MediaType) (all []docExample) {
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		text, err := json.MarshalIndent(m.Examples[name].Value.Value, "", "  ")
		if err == nil {
			all = append(all, docExample{name, string(text)})
		}
	}
	return all
}

func docFields(s *openapi3.Schema) (all []docField) {
	names := slices.SortedFunc(maps.Keys(s.Properties), func(a, b string) int {
		i, j := slices.Index(s.Required, a), slices.Index(s.Required, b)
		if i < 0 {
			i = len(s.Required)
		}
		if j < 0 {
			j = len(s.Required)
		}
		if i != j {
			return i - j
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		p := s.Properties[name]
		all = append(all,
			docField{
				Name:        name,
				Type:        typeOf(p),
				Required:    slices.Contains(s.Required, name),
				Description: prose(p.Value.Description),
			})
	}
	return all
}

func nameOf(s *openapi3.SchemaRef) string {
	if s == nil {
		return ""
	}
	return s.Ref[strings.LastIndex(s.Ref, "/")+1:]
}

// typeOf describes a type in a few words.
func typeOf(s *openapi3.SchemaRef) string {
	if name := nameOf(s); name != "" {
		return name
	}
	if s == nil || s.Value == nil {
		return ""
	}
	return formOf(s.Value)
}

func formOf(s *openapi3.Schema) string {
	var words []string
	for _, one := range append(slices.Clone(s.AnyOf), s.OneOf...) {
		words = append(words, typeOf(one))
	}
	if len(words) == 0 && s.Type != nil {
		words = s.Type.Slice()
	}
	text := strings.Join(words, " or ")
	if s.Items != nil {
		text = "array of " + typeOf(s.Items)
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprint(v))
		}
		text = strings.ReplaceAll(strings.Join(values, " | "), "<nil>", "null")
	}
	return text
}

var (
	listItem = regexp.MustCompile(`(?m)^\d\. `)
	// docsLink is the path of a public page.
	docsLink = regexp.MustCompile(`<code>(/docs/[a-z.-]+|/v1/openapi\.[a-z]+)</code>`)
)

var inlineCode, inlineBold = regexp.MustCompile("`([^`]+)`"), regexp.MustCompile(`\*\*([^*]+)\*\*`)

// prose converts the simplest parts of Markdown to paragraphs.
func prose(text string) template.HTML {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case paragraph == "":
		case strings.HasPrefix(paragraph, "```"):
			_, code, _ := strings.Cut(strings.TrimSuffix(paragraph, "```"), "\n")
			b.WriteString("<pre>" + html.EscapeString(code) + "</pre>\n")
		case listItem.MatchString(paragraph):
			b.WriteString("<ol>\n")
			for _, item := range listItem.Split(paragraph, -1)[1:] {
				b.WriteString("<li>" + inline(item) + "</li>\n")
			}
			b.WriteString("</ol>\n")
		default:
			b.WriteString("<p>" + inline(paragraph) + "</p>\n")
		}
	}
	return template.HTML(b.String())
}

func inline(text string) string {
	text = inlineCode.ReplaceAllString(html.EscapeString(strings.TrimSpace(text)), "<code>$1</code>")
	text = docsLink.ReplaceAllString(text, `<a href="$1"><code>$1</code></a>`)
	return inlineBold.ReplaceAllString(text, "<strong>$1</strong>")
}

var docsPage = template.Must(template.New("docs").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} API</title>
<style>
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--accent:#2f6fde}
body{font:16px/1.55 system-ui,sans-serif;margin:0;display:grid;grid-template-columns:17rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1rem;border-right:1px solid var(--line);box-sizing:border-box;font-size:.85rem}
nav a{display:block;padding:.12rem 0}
main{padding:1rem 2rem 6rem;max-width:60rem}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
code,pre{font:.85em/1.5 ui-monospace,monospace}
code{background:var(--soft);padding:.1em .3em;border-radius:.25em}
pre{background:var(--soft);padding:.8rem;border-radius:.4rem;overflow:auto}
h2{margin-top:3rem;border-bottom:1px solid var(--line)}h3{margin-top:2.2rem}
.method{display:inline-block;min-width:4.2em;font-weight:700}
table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{border-top:1px solid var(--line);padding:.35rem .5rem .35rem 0;text-align:left;vertical-align:top}
td p{margin:0 0 .3rem}summary{cursor:pointer}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}}
</style>
</head>
<body>
<nav aria-label="Contents">
<strong>{{.Title}} API</strong>
<p><a href="#webhook"><strong>The webhook</strong></a></p>
{{range .Tags}}<p><a href="#tag-{{.Name}}"><strong>{{.Name}}</strong></a></p>
{{range .Operations}}<a href="#{{.ID}}">{{.Summary}}</a>
{{end}}{{end}}<p><a href="#schemas"><strong>Objects</strong></a></p>
</nav>
<main>
<h1>{{.Title}} API</h1>
<p>{{.Summary}} Version {{.Version}}. The document itself: <a href="/v1/openapi.yaml">/v1/openapi.yaml</a>, <a href="/v1/openapi.json">/v1/openapi.json</a> (OpenAPI 3.1).</p>
{{.Description}}
{{with .Webhook}}<h2 id="webhook">The webhook: {{.Summary}}</h2>
{{.Description}}
<table><tr><th>Header</th><th></th></tr>
{{range .Headers}}<tr><td><code>{{.Name}}</code></td><td>{{.Description}}</td></tr>
{{end}}</table>
{{range .Examples}}<pre>{{.Text}}</pre>
{{end}}<table><tr><th>Answer</th><th></th></tr>
{{range .Answers}}<tr><td>{{.Status}}</td><td>{{.Description}}</td></tr>
{{end}}</table>
{{end}}{{range .Tags}}<h2 id="tag-{{.Name}}">{{.Name}}</h2>
{{.Description}}
{{range .Operations}}<h3 id="{{.ID}}">{{.Summary}}</h3>
<p><code><span class="method">{{.Method}}</span> {{.Path}}</code></p>
{{.Description}}
{{if .Parameters}}<table><tr><th>Parameter</th><th>In</th><th>Form</th><th></th></tr>
{{range .Parameters}}<tr><td><code>{{.Name}}</code>{{if .Required}} *{{end}}</td><td>{{.Where}}</td><td>{{.Type}}</td><td>{{.Description}}</td></tr>
{{end}}</table>
{{end}}{{if .Live}}<p>In a repeat these are as they are now: {{range $i, $at := .Live}}{{if $i}}, {{end}}<code>{{$at}}</code>{{end}}.</p>
{{end}}{{if .RequestSchema}}<p>Body: <a href="#schema-{{.RequestSchema}}">{{.RequestSchema}}</a></p>
{{range .Request}}<pre>{{.Text}}</pre>
{{end}}{{end}}{{range .Answers}}{{range .Examples}}<p>Answer, for instance:</p>
<pre>{{.Text}}</pre>
{{end}}{{end}}<details><summary>Answers</summary>
<table><tr><th>Status</th><th></th><th>Body</th></tr>
{{range .Answers}}<tr><td>{{.Status}}</td><td>{{.Description}}</td><td>{{if .Schema}}<a href="#schema-{{.Schema}}">{{.Schema}}</a>{{end}}</td></tr>
{{end}}</table></details>
{{end}}{{end}}<h2 id="schemas">Objects</h2>
{{range .Schemas}}<h3 id="schema-{{.Name}}">{{.Name}}</h3>
{{.Description}}
{{if .Fields}}<table><tr><th>Field</th><th>Form</th><th></th></tr>
{{range .Fields}}<tr><td><code>{{.Name}}</code>{{if .Required}} *{{end}}</td><td>{{.Type}}</td><td>{{.Description}}</td></tr>
{{end}}</table>{{else}}<p>{{.Form}}</p>{{end}}
{{end}}<p>* always there, or required.</p>
</main>
</body>
</html>
`))
