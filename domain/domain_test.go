package domain_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
)

func TestAmountsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stroops := rapid.Int64Range(0, math.MaxInt64).Draw(t, "stroops")
		got, err := domain.ParseAmount(domain.FormatAmount(stroops))
		if err != nil || got != stroops {
			t.Fatalf("%d became %d, %v", stroops, got, err)
		}
	})
	for text, want := range map[string]error{
		"":    domain.ErrAmountSyntax,
		"-1":  domain.ErrAmountSyntax,
		"1e3": domain.ErrAmountSyntax,
		".5":  domain.ErrAmountSyntax, "5.": domain.ErrAmountSyntax, " 1": domain.ErrAmountSyntax,
		"1.00000001":           domain.ErrAmountPrecision,
		"922337203685.4775808": domain.ErrAmountRange, "99999999999999999999": domain.ErrAmountRange,
		"922337203685.4775807": nil, "12.5": nil, "1.00000000": nil,
	} {
		if _, err := domain.ParseAmount(text); err != want {
			t.Errorf("%q: %v, not %v", text, err, want)
		}
	}
}

func TestIDs(t *testing.T) {
	id := domain.EventID("wat_1", "12-3")
	if !domain.IsID(domain.EventPrefix, id) || id != domain.EventID("wat_1", "12-3") {
		t.Errorf("%s is not stable or not an id", id)
	}
	if domain.DeriveID("x_", "ab", "c") == domain.DeriveID("x_", "a", "bc") {
		t.Error("parts run into each other")
	}
	for _, bad := range []string{
		"", "evt_", id + "0", strings.ToUpper(id), "wat_" + id[4:], id[:29] + "u",
	} {
		if domain.IsID(domain.EventPrefix, bad) {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestRules(t *testing.T) {
	usd := domain.Asset{Code: "USD", Issuer: "GISSUER"}
	base := domain.Rules{
		Assets: []domain.Asset{domain.NativeAsset()},
		Amount: domain.AmountRule{Kind: domain.AmountAny},
		Memo:   domain.MemoRule{Kind: domain.MemoAny},
	}
	with := func(change func(*domain.Rules)) domain.Rules {
		r := base
		change(&r)
		return r
	}
	amount := func(rule domain.AmountRule) domain.Rules {
		return with(func(r *domain.Rules) { r.Amount = rule })
	}
	memo := func(rule domain.MemoRule) domain.Rules {
		return with(func(r *domain.Rules) { r.Memo = rule })
	}
	text := func(s string) domain.Memo { return domain.Memo{Type: domain.MemoText, Raw: []byte(s)} }
	pay := func(stroops int64, m domain.Memo) domain.Payment {
		return domain.Payment{
			From:          "GA",
			To:            "GB",
			Asset:         domain.NativeAsset(),
			AmountStroops: stroops,
			Memo:          m,
		}
	}
	none := domain.Memo{}
	for name, c := range map[string]struct {
		rules domain.Rules
		pay   domain.Payment
		want  []domain.Reason
	}{
		"any": {base, pay(1, none), nil},
		"other asset": {
			with(func(r *domain.Rules) { r.Assets = []domain.Asset{usd} }), pay(1, none),
			[]domain.Reason{domain.ReasonAssetNotAccepted},
		},
		"exact": {
			amount(domain.AmountRule{Kind: domain.AmountExact, AmountStroops: 5}),
			pay(5, none), nil,
		},
		"not exact": {
			amount(domain.AmountRule{Kind: domain.AmountExact, AmountStroops: 5}),
			pay(6, none), []domain.Reason{domain.ReasonAmountMismatch},
		},
		"min edge": {
			amount(domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5}), pay(5, none),
			nil,
		},
		"below min": {
			amount(domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 5}), pay(4, none),
			[]domain.Reason{domain.ReasonAmountTooLow},
		},
		"max edge": {
			amount(domain.AmountRule{Kind: domain.AmountMax, AmountStroops: 5}), pay(5, none),
			nil,
		},
		"above max": {
			amount(domain.AmountRule{Kind: domain.AmountMax, AmountStroops: 5}), pay(6, none),
			[]domain.Reason{domain.ReasonAmountTooHigh},
		},
		"range low edge": {
			amount(domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 7}),
			pay(5, none), nil,
		},
		"range high edge": {
			amount(domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 7}),
			pay(7, none), nil,
		},
		"below range": {
			amount(domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 7}),
			pay(4, none), []domain.Reason{domain.ReasonAmountTooLow},
		},
		"above range": {
			amount(domain.AmountRule{Kind: domain.AmountRange, MinStroops: 5, MaxStroops: 7}),
			pay(8, none), []domain.Reason{domain.ReasonAmountTooHigh},
		},
		"present": {memo(domain.MemoRule{Kind: domain.MemoPresent}), pay(1, text("")), nil},
		"not present": {
			memo(domain.MemoRule{Kind: domain.MemoPresent}), pay(1, none),
			[]domain.Reason{domain.ReasonMemoRequired},
		},
		"absent": {memo(domain.MemoRule{Kind: domain.MemoAbsent}), pay(1, none), nil},
		"not absent": {
			memo(domain.MemoRule{Kind: domain.MemoAbsent}), pay(1, text("x")),
			[]domain.Reason{domain.ReasonMemoNotAllowed},
		},
		"equals": {
			memo(domain.MemoRule{Kind: domain.MemoEquals, Value: text("x")}),
			pay(1, text("x")), nil,
		},
		"equals, none": {
			memo(domain.MemoRule{Kind: domain.MemoEquals, Value: text("x")}), pay(1, none),
			[]domain.Reason{domain.ReasonMemoRequired},
		},
		"equals, other": {
			memo(domain.MemoRule{Kind: domain.MemoEquals, Value: text("x")}),
			pay(1, text("y")), []domain.Reason{domain.ReasonMemoMismatch},
		},
		"equals, a hash": {
			memo(domain.MemoRule{Kind: domain.MemoEquals, Value: text("x")}),
			pay(1, domain.Memo{Type: domain.MemoHash, Raw: []byte("x")}),
			[]domain.Reason{domain.ReasonMemoTypeMismatch},
		},
		"sender": {
			with(func(r *domain.Rules) { r.SenderAllowlist = []string{"GA"} }), pay(1, none),
			nil,
		},
		"other sender": {
			with(func(r *domain.Rules) { r.SenderAllowlist = []string{"GC"} }), pay(1, none),
			[]domain.Reason{domain.ReasonSenderNotAllowed},
		},
		"all at once": {domain.Rules{
			Assets:          []domain.Asset{usd},
			Amount:          domain.AmountRule{Kind: domain.AmountMin, AmountStroops: 9},
			Memo:            domain.MemoRule{Kind: domain.MemoPresent},
			SenderAllowlist: []string{"GC"},
		}, pay(1, none),
			[]domain.Reason{
				domain.ReasonAssetNotAccepted, domain.ReasonAmountTooLow,
				domain.ReasonMemoRequired, domain.ReasonSenderNotAllowed,
			}},
	} {
		v := c.rules.Verify(c.pay)
		if !slices.Equal(v.Reasons, c.want) ||
			(v.Outcome == domain.OutcomeVerified) != (len(c.want) == 0) {
			t.Errorf("%s: %+v, not %v", name, v, c.want)
		}
	}
}

func TestWhatAWatchMatches(t *testing.T) {
	w := domain.Watch{
		ID:            "wat_1",
		WalletAddress: "GB",
		EventTypes:    []domain.EventType{domain.PaymentReceived},
		Rules:         domain.Rules{Assets: []domain.Asset{domain.NativeAsset()}},
	}
	p := domain.Payment{ID: "1", From: "GA", To: "GB", Asset: domain.NativeAsset(), AmountStroops: 1}
	if m, ok := domain.MatchPayment(w, p); !ok || m.Type != domain.PaymentReceived {
		t.Errorf("a payment that passes: %+v, %v", m, ok)
	}
	oneself, rejected, elsewhere := p, p, p
	oneself.From, rejected.Asset.Code, elsewhere.To = "GB", "USD", "GC"
	for name, q := range map[string]domain.Payment{
		"to oneself": oneself,
		"rejected":   rejected,
		"elsewhere":  elsewhere,
	} {
		if _, ok := domain.MatchPayment(w, q); ok {
			t.Errorf("a payment %s is told", name)
		}
	}
	w.EventTypes = append(w.EventTypes, domain.PaymentRejected)
	if m, ok := domain.MatchPayment(w, rejected); !ok || m.Type != domain.PaymentRejected {
		t.Errorf("a rejected payment that was asked for: %+v, %v", m, ok)
	}
}

func TestEnvelope(t *testing.T) {
	issuer := "GISSUER"
	m := domain.Match{
		EventID: "evt_1",
		Type:    domain.PaymentRejected,
		Watch:   domain.Watch{ID: "wat_1", Label: "<shop>", WalletAddress: "GB"},
		Payment: domain.Payment{
			ID:             "12",
			TxHash:         "ab",
			Ledger:         7,
			ClosedAtMillis: 1_700_000_000_000,
			From:           "GA",
			To:             "GB",
			ToMuxedID:      "9",
			Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte{'a', 0xff}},
			Asset:          domain.Asset{Code: "USD", Issuer: issuer},
			AmountStroops:  125_000_000,
		},
		Verification: domain.Verification{
			Outcome: domain.OutcomeRejected,
			Reasons: []domain.Reason{domain.ReasonAmountTooLow},
		},
	}
	want := `{"id":"evt_1","type":"payment.rejected","apiVersion":"2026-11-01","createdAt":"2023-11-14T22:13:20.123Z","data":{` +
		`"payment":{"id":"12","txHash":"ab","ledger":7,"ledgerClosedAt":"2023-11-14T22:13:20Z","from":"GA","to":"GB","toMuxedId":"9","memo":"a` + "\uFFFD" + `","memoType":"text","asset":{"code":"USD","issuer":"GISSUER"},"amount":"12.5000000","amountStroops":"125000000"},` +
		`"watch":{"id":"wat_1","label":"<shop>","walletAddress":"GB"},"verification":{"outcome":"REJECTED","reasons":["AMOUNT_TOO_LOW"]}}}`
	if got := string(domain.NewPaymentEvent(m, 1_700_000_000_123).Body); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	m.Payment.Memo, m.Payment.ToMuxedID, m.Payment.Asset, m.Verification = domain.Memo{}, "",
		domain.NativeAsset(), domain.Verification{Outcome: domain.OutcomeVerified}
	got := string(domain.NewPaymentEvent(m, 0).Body)
	for _, part := range []string{
		`"toMuxedId":null`, `"memo":null,"memoType":null`, `"issuer":null`, `"reasons":[]`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is missing in %s", part, got)
		}
	}
}

func TestSignature(t *testing.T) {
	body := []byte(`{"id":"evt_1"}`)
	const secret, now = "whsec_current", int64(1_700_000_000)
	header := domain.SignatureHeader([]domain.Secret{secret, "whsec_previous"}, now, body)
	verify := func(header, timestamp string, body []byte, secret domain.Secret, now int64) error {
		return domain.Verify(header, timestamp, body, []domain.Secret{secret}, now)
	}
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"current":  {verify(header, "1700000000", body, secret, now), nil},
		"previous": {verify(header, "1700000000", body, "whsec_previous", now), nil},
		"spaces": {
			verify(" x=1 , "+strings.ReplaceAll(header, ",", " , "), "1700000000", body, secret, now),
			nil,
		},
		"edge, late":    {verify(header, "1700000000", body, secret, now+300), nil},
		"edge, early":   {verify(header, "1700000000", body, secret, now-300), nil},
		"too late":      {verify(header, "1700000000", body, secret, now+301), domain.ErrTimestampTooFar},
		"too early":     {verify(header, "1700000000", body, secret, now-301), domain.ErrTimestampTooFar},
		"no digits":     {verify(header, "", body, secret, now), domain.ErrTimestampSyntax},
		"13 digits":     {verify(header, "1700000000000", body, secret, now), domain.ErrTimestampSyntax},
		"signed number": {verify(header, "+1700000000", body, secret, now), domain.ErrTimestampSyntax},
		"other body": {
			verify(header, "1700000000", []byte(`{"id": "evt_1"}`), secret, now),
			domain.ErrSignatureMismatch,
		},
		"other secret": {
			verify(header, "1700000000", body, "whsec_other", now),
			domain.ErrSignatureMismatch,
		},
		"cut short": {verify(header[:20], "1700000000", body, secret, now), domain.ErrSignatureMismatch},
		"no prefix": {
			verify(strings.ReplaceAll(header, "v1=", ""), "1700000000", body, secret, now),
			domain.ErrSignatureMismatch,
		},
	} {
		if c.err != c.want {
			t.Errorf("%s: %v, not %v", name, c.err, c.want)
		}
	}
}

func TestScheduleAndItsJitter(t *testing.T) {
	s := domain.DefaultSchedule()
	if s.Attempts() != 10 {
		t.Fatalf("%d attempts", s.Attempts())
	}
	const deliveries, buckets = 20_000, 20
	for attempt, base := range s.WaitsMillis {
		var histogram [buckets]int
		for n := range deliveries {
			wait, ok := s.WaitMillis(domain.EventID("wat_1",
				strings.Repeat("x", n%7)+string(rune('a'+n%26))+domain.FormatAmount(int64(n))), attempt+1,
				attempt+1)
			if !ok || wait < base-base/5 || wait > base+base/5 {
				t.Fatalf("attempt %d waits %d of %d, %v", attempt+1, wait, base, ok)
			}
			histogram[min(int64(buckets-1), (wait-(base-base/5))*buckets/(2*base/5))]++
		}
		for i, n := range histogram {
			if n < deliveries/buckets*8/10 || n > deliveries/buckets*12/10 {
				t.Errorf("attempt %d: bucket %d of %d holds %d of %d", attempt+1, i, buckets, n, deliveries)
			}
		}
	}
	if _, ok := s.WaitMillis("evt_1", 10, 10); ok {
		t.Error("there is a wait after the tenth attempt")
	}
}

func TestALargeBodyDoesNotUndoSuccess(t *testing.T) {
	for r, want := range map[domain.AttemptError]bool{
		"":                         true,
		domain.AttemptBodyTooLarge: true,
		domain.AttemptTimeout:      false,
		domain.AttemptConnRefused:  false,
	} {
		if got := (domain.AttemptResult{StatusCode: 200, Error: r}).Succeeded(); got != want {
			t.Errorf("200 with %q: %v", r, got)
		}
	}
}

func TestVerifyAsReceiversDo(t *testing.T) {
	const secret = "whsec_test"
	raw := []byte(`{"id":"evt_1"}`)
	fit := "v1=" + domain.Sign(secret, 1000, raw)
	bad := "v1=" + strings.Repeat("0", 64)
	for name, k := range map[string]struct {
		header, timestamp string
		now               int64
		want              error
	}{
		"fits":               {fit, "1000", 1000, nil},
		"300 s after":        {fit, "1000", 1300, nil},
		"301 s after":        {fit, "1000", 1301, domain.ErrTimestampTooFar},
		"300 s before":       {fit, "1000", 700, nil},
		"301 s before":       {fit, "1000", 699, domain.ErrTimestampTooFar},
		"second of three":    {bad + " ,\t" + fit + ", " + bad, "1000", 1000, nil},
		"among other kinds":  {"v2=ab,x,," + fit, "1000", 1000, nil},
		"upper-case hex":     {"v1=" + strings.ToUpper(fit[3:]), "1000", 1000, nil},
		"upper-case prefix":  {"V1=" + fit[3:], "1000", 1000, domain.ErrSignatureMismatch},
		"none":               {"", "1000", 1000, domain.ErrSignatureMismatch},
		"empty value":        {"v1=", "1000", 1000, domain.ErrSignatureMismatch},
		"half":               {fit[:35], "1000", 1000, domain.ErrSignatureMismatch},
		"longer":             {fit + "00", "1000", 1000, domain.ErrSignatureMismatch},
		"not hex":            {"v1=zz", "1000", 1000, domain.ErrSignatureMismatch},
		"without prefix":     {fit[3:], "1000", 1000, domain.ErrSignatureMismatch},
		"no digits":          {fit, "", 1000, domain.ErrTimestampSyntax},
		"13 digits":          {fit, "1000000000000", 1000, domain.ErrTimestampSyntax},
		"12 digits, far off": {fit, "999999999999", 1000, domain.ErrTimestampTooFar},
		"sign":               {fit, "+1000", 1000, domain.ErrTimestampSyntax},
		"space":              {fit, " 1000", 1000, domain.ErrTimestampSyntax},
		"other digits":       {fit, "١٠٠", 1000, domain.ErrTimestampSyntax},
		"leading zero":       {fit, "01000", 1000, domain.ErrSignatureMismatch},
	} {
		err := domain.Verify(k.header, k.timestamp, raw, []domain.Secret{"whsec_x", secret}, k.now)
		if err != k.want {
			t.Errorf("%s: %v, want %v", name, err, k.want)
		}
	}
	if err := domain.Verify(fit, "1000", raw, nil, 1000); err != domain.ErrSignatureMismatch {
		t.Errorf("without secrets: %v", err)
	}
	// Computed with: printf '1000.{}' | openssl dgst -sha256 -hmac whsec_test
	if got, want := domain.Sign(secret, 1000, []byte("{}")),
		"291d03e2e8ca99ce6b2dd4a86974b888822bbc53e44c7c5718da223c4c86d444"; got != want {
		t.Errorf("Sign = %s, openssl says %s", got, want)
	}
}

// An empty secret must not verify anything. Otherwise a receiver with an empty secrets file would
// accept signatures that anyone can create.
func TestAnEmptySecretVerifiesNothing(t *testing.T) {
	raw := []byte(`{"id":"evt_1"}`)
	forged := "v1=" + domain.Sign("", 1000, raw)
	err := domain.Verify(forged, "1000", raw, []domain.Secret{""}, 1000)
	if err != domain.ErrSignatureMismatch {
		t.Errorf("a forgery is answered %v", err)
	}
}

// The id of a move must depend on each of its parts.
func TestEachMoveHasItsOwnID(t *testing.T) {
	seen := make(map[string]bool)
	for _, id := range []string{
		domain.MoveID("GA", "XLM", "ab", "fee", 0, 0), domain.MoveID("GB", "XLM", "ab", "fee", 0, 0),
		domain.MoveID("GA", "USD", "ab", "fee", 0, 0), domain.MoveID("GA", "XLM", "cd", "fee", 0, 0),
		domain.MoveID("GA", "XLM", "ab", "after", 0, 0), domain.MoveID("GA", "XLM", "ab", "fee", 1, 0),
		domain.MoveID("GA", "XLM", "ab", "fee", 0, 1),
	} {
		if seen[id] || !domain.IsID(domain.MovePrefix, id) {
			t.Errorf("%s is another's, or not an id", id)
		}
		seen[id] = true
	}
	if !seen[domain.MoveID("GA", "XLM", "ab", "fee", 0, 0)] {
		t.Error("a move changes its id")
	}
}
