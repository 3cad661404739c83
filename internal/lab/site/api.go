package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// The pages of the API stand where a page of the repository would.
const (
	apiFolder  = "docs/reference/api/"
	apiPage    = apiFolder + "README.md"
	objectPage = apiFolder + "objects.md"
)

var methods = []string{"POST", "GET", "PATCH", "DELETE"}

// apiWriter writes the description of the API as Markdown.
type apiWriter struct {
	strings.Builder
	document *openapi3.T
	order    func(path string) int // of paths, as the description has them
}

// addAPI adds the pages of the API: one of what holds for all, one for each group of
// operations, and one of the objects that they take and give.
func (s *site) addAPI(section string) (items []item, err error) {
	text, err := os.ReadFile(filepath.Join(s.root, openapi))
	if err != nil {
		return nil, err
	}
	document, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	w := &apiWriter{document: document, order: func(path string) int {
		return strings.Index(string(text), "\n  "+path+":\n")
	}}
	add := func(name, title string) error {
		read, err := pages.Parse(name, []byte(w.String()))
		w.Reset()
		if err == nil {
			items = append(items, item{page: s.add(&page{Page: read, section: section}), Title: title})
		}
		return err
	}
	w.overview()
	if err := add(apiPage, "The API"); err != nil {
		return nil, err
	}
	for _, tag := range document.Tags {
		w.group(tag)
		name := apiFolder + pages.Anchor(tag.Name) + ".md"
		if err := add(name, "API: "+tag.Name); err != nil {
			return nil, err
		}
	}
	w.objects()
	return items, add(objectPage, "API: objects")
}

func (w *apiWriter) overview() {
	d := w.document
	fmt.Fprintf(w, "# The API\n\n%s Version %s.\n\n%s\n", d.Info.Summary, d.Info.Version,
		d.Info.Description)
	w.WriteString("\n## Operations\n\n| operation | what it does |\n|---|---|\n")
	for _, tag := range d.Tags {
		w.each(tag.Name, func(method, path string, o *openapi3.Operation) {
			fmt.Fprintf(w, "| `%s %s` | [%s](%s.md#%s) |\n", method, path, o.Summary,
				pages.Anchor(tag.Name), pages.Anchor(o.Summary))
		})
	}
	hook := d.Webhooks["event"].Post
	fmt.Fprintf(w, "\n## The webhook\n\n%s\n\n| header | meaning |\n|---|---|\n", hook.Description)
	for _, p := range hook.Parameters {
		fmt.Fprintf(w, "| `%s` | %s |\n", p.Value.Name, cell(p.Value.Description))
	}
	w.WriteByte('\n')
	if hook.RequestBody != nil {
		w.examples(hook.RequestBody.Value.Content["application/json"])
	}
	w.answers(hook)
}

// each calls for the operations of a group, in the order of the description.
func (w *apiWriter) each(tag string, do func(method, path string, o *openapi3.Operation)) {
	paths := slices.SortedFunc(maps.Keys(w.document.Paths.Map()), func(a, b string) int {
		return w.order(a) - w.order(b)
	})
	for _, path := range paths {
		operations := w.document.Paths.Value(path).Operations()
		for _, method := range methods {
			if o := operations[method]; o != nil && slices.Contains(o.Tags, tag) {
				do(method, path, o)
			}
		}
	}
}

func (w *apiWriter) group(tag *openapi3.Tag) {
	fmt.Fprintf(w, "# API: %s\n\n%s What holds for every operation: [the API](README.md).\n",
		tag.Name, tag.Description)
	w.each(tag.Name, func(method, path string, o *openapi3.Operation) {
		fmt.Fprintf(w, "\n## %s\n\n`%s %s`\n\n%s\n", o.Summary, method, path, o.Description)
		w.parameters(o)
		if o.RequestBody != nil {
			media := o.RequestBody.Value.Content["application/json"]
			fmt.Fprintf(w, "\nBody: %s.\n", form(media.Schema))
			w.examples(media)
		}
		w.answers(o)
	})
}

func (w *apiWriter) parameters(o *openapi3.Operation) {
	if len(o.Parameters) == 0 {
		return
	}
	w.WriteString("\n| parameter | in | form | meaning |\n|---|---|---|---|\n")
	for _, p := range o.Parameters {
		fmt.Fprintf(w, "| `%s`%s | %s | %s | %s |\n", p.Value.Name, star(p.Value.Required), p.Value.In,
			form(p.Value.Schema), cell(p.Value.Description))
	}
}

func (w *apiWriter) answers(o *openapi3.Operation) {
	statuses := slices.Sorted(maps.Keys(o.Responses.Map()))
	for _, status := range statuses {
		for _, media := range contents(o.Responses.Value(status).Value) {
			if status < "300" && len(media.Examples) > 0 {
				w.WriteString("\nAn answer:\n")
				w.examples(media)
			}
		}
	}
	w.WriteString("\n| answer | when | body |\n|---|---|---|\n")
	for _, status := range statuses {
		r := o.Responses.Value(status).Value
		body := ""
		if all := contents(r); len(all) > 0 {
			body = form(all[0].Schema)
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", status, cell(*r.Description), body)
	}
}

// contents are the forms of an answer, sorted by their types.
func contents(r *openapi3.Response) (all []*openapi3.MediaType) {
	for _, kind := range slices.Sorted(maps.Keys(r.Content)) {
		all = append(all, r.Content[kind])
	}
	return all
}

func (w *apiWriter) examples(m *openapi3.MediaType) {
	if m == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.Examples)) {
		value := m.Examples[name].Value.Value
		if text, isText := value.(string); isText {
			fmt.Fprintf(w, "\n```text\n%s\n```\n", strings.TrimSpace(text))
			continue
		}
		if text, err := json.MarshalIndent(value, "", "  "); err == nil {
			fmt.Fprintf(w, "\n```json\n%s\n```\n", text)
		}
	}
}

func (w *apiWriter) objects() {
	w.WriteString("# API: objects\n\nWhat operations take and give. " +
		"* is of a field that is always there, or required.\n")
	for _, name := range slices.Sorted(maps.Keys(w.document.Components.Schemas)) {
		schema := w.document.Components.Schemas[name].Value
		fmt.Fprintf(w, "\n## %s\n\n%s\n", name, schema.Description)
		if len(schema.Properties) == 0 {
			fmt.Fprintf(w, "\n%s\n", formOf(schema))
			continue
		}
		w.WriteString("\n| field | form | meaning |\n|---|---|---|\n")
		for _, field := range fieldsOf(schema) {
			p := schema.Properties[field]
			fmt.Fprintf(w, "| `%s`%s | %s | %s |\n", field, star(slices.Contains(schema.Required, field)),
				form(p), cell(p.Value.Description))
		}
	}
}

// fieldsOf are the fields of an object: those that are required first, in their order there.
func fieldsOf(schema *openapi3.Schema) []string {
	names := slices.Clone(schema.Required)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return schema.Properties[name] == nil })
}

// form describes a type in a few words, with a link where it has a name.
func form(s *openapi3.SchemaRef) string {
	if s == nil || s.Value == nil {
		return ""
	}
	if _, name, found := strings.Cut(s.Ref, "#/components/schemas/"); found {
		return fmt.Sprintf("[%s](objects.md#%s)", name, pages.Anchor(name))
	}
	return formOf(s.Value)
}

func formOf(s *openapi3.Schema) string {
	var words []string
	for _, one := range slices.Concat(s.AnyOf, s.OneOf) {
		words = append(words, form(one))
	}
	if len(words) == 0 && s.Type != nil {
		words = s.Type.Slice()
	}
	switch {
	case s.Items != nil:
		return "array of " + form(s.Items)
	case len(s.Enum) > 0:
		words = nil
		for _, value := range s.Enum {
			if value == nil {
				value = "null"
			}
			words = append(words, fmt.Sprintf("`%v`", value))
		}
	}
	return strings.Join(words, " or ")
}

// cell is text as it can stand in a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func star(required bool) string {
	if required {
		return " *"
	}
	return ""
}
