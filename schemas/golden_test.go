package schemas_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

var record = flag.Bool("record", false, "write golden files that are missing; existing ones are never changed")

var (
	goldenWatch = domain.Watch{
		ID: "wat_1", AccountID: "acc_1", WalletAddress: "GWALLET", Label: "shop", EndpointID: "ep_1",
		Rules: domain.Rules{
			Assets:          []domain.Asset{{Code: "XLM"}, {Code: "USD", Issuer: "GISSUER"}},
			Amount:          domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 50},
			Memo:            domain.MemoRule{Kind: domain.MemoEquals, Value: domain.Memo{Type: domain.MemoID, Raw: []byte("42")}},
			SenderAllowlist: []string{"GSENDER", "CSENDER"},
		},
		EventTypes: []domain.EventType{domain.PaymentReceived, domain.PaymentRejected}, CreatedAtMillis: 1000, UpdatedAtMillis: 2000,
	}
	goldenKey = domain.Key{ID: "key_1", Name: "shop", Hash: []byte{1, 2, 3}, Permissions: domain.Permissions(), CreatedAtMillis: 1000}
)

// goldenFacts has one fact of every type.
var goldenFacts = []domain.FactBody{
	domain.AccountCreated{AccountID: "acc_1", Email: "a@example.com"},
	domain.KeyCreated{Key: goldenKey},
	domain.EndpointCreated{EndpointID: "ep_1", AccountID: "acc_1", URL: "https://shop.example/hook", Description: "shop", Secret: domain.SealedSecret{Sealed: []byte{9}, CreatedAtMillis: 1000, ExpiresAtMillis: 3000}},
	domain.WatchCreated{Watch: goldenWatch},
	domain.DeliveryCreated{AccountID: "acc_1", EndpointID: "ep_1", WatchID: "wat_1", WalletAddress: "GWALLET", Event: domain.Event{ID: "evt_1", Type: domain.PaymentReceived, CreatedAtMillis: 900, Body: []byte(`{"id":"evt_1"}`)}},
	domain.AttemptMade{
		EventID: "evt_1", EventType: domain.PaymentReceived, Number: 3, Run: 2, State: domain.StateWaiting, NextAttemptAtMillis: 5000,
		Result: domain.AttemptResult{SentAtMillis: 1100, DurationMillis: 7, StatusCode: 503, Error: domain.AttemptTimeout, ResponseBody: []byte{0xff, 'x'}},
	},
	domain.DeliveryCancelled{EventID: "evt_1"},
	domain.CommandHandled{CommandID: "cmd_1", BodyHash: []byte{7}, Answer: domain.Answer{Watch: &goldenWatch}},
}

// TestGoldenFacts reads every golden file, and holds that what is written today
// is what the file has. A fact type that changes gets a new version and file.
func TestGoldenFacts(t *testing.T) {
	for _, body := range goldenFacts {
		f := domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Cause: "cmd_1", Body: body}
		m := schemas.EncodeFact(f)
		path := filepath.Join("golden", m.Type+".v"+m.Version+".hex")
		t.Run(m.Type, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) && *record {
				text = []byte(hex.EncodeToString(m.Value) + "\n")
				err = os.WriteFile(path, text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			golden, err := hex.DecodeString(strings.TrimSpace(string(text)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(golden, m.Value) {
				t.Errorf("is written as %x, and the golden file has %x: give the new form a new schema version", m.Value, golden)
			}
			got, err := schemas.DecodeFact(schemas.Message{Type: m.Type, Version: m.Version, Cause: "cmd_1", Value: golden})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, f) {
				t.Errorf("reads as %+v, not %+v", got, f)
			}
		})
	}
	files, err := filepath.Glob("golden/*.hex")
	if err != nil || len(files) != len(goldenFacts) {
		t.Errorf("%d golden files and %d fact types (%v)", len(files), len(goldenFacts), err)
	}
}

func TestWhatIsUnknownIsRefused(t *testing.T) {
	for name, m := range map[string]schemas.Message{
		"another type":    {Type: "Nonsense", Version: "1"},
		"another version": {Type: "AccountCreated", Version: "2"},
		"not Protobuf":    {Type: "AccountCreated", Version: "1", Value: []byte{0xff}},
	} {
		if _, err := schemas.DecodeFact(m); err == nil {
			t.Errorf("%s was read as a fact", name)
		}
	}
}

func TestCommandsAndRowsComeBack(t *testing.T) {
	for _, body := range []domain.CommandBody{
		domain.CreateAccount{AccountID: "acc_1", Email: "a@example.com", Key: goldenKey},
		domain.CreateEndpoint{EndpointID: "ep_1", AccountID: "acc_1", URL: "https://x", Description: "d", SealedSecret: []byte{1}},
		domain.CreateWatch{Watch: goldenWatch},
	} {
		c := domain.Command{ID: "cmd_1", AccountID: "acc_1", BodyHash: []byte{5}, IssuedAtMillis: 77, Body: body}
		got, err := schemas.DecodeCommand(schemas.EncodeCommand(c))
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, %v", body.CommandType(), got, err)
		}
	}
	if got, err := schemas.DecodeWatch(schemas.EncodeWatch(goldenWatch)); err != nil || !reflect.DeepEqual(got, goldenWatch) {
		t.Errorf("watch: %+v, %v", got, err)
	}
	rejected := domain.Result{CommandID: "cmd_1", BodyHash: []byte{5}, Answer: domain.Answer{Rejection: &domain.Rejection{Code: "X", Detail: "y"}}, Replayed: true}
	if got, err := schemas.DecodeResult(schemas.EncodeResult(rejected)); err != nil || !reflect.DeepEqual(got, rejected) {
		t.Errorf("result: %+v, %v", got, err)
	}
}
