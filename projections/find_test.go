package projections_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Lists can be filtered by the fields of a payment, and the match is exact. Rows written by a
// version without these columns are found as well.
func TestListsByWhatWasPaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	s := newStory(1)
	const memo = "a \"memo\":\"x\" \\ \u2028 '\t\x01\xff &<é"
	usd := domain.Asset{Code: "USD", Issuer: "G" + strings.Repeat("A", 55)}
	paid := func(n int, p domain.Payment) string {
		p.ID, p.TxHash, p.To = fmt.Sprint(100+n), fmt.Sprintf("%064x", n), "GWALLET"
		match, ok := domain.MatchPayment(domain.Watch{
			ID:            "wat_00000000000000000000000001",
			EndpointID:    s.endpointID,
			WalletAddress: "GWALLET",
			EventTypes:    []domain.EventType{domain.PaymentReceived},
			Rules:         domain.Rules{Assets: []domain.Asset{usd, domain.NativeAsset()}},
		}, p)
		if !ok {
			t.Fatal("no match")
		}
		created := s.created(n).Body.(domain.DeliveryCreated)
		created.Event = domain.NewPaymentEvent(match, startMillis+int64(n))
		r.append(s.fact(created))
		return created.Event.ID
	}
	first := paid(1, domain.Payment{
		From:          "GPAYER",
		Asset:         usd,
		AmountStroops: 1<<63 - 1,
		Memo:          domain.Memo{Type: domain.MemoText, Raw: []byte(memo)},
	})
	second := paid(2, domain.Payment{
		From:          "CCONTRACT",
		Asset:         domain.NativeAsset(),
		AmountStroops: 90_071_992_547_409_93, // not representable as a float64
		Memo:          domain.Memo{Type: domain.MemoID, Raw: []byte("42")},
	})
	third := paid(3, domain.Payment{From: "GPAYER", Asset: domain.NativeAsset(), AmountStroops: 1})
	test := s.created(4).Body.(domain.DeliveryCreated)
	test.Event = domain.NewSampleEvent(test.Event.ID, test.Event.CreatedAtMillis) // not a payment
	r.append(s.fact(test))
	r.awaitProjected()

	stroops := func(n int64) *int64 { return &n }
	shown := domain.Memo{Type: domain.MemoText, Raw: []byte(memo)}.String()
	check := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			filter readmodel.EventFilter
			want   []string
		}{
			"a transaction": {readmodel.EventFilter{TxHash: fmt.Sprintf("%064x", 2)}, []string{second}},
			"a payment":     {readmodel.EventFilter{PaymentID: "103"}, []string{third}},
			"a sender":      {readmodel.EventFilter{Sender: "GPAYER"}, []string{third, first}},
			"a memo":        {readmodel.EventFilter{Memo: shown}, []string{first}},
			"another memo":  {readmodel.EventFilter{Memo: "42"}, []string{second}},
			"no such memo":  {readmodel.EventFilter{Memo: "4"}, nil},
			"an asset":      {readmodel.EventFilter{Asset: usd}, []string{first}},
			"the native asset": {
				readmodel.EventFilter{Asset: domain.NativeAsset()}, []string{third, second},
			},
			"at least": {
				readmodel.EventFilter{MinStroops: stroops(90_071_992_547_409_93)}, []string{second, first},
			},
			"more": {
				readmodel.EventFilter{MinStroops: stroops(90_071_992_547_409_94)}, []string{first},
			},
			"at most": {readmodel.EventFilter{MaxStroops: stroops(1)}, []string{third}},
			"between, with a state": {readmodel.EventFilter{
				MinStroops: stroops(0), MaxStroops: stroops(2), State: domain.StateQueued,
			}, []string{third}},
		} {
			c.filter.AccountID = testAccount
			if got := r.list(c.filter, 1); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %v, not %v", when, name, got, c.want)
			}
			if got := r.choose(c.filter, 1); !slices.Equal(got, c.want) {
				t.Errorf("%s, %s: %v are chosen, not %v", when, name, got, c.want)
			}
		}
	}
	check("as it is written")
	all := readmodel.EventFilter{AccountID: testAccount}
	if got := r.choose(all, 100); len(got) != 4 {
		t.Errorf("%v are chosen of all", got)
	}
	all.NoTests = true
	if got := r.choose(all, 3); !slices.Equal(got, []string{third, second, first}) {
		t.Errorf("without tests %v are chosen", got)
	}
	for _, column := range []string{"tx_hash", "from_address", "memo"} {
		r.exec("ALTER TABLE events UPDATE " + column + " = '' WHERE 1 SETTINGS mutations_sync = 1")
		r.exec("ALTER TABLE events CLEAR COLUMN " + column + " SETTINGS mutations_sync = 1")
	}
	check("by the defaults of the columns")
}

// choose returns the chosen events, read in steps of limit.
func (r *rig) choose(f readmodel.EventFilter, limit int) (ids []string) {
	r.t.Helper()
	var after *readmodel.Position
	for {
		chosen, next, err := r.history(0).Choose(r.t.Context(), f, after, limit)
		if err != nil || len(chosen) > limit {
			r.t.Fatal(len(chosen), err)
		}
		for _, at := range chosen {
			ids = append(ids, at.ID)
		}
		if next == nil {
			return ids
		}
		after = next
	}
}
