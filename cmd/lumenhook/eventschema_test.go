package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lumenhook/lumenhook/schemas"
)

// checkEvents returns a function that validates a webhook's body against the JSON Schema of its
// type.
func checkEvents(t *testing.T) func(body []byte) error {
	t.Helper()
	files, err := fs.Glob(schemas.Events, "events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	for _, file := range files {
		text, err := schemas.Events.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource("file:///"+file, doc); err != nil {
			t.Fatal(err)
		}
	}
	byType := make(map[string]*jsonschema.Schema)
	for _, file := range files {
		schema, err := compiler.Compile("file:///" + file)
		if err != nil {
			t.Fatal(err)
		}
		byType[strings.TrimSuffix(strings.TrimPrefix(file, "events/"), ".json")] = schema
	}
	return func(body []byte) error {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
		if err != nil {
			return err
		}
		envelope, _ := v.(map[string]any)
		name, _ := envelope["type"].(string)
		schema, known := byType[name]
		if !known || name == "common" {
			return fmt.Errorf("there is no schema of the type %q", name)
		}
		return schema.Validate(v)
	}
}

func TestADeliveryThatDepartsFromItsSchemaIsFound(t *testing.T) {
	check := checkEvents(t)
	good := `{"id":"evt_1v3x5z7b9d2f4h6k8m0p2r4t6w","type":"test.ping","apiVersion":"2026-11-01","createdAt":"2026-11-21T10:15:30.123Z",` +
		`"data":{"endpoint":{"id":"ep_4j8g2m1v7q0x9z3k5n6p8r2t4w","url":"https://a.example/","description":""}}}`
	if err := check([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		strings.Replace(good, "test.ping", "common", 1), strings.Replace(good, `"url"`, `"uri"`, 1),
		strings.Replace(good, ".123Z", "Z", 1), strings.Replace(good, "test.ping", "payment.received", 1),
		"[]",
	} {
		if check([]byte(bad)) == nil {
			t.Errorf("passes: %s", bad)
		}
	}
}
