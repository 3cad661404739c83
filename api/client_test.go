package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit/openapicheck"
)

func TestTheClientHasEveryOperation(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	var described, methods []string
	for _, item := range document.Paths.Map() {
		for _, o := range item.Operations() {
			described = append(described, strings.ToUpper(o.OperationID[:1])+o.OperationID[1:])
		}
	}
	of := reflect.TypeFor[*client.Client]()
	for i := range of.NumMethod() {
		methods = append(methods, of.Method(i).Name)
	}
	slices.Sort(described)
	if !slices.Equal(described, methods) {
		t.Errorf("described %v\nmethods   %v", described, methods)
	}
}

// Every struct of the client must have the fields that the document describes.
func TestTheClientsStructsAreTheDocuments(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of    reflect.Type
		names []string // the struct has the fields of all of these
	}{
		{
			reflect.TypeFor[client.Endpoint](),
			[]string{"Endpoint", "EndpointCreated", "EndpointChanged", "EndpointRotated"},
		},
		{reflect.TypeFor[client.EndpointCreate](), []string{"EndpointCreate"}},
		{reflect.TypeFor[client.TestResult](), []string{"TestResult"}},
		{reflect.TypeFor[client.Test](), []string{"Test"}},
		{reflect.TypeFor[client.Replay](), []string{"Replay"}},
		{reflect.TypeFor[client.ReplayResult](), []string{"ReplayResult"}},
		{reflect.TypeFor[client.ResendMany](), []string{"ResendMany"}},
		{reflect.TypeFor[client.ResendManyResult](), []string{"ResendManyResult"}},
		{reflect.TypeFor[client.ResendRefused](), []string{"ResendRefused"}},
		{reflect.TypeFor[client.Fulfilment](), []string{"Fulfilment"}},
		{reflect.TypeFor[client.Asset](), []string{"Asset"}},
		{reflect.TypeFor[client.AmountRule](), []string{"AmountRuleInput"}},
		{reflect.TypeFor[client.MemoRule](), []string{"MemoRuleInput"}},
		{reflect.TypeFor[client.Watch](), []string{"Watch", "WatchCreated"}},
		{reflect.TypeFor[client.WatchCreate](), []string{"WatchCreate"}},
		{reflect.TypeFor[client.Backfill](), []string{"Backfill"}},
		{reflect.TypeFor[client.Rates](), []string{"Rates"}},
		{reflect.TypeFor[client.RatesMinute](), []string{"RatesMinute"}},
		{reflect.TypeFor[client.WatchCheck](), []string{"WatchCheck"}},
		{reflect.TypeFor[client.BackfillCreate](), []string{"BackfillCreate"}},
		{reflect.TypeFor[client.Event](), []string{"EventRecord", "EventSummary"}},
		{reflect.TypeFor[client.Delivery](), []string{"Delivery", "ListedDelivery"}},
		{reflect.TypeFor[client.EndpointHealth](), []string{"EndpointHealth"}},
		{reflect.TypeFor[client.AttemptCounts](), []string{"AttemptCounts"}},
		{reflect.TypeFor[client.Attempt](), []string{"Attempt"}},
		{reflect.TypeFor[client.Resent](), []string{"Resent"}},
		{reflect.TypeFor[client.Receipt](), []string{"Receipt"}},
		{reflect.TypeFor[client.ReceiptLog](), []string{"ReceiptLog"}},
		{reflect.TypeFor[client.ReceiptEarlier](), []string{"ReceiptEarlier"}},
		{reflect.TypeFor[client.ReceiptAttempt](), []string{"ReceiptAttempt"}},
		{reflect.TypeFor[client.Key](), []string{"Key", "KeyCreated"}},
		{reflect.TypeFor[client.KeyCreate](), []string{"KeyCreate"}},
		{reflect.TypeFor[client.KeyRoll](), []string{"KeyRoll"}},
		{
			reflect.TypeFor[client.List[client.Key]](),
			[]string{"KeyList", "WatchList", "EndpointList", "EventList"},
		},
		{reflect.TypeFor[client.Readiness](), []string{"Readiness"}},
		{reflect.TypeFor[client.Problem](), []string{"Problem"}},
	} {
		for _, departure := range departures(document, c.of, c.names) {
			// A replay covers one endpoint and only failed deliveries, so it lacks these filters.
			if c.of == reflect.TypeFor[client.Replay]() && (departure == "endpointId is not described" ||
				departure == "state is not described") {
				continue
			}
			t.Errorf("%s: %s", c.of, departure)
		}
	}
}

// departures returns the differences between a struct of the client and objects of the document.
func departures(document *openapi3.T, of reflect.Type, names []string) (found []string) {
	fields := map[string]reflect.StructField{}
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "-" && !field.Anonymous {
			fields[name] = field
		}
	}
	described := map[string][]string{} // JSON types by name
	required := map[string]bool{}      // required in all of the objects
	for n, name := range names {
		object := document.Components.Schemas[name].Value
		for property, schema := range object.Properties {
			described[property] = append(described[property], typesOf(schema)...)
			required[property] = slices.Contains(object.Required, property) &&
				(n == 0 || required[property])
		}
	}
	for name := range described {
		if _, has := fields[name]; !has {
			found = append(found, "lacks "+name)
		}
	}
	for name, field := range fields {
		types, is := described[name]
		optional := field.Type.Kind() == reflect.Pointer ||
			strings.Contains(field.Tag.Get("json"), ",omit")
		switch {
		case !is:
			found = append(found, name+" is not described")
		case !slices.Contains(types, jsonType(field.Type)):
			found = append(found, fmt.Sprintf("%s is a %s, and of %v in the document", name, field.Type,
				types))
		case (!required[name] || slices.Contains(types, "null")) && !optional:
			found = append(found, name+" may be absent or null, and the client cannot say so")
		}
	}
	return found
}

func typesOf(s *openapi3.SchemaRef) []string {
	types := s.Value.Type.Slice()
	for _, one := range slices.Concat(s.Value.AnyOf, s.Value.OneOf) {
		types = append(types, typesOf(one)...)
	}
	return types
}

func jsonType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "object"
	case t == reflect.TypeFor[time.Time]():
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "array"
	}
	return "object"
}

// TestAStructThatDepartsFromTheDocumentIsFound shows that the comparison can fail.
func TestAStructThatDepartsFromTheDocumentIsFound(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	type wrong struct {
		Kind   int    `json:"kind"`
		Amount string `json:"amount"`
		Min    string `json:"min,omitempty"`
		Most   string `json:"most,omitempty"`
	}
	found := departures(document, reflect.TypeFor[wrong](), []string{"AmountRuleInput"})
	slices.Sort(found)
	want := []string{
		"amount may be absent or null, and the client cannot say so",
		"kind is a int, and of [string] in the document",
		"lacks max",
		"most is not described",
	}
	if !slices.Equal(found, want) {
		t.Errorf("found %q", found)
	}
}

// checked returns a transport that compares requests and responses with the document.
func checked(t *testing.T) http.RoundTripper {
	return openapicheck.Transport{
		Base:    http.DefaultTransport,
		Departs: func(err error) { t.Error(err) },
	}
}

func TestTheClient(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	c, err := client.New(w.server.URL, w.newKey(account("a"), domain.Permissions()...),
		&http.Client{Transport: checked(t)})
	if err != nil {
		t.Fatal(err)
	}
	must := func(what string, err error, holds bool) {
		t.Helper()
		if err != nil || !holds {
			t.Fatalf("%s: %v", what, err)
		}
	}
	e, err := c.CreateEndpoint(ctx,
		client.EndpointCreate{
			URL:                "https://a.example/",
			Headers:            map[string]string{"X-A": "1"},
			RateLimitPerSecond: 5,
		})
	must("create", err, e.Secret != "" && e.ETag == `"1"` && e.Headers["X-A"] == "[redacted]")
	e, err = c.UpdateEndpoint(ctx, e.ID, client.Patch{"description": "mine", "headers": nil},
		client.IfMatch(e.ETag))
	must("update", err, e.Description == "mine" && len(e.Headers) == 0)
	_, err = c.UpdateEndpoint(ctx, e.ID, client.Patch{"description": "x"}, client.IfMatch(`"1"`))
	var problem *client.Problem
	if !errors.As(err, &problem) || problem.Code != "PRECONDITION_FAILED" {
		t.Fatal(err)
	}
	_, err = c.DisableEndpoint(ctx, e.ID)
	must("disable", err, true)
	e, err = c.EnableEndpoint(ctx, e.ID)
	must("enable", err, e.Status == "active")
	e, err = c.RotateSecret(ctx, e.ID)
	must("rotate", err, e.Secret != "")
	e, err = c.GetEndpoint(ctx, e.ID)
	must("get", err, e.Secret == "" && *e.RateLimitPerSecond == 5)
	list, err := c.ListEndpoints(ctx, client.EndpointFilter{Status: "active"}, client.Page{Limit: 1})
	must("list", err, len(list.Data) == 1 && list.NextCursor == nil)
	test, err := c.TestEndpoint(ctx, e.ID, client.Test{})
	must("test", err, *test.Attempt.StatusCode == 204)
	event, err := c.GetEvent(ctx, test.EventID)
	must("event", err, event.Delivery.State == "DELIVERED" && len(event.Attempts) == 1)
	events, err := c.ListEvents(ctx,
		client.EventFilter{EndpointID: e.ID, Since: w.now.Add(-time.Hour), Until: w.now.Add(time.Hour)},
		client.Page{})
	must("events", err, len(events.Data) == 1)
	resent, err := c.ResendEvent(ctx, test.EventID)
	must("resend", err, resent.Delivery.State == "QUEUED")
	replay, err := c.ReplayEndpoint(ctx, e.ID, client.Replay{
		EventFilter: client.EventFilter{Since: w.now},
	})
	must("replay", err, replay.Queued == 0)
	many, err := c.ResendEvents(ctx, client.ResendMany{
		EventFilter: client.EventFilter{EndpointID: e.ID, Type: "test.ping"},
	})
	must("resend many", err, many.Queued == 1 && many.Matched == 1 && many.NextCursor == nil)
	watch, err := c.CreateWatch(ctx,
		client.WatchCreate{
			WalletAddress: wallet,
			EndpointID:    e.ID,
			Assets:        []client.Asset{{Code: "XLM"}},
			AmountRule:    &client.AmountRule{Kind: "min", Amount: "1"},
		})
	must("watch", err, len(watch.Warnings) == 1 && watch.ETag != "")
	watch, err = c.UpdateWatch(ctx, watch.ID, client.Patch{"label": "x"}, client.IfMatch(watch.ETag))
	must("update", err, watch.Label == "x")
	watch, err = c.GetWatch(ctx, watch.ID)
	must("get", err, watch.Status == "active")
	watch, err = c.BackfillWatch(ctx, watch.ID, client.BackfillCreate{From: 7})
	must("backfill", err, watch.Backfill.From == 7 && watch.Backfill.To == nil && !watch.Backfill.Done)
	rates, err := c.GetRates(ctx, e.ID, 5)
	must("rates", err, rates.Minutes != nil && rates.To.Sub(rates.From) == 5*time.Minute)
	check, err := c.CheckWatch(ctx, watch.ID, client.ImaginedPayment{Amount: "2", Asset: "XLM"})
	must("check", err,
		*check.EventType == "payment.received" && check.Verification.Outcome == "VERIFIED")
	watches, err := c.ListWatches(ctx, client.WatchFilter{WalletAddress: wallet}, client.Page{})
	must("watches", err, len(watches.Data) == 1)
	must("delete", c.DeleteWatch(ctx, watch.ID), true)
	_, err = c.DeleteEndpoint(ctx, e.ID)
	must("delete", err, true)
	key, err := c.CreateKey(ctx, client.KeyCreate{Permissions: []string{"read"}})
	must("key", err, key.Key != nil)
	rolled, err := c.RollKey(ctx, key.ID, client.KeyRoll{})
	must("roll", err, *rolled.Key != *key.Key)
	key, err = c.GetKey(ctx, key.ID)
	must("get", err, *key.RolledTo == rolled.ID && key.Key == nil)
	keys, err := c.ListKeys(ctx, client.Page{Limit: 2})
	must("keys", err, len(keys.Data) == 2 && keys.NextCursor != nil)
	must("revoke", c.RevokeKey(ctx, rolled.ID), true)
	must("health", c.GetHealth(ctx), true)
	ready, err := c.GetReadiness(ctx)
	must("ready", err, ready.Status == "ready")
	for _, text := range []func() ([]byte, error){
		func() ([]byte, error) { return c.GetOpenAPI(ctx) },
		func() ([]byte, error) { return c.GetDocs(ctx) },
		func() ([]byte, error) { return c.GetOpenAPIJSON(ctx) },
		func() ([]byte, error) { return c.GetSignatureVectors(ctx) },
	} {
		got, err := text()
		must("text", err, len(got) > 0)
	}
	_, err = c.CreateWatch(ctx, client.WatchCreate{})
	if !errors.As(err, &problem) || len(problem.Errors) < 2 ||
		!strings.Contains(err.Error(), "/walletAddress") {
		t.Errorf("%v", err)
	}
}

// If a response is lost, the client must repeat the request, and the write must take effect once.
func TestTheClientRepeatsAWriteThatWasNotAnswered(t *testing.T) {
	w := newWorld(t)
	lossy := &losing{t: t, world: w}
	c, err := client.New(w.server.URL, w.newKey(account("a"), domain.Permissions()...),
		&http.Client{Transport: lossy})
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.CreateEndpoint(t.Context(), client.EndpointCreate{URL: "https://a.example/"})
	if err != nil || e.Secret == "" || w.facts != 1 || lossy.count != 2 {
		t.Fatalf("%v: %d facts after %d requests", err, w.facts, lossy.count)
	}
	if _, err := client.New("127.0.0.1:80", "", nil); err == nil {
		t.Error("an address without a scheme is taken")
	}
}

// losing loses the first response.
type losing struct {
	t     *testing.T
	world *world
	count int
}

func (l *losing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if l.count++; l.count > 1 || err != nil {
		return response, err
	}
	response.Body.Close()
	return nil, api.ErrCommandUnanswered
}
