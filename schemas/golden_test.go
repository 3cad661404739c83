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

var record = flag.Bool("record", false,
	"write golden files that are missing; existing ones are never changed")

var (
	goldenWatch = domain.Watch{
		ID:            "wat_1",
		AccountID:     "acc_1",
		WalletAddress: "GWALLET",
		Label:         "shop",
		EndpointID:    "ep_1",
		Rules: domain.Rules{
			Assets: []domain.Asset{{Code: "XLM"}, {Code: "USD", Issuer: "GISSUER"}},
			Amount: domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 50},
			Memo: domain.MemoRule{
				Kind:  domain.MemoEquals,
				Value: domain.Memo{Type: domain.MemoID, Raw: []byte("42")},
			},
			SenderAllowlist: []string{"GSENDER", "CSENDER"},
		},
		EventTypes:      []domain.EventType{domain.PaymentReceived, domain.PaymentRejected},
		CreatedAtMillis: 1000,
		UpdatedAtMillis: 2000,
	}
	goldenKey = domain.Key{
		ID:              "key_1",
		Name:            "shop",
		Hash:            []byte{1, 2, 3},
		Permissions:     domain.Permissions(),
		CreatedAtMillis: 1000,
	}
)

var goldenFacts = []domain.FactBody{
	domain.AccountCreated{AccountID: "acc_1", Email: "a@example.com"},
	domain.KeyCreated{Key: goldenKey},
	domain.EndpointCreated{
		EndpointID: "ep_1",
		AccountID:  "acc_1",
		EndpointSettings: domain.EndpointSettings{
			URL:         "https://shop.example/hook",
			Description: "shop",
		},
		Secret: domain.SealedSecret{Sealed: []byte{9}, CreatedAtMillis: 1000, ExpiresAtMillis: 3000},
	},
	domain.WatchCreated{Watch: goldenWatch},
	domain.DeliveryCreated{
		AccountID:     "acc_1",
		EndpointID:    "ep_1",
		WatchID:       "wat_1",
		WalletAddress: "GWALLET",
		Event: domain.Event{
			ID:              "evt_1",
			Type:            domain.PaymentReceived,
			CreatedAtMillis: 900,
			Body:            []byte(`{"id":"evt_1"}`),
		},
	},
	domain.AttemptMade{
		EventID:             "evt_1",
		EventType:           domain.PaymentReceived,
		Number:              3,
		Run:                 2,
		State:               domain.StateWaiting,
		NextAttemptAtMillis: 5000,
		Result: domain.AttemptResult{
			SentAtMillis:   1100,
			DurationMillis: 7,
			StatusCode:     503,
			Error:          domain.AttemptTimeout,
			ResponseBody:   []byte{0xff, 'x'},
		},
	},
	domain.DeliveryCancelled{EventID: "evt_1"},
	domain.CommandHandled{
		CommandID: "cmd_1",
		BodyHash:  []byte{7},
		Answer:    domain.Answer{Watch: &goldenWatch},
	},
	domain.KeyRolled{KeyID: "key_1", ExpiresAtMillis: 9000, Key: laterKey},
	domain.KeyRevoked{KeyID: "key_1"},
	domain.EndpointUpdated{Change: endpointChange},
	domain.SecretRotated{Secret: domain.SealedSecret{Sealed: []byte{8}, CreatedAtMillis: 2000}},
	domain.SecretsResealed{Secrets: laterEndpoint.Secrets, Headers: headers},
	domain.EndpointDisabled{
		Reason:         domain.DisabledGone,
		EventID:        "evt_1",
		LastStatusCode: 410,
		LastError:      domain.AttemptBodyTooLarge,
	},
	domain.EndpointEnabled{},
	domain.EndpointDeleted{},
	domain.WatchUpdated{Change: watchChange},
	domain.WatchDeleted{},
	domain.DeliveryRequeued{
		EventID:             "evt_1",
		Run:                 2,
		NextAttemptAtMillis: 5000,
		Reason:              domain.RequeueReplay,
	},
	domain.DeliveryRecalled{Delivery: domain.Delivery{
		EventID:           "evt_1",
		EventType:         domain.PaymentReceived,
		AccountID:         "acc_1",
		EndpointID:        "ep_1",
		WatchID:           "wat_1",
		State:             domain.StateDelivered,
		CreatedAtMillis:   900,
		Attempts:          4,
		Run:               2,
		Moves:             1,
		FormerEndpointIDs: []string{"ep_0"},
	}},
	domain.BackfillRequested{From: 2, To: 900},
	domain.RangeCovered{Request: 4, From: 2, To: 99, Until: 800, LiveSince: 801},
	domain.PartBegun{Request: 4, From: 100, To: 199},
	domain.BackfillStopped{Request: 4, Problem: "ledger 100 is not kept"},
	domain.DeliveryMoved{EventID: "evt_1", ToEndpointID: "ep_2", Moves: 3},
	domain.MailOrdered{Notice: 9, Number: 2, NextAtMillis: 5000},
	domain.MailAttempted{
		Notice:       9,
		Number:       2,
		Outcome:      domain.MailRetried,
		NextAtMillis: 5000,
	},
}

// goldenOrder and goldenAnswer are messages between an engine and a mailer.
var (
	goldenOrder = domain.MailOrder{
		EndpointID:  "ep_1",
		AccountID:   "acc_1",
		URL:         "https://shop.example/hook",
		Description: "shop",
		Enabled:     true,
		Notice:      9,
		AtMillis:    1000,
		Disabled: domain.EndpointDisabled{
			Reason:         domain.DisabledGone,
			EventID:        "evt_1",
			LastStatusCode: 410,
			LastError:      domain.AttemptBodyTooLarge,
		},
		Number:      2,
		UntilMillis: 5000,
	}
	goldenAnswer = domain.Command{
		ID:             "cmd_1",
		AccountID:      "acc_1",
		IssuedAtMillis: 77,
		Body:           goldenOrder.Answered(domain.MailTaken, domain.MailDone{}),
	}
)

// These values use fields that were added after the golden file of their message was written. The
// fields belong to the same schema version.
var (
	laterKey = domain.Key{
		ID:              "key_2",
		Name:            "shop",
		Hash:            []byte{4},
		Permissions:     []domain.Permission{domain.PermissionRead},
		AllowedCIDRs:    []string{"192.0.2.0/24", "2001:db8::/32"},
		CreatedAtMillis: 2000,
		ExpiresAtMillis: 90_000,
		RolledTo:        "key_3",
	}
	headers = []domain.Header{
		{Name: "X-Shop", Sealed: []byte{7}}, {Name: "X-Other", Sealed: []byte{1, 2}},
	}
	endpointChange = domain.EndpointChange{
		URL:                new("https://shop.example/new"),
		Description:        new(""),
		Headers:            &headers,
		RateLimitPerSecond: new(0),
	}
	watchChange = domain.WatchChange{
		Label:           new(""),
		EndpointID:      new("ep_2"),
		Assets:          &[]domain.Asset{{Code: "XLM"}},
		Amount:          &domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5},
		Memo:            &domain.MemoRule{Kind: domain.MemoAny},
		SenderAllowlist: new([]string),
		EventTypes:      &[]domain.EventType{domain.PaymentRejected},
	}
	laterEndpoint = domain.Endpoint{
		ID:        "ep_1",
		AccountID: "acc_1",
		Version:   9,
		Revision:  8,
		EndpointSettings: domain.EndpointSettings{
			URL:                "https://x",
			Description:        "d",
			Headers:            headers,
			RateLimitPerSecond: 30,
		},
		Secrets: []domain.SealedSecret{
			{Sealed: []byte{1}, CreatedAtMillis: 2},
			{Sealed: []byte{3}, CreatedAtMillis: 1, ExpiresAtMillis: 5},
		},
		Status:              domain.StatusDisabled,
		DisabledReason:      domain.DisabledConsecutiveFailures,
		DisabledAtMillis:    77,
		ConsecutiveFailures: 20,
		EnabledVersion:      4,
		Epoch:               2,
		CreatedAtMillis:     1,
		UpdatedAtMillis:     77,
		DeletedAtMillis:     88,
	}
	laterDelivery = domain.Delivery{
		EventID:             "evt_1",
		EventType:           domain.TestPing,
		AccountID:           "acc_1",
		EndpointID:          "ep_1",
		Sequence:            7,
		EndpointEpoch:       2,
		WatchID:             "wat_1",
		Version:             9,
		State:               domain.StateWaiting,
		CreatedAtMillis:     1,
		Attempts:            12,
		Run:                 2,
		RunAttempts:         2,
		NextAttemptAtMillis: 99,
		TestCommandID:       "cmd_1",
		TestBodyHash:        []byte{6},
		Moves:               2,
		MovedTo:             "ep_2",
		MovedBy:             "cmd_2",
	}
)

func laterWatch() domain.Watch {
	w := goldenWatch
	w.Version, w.Revision, w.DeletedAtMillis = 5, 4, 3000
	w.Parts = []domain.Part{{
		Range:         domain.Range{From: 100, To: 199},
		Version:       5,
		BegunAtMillis: 2500,
		Label:         w.Label,
		EndpointID:    w.EndpointID,
		Rules:         w.Rules,
		EventTypes:    w.EventTypes,
		MatchesFrom:   1 << 40,

		ExpiresAtMillis: 4000,
		Revision:        4,
	}}
	other := w.Parts[0]
	other.Range, other.Rules.SenderAllowlist = domain.Range{From: 200, To: 299}, []string{"GOTHER"}
	w.Parts = append(w.Parts, other)
	w.ExpiresAtMillis, w.Once = 4000, true
	w.Fulfilled = domain.Fulfilment{PaymentID: "1-2", Ledger: 99, ClosedAtMillis: 2600}
	return w
}

// laterFacts use fields that are missing from the golden file of their type.
var laterFacts = []domain.FactBody{
	domain.AccountCreated{AccountID: "acc_1", Email: "b@example.com", Updated: true},
	domain.AccountCreated{
		AccountID:  "acc_1",
		Email:      "b@example.com",
		MoreEmails: []string{"c@example.com"},
		Updated:    true,
	},
	domain.MailAttempted{
		Notice:  9,
		Number:  2,
		Outcome: domain.MailRetried,
		Done:    domain.MailDone{Taken: []string{"tag1"}, Refused: []string{"tag2"}},
	},
	domain.KeyCreated{Key: laterKey},
	domain.EndpointCreated{EndpointID: "ep_1", EndpointSettings: domain.EndpointSettings{
		Headers:            headers,
		RateLimitPerSecond: 30,
		Signatures:         domain.StandardWebhooksEd25519,
	}},
	domain.EndpointUpdated{Change: domain.EndpointChange{
		Signatures: new(domain.StandardWebhooks | domain.StandardWebhooksEd25519),
	}},
	domain.EndpointUpdated{Change: domain.EndpointChange{Signatures: new(domain.Signatures)}},
	domain.EndpointCreated{EndpointID: "ep_1", EndpointSettings: domain.EndpointSettings{
		Ordering: domain.OrderingWallet,
	}},
	domain.EndpointUpdated{Change: domain.EndpointChange{Ordering: new(domain.OrderingWallet)}},
	domain.EndpointUpdated{Change: domain.EndpointChange{Ordering: new(domain.Ordering)}},
	domain.DeliveryCreated{
		WalletAddress: "GWALLET",
		Event:         domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
		Sequence:      4,
		Ordered:       true,
	},
	domain.DeliveryCreated{
		Event:        domain.Event{ID: "evt_1", Type: domain.TestPing},
		TestBodyHash: []byte{6},
	},
	domain.DeliveryCreated{
		Event: domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
		Moved: domain.Moved{Moves: 1, Attempts: 12, Runs: 2},
	},
	domain.DeliveryCreated{
		Event: domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
		Moved: domain.Moved{Moves: 1, Attempts: 12, Runs: 2, FormerEndpointIDs: []string{"ep_1"}},
	},
	domain.DeliveryCreated{
		Event: domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
		Moved: domain.Moved{
			Moves:             1,
			Attempts:          12,
			Runs:              2,
			FormerEndpointIDs: []string{"ep_1"},
			FromPartition:     5,
			Number:            1 << 40,
		},
	},
	domain.DeliveryCreated{
		Event:    domain.Event{ID: "evt_1", Type: domain.PaymentReceived},
		Sequence: 1 << 40,
	},
	domain.DeliveryMoved{EventID: "evt_1", ToEndpointID: "ep_2", Moves: 3, Number: 1 << 40},
	domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelDisabled},
	domain.AttemptMade{EventID: "evt_1", State: domain.StateCancelled},
	domain.AttemptMade{EventID: "evt_1", State: domain.StateWaiting, Result: domain.AttemptResult{
		Error:       domain.AttemptTLS,
		ErrorDetail: "TLS handshake: x509: certificate has expired",
	}},
	domain.AttemptMade{EventID: "evt_1", Entry: domain.LogEntry{
		From:            7,
		Number:          2,
		BodySHA256:      []byte{1},
		SignatureSHA256: []byte{2},
		Hashes:          []byte{3},
	}},
	domain.DeliveryRequeued{EventID: "evt_1", Run: 2, Body: []byte{5}},
	domain.DeliveryMoved{EventID: "evt_1", ToEndpointID: "ep_2", Moves: 3, Body: []byte{5}},
	domain.EndpointUpdated{Change: domain.EndpointChange{Headers: new([]domain.Header)}},
	domain.EndpointUpdated{},
	domain.WatchUpdated{Change: domain.WatchChange{
		Assets:     new([]domain.Asset),
		EventTypes: new([]domain.EventType),
	}},
	domain.WatchUpdated{},
	domain.RangeCovered{Request: 4, From: 2, To: 99, Until: 800, Part: 5},
	domain.RangeCovered{
		Request: 4, From: 2, To: 99, Until: 800, Part: 5, Next: 100, Matched: 7, Created: 3,
	},
	domain.RangeCovered{Missed: 99},
	domain.EndpointDisabled{Reason: domain.DisabledGone, EventID: "evt_1", FailingSinceMillis: 77},
	domain.RangeCovered{Fulfilled: domain.Fulfilment{PaymentID: "1-2", Ledger: 99, ClosedAtMillis: 7}},
	domain.WatchUpdated{Change: domain.WatchChange{ExpiresAtMillis: new(int64(0))}},
	domain.PartBegun{Request: 4, From: 100, To: 199, MatchesFrom: 1 << 40},
}

func TestLaterFactsComeBack(t *testing.T) {
	for _, body := range laterFacts {
		f := domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Body: body}
		if got, err := schemas.DecodeFact(schemas.EncodeFact(f)); err != nil ||
			!reflect.DeepEqual(got, f) {
			t.Errorf("%s: %+v, %v", body.FactType(), got, err)
		}
	}
}

// TestGoldenFacts checks that facts are read from and written as their golden files. A fact type
// that changes gets a new version and a new file.
func TestGoldenFacts(t *testing.T) {
	for _, body := range goldenFacts {
		f := domain.Fact{Aggregate: "ep_1", Version: 12, AtMillis: 1234, Cause: "cmd_1", Body: body}
		m := schemas.EncodeFact(f)
		t.Run(m.Type, func(t *testing.T) {
			golden := goldenOf(t, "golden", m)
			got, err := schemas.DecodeFact(schemas.Message{
				Type:    m.Type,
				Version: m.Version,
				Cause:   "cmd_1",
				Value:   golden,
			})
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

// goldenOf reads the golden file of a message and checks that the message is encoded the same
// way.
func goldenOf(t *testing.T, dir string, m schemas.Message) []byte {
	t.Helper()
	path := filepath.Join(dir, m.Type+".v"+m.Version+".hex")
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
		t.Errorf("is written as %x, and the golden file has %x: give the new form a new schema version",
			m.Value, golden)
	}
	return golden
}

// Engines and mailers of different versions must understand each other's messages.
func TestGoldenMails(t *testing.T) {
	order := schemas.EncodeMailOrder(goldenOrder)
	order.Value = goldenOf(t, "golden/mails", order)
	if got, err := schemas.DecodeMailOrder(order); err != nil || !reflect.DeepEqual(got, goldenOrder) {
		t.Errorf("the order reads as %+v, %v", got, err)
	}
	answer := schemas.EncodeCommand(goldenAnswer)
	answer.Value = goldenOf(t, "golden/mails", answer)
	if got, err := schemas.DecodeCommand(answer); err != nil || !reflect.DeepEqual(got, goldenAnswer) {
		t.Errorf("the answer reads as %+v, %v", got, err)
	}
	notice := domain.Notice{
		EndpointID:    "ep_1",
		Version:       9,
		AtMillis:      1000,
		Disabled:      goldenOrder.Disabled,
		State:         domain.NoticeOrdered,
		Number:        2,
		Tries:         1,
		FirstAtMillis: 2000,
		NextAtMillis:  5000,
	}
	comesBack(t, notice, func(n domain.Notice) (domain.Notice, error) {
		return schemas.UnmarshalNotice(schemas.MarshalNotice(n))
	})
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

// everyCommand contains each type of command, and each update twice.
var everyCommand = []domain.CommandBody{
	domain.UpdateAccount{AccountID: "acc_1", Email: "b@example.com"},
	domain.UpdateAccount{
		AccountID:  "acc_1",
		Email:      "b@example.com",
		MoreEmails: []string{"c@example.com"},
	},
	domain.CreateAccount{AccountID: "acc_1", Email: "a@example.com", Key: goldenKey},
	domain.CreateKey{AccountID: "acc_1", Key: laterKey},
	domain.RollKey{AccountID: "acc_1", KeyID: "key_1", Key: laterKey, GraceMillis: 5},
	domain.RevokeKey{AccountID: "acc_1", KeyID: "key_1"},
	domain.CreateEndpoint{
		EndpointID: "ep_1",
		AccountID:  "acc_1",
		EndpointSettings: domain.EndpointSettings{
			URL:                "https://x",
			Description:        "d",
			Headers:            headers,
			RateLimitPerSecond: 3,
		},
		SealedSecret: []byte{1},
	},
	domain.UpdateEndpoint{EndpointID: "ep_1", IfRevision: 3, Change: endpointChange},
	domain.UpdateEndpoint{EndpointID: "ep_1"},
	domain.DisableEndpoint{EndpointID: "ep_1", IfRevision: 3},
	domain.EnableEndpoint{EndpointID: "ep_1", IfRevision: 3},
	domain.DeleteEndpoint{EndpointID: "ep_1", IfRevision: 3},
	domain.RotateSecret{EndpointID: "ep_1", SealedSecret: []byte{1}},
	domain.ResealSecrets{
		EndpointID: "ep_1",
		Values:     []domain.Resealed{{Was: []byte{1}, Sealed: []byte{2}}},
	},
	domain.TestEndpoint{EndpointID: "ep_1"},
	domain.TestEndpoint{EndpointID: "ep_1", Sample: domain.PaymentReceived},
	domain.ReplayEndpoint{EndpointID: "ep_1", SinceMillis: 3, UntilMillis: 4},
	domain.ReplayEvents{EndpointID: "ep_1", EventIDs: []string{"evt_1", "evt_2"}, Matched: 4},
	domain.ResendEvent{EndpointID: "ep_1", EventID: "evt_1"},
	domain.ResendEvent{EndpointID: "ep_1", EventID: "evt_1", Remembered: &domain.Remembered{
		Body:     []byte{5},
		Delivery: domain.Delivery{EventID: "evt_1", EndpointID: "ep_1", Run: 1, MovedTo: "ep_2"},
		AsOf:     77,
	}},
	domain.CreateWatch{Watch: goldenWatch},
	domain.UpdateWatch{WatchID: "wat_1", IfRevision: 3, Change: watchChange},
	domain.UpdateWatch{WatchID: "wat_1"},
	domain.DeleteWatch{WatchID: "wat_1", IfRevision: 3},
	domain.BackfillWatch{WatchID: "wat_1", From: 2, To: 900},
	domain.BackfillWatch{WatchID: "wat_1", From: 2, OfEndpointID: "ep_1"},
	domain.RecordCoverage{
		WatchID:   "wat_1",
		Request:   4,
		From:      2,
		To:        99,
		Until:     800,
		LiveSince: 801,
		Problem:   "x",
		Next:      domain.NextPart{Range: domain.Range{From: 100, To: 199}},
	},
	domain.RecordCoverage{
		WatchID: "wat_1",
		Request: 4,
		From:    2,
		To:      99,
		Until:   800,
		Part:    5,
		Next: domain.NextPart{
			Range:       domain.Range{From: 100, To: 199},
			EndpointID:  "ep_1",
			MatchesFrom: 1 << 40,
		},
	},
	domain.RecordCoverage{
		WatchID:    "wat_1",
		Fulfils:    domain.Fulfilment{PaymentID: "1-2", Ledger: 99, ClosedAtMillis: 7},
		IfRevision: 3,
	},
	domain.RecordCoverage{WatchID: "wat_1", From: 2, To: 99, Part: 5, Matched: 7, Created: 3},
	domain.RecordCoverage{WatchID: "wat_1", Missed: 99, IfRevision: 3},
	goldenAnswer.Body,
}

func TestCommandsComeBack(t *testing.T) {
	for _, body := range everyCommand {
		c := domain.Command{
			ID:             "cmd_1",
			AccountID:      "acc_1",
			BodyHash:       []byte{5},
			IssuedAtMillis: 77,
			Body:           body,
		}
		got, err := schemas.DecodeCommand(schemas.EncodeCommand(c))
		if err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("%s: %+v, %v", body.CommandType(), got, err)
		}
	}
	if _, err := schemas.DecodeCommand(schemas.Message{Type: "Nonsense", Version: "1"}); err == nil {
		t.Error("an unknown command was read")
	}
}

func TestRowsAndStateComeBack(t *testing.T) {
	account := domain.Account{
		ID:              "acc_1",
		Version:         3,
		Email:           "a@example.com",
		Keys:            []domain.Key{goldenKey, laterKey},
		CreatedAtMillis: 5,
	}
	comesBack(t, laterWatch(),
		func(w domain.Watch) (domain.Watch, error) { return schemas.DecodeWatch(schemas.EncodeWatch(w)) })
	comesBack(t, laterWatch(), func(w domain.Watch) (domain.Watch, error) {
		return schemas.UnmarshalWatch(schemas.MarshalWatch(w))
	})
	comesBack(t, laterEndpoint, func(e domain.Endpoint) (domain.Endpoint, error) {
		return schemas.DecodeEndpoint(schemas.EncodeEndpoint(e))
	})
	comesBack(t, laterEndpoint, func(e domain.Endpoint) (domain.Endpoint, error) {
		return schemas.UnmarshalEndpoint(schemas.MarshalEndpoint(e))
	})
	comesBack(t, account,
		func(a domain.Account) (domain.Account, error) {
			return schemas.DecodeAccount(
				schemas.EncodeAccount(a),
			)
		})
	comesBack(t, account, func(a domain.Account) (domain.Account, error) {
		return schemas.UnmarshalAccount(schemas.MarshalAccount(a))
	})
	comesBack(t, laterDelivery, func(d domain.Delivery) (domain.Delivery, error) {
		return schemas.UnmarshalDelivery(schemas.MarshalDelivery(d))
	})
}

func comesBack[T any](t *testing.T, want T, round func(T) (T, error)) {
	t.Helper()
	if got, err := round(want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%T: %+v, %v", want, got, err)
	}
}

func TestAnswersComeBack(t *testing.T) {
	watch := laterWatch()
	result := domain.AttemptResult{
		SentAtMillis:   1100,
		DurationMillis: 7,
		StatusCode:     503,
		Error:          domain.AttemptTimeout,
		ErrorDetail:    "read the response body: timed out",
		ResponseBody:   []byte{0xff, 'x'},
	}
	for name, answer := range map[string]domain.Answer{
		"rejection": {Rejection: &domain.Rejection{Code: "X", Detail: "y"}},
		"account":   {Account: &domain.Account{ID: "acc_1", Version: 3}},
		"key":       {Key: &laterKey, Version: 9},
		"endpoint":  {Endpoint: &laterEndpoint},
		"watch":     {Watch: &watch},
		"left out":  {Watch: &watch, LeftOut: []byte{7}},
		"delivery":  {Delivery: &laterDelivery, Version: 10},
		"replay": {
			Replay:  &domain.ReplayResult{Queued: 1000, Matched: 2000, Truncated: true},
			Version: 11,
		},
		"test": {Test: &domain.TestResult{EventID: "evt_1", Result: result}, Version: 12},
		"none": {},
	} {
		r := domain.Result{CommandID: "cmd_1", BodyHash: []byte{5}, Answer: answer, Replayed: true}
		if got, err := schemas.DecodeResult(schemas.EncodeResult(r)); err != nil ||
			!reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		h := domain.CommandHandled{CommandID: "cmd_1", BodyHash: []byte{5}, Answer: answer}
		kept := schemas.MarshalHandled("ep_1", 1234, h)
		if got, err := schemas.UnmarshalHandled(kept); err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("%s, as kept: %+v, %v", name, got, err)
		}
		if of, at, err := schemas.HandledFor(kept); err != nil || of != "ep_1" || at != 1234 {
			t.Errorf("%s is kept for %q of %d, %v", name, of, at, err)
		}
	}
}

// A command about an endpoint or its deliveries goes to the endpoint's partition, and so on.
func TestCommandsGoToTheirAggregate(t *testing.T) {
	for _, body := range everyCommand {
		want := "ep_1"
		switch typ := body.CommandType(); {
		case strings.HasSuffix(typ, "Watch"), typ == "RecordCoverage":
			want = "wat_1"
		case strings.HasSuffix(typ, "Account"), strings.HasSuffix(typ, "Key"):
			want = "acc_1"
		}
		if got := body.Aggregate(); got != want {
			t.Errorf("%s goes to %q, not %s", body.CommandType(), got, want)
		}
	}
}

// An endpoint accepts a hand-over like a match. A follower that reads its matches again must not
// take it for its own.
func TestAHandOverIsAMatchOfNoLedger(t *testing.T) {
	want := domain.MatchInput{
		AccountID:     "acc_1",
		EndpointID:    "ep_2",
		WatchID:       "wat_1",
		WalletAddress: "GABC",
		Event: domain.Event{
			ID:              "evt_1",
			Type:            domain.PaymentReceived,
			CreatedAtMillis: 7,
			Body:            []byte(`{"data":{"payment":{"ledger":9}}}`),
		},
		Moved: domain.Moved{Moves: 2, Attempts: 12, Runs: 3, FormerEndpointIDs: []string{"ep_0", "ep_1"}},
	}
	m := schemas.EncodeHandOver(want)
	if got, err := schemas.DecodePaymentMatched(m); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v, want %+v", err, got, want)
	}
	if made, err := schemas.DecodeMatchMade(m); err != nil || made.EventID != "evt_1" ||
		made.Ledger != 0 {
		t.Errorf("%v, %+v", err, made)
	}
}
