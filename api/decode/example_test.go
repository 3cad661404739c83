package decode_test

import (
	"fmt"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
)

// A body is decoded by a list of its fields. All its faults are found at once.
func ExampleObject() {
	var name string
	var rate int
	faults := decode.Object([]byte(`{"name":7,"rate":0,"colour":"red"}`),
		decode.Into("name", &name, func(v decode.Value) string {
			name, _ := v.RequiredText(20)
			return name
		}),
		decode.Into("rate", &rate, func(v decode.Value) int {
			rate, _ := v.Integer(1, 100)
			return rate
		}))
	p := problem.Of(faults.Err())
	fmt.Println(p.Status, p.Code)
	for _, f := range p.Errors {
		fmt.Println(f.Pointer, f.Code, f.Detail)
	}
	// Output:
	// 422 VALIDATION_FAILED
	// /colour UNKNOWN_FIELD is not a field here; the fields are name, rate
	// /name INVALID_TYPE must be a string, got a number
	// /rate OUT_OF_RANGE must be a whole number from 1 to 100
}

// Fields that a merge patch doesn't contain stay nil, and null restores a field's default. A
// read-only field of the object may be sent back unchanged.
func ExamplePatch() {
	var name, label, note *string
	text := func(v decode.Value) string {
		s, _ := v.Text(20)
		return s
	}
	shown := decode.Shown{Object: map[string]any{"id": "7", "name": "old", "state": "ok"}}
	faults := decode.Patch([]byte(`{"id":"7","name":"shop","label":null}`), shown,
		decode.IntoNew("name", &name, text),
		decode.IntoNew("label", &label, text),
		decode.IntoNew("note", &note, text))
	fmt.Printf("%v %q %q %v\n", faults.Err(), *name, *label, note)
	fmt.Println(decode.Patch([]byte(`{"state":"ok"}`), shown).Err())
	refused := problem.Of(decode.Patch([]byte(`{"state":"bad"}`), shown).Err())
	fmt.Println(refused.Errors[0].Pointer, refused.Errors[0].Code)
	// Output:
	// <nil> "shop" "" <nil>
	// <nil>
	// /state CANNOT_CHANGE
}

// A body that isn't JSON is refused as a whole, with the position of the error.
func ExampleObject_syntax() {
	p := problem.Of(decode.Object([]byte(`{"a":{"b":1,"b":2}}`)).Err())
	fmt.Println(p.Status, p.Detail)
	fmt.Println(p.Errors[0].Pointer, p.Errors[0].Code)
	// Output:
	// 400 The body is refused at byte 12: a name occurs twice in one object.
	// /a/b DUPLICATE_NAME
}
