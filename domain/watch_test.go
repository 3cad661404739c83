package domain_test

import (
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func givenWatch(bodies ...domain.FactBody) domain.Watch {
	var w domain.Watch
	for i, body := range append(facts(domain.WatchCreated{Watch: domain.Watch{
		ID:            "wat_1",
		AccountID:     ownAccount,
		WalletAddress: "GWALLET",
		Label:         "shop",
		EndpointID:    endpointID,
		Rules: domain.Rules{
			Assets: []domain.Asset{domain.NativeAsset()},
			Memo: domain.MemoRule{
				Kind:  domain.MemoEquals,
				Value: domain.Memo{Type: domain.MemoText, Raw: []byte("x")},
			},
		},
		EventTypes:      []domain.EventType{domain.PaymentReceived},
		CreatedAtMillis: startedAt,
		UpdatedAtMillis: startedAt,
	}}), bodies...) {
		w = domain.EvolveWatch(w,
			domain.Fact{
				Aggregate: "wat_1",
				Version:   uint64(i + 1),
				AtMillis:  startedAt + int64(i),
				Body:      body,
			})
	}
	return w
}

func TestWatchCommands(t *testing.T) {
	sameMemo := domain.MemoRule{
		Kind:  domain.MemoEquals,
		Value: domain.Memo{Type: domain.MemoText, Raw: []byte("x")},
	}
	otherMemo := domain.MemoRule{
		Kind:  domain.MemoEquals,
		Value: domain.Memo{Type: domain.MemoText, Raw: []byte("y")},
	}
	whole := domain.WatchChange{
		Label:           new(""),
		EndpointID:      new("ep_2"),
		Assets:          &[]domain.Asset{{Code: "USD", Issuer: "GI"}},
		Amount:          &domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5},
		Memo:            &otherMemo,
		SenderAllowlist: &[]string{"GA"},
		EventTypes:      &[]domain.EventType{domain.PaymentRejected},
		ExpiresAtMillis: new(int64(5)),
	}
	same := domain.WatchChange{
		Label:           new("shop"),
		EndpointID:      new(endpointID),
		Assets:          &[]domain.Asset{domain.NativeAsset()},
		Amount:          new(domain.AmountRule),
		Memo:            &sameMemo,
		SenderAllowlist: &[]string{},
		EventTypes:      &[]domain.EventType{domain.PaymentReceived},
		ExpiresAtMillis: new(int64(0)),
	}
	created := domain.Watch{ID: "wat_1", AccountID: ownAccount}
	stamped := created
	stamped.CreatedAtMillis, stamped.UpdatedAtMillis = startedAt, startedAt
	for name, c := range map[string]struct {
		given   domain.Watch
		account string
		when    domain.CommandBody
		code    string
		then    []domain.FactBody
	}{
		"create": {
			domain.Watch{}, ownAccount, domain.CreateWatch{Watch: created}, "",
			facts(domain.WatchCreated{Watch: stamped}),
		},
		"create again": {
			givenWatch(), ownAccount, domain.CreateWatch{Watch: created},
			domain.CodeAlreadyExists, nil,
		},
		"update all": {
			givenWatch(), ownAccount, domain.UpdateWatch{Change: whole}, "",
			facts(domain.WatchUpdated{Change: whole}),
		},
		"update, the same": {givenWatch(), ownAccount, domain.UpdateWatch{Change: same}, "", nil},
		"update, nothing":  {givenWatch(), ownAccount, domain.UpdateWatch{IfRevision: 1}, "", nil},
		"update, part": {
			givenWatch(), ownAccount,
			domain.UpdateWatch{
				IfRevision: 1,
				Change:     domain.WatchChange{Label: new("bar"), Memo: &sameMemo},
			},
			"", facts(domain.WatchUpdated{Change: domain.WatchChange{Label: new("bar")}}),
		},
		"update, stale": {
			givenWatch(domain.WatchUpdated{}), ownAccount,
			domain.UpdateWatch{IfRevision: 1, Change: whole}, domain.CodePreconditionFailed,
			nil,
		},
		"update, deleted": {
			givenWatch(domain.WatchDeleted{}), ownAccount, domain.UpdateWatch{Change: whole},
			domain.CodeNotFound, nil,
		},
		"update, another's": {
			givenWatch(), "acc_other", domain.UpdateWatch{Change: whole}, domain.CodeNotFound,
			nil,
		},
		"update, unknown": {
			domain.Watch{}, "", domain.UpdateWatch{Change: whole}, domain.CodeNotFound, nil,
		},
		"delete": {
			givenWatch(), ownAccount, domain.DeleteWatch{IfRevision: 1}, "",
			facts(domain.WatchDeleted{}),
		},
		"delete, stale": {
			givenWatch(), ownAccount, domain.DeleteWatch{IfRevision: 2},
			domain.CodePreconditionFailed, nil,
		},
		"delete, deleted": {
			givenWatch(domain.WatchDeleted{}), ownAccount, domain.DeleteWatch{},
			domain.CodeNotFound, nil,
		},
		"delete, another's": {givenWatch(), "acc_other", domain.DeleteWatch{}, domain.CodeNotFound, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := domain.DecideWatch(c.given, domain.Command{AccountID: c.account, Body: c.when},
				startedAt)
			expect(t, got, rejection, c.code, c.then...)
		})
	}
}

func TestWatchFold(t *testing.T) {
	w := givenWatch()
	if w.Version != 1 || w.Revision != 1 || w.Deleted() {
		t.Fatalf("created as %+v", w)
	}
	updated := givenWatch(domain.CommandHandled{},
		domain.WatchUpdated{Change: domain.WatchChange{
			Label:           new("bar"),
			SenderAllowlist: &[]string{"GA"},
		}},
		domain.CommandHandled{})
	want := w
	want.Label, want.Rules.SenderAllowlist = "bar", []string{"GA"}
	want.Version, want.Revision, want.UpdatedAtMillis = 4, 3, startedAt+2
	if !reflect.DeepEqual(updated, want) {
		t.Errorf("updated to %+v", updated)
	}
	p := domain.Payment{
		ID:            "1",
		From:          "GA",
		To:            "GWALLET",
		Asset:         domain.NativeAsset(),
		AmountStroops: 1,
		Memo:          domain.Memo{Type: domain.MemoText, Raw: []byte("x")},
	}
	if _, ok := domain.MatchPayment(updated, p); !ok {
		t.Error("a payment that passes is not told")
	}
	deleted := givenWatch(domain.WatchDeleted{})
	if !deleted.Deleted() || !deleted.Exists() || deleted.Revision != 2 {
		t.Errorf("deleted as %+v", deleted)
	}
	if _, ok := domain.MatchPayment(deleted, p); ok {
		t.Error("a deleted watch matches")
	}
}

// A watch awaits the follower while a backfill is in progress or a part has not ended, unless the
// watch is deleted.
func TestWhichWatchesAwaitTheFollower(t *testing.T) {
	part := []domain.Part{{Version: 3}}
	running := domain.Backfill{Request: 2, Next: 5}
	for name, c := range map[string]struct {
		watch domain.Watch
		want  bool
	}{
		"nothing to do":       {domain.Watch{}, false},
		"a backfill":          {domain.Watch{Backfill: running}, true},
		"a part":              {domain.Watch{Parts: part}, true},
		"a backfill, deleted": {domain.Watch{Backfill: running, DeletedAtMillis: 1}, false},
		"a part, deleted":     {domain.Watch{Parts: part, DeletedAtMillis: 1}, false},
	} {
		if got := c.watch.AwaitsFollower(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
