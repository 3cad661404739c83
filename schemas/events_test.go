package schemas_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// eventSchemas compiles the schema of each event type. A strict schema allows only the fields
// that it names.
func eventSchemas(t *testing.T, strict bool) map[domain.EventType]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	files, err := fs.Glob(schemas.Events, "events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	compiled := make(map[domain.EventType]*jsonschema.Schema)
	for _, file := range files {
		text, err := schemas.Events.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if strict {
			closeObjects(doc)
		}
		if err := compiler.AddResource("file:///"+file, doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	for _, file := range files {
		schema, err := compiler.Compile("file:///" + file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if name := strings.TrimSuffix(strings.TrimPrefix(file, "events/"), ".json"); name != "common" {
			compiled[domain.EventType(name)] = schema
		}
	}
	return compiled
}

// closeObjects forbids additional fields in every object with required fields. Objects without
// required fields are conditions.
func closeObjects(doc any) {
	switch v := doc.(type) {
	case map[string]any:
		if v["required"] != nil {
			v["additionalProperties"] = false
		}
		for _, each := range v {
			closeObjects(each)
		}
	case []any:
		for _, each := range v {
			closeObjects(each)
		}
	}
}

func validate(schema *jsonschema.Schema, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

func drawPayment(t *rapid.T) domain.Payment {
	address := func(name, prefix string) string {
		return prefix + rapid.StringOfN(rapid.RuneFrom([]rune(alphabet)), 55, 55, -1).Draw(t, name)
	}
	asset := domain.NativeAsset()
	if rapid.Bool().Draw(t, "issued") {
		asset = domain.Asset{
			Code:   rapid.StringMatching("[A-Za-z0-9]{1,12}").Draw(t, "code"),
			Issuer: address("issuer", "G"),
		}
	}
	return domain.Payment{
		ID:             rapid.StringMatching("[1-9][0-9]{0,18}(-[0-9]{1,3})?").Draw(t, "id"),
		TxHash:         rapid.StringMatching("[0-9a-f]{64}").Draw(t, "hash"),
		Ledger:         rapid.Uint32Min(1).Draw(t, "ledger"),
		ClosedAtMillis: 1000 * rapid.Int64Range(0, 253_402_300_799).Draw(t, "closed"),
		From:           address("from", rapid.SampledFrom([]string{"G", "C"}).Draw(t, "kind")),
		To:             address("to", "G"),
		ToMuxedID:      rapid.StringMatching("([1-9][0-9]{0,19})?").Draw(t, "muxed"),
		Memo:           drawMemo(t),
		Asset:          asset,
		AmountStroops:  rapid.Int64Range(0, math.MaxInt64).Draw(t, "stroops"),
	}
}

func drawMemo(t *rapid.T) domain.Memo {
	m := domain.Memo{Type: rapid.SampledFrom([]domain.MemoType{
		domain.MemoNone, domain.MemoText, domain.MemoID, domain.MemoHash,
		domain.MemoReturn,
	}).Draw(t, "memo type")}
	switch m.Type {
	case domain.MemoText:
		m.Raw = rapid.SliceOfN(rapid.Byte(), 0, 28).Draw(t, "text")
	case domain.MemoID:
		m.Raw = []byte(rapid.StringMatching("0|[1-9][0-9]{0,18}").Draw(t, "memo id"))
	case domain.MemoHash, domain.MemoReturn:
		m.Raw = rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "memo hash")
	}
	return m
}

// The body of every event must match the schema of its own type and no other.
func TestEventsKeepTheirSchema(t *testing.T) {
	strict := eventSchemas(t, true)
	reasons := []domain.Reason{
		domain.ReasonAssetNotAccepted, domain.ReasonAmountMismatch, domain.ReasonAmountTooLow,
		domain.ReasonAmountTooHigh, domain.ReasonMemoRequired,
		domain.ReasonMemoNotAllowed, domain.ReasonMemoTypeMismatch, domain.ReasonMemoMismatch,
		domain.ReasonSenderNotAllowed,
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPayment(t)
		label := rapid.String().Draw(t, "label")
		match := domain.Match{
			EventID:      domain.EventID("wat_1", p.ID),
			Type:         domain.PaymentReceived,
			Payment:      p,
			Verification: domain.Verification{Outcome: domain.OutcomeVerified},
			Watch: domain.Watch{
				ID:            domain.DeriveID(domain.WatchPrefix, p.ID),
				Label:         label,
				WalletAddress: p.To,
			},
		}
		if n := rapid.IntRange(0, len(reasons)).Draw(t, "reasons"); n > 0 {
			match.Type, match.Verification = domain.PaymentRejected,
				domain.Verification{Outcome: domain.OutcomeRejected, Reasons: reasons[:n]}
		}
		nowMillis := rapid.Int64Range(0, 253_402_300_799_000).Draw(t, "now")
		endpoint := domain.Endpoint{
			ID: domain.DeriveID(domain.EndpointPrefix, p.ID),
			EndpointSettings: domain.EndpointSettings{
				URL:         "https://shop.example/",
				Description: label,
			},
		}
		for _, event := range []domain.Event{
			domain.NewPaymentEvent(match, nowMillis),
			domain.NewTestEvent(endpoint, domain.TestEventID(p.ID), nowMillis),
			sampleEvent(p.ID, nowMillis),
		} {
			for typ, schema := range strict {
				if err := validate(schema, event.Body); (err == nil) != (typ == event.Type) {
					t.Fatalf("%s against %s: %v\n%s", event.Type, typ, err, event.Body)
				}
			}
		}
	})
}

// sampleEvent returns a sample as its receiver sees it.
func sampleEvent(id string, nowMillis int64) domain.Event {
	event := domain.NewSampleEvent(domain.TestEventID(id), nowMillis)
	event.Type = domain.PaymentReceived
	return event
}

// The schemas must detect errors but allow additions.
func TestSchemasRefuse(t *testing.T) {
	published := eventSchemas(t, false)
	if len(published) != 5 {
		t.Fatalf("%d event types have a schema", len(published))
	}
	var body string
	for _, each := range readVectors(t).Vectors {
		if strings.Contains(each.Body, "payment.received") {
			body = each.Body
		}
	}
	for name, c := range map[string]struct {
		from, to string
		valid    bool
	}{
		"as sent":               {"", "", true},
		"another field":         {`"data":{`, `"data":{"new":1,`, true},
		"another type":          {`"type":"payment.received"`, `"type":"payment.rejected"`, false},
		"another version":       {`2026-11-01`, `2026-11-02`, false},
		"a short id":            {`"id":"evt_5`, `"id":"evt_`, false},
		"milliseconds missing":  {`:00.456Z`, `:00Z`, false},
		"milliseconds, ledger":  {`:57Z`, `:57.000Z`, false},
		"a number for a string": {`"amountStroops":"125000000"`, `"amountStroops":125000000`, false},
		"six digits":            {`"amount":"12.5000000"`, `"amount":"12.500000"`, false},
		"a memo without type":   {`"memoType":"text"`, `"memoType":null`, false},
		"a text called a hash":  {`"memoType":"text"`, `"memoType":"hash"`, false},
		"an issuer of nothing":  {`"code":"XLM"`, `"code":"USD"`, false},
		"no muxed id":           {`"toMuxedId":null,`, ``, false},
		"verified with reasons": {`"reasons":[]`, `"reasons":["AMOUNT_TOO_LOW"]`, false},
	} {
		changed := strings.Replace(body, c.from, c.to, 1)
		if c.from != "" && changed == body || !json.Valid([]byte(changed)) {
			t.Fatalf("%s: the body has no %s", name, c.from)
		}
		if err := validate(published[domain.PaymentReceived], []byte(changed)); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The published events, which receivers test their types with, must match their schemas. Between
// them they must contain every field, every enumeration value, and both forms of each nullable
// field.
func TestPublishedEventsUseTheSchemasInFull(t *testing.T) {
	var text []byte
	var events []json.RawMessage
	for _, file := range []string{"vectors/events.json", "vectors/notices.json"} {
		list, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var more []json.RawMessage
		if err := json.Unmarshal(list, &more); err != nil {
			t.Fatal(err)
		}
		text, events = append(text, list...), append(events, more...)
	}
	strict := eventSchemas(t, true)
	for _, event := range events {
		var typed struct{ Type domain.EventType }
		if err := json.Unmarshal(event, &typed); err != nil {
			t.Fatal(err)
		}
		if err := validate(strict[typed.Type], event); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
	for word := range wordsOf(t) {
		if !bytes.Contains(text, []byte(word)) {
			t.Errorf("no published event has %s", word)
		}
	}
	for _, name := range []string{"toMuxedId", "memo", "memoType", "issuer"} {
		for _, value := range []string{`":null`, `":"`} {
			if !bytes.Contains(text, []byte(`"`+name+value)) {
				t.Errorf("no published event has \"%s%s", name, value)
			}
		}
	}
}

// wordsOf returns the field names, with a colon, and the enumeration values in the schemas.
func wordsOf(t *testing.T) map[string]bool {
	t.Helper()
	words := make(map[string]bool)
	var walk func(doc any)
	walk = func(doc any) {
		switch v := doc.(type) {
		case map[string]any:
			if properties, ok := v["properties"].(map[string]any); ok {
				for name := range properties {
					words[`"`+name+`":`] = true
				}
			}
			if values, ok := v["enum"].([]any); ok {
				for _, value := range values {
					quoted, err := json.Marshal(value)
					if err != nil {
						t.Fatal(err)
					}
					words[string(quoted)] = true
				}
			}
			for _, each := range v {
				walk(each)
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		}
	}
	files, err := fs.Glob(schemas.Events, "events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := schemas.Events.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		walk(doc)
	}
	if len(words) < 40 {
		t.Fatalf("the schemas have %d words", len(words))
	}
	return words
}
