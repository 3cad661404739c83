package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func TestEndpointCommands(t *testing.T) {
	const hour = 3_600_000
	active := func() *story { return newStory() } // revision 1
	disabled := func() *story {
		return newStory().given(
			domain.EndpointDisabled{Reason: domain.DisabledGone},
		)
	}
	deleted := func() *story { return newStory().given(domain.EndpointDeleted{}) }
	secret := domain.SealedSecret{Sealed: []byte("new"), CreatedAtMillis: startedAt}
	manual := domain.EndpointDisabled{Reason: domain.DisabledManual}
	for name, c := range map[string]struct {
		given *story
		when  domain.CommandBody
		code  string
		then  []domain.FactBody
	}{
		"create": {
			&story{nowMillis: startedAt},
			domain.CreateEndpoint{
				EndpointID: "ep_1",
				AccountID:  ownAccount,
				EndpointSettings: domain.EndpointSettings{
					URL:                "u",
					Description:        "d",
					Headers:            []domain.Header{{Name: "a", Sealed: []byte("b")}},
					RateLimitPerSecond: 7,
				},
				SealedSecret: []byte("new"),
			},
			"",
			facts(domain.EndpointCreated{
				EndpointID: "ep_1",
				AccountID:  ownAccount,
				EndpointSettings: domain.EndpointSettings{
					URL:                "u",
					Description:        "d",
					Headers:            []domain.Header{{Name: "a", Sealed: []byte("b")}},
					RateLimitPerSecond: 7,
				},
				Secret: secret,
			}),
		},
		"create again": {
			active(), domain.CreateEndpoint{EndpointID: "ep_1", AccountID: ownAccount},
			domain.CodeAlreadyExists, nil,
		},
		"create, deleted": {
			deleted(), domain.CreateEndpoint{EndpointID: "ep_1", AccountID: ownAccount},
			domain.CodeAlreadyExists, nil,
		},
		"update": {
			active(),
			domain.UpdateEndpoint{Change: domain.EndpointChange{
				URL:         new("https://new"),
				Description: new("shop"),
			}},
			"",
			facts(domain.EndpointUpdated{Change: domain.EndpointChange{URL: new("https://new")}}),
		},
		"update, clearing": {
			active(),
			domain.UpdateEndpoint{Change: domain.EndpointChange{Description: new("")}}, "",
			facts(domain.EndpointUpdated{Change: domain.EndpointChange{Description: new("")}}),
		},
		"update, the same": {
			active(),
			domain.UpdateEndpoint{Change: domain.EndpointChange{
				Description:        new("shop"),
				Headers:            new([]domain.Header),
				RateLimitPerSecond: new(0),
			}},
			"", nil,
		},
		"update, revision": {
			active(),
			domain.UpdateEndpoint{IfRevision: 1, Change: domain.EndpointChange{URL: new("x")}},
			"", facts(domain.EndpointUpdated{Change: domain.EndpointChange{URL: new("x")}}),
		},
		"update, stale": {
			disabled(),
			domain.UpdateEndpoint{IfRevision: 1, Change: domain.EndpointChange{URL: new("x")}},
			domain.CodePreconditionFailed, nil,
		},
		"update, same, stale": {
			disabled(), domain.UpdateEndpoint{IfRevision: 1}, domain.CodePreconditionFailed,
			nil,
		},
		"update, deleted": {deleted(), domain.UpdateEndpoint{}, domain.CodeNotFound, nil},
		"disable":         {active(), domain.DisableEndpoint{IfRevision: 1}, "", facts(manual)},
		"disable, stale": {
			active(), domain.DisableEndpoint{IfRevision: 2}, domain.CodePreconditionFailed,
			nil,
		},
		"disable, disabled": {disabled(), domain.DisableEndpoint{}, "", nil},
		"disable, deleted":  {deleted(), domain.DisableEndpoint{}, domain.CodeNotFound, nil},
		"enable": {
			disabled(), domain.EnableEndpoint{IfRevision: 2}, "",
			facts(domain.EndpointEnabled{}),
		},
		"enable, stale": {
			disabled(), domain.EnableEndpoint{IfRevision: 1}, domain.CodePreconditionFailed,
			nil,
		},
		"enable, active":  {active(), domain.EnableEndpoint{}, "", nil},
		"enable, deleted": {deleted(), domain.EnableEndpoint{}, domain.CodeNotFound, nil},
		"delete": {
			active(), domain.DeleteEndpoint{IfRevision: 1}, "",
			facts(domain.EndpointDeleted{}),
		},
		"delete, stale": {
			active(), domain.DeleteEndpoint{IfRevision: 9}, domain.CodePreconditionFailed, nil,
		},
		"delete, disabled": {disabled(), domain.DeleteEndpoint{}, "", facts(domain.EndpointDeleted{})},
		"delete, deleted":  {deleted(), domain.DeleteEndpoint{}, domain.CodeNotFound, nil},
		"rotate": {
			active(), domain.RotateSecret{SealedSecret: []byte("new")}, "",
			facts(domain.SecretRotated{Secret: secret}),
		},
		"rotate, disabled": {
			disabled(), domain.RotateSecret{SealedSecret: []byte("new")}, "",
			facts(domain.SecretRotated{Secret: secret}),
		},
		"rotate, deleted": {deleted(), domain.RotateSecret{}, domain.CodeNotFound, nil},
		"rotate, 99 times": {
			rotatedOften(98), domain.RotateSecret{SealedSecret: []byte("new")}, "",
			facts(domain.SecretRotated{Secret: secret}),
		},
		"rotate, 100 times": {
			rotatedOften(99), domain.RotateSecret{SealedSecret: []byte("new")},
			domain.CodeTooManySecrets, nil,
		},
		"rotate, a day later": {
			rotatedOften(99).at(startedAt + 24*hour),
			domain.RotateSecret{SealedSecret: []byte("new")}, "",
			facts(domain.SecretRotated{Secret: domain.SealedSecret{
				Sealed:          []byte("new"),
				CreatedAtMillis: startedAt + 24*hour,
			}}),
		},
		"rotate, almost a day": {
			rotatedOften(99).at(startedAt + 24*hour - 1),
			domain.RotateSecret{SealedSecret: []byte("new")}, domain.CodeTooManySecrets, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideEndpoint(c.given.endpoint, c.given.command(c.when),
				c.given.nowMillis)
			expect(t, got, rejection, c.code, c.then...)
		})
	}
}

func facts(bodies ...domain.FactBody) []domain.FactBody { return bodies }

func rotatedOften(times int) *story {
	s := newStory()
	for n := range times {
		s.given(domain.SecretRotated{Secret: domain.SealedSecret{
			Sealed:          fmt.Append(nil, "secret ", n+1),
			CreatedAtMillis: s.nowMillis,
		}})
	}
	return s
}

func TestAnotherAccountFindsNothing(t *testing.T) {
	s := newStory().given(matched("evt_1")).failedRun("evt_1", 500)
	for _, body := range []domain.CommandBody{
		domain.UpdateEndpoint{}, domain.DisableEndpoint{}, domain.EnableEndpoint{},
		domain.DeleteEndpoint{}, domain.RotateSecret{}, domain.ResealSecrets{},
	} {
		facts, rejection := domain.DecideEndpoint(s.endpoint,
			domain.Command{AccountID: "acc_other", Body: body}, s.nowMillis)
		expect(t, facts, rejection, domain.CodeNotFound)
		facts, rejection = domain.DecideEndpoint(domain.Endpoint{},
			domain.Command{AccountID: "", Body: body}, s.nowMillis)
		expect(t, facts, rejection, domain.CodeNotFound)
	}
	facts, rejection := domain.DecideTest(s.endpoint, domain.Delivery{},
		domain.Command{AccountID: "acc_other"}, s.nowMillis)
	expect(t, facts, rejection, domain.CodeNotFound)
	facts, _, rejection = domain.DecideReplay(s.endpoint, "acc_other", domain.ReplayEndpoint{},
		[]domain.Delivery{s.deliveries["evt_1"]}, 1, s.nowMillis)
	expect(t, facts, rejection, domain.CodeNotFound)
	facts, rejection = domain.DecideResend(s.endpoint, s.deliveries["evt_1"], "acc_other",
		domain.ResendEvent{EndpointID: endpointID, EventID: "evt_1"}, false, s.nowMillis)
	expect(t, facts, rejection, domain.CodeNotFound)
}

// TestEndpointFold checks the effect of each fact on an endpoint. Each change that a client can
// make increments the revision, and nothing else does.
func TestEndpointFold(t *testing.T) {
	s := newStory()
	e := s.endpoint
	if e.Status != domain.StatusActive || e.Revision != 1 || e.Version != 1 ||
		e.CreatedAtMillis != startedAt || e.UpdatedAtMillis != startedAt || e.Epoch != 0 || !e.Sends() {
		t.Fatalf("created as %+v", e)
	}
	s.at(startedAt+10).given(matched("evt_1"), domain.CommandHandled{CommandID: "cmd_1"})
	if e = s.endpoint; e.Revision != 1 || e.Version != 3 || e.UpdatedAtMillis != startedAt {
		t.Fatalf("a delivery moved the revision: %+v", e)
	}
	s.given(domain.EndpointUpdated{Change: domain.EndpointChange{
		URL:                new("https://new"),
		RateLimitPerSecond: new(5),
		Headers:            &[]domain.Header{{Name: "n", Sealed: []byte("v")}},
	}})
	if e = s.endpoint; e.URL != "https://new" || e.Description != "shop" ||
		e.RateLimitPerSecond != 5 || len(e.Headers) != 1 || e.Revision != 4 ||
		e.UpdatedAtMillis != startedAt+10 {
		t.Fatalf("updated to %+v", e)
	}
	s.given(domain.EndpointDisabled{Reason: domain.DisabledGone})
	if e = s.endpoint; e.Status != domain.StatusDisabled || e.DisabledReason != domain.DisabledGone ||
		e.DisabledAtMillis != startedAt+10 || e.Revision != 5 || e.Sends() {
		t.Fatalf("disabled as %+v", e)
	}
	s.at(startedAt + 20).given(domain.EndpointEnabled{})
	if e = s.endpoint; e.Status != domain.StatusActive || e.DisabledReason != "" ||
		e.DisabledAtMillis != 0 || e.Revision != 6 || e.EnabledVersion != 6 || e.Epoch != 1 {
		t.Fatalf("enabled as %+v", e)
	}
	s.given(domain.SecretRotated{Secret: domain.SealedSecret{Sealed: []byte("b")}})
	if e = s.endpoint; len(e.Secrets) != 2 || e.Revision != 7 || e.Epoch != 1 {
		t.Fatalf("rotated to %+v", e)
	}
	s.given(domain.EndpointDeleted{})
	if e = s.endpoint; !e.Deleted() || !e.Exists() || e.DeletedAtMillis != startedAt+20 ||
		e.Revision != 8 || e.Epoch != 2 || len(e.Secrets) != 0 || len(e.Headers) != 0 {
		t.Fatalf("deleted as %+v", e)
	}
	// A deletion is final, whatever else a journal might contain.
	s.given(domain.EndpointEnabled{},
		domain.EndpointUpdated{Change: domain.EndpointChange{URL: new("x")}})
	if got := s.endpoint; !got.Deleted() || got.Version != 10 || got.Revision != 8 ||
		got.URL != e.URL {
		t.Fatalf("risen as %+v", got)
	}
}

// Each former secret signs for 24 hours after it was replaced, however often the secret is
// rotated in that time (specification, "Signature").
func TestRotations(t *testing.T) {
	const hour = int64(3_600_000)
	s := newStory()
	rotate := func(name string, atMillis int64) {
		s.at(atMillis).given(domain.SecretRotated{Secret: domain.SealedSecret{
			Sealed:          []byte(name),
			CreatedAtMillis: atMillis,
		}})
	}
	valid := func(atMillis int64) string {
		var names []string
		for _, v := range s.endpoint.ValidSecrets(atMillis) {
			names = append(names, string(v.Sealed))
		}
		return strings.Join(names, ",")
	}
	rotate("b", startedAt+1*hour)
	rotate("c", startedAt+10*hour)
	for at, want := range map[int64]string{
		10 * hour:   "c,b,secret 0",
		25*hour - 1: "c,b,secret 0",
		25 * hour:   "c,b",
		34*hour - 1: "c,b",
		34 * hour:   "c",
		1000 * hour: "c",
	} {
		if got := valid(startedAt + at); got != want {
			t.Errorf("%d hours after: %s, not %s", at/hour, got, want)
		}
	}
	rotate("d", startedAt+25*hour)
	if got := len(s.endpoint.Secrets); got != 3 || valid(startedAt+25*hour) != "d,c,b" {
		t.Errorf("a rotation keeps what has ended: %+v", s.endpoint.Secrets)
	}
}

// If the URL changes to another origin, no header is kept, no matter who makes the change. Only
// values that are part of the change itself remain.
func TestHeadersDoNotFollowTheURL(t *testing.T) {
	const at = "https://a.example/hook"
	held := []domain.Header{{Name: "A", Sealed: []byte("a")}, {Name: "B", Sealed: []byte("b")}}
	kept := &[]domain.Header{{Name: "A"}, {Name: "B", Sealed: []byte("new")}}
	for name, c := range map[string]struct {
		url    string
		wanted *[]domain.Header
		left   string
	}{
		"path":                    {"https://a.example/other", nil, "A=a B=b"},
		"query":                   {"https://a.example/?x=https://b.example/", nil, "A=a B=b"},
		"host":                    {"https://b.example/hook", nil, ""},
		"port":                    {"https://a.example:8443/hook", nil, ""},
		"scheme":                  {"http://a.example/hook", nil, ""},
		"longer host":             {"https://a.example.evil.example/hook", nil, ""},
		"kept and new, same":      {"https://a.example/other", kept, "A=a B=new"},
		"kept and new, elsewhere": {"https://b.example/hook", kept, "B=new"},
	} {
		t.Run(name, func(t *testing.T) {
			e := domain.Endpoint{
				ID: "ep_1", AccountID: ownAccount, Version: 1, Status: domain.StatusActive,
				EndpointSettings: domain.EndpointSettings{URL: at, Headers: held},
			}
			decided, rejected := domain.DecideEndpoint(e, domain.Command{
				AccountID: ownAccount,
				Body: domain.UpdateEndpoint{
					EndpointID: e.ID, Change: domain.EndpointChange{URL: &c.url, Headers: c.wanted},
				},
			}, 1)
			if rejected != nil {
				t.Fatal(rejected)
			}
			for _, f := range decided {
				e, _ = domain.EvolveEndpoint(e, domain.Delivery{},
					domain.Fact{Aggregate: e.ID, Version: e.Version + 1, Body: f})
			}
			var left []string
			for _, h := range e.Headers {
				left = append(left, h.Name+"="+string(h.Sealed))
			}
			if got := strings.Join(left, " "); got != c.left || e.URL != c.url {
				t.Errorf("%s has %q, want %q", e.URL, got, c.left)
			}
		})
	}
}
