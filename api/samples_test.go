package api_test

import (
	"encoding/json"
	"fmt"
	"go/format"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lumenhook/lumenhook/api/client"
)

// sample is a program that calls an operation, in the form that Redoc reads from x-codeSamples. It
// takes the API's address and a key from LUMENHOOK_API and LUMENHOOK_KEY. TestEverySampleRuns and
// TestSamplesOfOtherLanguagesRun (cmd/lumenhook) run samples unchanged.
type sample struct {
	Lang   string `json:"lang"`
	Label  string `json:"label"`
	Source string `json:"source"`
}

// sampled is the request of a sample. Its parameters are the examples of the document.
type sampled struct {
	operation    *openapi3.Operation
	method, path string
	arguments    []string       // in the path
	query        map[string]any // required parameters
	body         any            // nil if there is none
	key          bool
}

func samplesOf(document *openapi3.T) map[string][]sample {
	all := map[string][]sample{}
	for path, item := range document.Paths.Map() {
		for method, o := range item.Operations() {
			s := sampled{
				operation: o, method: method, path: path, query: map[string]any{},
				key: o.Security == nil || len(*o.Security) > 0,
			}
			for _, p := range o.Parameters {
				switch {
				case p.Value.In == "path":
					example := fmt.Sprint(p.Value.Example)
					s.arguments = append(s.arguments, example)
					s.path = strings.ReplaceAll(s.path, "{"+p.Value.Name+"}", example)
				case p.Value.In == "query" && p.Value.Required:
					s.query[p.Value.Name] = p.Value.Example
				}
			}
			if o.RequestBody != nil {
				examples := o.RequestBody.Value.Content["application/json"].Examples
				for _, name := range slices.Sorted(maps.Keys(examples)) {
					s.body = cmpOr(s.body, examples[name].Value.Value)
				}
			}
			for i, name := range slices.Sorted(maps.Keys(s.query)) {
				s.path += string("?&"[min(i, 1)]) + name + "=" + fmt.Sprint(s.query[name])
			}
			all[o.OperationID] = []sample{
				{"Shell", "curl", s.curl()}, {"JavaScript", "JavaScript", s.javaScript()},
				{"Python", "Python", s.python()}, {"Go", "Go", s.goProgram()},
				{"Java", "Java", s.java()}, {"Rust", "Rust", s.rust()},
			}
		}
	}
	return all
}

func cmpOr(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

// json returns the body. Each line but the first is indented.
func (s sampled) json(indent string) string {
	text, err := json.MarshalIndent(s.body, indent, "  ")
	if err != nil || strings.ContainsAny(string(text), `'\`) {
		panic(fmt.Sprintf("%s: the example needs quoting: %s, %v", s.operation.OperationID, text, err))
	}
	return string(text)
}

func either(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func (s sampled) curl() string {
	return "curl -sS --fail-with-body " + either(s.method != "GET", "-X "+s.method+" ") +
		`"$LUMENHOOK_API` + s.path + `"` +
		either(s.key, " \\\n  -H \"Authorization: Bearer $LUMENHOOK_KEY\"") +
		either(s.body != nil, " \\\n  -H \"Content-Type: application/json\"") +
		either(s.body != nil, " \\\n  -d '"+s.json("  ")+"'") +
		"\n"
}

func (s sampled) javaScript() string {
	return "const response = await fetch(`${process.env.LUMENHOOK_API}" + s.path + "`, {\n" +
		"  method: \"" + s.method + "\",\n  headers: {" +
		either(s.key, "\n    Authorization: `Bearer ${process.env.LUMENHOOK_KEY}`,") +
		either(s.body != nil, "\n    \"Content-Type\": \"application/json\",") + "\n  },\n" +
		either(s.body != nil, "  body: JSON.stringify("+s.json("  ")+"),\n") +
		"});\nconst text = await response.text();\n" +
		"if (!response.ok) throw new Error(text); // a problem: its code says why\nconsole.log(text);\n"
}

func (s sampled) python() string {
	return "import os\nimport sys\nimport urllib.error\nimport urllib.request\n\n" +
		"request = urllib.request.Request(\n    os.environ[\"LUMENHOOK_API\"] + \"" + s.path +
		"\",\n    method=\"" + s.method + "\",\n    headers={" +
		either(s.key, "\n        \"Authorization\": \"Bearer \" + os.environ[\"LUMENHOOK_KEY\"],") +
		either(s.body != nil, "\n        \"Content-Type\": \"application/json\",") + "\n    },\n" +
		either(s.body != nil, "    data=b'''"+s.json("    ")+"''',\n") + ")\ntry:\n" +
		"    with urllib.request.urlopen(request) as response:\n" +
		"        print(response.read().decode())\n" +
		"except urllib.error.HTTPError as problem:  # its code says why\n" +
		"    sys.exit(problem.read().decode())\n"
}

func (s sampled) java() string {
	return `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Example {
  public static void main(String[] args) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(System.getenv("LUMENHOOK_API") + "` +
		s.path + "\"))\n" +
		either(s.key, "        .header(\"Authorization\", "+
			"\"Bearer \" + System.getenv(\"LUMENHOOK_KEY\"))\n") +
		either(s.body != nil, "        .header(\"Content-Type\", \"application/json\")\n") +
		"        .method(\"" + s.method + "\", HttpRequest.BodyPublishers." +
		either(s.body == nil, "noBody()") +
		either(s.body != nil, "ofString(\"\"\"\n            "+s.json("            ")+"\"\"\")") +
		`)
        .build();
    var response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
    if (response.statusCode() >= 400) { // a problem: its code says why
      throw new IllegalStateException(response.body());
    }
    System.out.println(response.body());
  }
}
`
}

func (s sampled) rust() string {
	send := ".call()?"
	if s.body != nil {
		send = ".header(\"Content-Type\", \"application/json\")\n        .send(r#\"" +
			s.json("        ") + "\"#)?"
	} else if s.method == "POST" {
		send = ".send_empty()?"
	}
	return `// Cargo.toml: ureq = "3"
use std::env;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let mut response = agent
        .` + strings.ToLower(s.method) + "(format!(\"{}" + s.path +
		"\", env::var(\"LUMENHOOK_API\")?))\n" +
		either(s.key, "        .header(\"Authorization\", "+
			"format!(\"Bearer {}\", env::var(\"LUMENHOOK_KEY\")?))\n") +
		"        " + send + `;
    let text = response.body_mut().read_to_string()?;
    if !response.status().is_success() {
        return Err(text.into()); // a problem: its code says why
    }
    println!("{text}");
    Ok(())
}
`
}

// goProgram returns a program that calls the method of api/client.
func (s sampled) goProgram() string {
	name := strings.ToUpper(s.operation.OperationID[:1]) + s.operation.OperationID[1:]
	method, found := reflect.TypeFor[*client.Client]().MethodByName(name)
	if !found {
		panic(name + " is no method of the client")
	}
	arguments, of := []string{"context.Background()"}, method.Type
	for i := 2; i < of.NumIn(); i++ {
		if !of.IsVariadic() || i < of.NumIn()-1 {
			arguments = append(arguments, s.goArgument(of.In(i)))
		}
	}
	call := "c." + name + "(" + strings.Join(arguments, ", ") + ")"
	answer, verb := "answer, err :=", "%+v"
	if of.NumOut() == 1 {
		answer = "err ="
	} else if of.Out(0) == reflect.TypeFor[[]byte]() {
		verb = "%s"
	}
	const fail = "\tif err != nil {\n\t\tlog.Fatal(err)\n\t}\n"
	text := "package main\n\nimport (\n\"context\"\n" + either(of.NumOut() > 1, "\"fmt\"\n") +
		"\"log\"\n\"os\"\n" + either(strings.Contains(call, "time."), "\"time\"\n") +
		"\n\"github.com/lumenhook/lumenhook/api/client\"\n)\n\nfunc main() {\n" +
		"c, err := client.New(os.Getenv(\"LUMENHOOK_API\"), os.Getenv(\"LUMENHOOK_KEY\"), nil)\n" +
		fail + answer + " " + call + "\n" + fail +
		either(of.NumOut() > 1, "fmt.Printf(\""+verb+"\\n\", answer)\n") + "}\n"
	formatted, err := format.Source([]byte(text))
	if err != nil {
		panic(fmt.Sprintf("%v\n%s", err, text))
	}
	return string(formatted)
}

func (s *sampled) goArgument(of reflect.Type) string {
	value := reflect.New(of)
	switch {
	case of.Kind() == reflect.String:
		if len(s.arguments) == 0 {
			return `""`
		}
		first := s.arguments[0]
		s.arguments = s.arguments[1:]
		return fmt.Sprintf("%q", first)
	case of.Kind() == reflect.Int:
		return "60"
	case of == reflect.TypeFor[client.Page](), of == reflect.TypeFor[client.Pull]():
	default:
		fields := s.body
		if fields == nil {
			fields = s.query
		}
		text, err := json.Marshal(fields)
		if err == nil {
			err = json.Unmarshal(text, value.Interface())
		}
		if err != nil {
			panic(fmt.Sprintf("%s: %v", of, err))
		}
	}
	return goLiteral(value.Elem())
}

// goLiteral returns a value as a Go literal, without zero fields.
func goLiteral(v reflect.Value) string {
	name := strings.ReplaceAll(v.Type().String(), "interface {}", "any")
	var parts []string
	switch v.Kind() {
	case reflect.Pointer:
		return "new(" + goLiteral(v.Elem()) + ")"
	case reflect.Interface:
		if v.IsNil() {
			return "nil"
		}
		return goLiteral(v.Elem())
	case reflect.Struct:
		if at, ok := v.Interface().(time.Time); ok {
			return fmt.Sprintf("time.Date(%d, %d, %d, %d, %d, %d, 0, time.UTC)", at.Year(), at.Month(),
				at.Day(), at.Hour(), at.Minute(), at.Second())
		}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				parts = append(parts, v.Type().Field(i).Name+": "+goLiteral(v.Field(i)))
			}
		}
	case reflect.Map:
		for key, one := range v.Seq2() {
			parts = append(parts, fmt.Sprintf("%q: ", key.String())+goLiteral(one))
		}
		slices.Sort(parts)
	case reflect.Slice:
		for i := range v.Len() {
			parts = append(parts, goLiteral(v.Index(i)))
		}
	case reflect.String:
		return fmt.Sprintf("%q", v)
	case reflect.Bool, reflect.Int:
		return fmt.Sprint(v)
	default:
		return fmt.Sprintf("%s(%v)", name, v)
	}
	if len(parts) < 2 {
		return name + "{" + strings.Join(parts, "") + "}"
	}
	return name + "{\n" + strings.Join(parts, ",\n") + ",\n}"
}
