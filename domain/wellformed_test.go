package domain_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// latestMillis is the latest time that a command may contain: the start of the year 2200.
const latestMillis = 7_258_118_400_000

func long(n int) string { return strings.Repeat("a", n) }

func times[T any](n int, v T) []T { return slices.Repeat([]T{v}, n) }

// largest returns a command whose fields outside the body are at their limits.
func largest(body domain.CommandBody) domain.Command {
	return domain.Command{
		ID:        "cmd_" + long(124),
		AccountID: "acc_1",
		BodyHash:  make([]byte, 64),
		Body:      body,
	}
}

// expectFault checks that an error reports exactly one fault.
func expectFault(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want one fault: %s", err, want)
	}
}

// expectBounds checks that a body at its limits passes, and that each change is rejected with the
// fault under which it is listed.
func expectBounds[C domain.CommandBody](
	t *testing.T, whole func() C, faults map[string]func(*C),
) {
	t.Helper()
	if err := largest(whole()).WellFormed(); err != nil {
		t.Errorf("%T at its limits: %v", whole(), err)
	}
	for want, change := range faults {
		body := whole()
		change(&body)
		expectFault(t, largest(body).WellFormed(), want)
	}
}

func TestACommandNamesItsAggregate(t *testing.T) {
	ok := domain.Command{
		ID:        "cmd_1",
		AccountID: "acc_-_azAZ09",
		Body:      domain.DeleteWatch{WatchID: "wat_1"},
	}
	if err := ok.WellFormed(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*domain.Command){
		`command id "cmd_" does not begin`:      func(c *domain.Command) { c.ID = "cmd_" },
		`command id "evt_1" does not begin`:     func(c *domain.Command) { c.ID = "evt_1" },
		"command id: 129 is not from 1 to 128":  func(c *domain.Command) { c.ID = "cmd_" + long(125) },
		`account "" does not begin with acc_`:   func(c *domain.Command) { c.AccountID = "" },
		`account "acc_a.b" has the character`:   func(c *domain.Command) { c.AccountID = "acc_a.b" },
		`account "acc_a/" has the character`:    func(c *domain.Command) { c.AccountID = "acc_a/" },
		`account "acc_:a" has the character`:    func(c *domain.Command) { c.AccountID = "acc_:a" },
		`account "acc_@a" has the character`:    func(c *domain.Command) { c.AccountID = "acc_@a" },
		`account "acc_[a" has the character`:    func(c *domain.Command) { c.AccountID = "acc_[a" },
		"account \"acc_`a\" has the character":  func(c *domain.Command) { c.AccountID = "acc_`a" },
		`account "acc_{a" has the character`:    func(c *domain.Command) { c.AccountID = "acc_{a" },
		"hash of the body: 65 is not":           func(c *domain.Command) { c.BodyHash = make([]byte, 65) },
		`watch "ep_1" does not begin with wat_`: func(c *domain.Command) { c.Body = domain.DeleteWatch{WatchID: "ep_1"} },
		`endpoint "wat_1" does not begin with`: func(c *domain.Command) {
			c.Body = domain.DeleteEndpoint{EndpointID: "wat_1"}
		},
		`account "ep_1" does not begin with acc_`: func(c *domain.Command) {
			c.Body = domain.RevokeKey{AccountID: "ep_1"}
		},
	} {
		c := ok
		change(&c)
		expectFault(t, c.WellFormed(), want)
	}
	for _, body := range []domain.CommandBody{ // nothing in them has a bound
		domain.RevokeKey{AccountID: "acc_1", KeyID: "unknown"},
		domain.DisableEndpoint{EndpointID: "ep_1"},
		domain.EnableEndpoint{EndpointID: "ep_1"},
		domain.DeleteEndpoint{EndpointID: "ep_1"},
		domain.UpdateEndpoint{EndpointID: "ep_1"}, domain.UpdateWatch{WatchID: "wat_1"},
	} {
		if err := largest(body).WellFormed(); err != nil {
			t.Errorf("%T: %v", body, err)
		}
	}
}

func TestBoundsOfAccountCommands(t *testing.T) {
	key := func() domain.Key {
		return domain.Key{
			ID:              "key_1",
			Name:            long(1024),
			Hash:            make([]byte, 64),
			Permissions:     times(16, domain.Permission(long(64))),
			AllowedCIDRs:    times(100, long(64)),
			ExpiresAtMillis: latestMillis,
		}
	}
	expectBounds(t, func() domain.CreateAccount {
		return domain.CreateAccount{
			AccountID:  "acc_1",
			Email:      long(1024),
			MoreEmails: times(9, long(1024)),
			Key:        key(),
		}
	}, map[string]func(*domain.CreateAccount){
		"email: 1025 is not from 0 to 1024": func(c *domain.CreateAccount) { c.Email = long(1025) },
		"emails besides the first: 10 is not from 0 to 9": func(c *domain.CreateAccount) {
			c.MoreEmails = times(10, "a")
		},
		"email: 0 is not from 1 to 1024": func(c *domain.CreateAccount) { c.MoreEmails[8] = "" },
		"email: 1025 is not from 1 to 1024": func(c *domain.CreateAccount) {
			c.MoreEmails[0] = long(1025)
		},
		`key "acc_1" does not begin with`: func(c *domain.CreateAccount) { c.Key.ID = "acc_1" },
	})
	expectBounds(t, func() domain.UpdateAccount {
		return domain.UpdateAccount{
			AccountID:  "acc_1",
			Email:      long(1024),
			MoreEmails: times(9, "a"),
		}
	}, map[string]func(*domain.UpdateAccount){
		"email: 0 is not from 1 to 1024": func(c *domain.UpdateAccount) { c.Email = "" },
		"emails besides the first: 10 is not from 0": func(c *domain.UpdateAccount) {
			c.MoreEmails = times(10, "a")
		},
	})
	expectBounds(t, func() domain.CreateKey {
		return domain.CreateKey{AccountID: "acc_1", Key: key()}
	}, map[string]func(*domain.CreateKey){
		`key "" does not begin with key_`: func(c *domain.CreateKey) { c.Key.ID = "" },
		"name: 1025 is not":               func(c *domain.CreateKey) { c.Key.Name = long(1025) },
		"hash: 0 is not from 1 to 64":     func(c *domain.CreateKey) { c.Key.Hash = nil },
		"hash: 65 is not from 1 to 64":    func(c *domain.CreateKey) { c.Key.Hash = make([]byte, 65) },
		"permissions: 17 is not from 0 to 16": func(c *domain.CreateKey) {
			c.Key.Permissions = times(17, domain.PermissionRead)
		},
		"permission: 65 is not": func(c *domain.CreateKey) {
			c.Key.Permissions[15] = domain.Permission(long(65))
		},
		"allowed CIDRs: 101 is not from 0 to 100": func(c *domain.CreateKey) {
			c.Key.AllowedCIDRs = times(101, "::/0")
		},
		"CIDR: 65 is not from 0 to 64": func(c *domain.CreateKey) { c.Key.AllowedCIDRs[99] = long(65) },
		"expiry 7258118400001 is not a time": func(c *domain.CreateKey) {
			c.Key.ExpiresAtMillis = latestMillis + 1
		},
		"expiry -1 is not a time": func(c *domain.CreateKey) { c.Key.ExpiresAtMillis = -1 },
	})
	expectBounds(t, func() domain.RollKey {
		return domain.RollKey{
			AccountID:   "acc_1",
			KeyID:       "key_0",
			Key:         key(),
			GraceMillis: latestMillis,
		}
	}, map[string]func(*domain.RollKey){
		`key "wat_1" does not begin with`: func(c *domain.RollKey) { c.KeyID = "wat_1" },
		`key "key_ " has the character`:   func(c *domain.RollKey) { c.Key.ID = "key_ " },
		"grace -1 is not a time":          func(c *domain.RollKey) { c.GraceMillis = -1 },
	})
}

// Each bound holds for a new endpoint and for an update, which may omit any setting.
func TestBoundsOfEndpointSettings(t *testing.T) {
	whole := func() domain.CreateEndpoint {
		return domain.CreateEndpoint{
			EndpointID: "ep_1",
			AccountID:  "acc_1",
			EndpointSettings: domain.EndpointSettings{
				URL:         long(16384),
				Description: long(16384),
				Headers: times(32, domain.Header{
					Name: "!" + long(1022) + "~", Sealed: make([]byte, 6144),
				}),
				RateLimitPerSecond: 1_000_000,
				Signatures:         domain.StandardWebhooks | domain.StandardWebhooksEd25519,
				Ordering:           domain.OrderingWallet,
				NoticesTo:          "ep_2",
			},
			SealedSecret: make([]byte, 6144),
		}
	}
	named := func(name string) func(*domain.CreateEndpoint) {
		return func(c *domain.CreateEndpoint) { c.Headers[31].Name = name }
	}
	faults := map[string]func(*domain.CreateEndpoint){
		"url: 0 is not from 1 to 16384":        func(c *domain.CreateEndpoint) { c.URL = "" },
		"url: 16385 is not":                    func(c *domain.CreateEndpoint) { c.URL = long(16385) },
		"description: 16385 is not":            func(c *domain.CreateEndpoint) { c.Description = long(16385) },
		"headers: 33 is not from 0 to 32":      func(c *domain.CreateEndpoint) { c.Headers = times(33, c.Headers[0]) },
		"header name: 0 is not from 1 to 1024": named(""),
		"header name: 1025 is not":             named(long(1025)),
		`"a b" is not the name of a header`:    named("a b"),
		`"a:b" is not the name of a header`:    named("a:b"),
		`"a\r\nb" is not the name of a header`: named("a\r\nb"),
		`"a\x7f" is not the name of a header`:  named("a\x7f"),
		"sealed header: 6145 is not from 0 to": func(c *domain.CreateEndpoint) {
			c.Headers[0].Sealed = make([]byte, 6145)
		},
		"rate limit: -1 is not from 0": func(c *domain.CreateEndpoint) { c.RateLimitPerSecond = -1 },
		"rate limit: 1000001 is not from 0": func(c *domain.CreateEndpoint) {
			c.RateLimitPerSecond = 1_000_001
		},
		"signatures: 4 is not from 0 to 3": func(c *domain.CreateEndpoint) { c.Signatures = 4 },
		`unknown ordering "amount"`:        func(c *domain.CreateEndpoint) { c.Ordering = "amount" },
		`"wat_1" does not begin with ep_`:  func(c *domain.CreateEndpoint) { c.NoticesTo = "wat_1" },
	}
	for want, change := range faults { // the same bounds apply to an update
		c := whole()
		change(&c)
		s := c.EndpointSettings
		expectFault(t, largest(domain.UpdateEndpoint{
			EndpointID: "ep_1",
			Change: domain.EndpointChange{
				URL: &s.URL, Description: &s.Description, Headers: &s.Headers, Ordering: &s.Ordering,
				RateLimitPerSecond: &s.RateLimitPerSecond, Signatures: &s.Signatures,
				NoticesTo: &s.NoticesTo,
			},
		}).WellFormed(), want)
	}
	faults[`account "ep_1" does not begin with acc_`] = func(c *domain.CreateEndpoint) {
		c.AccountID = "ep_1"
	}
	faults["itself"] = func(c *domain.CreateEndpoint) { c.NoticesTo = c.EndpointID }
	faults["sealed secret: 0 is not from 1 to 6144"] = func(c *domain.CreateEndpoint) {
		c.SealedSecret = nil
	}
	faults["sealed secret: 6145 is not"] = func(c *domain.CreateEndpoint) {
		c.SealedSecret = make([]byte, 6145)
	}
	expectBounds(t, whole, faults)
	least := domain.CreateEndpoint{EndpointID: "ep_1", AccountID: "acc_1", SealedSecret: []byte{1}}
	least.URL = "u"
	if err := largest(least).WellFormed(); err != nil {
		t.Errorf("an endpoint with nothing but a URL: %v", err)
	}
}

func TestBoundsOfEndpointCommands(t *testing.T) {
	expectBounds(t, func() domain.RotateSecret {
		return domain.RotateSecret{EndpointID: "ep_1", SealedSecret: make([]byte, 6144)}
	}, map[string]func(*domain.RotateSecret){
		"sealed secret: 0 is not from 1 to 6144": func(c *domain.RotateSecret) { c.SealedSecret = nil },
		"sealed secret: 6145 is not": func(c *domain.RotateSecret) {
			c.SealedSecret = make([]byte, 6145)
		},
	})
	expectBounds(t, func() domain.ResealSecrets {
		return domain.ResealSecrets{
			EndpointID: "ep_1",
			Values:     times(2, domain.Resealed{Sealed: make([]byte, 6144)}),
		}
	}, map[string]func(*domain.ResealSecrets){
		"sealed value: 0 is not from 1 to 6144": func(c *domain.ResealSecrets) {
			c.Values[0].Sealed = nil
		},
		"sealed value: 6145 is not": func(c *domain.ResealSecrets) {
			c.Values[1].Sealed = make([]byte, 6145)
		},
	})
	for _, sample := range []domain.EventType{"", domain.PaymentReceived} {
		expectBounds(t, func() domain.TestEndpoint {
			return domain.TestEndpoint{EndpointID: "ep_1", Sample: sample}
		}, map[string]func(*domain.TestEndpoint){
			`"payment.rejected"`: func(c *domain.TestEndpoint) { c.Sample = domain.PaymentRejected },
		})
	}
	expectBounds(t, func() domain.ReplayEndpoint {
		return domain.ReplayEndpoint{
			EndpointID:  "ep_1",
			SinceMillis: latestMillis,
			UntilMillis: latestMillis,
		}
	}, map[string]func(*domain.ReplayEndpoint){
		"since -1 is not a time":            func(c *domain.ReplayEndpoint) { c.SinceMillis = -1 },
		"until 7258118400001 is not a time": func(c *domain.ReplayEndpoint) { c.UntilMillis++ },
	})
	expectBounds(t, func() domain.ReplayEvents {
		return domain.ReplayEvents{
			EndpointID: "ep_1",
			EventIDs:   times(1000, "evt_1"),
			Matched:    math.MaxInt32,
		}
	}, map[string]func(*domain.ReplayEvents){
		"chosen events: 1001 is not from 0 to 1000": func(c *domain.ReplayEvents) {
			c.EventIDs, c.Matched = times(1001, "evt_1"), 1001
		},
		"matching events: 999 is not from 1000 to 2147483647": func(c *domain.ReplayEvents) {
			c.Matched = 999
		},
		"matching events: 2147483648 is not": func(c *domain.ReplayEvents) {
			c.Matched = math.MaxInt32 + 1
		},
		`event "wat_1" does not begin with evt_`: func(c *domain.ReplayEvents) { c.EventIDs[999] = "wat_1" },
	})
	done := func() domain.MailDone {
		return domain.MailDone{Taken: times(10, long(64)), Refused: times(10, long(64))}
	}
	for _, answer := range []domain.MailAnswer{
		domain.MailTaken, domain.MailDeferred, domain.MailDeclined, domain.MailUnserved,
		domain.MailNoAddress,
	} {
		expectBounds(t, func() domain.RecordMail {
			return domain.RecordMail{EndpointID: "ep_1", Number: 1 << 30, Answer: answer, Done: done()}
		}, map[string]func(*domain.RecordMail){
			`"lost"`:                               func(c *domain.RecordMail) { c.Answer = "lost" },
			"order: 0 is not from 1 to 1073741824": func(c *domain.RecordMail) { c.Number = 0 },
			"order: 1073741825 is not":             func(c *domain.RecordMail) { c.Number++ },
			"addresses that accepted a mail: 11 is not": func(c *domain.RecordMail) {
				c.Done.Taken = times(11, "a")
			},
			"addresses that refused a mail: 11 is not": func(c *domain.RecordMail) {
				c.Done.Refused = times(11, "a")
			},
			"address: 0 is not from 1 to 64":  func(c *domain.RecordMail) { c.Done.Taken[9] = "" },
			"address: 65 is not from 1 to 64": func(c *domain.RecordMail) { c.Done.Refused[9] = long(65) },
		})
	}
	order := domain.MailOrder{
		EndpointID: "ep_1",
		AccountID:  "acc_1",
		Number:     1 << 30,
		AtMillis:   latestMillis,
		Done:       done(),
	}
	if err := order.WellFormed(); err != nil {
		t.Errorf("an order at its limits: %v", err)
	}
	for want, change := range map[string]func(*domain.MailOrder){
		`endpoint "" does not begin`:           func(o *domain.MailOrder) { o.EndpointID = "" },
		`account "" does not begin`:            func(o *domain.MailOrder) { o.AccountID = "" },
		"order: 0 is not from 1 to 1073741824": func(o *domain.MailOrder) { o.Number = 0 },
		"disabling 7258118400001 is not":       func(o *domain.MailOrder) { o.AtMillis++ },
		"address: 65 is not from 1 to 64": func(o *domain.MailOrder) {
			o.Done.Taken = times(1, long(65))
		},
	} {
		o := order
		change(&o)
		expectFault(t, o.WellFormed(), want)
	}
}

// The remembered delivery must be the one that the command names.
func TestBoundsOfAResend(t *testing.T) {
	expectBounds(t, func() domain.ResendEvent {
		return domain.ResendEvent{
			EndpointID:   "ep_1",
			EventID:      "evt_1",
			ToEndpointID: "ep_2",
			Remembered: &domain.Remembered{
				Body: make([]byte, 65536),
				Delivery: domain.Delivery{
					EventID:           "evt_1",
					EventType:         domain.EventType(long(64)),
					AccountID:         "acc_1",
					EndpointID:        "ep_1",
					WatchID:           "wat_1",
					CreatedAtMillis:   latestMillis,
					Attempts:          1 << 30,
					Run:               1 << 30,
					Moves:             16,
					FormerEndpointIDs: times(16, "ep_0"),
					MovedTo:           "ep_2",
				},
			},
		}
	}, map[string]func(*domain.ResendEvent){
		`"wat_2" does not begin with ep_`: func(c *domain.ResendEvent) { c.ToEndpointID = "wat_2" },
		`event "" does not begin with evt_`: func(c *domain.ResendEvent) {
			c.EventID, c.Remembered = "", nil
		},
		"event's body: 65537 is not from 0 to 65536": func(c *domain.ResendEvent) {
			c.Remembered.Body = make([]byte, 65537)
			c.Remembered.Delivery = domain.Delivery{}
		},
		`"evt_2" to "ep_1"`: func(c *domain.ResendEvent) { c.Remembered.Delivery.EventID = "evt_2" },
		`"evt_1" to "ep_3"`: func(c *domain.ResendEvent) { c.Remembered.Delivery.EndpointID = "ep_3" },
		`watch "ep_1" does not begin`: func(c *domain.ResendEvent) {
			c.Remembered.Delivery.WatchID = "ep_1"
		},
		`endpoint moved to "wat_1" does not begin`: func(c *domain.ResendEvent) {
			c.Remembered.Delivery.MovedTo = "wat_1"
		},
		`former endpoint "" does not begin`: func(c *domain.ResendEvent) {
			c.Remembered.Delivery.FormerEndpointIDs[15] = ""
		},
		`account "" does not begin`: func(c *domain.ResendEvent) { c.Remembered.Delivery.AccountID = "" },
		"event type: 65 is not": func(c *domain.ResendEvent) {
			c.Remembered.Delivery.EventType = domain.EventType(long(65))
		},
		"event's time -1 is not a time": func(c *domain.ResendEvent) {
			c.Remembered.Delivery.CreatedAtMillis = -1
		},
		"moves: 17 is not from 0 to 16": func(c *domain.ResendEvent) { c.Remembered.Delivery.Moves = 17 },
		"attempts: 1073741825 is not":   func(c *domain.ResendEvent) { c.Remembered.Delivery.Attempts++ },
		"runs: 0 is not from 1 to 1073741824": func(c *domain.ResendEvent) {
			c.Remembered.Delivery.Run = 0
		},
		"former endpoints: 16 is not from 0 to 15": func(c *domain.ResendEvent) {
			c.Remembered.Delivery.Moves = 15
		},
	})
	least := domain.ResendEvent{EndpointID: "ep_1", EventID: "evt_1", Remembered: &domain.Remembered{
		Delivery: domain.Delivery{EventID: "evt_1", EndpointID: "ep_1", AccountID: "acc_1", Run: 1},
	}}
	if err := largest(least).WellFormed(); err != nil {
		t.Errorf("a test.ping that never moved: %v", err)
	}
}

func TestBoundsOfWatchSettings(t *testing.T) {
	whole := func() domain.CreateWatch {
		return domain.CreateWatch{Watch: domain.Watch{
			ID:            "wat_1",
			AccountID:     "acc_1",
			EndpointID:    "ep_1",
			WalletAddress: long(128),
			Label:         long(16384),
			Rules: domain.Rules{
				Assets: times(1000, domain.Asset{Code: long(128), Issuer: long(128)}),
				Amount: domain.AmountRule{Kind: domain.AmountRange},
				Memo: domain.MemoRule{
					Kind:  domain.MemoEquals,
					Value: domain.Memo{Type: domain.MemoType(long(64)), Raw: make([]byte, 1024)},
				},
				SenderAllowlist: times(4000, long(128)),
			},
			EventTypes:      times(16, domain.PaymentRejected),
			ExpiresAtMillis: latestMillis,
		}}
	}
	faults := map[string]func(*domain.CreateWatch){
		`endpoint "acc_1" does not begin`: func(c *domain.CreateWatch) { c.Watch.EndpointID = "acc_1" },
		"label: 16385 is not":             func(c *domain.CreateWatch) { c.Watch.Label = long(16385) },
		"assets: 1001 is not from 0 to 1000": func(c *domain.CreateWatch) {
			c.Watch.Rules.Assets = times(1001, domain.Asset{})
		},
		"asset code: 129 is not":             func(c *domain.CreateWatch) { c.Watch.Rules.Assets[999].Code = long(129) },
		"issuer: 129 is not":                 func(c *domain.CreateWatch) { c.Watch.Rules.Assets[0].Issuer = long(129) },
		"senders: 4001 is not":               func(c *domain.CreateWatch) { c.Watch.Rules.SenderAllowlist = times(4001, "") },
		"sender: 129 is not":                 func(c *domain.CreateWatch) { c.Watch.Rules.SenderAllowlist[3999] = long(129) },
		`amount rule "newer"`:                func(c *domain.CreateWatch) { c.Watch.Rules.Amount.Kind = "newer" },
		`memo rule ""`:                       func(c *domain.CreateWatch) { c.Watch.Rules.Memo.Kind = "" },
		"memo type: 65 is not":               func(c *domain.CreateWatch) { c.Watch.Rules.Memo.Value.Type += "a" },
		"memo: 1025 is not":                  func(c *domain.CreateWatch) { c.Watch.Rules.Memo.Value.Raw = make([]byte, 1025) },
		"event types: 0 is not from 1 to 16": func(c *domain.CreateWatch) { c.Watch.EventTypes = nil },
		"event types: 17 is not":             func(c *domain.CreateWatch) { c.Watch.EventTypes = times(17, domain.PaymentReceived) },
		`of type "test.ping"`:                func(c *domain.CreateWatch) { c.Watch.EventTypes[15] = domain.TestPing },
		"expiry 7258118400001 is ":           func(c *domain.CreateWatch) { c.Watch.ExpiresAtMillis++ },
		"expiry -1 is not a time":            func(c *domain.CreateWatch) { c.Watch.ExpiresAtMillis = -1 },
	}
	for want, change := range faults {
		c := whole()
		change(&c)
		w := c.Watch
		expectFault(t, largest(domain.UpdateWatch{WatchID: "wat_1", Change: domain.WatchChange{
			Label: &w.Label, EndpointID: &w.EndpointID, Assets: &w.Rules.Assets,
			Amount: &w.Rules.Amount, Memo: &w.Rules.Memo, SenderAllowlist: &w.Rules.SenderAllowlist,
			EventTypes: &w.EventTypes, ExpiresAtMillis: &w.ExpiresAtMillis,
		}}).WellFormed(), want)
	}
	faults[`account "" does not begin`] = func(c *domain.CreateWatch) { c.Watch.AccountID = "" }
	faults["wallet: 0 is not from 1 to 128"] = func(c *domain.CreateWatch) {
		c.Watch.WalletAddress = ""
	}
	faults[`wallet "G A" has the character ' '`] = func(c *domain.CreateWatch) {
		c.Watch.WalletAddress = "G A"
	}
	faults["deleted or fulfilled"] = func(c *domain.CreateWatch) { c.Watch.DeletedAtMillis = 1 }
	expectBounds(t, whole, faults)
	paid := whole()
	paid.Watch.Fulfilled.PaymentID = "1"
	expectFault(t, largest(paid).WellFormed(), "deleted or fulfilled")

	for _, kind := range []domain.AmountKind{
		domain.AmountAny, domain.AmountExact, domain.AmountMin, domain.AmountMax, domain.AmountRange,
	} {
		for _, memo := range []domain.MemoKind{
			domain.MemoAny, domain.MemoPresent, domain.MemoAbsent, domain.MemoEquals,
		} {
			c := whole()
			c.Watch.Rules.Amount.Kind, c.Watch.Rules.Memo.Kind = kind, memo
			c.Watch.EventTypes = []domain.EventType{domain.PaymentReceived}
			if err := largest(c).WellFormed(); err != nil {
				t.Errorf("%s, %s: %v", kind, memo, err)
			}
		}
	}
}

func TestBoundsOfCoverage(t *testing.T) {
	expectBounds(t, func() domain.BackfillWatch {
		return domain.BackfillWatch{WatchID: "wat_1", From: 5, To: 5}
	}, map[string]func(*domain.BackfillWatch){
		"ledgers 5 to 4": func(c *domain.BackfillWatch) { c.To = 4 },
	})
	open := domain.BackfillWatch{WatchID: "wat_1", From: 5} // until live reading takes over
	if err := largest(open).WellFormed(); err != nil {
		t.Error(err)
	}
	expectBounds(t, func() domain.RecordCoverage {
		return domain.RecordCoverage{
			WatchID: "wat_1",
			From:    5,
			To:      5,
			Problem: long(16384),
			Fulfils: domain.Fulfilment{PaymentID: long(128)},
		}
	}, map[string]func(*domain.RecordCoverage){
		"ledgers 5 to 4":        func(c *domain.RecordCoverage) { c.To = 4 },
		"ledgers 5 to 0":        func(c *domain.RecordCoverage) { c.To = 0 },
		"problem: 16385 is not": func(c *domain.RecordCoverage) { c.Problem = long(16385) },
		"payment: 129 is not":   func(c *domain.RecordCoverage) { c.Fulfils.PaymentID = long(129) },
	})
}

// A notice about another endpoint has no watch and never moves.
func TestBoundsOfAMatch(t *testing.T) {
	payment := domain.MatchInput{
		AccountID:     "acc_1",
		EndpointID:    "ep_1",
		WatchID:       "wat_1",
		WalletAddress: long(128),
		Event: domain.Event{
			ID: "evt_1", Type: domain.PaymentRejected, CreatedAtMillis: latestMillis,
			Body: make([]byte, 65536),
		},
		Moved: domain.Moved{
			Moves: 16, Attempts: 1 << 30, Runs: 1 << 30, FormerEndpointIDs: times(16, "ep_0"),
		},
	}
	notice := domain.MatchInput{
		AccountID:  "acc_1",
		EndpointID: "ep_1",
		Event:      domain.Event{ID: "evt_1", Type: domain.EndpointFailingEvent, Body: []byte("{}")},
	}
	disabled := notice
	disabled.Event.Type = domain.EndpointDisabledEvent
	for _, m := range []domain.MatchInput{payment, notice, disabled} {
		if err := m.WellFormed(); err != nil {
			t.Errorf("%s: %v", m.Event.Type, err)
		}
	}
	for want, change := range map[string]func(*domain.MatchInput){
		`account "ep_1" does not begin`:        func(m *domain.MatchInput) { m.AccountID = "ep_1" },
		`endpoint "" does not begin`:           func(m *domain.MatchInput) { m.EndpointID = "" },
		`watch "" does not begin`:              func(m *domain.MatchInput) { m.WatchID = "" },
		`event "1" does not begin`:             func(m *domain.MatchInput) { m.Event.ID = "1" },
		`of type "test.ping"`:                  func(m *domain.MatchInput) { m.Event.Type = domain.TestPing },
		"wallet: 129 is not":                   func(m *domain.MatchInput) { m.WalletAddress = long(129) },
		"event's time 7258118400001 is":        func(m *domain.MatchInput) { m.Event.CreatedAtMillis++ },
		"event's body: 0 is not from 1":        func(m *domain.MatchInput) { m.Event.Body = nil },
		"event's body: 65537 is not":           func(m *domain.MatchInput) { m.Event.Body = make([]byte, 65537) },
		"moves: 17 is not from 0 to 16":        func(m *domain.MatchInput) { m.Moved.Moves = 17 },
		"attempts: 1073741825 is not":          func(m *domain.MatchInput) { m.Moved.Attempts++ },
		"runs: -1 is not from 0 to 1073741824": func(m *domain.MatchInput) { m.Moved.Runs = -1 },
		"former endpoints: 16 is not from":     func(m *domain.MatchInput) { m.Moved.Moves = 15 },
	} {
		m := payment
		change(&m)
		expectFault(t, m.WellFormed(), want)
	}
	of, moved := notice, notice
	of.WatchID, moved.Moved.Moves = "wat_1", 1
	expectFault(t, of.WellFormed(), "watch of a notice: 5 is not from 0 to 0")
	expectFault(t, moved.WellFormed(), "moves of a notice: 1 is not from 0 to 0")
}

// The tables of the history cannot store values beyond these bounds.
func TestBoundsOfTheHistory(t *testing.T) {
	const latest = 4_291_747_199_999 // the last second of 2105
	payment := domain.Payment{
		ID:             long(128),
		To:             long(128),
		Memo:           domain.Memo{Raw: make([]byte, 1024)},
		ClosedAtMillis: latest,
	}
	if err := payment.WellFormed(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*domain.Payment){
		"payment: 0 is not from 1 to 128": func(p *domain.Payment) { p.ID = "" },
		"payment: 129 is not":             func(p *domain.Payment) { p.ID = long(129) },
		"wallet: 0 is not from 1 to 128":  func(p *domain.Payment) { p.To = "" },
		"wallet: 129 is not":              func(p *domain.Payment) { p.To = long(129) },
		"memo: 1025 is not":               func(p *domain.Payment) { p.Memo.Raw = make([]byte, 1025) },
		"close -1 is not a time":          func(p *domain.Payment) { p.ClosedAtMillis = -1 },
		"close 4291747200000 is not":      func(p *domain.Payment) { p.ClosedAtMillis++ },
	} {
		p := payment
		change(&p)
		expectFault(t, p.WellFormed(), want)
	}
	move := domain.BalanceMove{
		ID:             "mov_1",
		Wallet:         long(128),
		Kind:           domain.MoveKind(long(128)),
		TxHash:         long(128),
		Operation:      math.MaxInt32,
		Pool:           long(128),
		Asset:          domain.Asset{Code: long(128), Issuer: long(128)},
		PaymentIDs:     times(10_000, long(128)),
		ClosedAtMillis: latest,
	}
	if err := move.WellFormed(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*domain.BalanceMove){
		`move "evt_1" does not begin with mov_`: func(m *domain.BalanceMove) { m.ID = "evt_1" },
		"wallet: 0 is not from 1 to 128":        func(m *domain.BalanceMove) { m.Wallet = "" },
		"kind: 0 is not from 1 to 128":          func(m *domain.BalanceMove) { m.Kind = "" },
		"transaction: 0 is not from 1 to 128":   func(m *domain.BalanceMove) { m.TxHash = "" },
		"operation: -1 is not from 0":           func(m *domain.BalanceMove) { m.Operation = -1 },
		"operation: 2147483648 is not":          func(m *domain.BalanceMove) { m.Operation++ },
		"pool: 129 is not":                      func(m *domain.BalanceMove) { m.Pool = long(129) },
		"payments: 10001 is not":                func(m *domain.BalanceMove) { m.PaymentIDs = times(10_001, "1") },
		"payment: 0 is not from 1 to 128":       func(m *domain.BalanceMove) { m.PaymentIDs = times(1, "") },
		"asset code: 129 is not":                func(m *domain.BalanceMove) { m.Asset.Code = long(129) },
		"close 4291747200000 is not a time":     func(m *domain.BalanceMove) { m.ClosedAtMillis++ },
		"close -1 is not a time":                func(m *domain.BalanceMove) { m.ClosedAtMillis = -1 },
		"a balance is negative":                 func(m *domain.BalanceMove) { m.BeforeStroops = -1 },
		"negative":                              func(m *domain.BalanceMove) { m.AfterStroops = -1 },
	} {
		m := move
		change(&m)
		expectFault(t, m.WellFormed(), want)
	}
}
