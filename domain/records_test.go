package domain_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// The names of commands are stored in topics, so renaming a type must not change them. Two
// commands are stored under the name of another command.
func TestEachCommandHasANameAndAnAggregate(t *testing.T) {
	for _, c := range []struct {
		body      domain.CommandBody
		name      string
		kind      domain.Kind
		aggregate string
	}{
		{domain.CreateAccount{AccountID: "acc_1"}, "CreateAccount", domain.KindAccount, "acc_1"},
		{domain.UpdateAccount{AccountID: "acc_1"}, "CreateAccount", domain.KindAccount, "acc_1"},
		{domain.CreateKey{AccountID: "acc_1"}, "CreateKey", domain.KindAccount, "acc_1"},
		{domain.RollKey{AccountID: "acc_1", KeyID: "key_1"}, "RollKey", domain.KindAccount, "acc_1"},
		{domain.RevokeKey{AccountID: "acc_1", KeyID: "key_1"}, "RevokeKey", domain.KindAccount, "acc_1"},
		{
			domain.CreateEndpoint{EndpointID: "ep_1", AccountID: "acc_1"}, "CreateEndpoint",
			domain.KindEndpoint, "ep_1",
		},
		{domain.UpdateEndpoint{EndpointID: "ep_1"}, "UpdateEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.DisableEndpoint{EndpointID: "ep_1"}, "DisableEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.EnableEndpoint{EndpointID: "ep_1"}, "EnableEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.DeleteEndpoint{EndpointID: "ep_1"}, "DeleteEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.RotateSecret{EndpointID: "ep_1"}, "RotateSecret", domain.KindEndpoint, "ep_1"},
		{domain.ResealSecrets{EndpointID: "ep_1"}, "ResealSecrets", domain.KindEndpoint, "ep_1"},
		{domain.TestEndpoint{EndpointID: "ep_1"}, "TestEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.ReplayEndpoint{EndpointID: "ep_1"}, "ReplayEndpoint", domain.KindEndpoint, "ep_1"},
		{domain.ReplayEvents{EndpointID: "ep_1"}, "ReplayEndpoint", domain.KindEndpoint, "ep_1"},
		{
			domain.ResendEvent{EndpointID: "ep_1", EventID: "evt_1", ToEndpointID: "ep_2"}, "ResendEvent",
			domain.KindEndpoint, "ep_1",
		},
		{domain.RecordMail{EndpointID: "ep_1"}, "RecordMail", domain.KindEndpoint, "ep_1"},
		{
			domain.CreateWatch{Watch: domain.Watch{ID: "wat_1", AccountID: "acc_1", EndpointID: "ep_1"}},
			"CreateWatch", domain.KindWatch, "wat_1",
		},
		{domain.UpdateWatch{WatchID: "wat_1"}, "UpdateWatch", domain.KindWatch, "wat_1"},
		{domain.DeleteWatch{WatchID: "wat_1"}, "DeleteWatch", domain.KindWatch, "wat_1"},
		{domain.BackfillWatch{WatchID: "wat_1"}, "BackfillWatch", domain.KindWatch, "wat_1"},
		{domain.RecordCoverage{WatchID: "wat_1"}, "RecordCoverage", domain.KindWatch, "wat_1"},
	} {
		kind := domain.Command{Body: c.body}.Kind()
		if c.body.CommandType() != c.name || c.body.Aggregate() != c.aggregate || kind != c.kind ||
			domain.KindOf(c.aggregate) != kind {
			t.Errorf("%T is a %s of the %s %s", c.body, c.body.CommandType(), kind, c.body.Aggregate())
		}
	}
	for _, id := range []string{"", "evt_1", "key_1", "mov_1", "ep", "EP_1"} {
		if kind := domain.KindOf(id); kind != domain.KindNone {
			t.Errorf("%q is of the kind %q", id, kind)
		}
	}
	if kind := (domain.Command{}).Kind(); kind != domain.KindNone {
		t.Errorf("a command without a body is of the kind %q", kind)
	}
}

// The names of facts are stored in topics and in the history. Facts about deliveries also name
// their event.
func TestEachFactHasAName(t *testing.T) {
	for name, body := range map[string]domain.FactBody{
		"AccountCreated":    domain.AccountCreated{},
		"KeyCreated":        domain.KeyCreated{},
		"KeyRolled":         domain.KeyRolled{},
		"KeyRevoked":        domain.KeyRevoked{},
		"EndpointCreated":   domain.EndpointCreated{},
		"EndpointUpdated":   domain.EndpointUpdated{},
		"SecretRotated":     domain.SecretRotated{},
		"SecretsResealed":   domain.SecretsResealed{},
		"EndpointDisabled":  domain.EndpointDisabled{EventID: "evt_1"}, // still a fact about the endpoint
		"EndpointEnabled":   domain.EndpointEnabled{},
		"EndpointDeleted":   domain.EndpointDeleted{},
		"WatchCreated":      domain.WatchCreated{},
		"WatchUpdated":      domain.WatchUpdated{},
		"WatchDeleted":      domain.WatchDeleted{},
		"BackfillRequested": domain.BackfillRequested{},
		"RangeCovered":      domain.RangeCovered{},
		"PartBegun":         domain.PartBegun{},
		"BackfillStopped":   domain.BackfillStopped{},
		"MailOrdered":       domain.MailOrdered{},
		"MailAttempted":     domain.MailAttempted{},
		"CommandHandled":    domain.CommandHandled{CommandID: "cmd_1"},
	} {
		if got := (domain.Fact{Body: body}); body.FactType() != name || got.EventID() != "" {
			t.Errorf("%T is a %s of the event %q", body, body.FactType(), got.EventID())
		}
	}
	for name, body := range map[string]domain.FactBody{
		"DeliveryCreated":   domain.DeliveryCreated{Event: domain.Event{ID: "evt_1"}},
		"AttemptMade":       domain.AttemptMade{EventID: "evt_1"},
		"DeliveryRecalled":  domain.DeliveryRecalled{Delivery: domain.Delivery{EventID: "evt_1"}},
		"DeliveryRequeued":  domain.DeliveryRequeued{EventID: "evt_1"},
		"DeliveryCancelled": domain.DeliveryCancelled{EventID: "evt_1"},
		"DeliveryMoved":     domain.DeliveryMoved{EventID: "evt_1"},
	} {
		if got := (domain.Fact{Body: body}); body.FactType() != name || got.EventID() != "evt_1" {
			t.Errorf("%T is a %s of the event %q", body, body.FactType(), got.EventID())
		}
	}
}

// A command never reaches an aggregate that cannot answer it. If one does, Decide panics instead
// of answering that nothing changes.
func TestACommandOfAnotherKindIsABug(t *testing.T) {
	s := newStory()
	for name, decide := range map[string]func(){
		"an account cannot answer DeleteWatch": func() {
			_, _ = domain.DecideAccount(givenAccount(), s.command(domain.DeleteWatch{}), startedAt)
		},
		"an endpoint alone cannot answer ReplayEndpoint": func() {
			_, _ = domain.DecideEndpoint(s.endpoint, s.command(domain.ReplayEndpoint{}), startedAt)
		},
		"a watch cannot answer RevokeKey": func() {
			_, _ = domain.DecideWatch(givenWatch(), s.command(domain.RevokeKey{}), startedAt)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, name) {
					t.Errorf("it panics with %q", said)
				}
			}()
			decide()
		})
	}
}

// The history keeps the facts of a delivery that no row of events or attempts contains. It leaves
// out the event's body, which must remain in the fact itself.
func TestWhichFactsTheHistoryKeeps(t *testing.T) {
	body := []byte("{}")
	moved := domain.Moved{Moves: 1}
	for name, c := range map[string]struct{ fact, kept domain.FactBody }{
		"matched": {domain.DeliveryCreated{Event: domain.Event{ID: "evt_1", Body: body}}, nil},
		"handed over": {
			domain.DeliveryCreated{Moved: moved, Event: domain.Event{ID: "evt_1", Body: body}},
			domain.DeliveryCreated{Moved: moved, Event: domain.Event{ID: "evt_1"}},
		},
		"requeued": {
			domain.DeliveryRequeued{EventID: "evt_1", Run: 2, Body: body},
			domain.DeliveryRequeued{EventID: "evt_1", Run: 2},
		},
		"moved": {
			domain.DeliveryMoved{EventID: "evt_1", Moves: 1, Body: body},
			domain.DeliveryMoved{EventID: "evt_1", Moves: 1},
		},
		"recalled": {
			domain.DeliveryRecalled{Delivery: domain.Delivery{EventID: "evt_1"}},
			domain.DeliveryRecalled{Delivery: domain.Delivery{EventID: "evt_1"}},
		},
		"cancelled": {
			domain.DeliveryCancelled{EventID: "evt_1"}, domain.DeliveryCancelled{EventID: "evt_1"},
		},
		"attempt":         {domain.AttemptMade{EventID: "evt_1"}, nil},
		"of the endpoint": {domain.EndpointEnabled{}, nil},
	} {
		f := domain.Fact{Aggregate: "ep_1", Version: 7, AtMillis: startedAt, Cause: "cmd_1", Body: c.fact}
		want := f
		if want.Body = c.kept; c.kept == nil {
			want = domain.Fact{}
		}
		got, kept := f.KeptOfDelivery()
		if kept != (c.kept != nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: kept %t as %+v", name, kept, got)
		}
		if created, is := f.Body.(domain.DeliveryCreated); is && created.Event.Body == nil {
			t.Errorf("%s: the fact has lost its body", name)
		}
	}
}

// A fact gets a number if it hands over a delivery or notifies another endpoint.
func TestAnEventThatLeavesItsPartitionIsNumbered(t *testing.T) {
	to, numbered := domain.Telling{EndpointID: "ep_2"}, domain.Telling{EndpointID: "ep_2", Number: 9}
	for name, c := range map[string]struct{ body, want domain.FactBody }{
		"failing":           {domain.AttemptMade{Telling: to}, domain.AttemptMade{Telling: numbered}},
		"an attempt":        {domain.AttemptMade{}, domain.AttemptMade{}},
		"disabled":          {domain.EndpointDisabled{Telling: to}, domain.EndpointDisabled{Telling: numbered}},
		"disabled, no one":  {domain.EndpointDisabled{}, domain.EndpointDisabled{}},
		"moved":             {domain.DeliveryMoved{}, domain.DeliveryMoved{Number: 9}},
		"requeued":          {domain.DeliveryRequeued{Run: 2}, domain.DeliveryRequeued{Run: 2}},
		"of another matter": {domain.EndpointEnabled{}, domain.EndpointEnabled{}},
	} {
		if got := domain.Numbered(c.body, 9); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f := domain.Fact{Body: domain.AttemptMade{Telling: numbered}}
	in, told := f.Told(domain.Endpoint{ID: "ep_1"}, 3)
	want := domain.Moved{FromPartition: 3, Number: 9}
	if !told || !reflect.DeepEqual(in.Moved, want) {
		t.Errorf("sent on as %+v", in.Moved)
	}
	for _, body := range []domain.FactBody{domain.AttemptMade{}, domain.DeliveryMoved{Number: 9}} {
		if in, told := (domain.Fact{Body: body}).Told(domain.Endpoint{ID: "ep_1"}, 3); told {
			t.Errorf("%T is sent as %+v", body, in)
		}
	}
}
