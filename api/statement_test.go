package api_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const closedMillis = 1_795_000_000_000

func moved(ledger uint32, before, after int64, payments ...readmodel.Paid) readmodel.Move {
	m := readmodel.Move{Balance: "XLM", Payments: payments}
	m.ID = domain.DeriveID(domain.MovePrefix, fmt.Sprint(ledger))
	m.Ledger, m.Place, m.ClosedAtMillis = ledger, 1<<63, closedMillis
	m.TxHash = strings.Repeat("ab", 32)
	m.Kind, m.Operation = domain.MovePaymentIn, 1
	m.BeforeStroops, m.AfterStroops = before, after
	return m
}

func paidIn(ledger uint32, stroops int64, events ...readmodel.PaidEvent) readmodel.Paid {
	return readmodel.Paid{
		Payment: domain.Payment{
			ID:             fmt.Sprint(uint64(ledger) << 32),
			Ledger:         ledger,
			ClosedAtMillis: closedMillis,
			From:           payer,
			To:             wallet,
			Asset:          domain.NativeAsset(),
			AmountStroops:  stroops,
		},
		Events: events,
	}
}

// watching creates a watch that has seen every ledger since liveSince.
func (w *world) watching(key, endpoint string, liveSince uint32, more string) (watchID string) {
	w.t.Helper()
	watchID = in(w.t, wantStatus(w.t, w.call("POST", "/v1/watches", key, watchBody(endpoint, more)),
		201).body, "id").(string)
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.watches[watchID]
	watch.LiveSince, watch.CreatedAtMillis = liveSince, closedMillis-5
	watch.UpdatedAtMillis = closedMillis - 5
	w.watches[watchID] = watch
	return watchID
}

func TestAStatementSaysWhatBecameOfEachPayment(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	path := "/v1/wallets/" + wallet + "/statement"
	wantProblem(t, w.call("GET", path, k, ""), 404, "NOT_FOUND")
	id := w.watching(k, e, 40, `,"amountRule":{"kind":"min","amount":"2"}`)
	w.followed = api.Followed{Ledger: 90}
	wantProblem(t, w.call("GET", path, k, ""), 501, "BALANCE_MOVES_NOT_RECORDED")
	if text := w.log.String(); strings.Contains(text, `"level":"ERROR"`) {
		t.Errorf("what is not switched on is told as a fault:\n%s", text)
	}

	w.followed.MovesSince = 30
	event := domain.DeriveID(domain.EventPrefix, "1")
	fee := moved(60, 50_000_000, 49_999_900)
	fee.Kind, fee.Operation, fee.UnexplainedStroops = domain.MoveFee, 0, 20_000_000
	w.statement = readmodel.Statement{
		Balances: []readmodel.Balance{{
			Balance:            "XLM",
			Moves:              3,
			OpeningStroops:     0,
			ClosingStroops:     49_999_900,
			UnexplainedStroops: 20_000_000,
		}},
		Moves: []readmodel.Move{
			moved(50, 0, 20_000_000, paidIn(50, 20_000_000, readmodel.PaidEvent{ID: event, WatchID: id})),
			moved(55, 20_000_000, 30_000_000, paidIn(55, 10_000_000)),
			fee,
		},
	}
	got := wantStatus(t, w.call("GET", path, k, ""), 200)
	hash := strings.Repeat("ab", 32)
	const at = `"2026-11-18T11:06:40.000Z"`
	ids := func(ledger int) string { return domain.DeriveID(domain.MovePrefix, fmt.Sprint(ledger)) }
	want := fmt.Sprintf(`{"walletAddress":%q,"asset":null,"recordedSince":40,"keptSince":null,`+
		`"beginsLater":true,"throughLedger":90,"balances":[{"asset":"XLM","opening":"0.0000000",`+
		`"closing":"4.9999900","moves":3,"unexplained":"2.0000000"}],"data":[`+
		`{"id":%q,"asset":"XLM","kind":"payment_in","ledger":50,"ledgerClosedAt":%s,"txHash":%q,`+
		`"operation":1,"before":"0.0000000","after":"2.0000000","change":"2.0000000",`+
		`"unexplained":"0.0000000","payments":[{"id":"214748364800","from":%q,"amount":"2.0000000",`+
		`"eventIds":[%q],"notTaken":[]}]},`+
		`{"id":%q,"asset":"XLM","kind":"payment_in","ledger":55,"ledgerClosedAt":%s,"txHash":%q,`+
		`"operation":1,"before":"2.0000000","after":"3.0000000","change":"1.0000000",`+
		`"unexplained":"0.0000000","payments":[{"id":"236223201280","from":%q,"amount":"1.0000000",`+
		`"eventIds":[],"notTaken":[{"watchId":%q,"reasons":["AMOUNT_TOO_LOW"]}]}]},`+
		`{"id":%q,"asset":"XLM","kind":"fee","ledger":60,"ledgerClosedAt":%s,"txHash":%q,`+
		`"operation":null,"before":"5.0000000","after":"4.9999900","change":"-0.0000100",`+
		`"unexplained":"2.0000000","payments":[]}],"nextCursor":null}`,
		wallet, ids(50), at, hash, payer, event, ids(55), at, hash, payer, id, ids(60), at, hash)
	if string(got.body) != want {
		t.Errorf("got  %s\nwant %s", got.body, want)
	}
	asCSV := wantStatus(t, w.call("GET", path+"?format=csv", k, ""), 200)
	if lines := strings.Split(string(asCSV.body), "\n"); len(lines) != 5 ||
		lines[0] != "ledger,ledgerClosedAt,txHash,operation,asset,kind,before,change,after,unexplained,"+
			"payments,eventIds,notTaken" ||
		lines[2] != "55,2026-11-18T11:06:40.000Z,"+hash+",1,XLM,payment_in,2.0000000,"+
			"1.0000000,3.0000000,0.0000000,236223201280,,"+id+"=AMOUNT_TOO_LOW" ||
		!strings.HasSuffix(lines[3], ",fee,5.0000000,-0.0000100,4.9999900,2.0000000,,,") {
		t.Errorf("%s", asCSV.body)
	}
}

// The reason why a watch took no payment refers to the watch as it is now.
func TestAStatementSaysWhyNoWatchTookAPayment(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	w.followed = api.Followed{Ledger: 90, MovesSince: 30}
	w.statement.Moves = []readmodel.Move{moved(50, 0, 10_000_000, paidIn(50, 10_000_000))}
	want := map[string]string{
		w.watching(k, e, 40, ""):                                          "PENDING",
		w.watching(k, e, 51, ""):                                          "WATCHED_LATER",
		w.watching(k, e, 0, ""):                                           "WATCHED_LATER",
		w.watching(k, e, 40, `,"eventTypes":["payment.rejected"]`):        "NOT_REPORTED",
		w.watching(k, e, 40, `,"memoRule":{"kind":"present"}`):            "MEMO_REQUIRED",
		w.watching(k, e, 40, `,"expiresAt":"2026-01-01T00:00:00Z"`):       "EXPIRED",
		w.watching(k, e, 40, `,"once":true`):                              "FULFILLED",
		w.watching(k, e, 40, `,"amountRule":{"kind":"max","amount":"2"}`): "RULES_CHANGED",
	}
	w.mu.Lock()
	for id, reason := range want {
		if reason == "FULFILLED" {
			watch := w.watches[id]
			watch.Fulfilled = domain.Fulfilment{PaymentID: "1-2", Ledger: 9}
			w.watches[id] = watch
		}
		if reason == "RULES_CHANGED" {
			watch := w.watches[id]
			watch.UpdatedAtMillis = closedMillis + 1
			w.watches[id] = watch
		}
	}
	w.mu.Unlock()
	got := wantStatus(t, w.call("GET", "/v1/wallets/"+wallet+"/statement", k, ""), 200)
	paid := in(t, got.body, "data").([]any)[0].(map[string]any)["payments"].([]any)[0]
	all := paid.(map[string]any)["notTaken"].([]any)
	for _, n := range all {
		said := n.(map[string]any)
		if reason := said["reasons"].([]any)[0]; reason != want[said["watchId"].(string)] {
			t.Errorf("%s took it not because of %v, want %s", said["watchId"], reason,
				want[said["watchId"].(string)])
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d watches are named, not %d", len(all), len(want))
	}
}

// An account's statement must cover the ledgers that its own watches saw, whichever accounts watch
// the wallet. An account without an active watch gets no statement.
func TestAStatementIsOfWhatTheAccountsOwnWatchesSaw(t *testing.T) {
	w := newWorld(t)
	early := w.newKey(account("a"), domain.Permissions()...)
	late := w.newKey(account("b"), domain.Permissions()...)
	w.watching(early, w.newEndpoint(early), 40, "")
	lateEndpoint := w.newEndpoint(late)
	lateWatch := w.watching(late, lateEndpoint, 70, "")
	w.followed = api.Followed{
		Ledger:           90,
		ClosedAtMillis:   closedMillis,
		MovesSince:       30,
		MovesSinceMillis: closedMillis - 1000,
	}
	path := "/v1/wallets/" + wallet + "/statement"
	asked := func(key, query string) readmodel.StatementFilter {
		t.Helper()
		w.statements = nil
		got := wantStatus(t, w.call("GET", path+query, key, ""), 200)
		if len(w.statements) != 1 {
			t.Fatalf("%s: %d statements were read: %s", query, len(w.statements), got.body)
		}
		return w.statements[0]
	}
	filter := readmodel.StatementFilter{
		AccountID:   account("b"),
		Wallet:      wallet,
		RecordSince: 70,
		FirstLedger: 70,
		LastLedger:  90,
		OpenMillis:  closedMillis,
	}
	if got := asked(late, ""); got != filter {
		t.Errorf("%+v", got)
	}
	narrow := filter
	narrow.OpenMillis = 0 // the range has its own end
	narrow.FirstLedger, narrow.LastLedger, narrow.Balance = 75, 80, "pool:"+strings.Repeat("ab", 32)
	if got := asked(late, "?from=75&to=80&asset="+url.QueryEscape(narrow.Balance)); got != narrow {
		t.Errorf("%+v", got)
	}
	times := filter
	times.FromMillis, times.ToMillis = closedMillis, closedMillis+1000
	if got := asked(late, "?from=2026-11-18T11:06:40Z&to=2026-11-18T11:06:41Z"); got != times {
		t.Errorf("%+v", got)
	}
	beyond := filter
	beyond.OpenUntil = 1000
	if got := asked(late, "?from=1&to=1000"); got != beyond {
		t.Errorf("%+v", got)
	}
	if got := asked(early, ""); got.RecordSince != 40 || got.AccountID != account("a") {
		t.Errorf("%+v", got)
	}
	for query, later := range map[string]bool{
		"": true, "?from=69": true, "?from=70": false,
		"?from=2026-11-18T11:06:39Z": true, "?from=2026-11-18T11:06:40Z": false,
	} {
		got := w.call("GET", path+query, late, "")
		if in(t, got.body, "beginsLater") != later {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	w.statements = nil
	empty := wantStatus(t, w.call("GET", path+"?from=91&to=95", late, ""), 200)
	if len(w.statements) != 1 || len(in(t, empty.body, "data").([]any)) != 0 {
		t.Errorf("%s", empty.body)
	}

	stranger := w.newKey(account("c"), domain.Permissions()...)
	denied := w.call("GET", path, stranger, "", "X-Request-Id", "r")
	wantProblem(t, denied, 404, "NOT_FOUND")
	absent := w.call("GET", "/v1/wallets/"+payer+"/statement", stranger, "", "X-Request-Id", "r")
	wantProblem(t, absent, 404, "NOT_FOUND")
	if string(denied.body) != string(absent.body) {
		t.Errorf("%s differs from %s", denied.body, absent.body)
	}
	for _, address := range []string{"x", "wat_1", strings.ToLower(wallet)} {
		wantProblem(t, w.call("GET", "/v1/wallets/"+address+"/statement", late, ""), 404, "NOT_FOUND")
	}
	wantStatus(t, w.call("DELETE", "/v1/watches/"+lateWatch, late, ""), 204)
	wantProblem(t, w.call("GET", path, late, ""), 404, "NOT_FOUND")
	w.watching(late, lateEndpoint, 80, "")
	if got := asked(late, ""); got.RecordSince != 80 {
		t.Errorf("%+v", got)
	}
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+lateEndpoint, late, ""), 200)
	wantProblem(t, w.call("GET", path, late, ""), 404, "NOT_FOUND")
}

// All pages of a statement must cover the same range of ledgers, even if more ledgers are read
// meanwhile.
func TestAStatementsPagesEndAtOneLedger(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.watching(k, w.newEndpoint(k), 40, "")
	w.followed = api.Followed{Ledger: 90, MovesSince: 30}
	for ledger := range uint32(5) {
		w.statement.Moves = append(w.statement.Moves,
			moved(50+ledger, int64(ledger), int64(ledger)+1))
	}
	path, query := "/v1/wallets/"+wallet+"/statement", "?limit=2"
	var seen []float64
	for range 3 {
		got := wantStatus(t, w.call("GET", path+query, k, ""), 200)
		for _, m := range in(t, got.body, "data").([]any) {
			seen = append(seen, m.(map[string]any)["ledger"].(float64))
		}
		if in(t, got.body, "throughLedger") != 90.0 {
			t.Errorf("%s", got.body)
		}
		w.followed.Ledger += 100
		if next, more := in(t, got.body, "nextCursor").(string); more {
			query = "?limit=2&cursor=" + next
		}
	}
	if fmt.Sprint(seen) != "[50 51 52 53 54]" {
		t.Errorf("the pages have %v", seen)
	}
	other := w.call("GET", path+query+"&asset=XLM", k, "")
	wantProblem(t, other, 400, "INVALID_CURSOR")
	link := w.call("GET", path+"?limit=2&format=csv&asset=XLM", k, "").Header.Get("Link")
	target, is := strings.CutSuffix(link, `>; rel="next"`)
	if !is {
		t.Fatalf("Link: %s", link)
	}
	next := wantStatus(t, w.call("GET", strings.TrimPrefix(target, "<"), k, ""), 200)
	if !strings.Contains(string(next.body), "\n52,") {
		t.Errorf("%s leads to %s", link, next.body)
	}
}

// If moves are recorded for a ledger that doesn't count yet, the statement must wait for that
// ledger. A ledger that doesn't count in time is left out. Later pages, and statements with an end
// of their own, wait for nothing.
func TestAStatementWaitsForWhatIsRecorded(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.watching(k, w.newEndpoint(k), 40, "")
	path := "/v1/wallets/" + wallet + "/statement"
	ask := func(query string) (through float64, moves int) {
		t.Helper()
		got := wantStatus(t, w.call("GET", path+query, k, ""), 200)
		return in(t, got.body, "throughLedger").(float64), len(in(t, got.body, "data").([]any))
	}
	w.statement.Moves = []readmodel.Move{moved(89, 0, 1), moved(90, 1, 2), moved(91, 2, 3)}
	w.followed = api.Followed{Ledger: 90, MovesSince: 30, ClosedAtMillis: closedMillis}
	w.counts = 3 // the ledger counts when the cursor is read for the third time
	if through, moves := ask(""); through != 91 || moves != 3 {
		t.Errorf("%d moves through %v", moves, through)
	}
	w.followed.Ledger = 90
	if through, moves := ask(""); through != 90 || moves != 2 {
		t.Errorf("of a ledger that never counts: %d moves through %v", moves, through)
	}
	w.statements = nil
	next := in(t, wantStatus(t, w.call("GET", path+"?to=90&limit=1", k, ""), 200).body, "nextCursor")
	if through, moves := ask("?to=90&limit=1&cursor=" + next.(string)); through != 90 || moves != 1 {
		t.Errorf("with an end: %d moves through %v", moves, through)
	}
	for _, f := range w.statements {
		if f.OpenMillis != 0 {
			t.Errorf("with an end of its own later moves are asked for: %+v", f)
		}
	}
	// If its end doesn't count yet, the statement waits for ledgers up to the end, and for none after
	// it.
	w.statement.Moves = append(w.statement.Moves, moved(94, 3, 4))
	for to, want := range map[int]struct{ reads, through, moves int }{
		91: {reads: 2, through: 91, moves: 3},
		93: {reads: 2, through: 91, moves: 3}, // ledgers 92 and 93 have no moves of the wallet
	} {
		w.followed.Ledger, w.statements, w.counts = 90, nil, 2
		through, moves := ask(fmt.Sprintf("?to=%d", to))
		if len(w.statements) != want.reads || int(through) != want.through || moves != want.moves {
			t.Errorf("to=%d: %d reads, %d moves through %v", to, len(w.statements), moves, through)
		}
	}
	w.statement.Moves = []readmodel.Move{moved(89, 0, 1), moved(90, 1, 2), moved(94, 2, 3)}
	w.followed.Ledger, w.statements = 90, nil
	if through, moves := ask("?to=93"); len(w.statements) != 1 || through != 90 || moves != 2 {
		t.Errorf("it waited for a ledger behind its end: %d moves through %v, %d reads", moves, through,
			len(w.statements))
	}
	// A statement also waits for the first ledger that a new watch sees.
	w.followed, w.counts = api.Followed{Ledger: 90, MovesSince: 91, ClosedAtMillis: closedMillis}, 2
	if through, moves := ask("?from=91"); through != 91 || moves == 0 {
		t.Errorf("since the first ledger: %d moves through %v", moves, through)
	}
}

// heldLedgers answers each request once at once, and then only after it is released.
type heldLedgers struct {
	api.Ledgers
	release chan struct{}

	mu    sync.Mutex
	asked map[context.Context]bool
	held  int
}

func (h *heldLedgers) Followed(ctx context.Context) (api.Followed, error) {
	h.mu.Lock()
	again := h.asked[ctx]
	h.asked[ctx] = true
	if again {
		h.held++
	}
	h.mu.Unlock()
	if again {
		select {
		case <-h.release:
		case <-ctx.Done():
			return api.Followed{}, ctx.Err()
		}
	}
	return h.Ledgers.Followed(ctx)
}

func (h *heldLedgers) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// 16 statements per account may wait for a ledger to count. Another one must end at the ledgers
// that count, without waiting, while another account's statement can wait. A place that becomes
// free goes to the next statement.
func TestFewStatementsOfAnAccountWait(t *testing.T) {
	held := &heldLedgers{release: make(chan struct{}), asked: map[context.Context]bool{}}
	w := newWorld(t, func(c *api.Config) { held.Ledgers, c.Ledgers = c.Ledgers, held })
	keys := []string{
		w.newKey(account("a"), domain.Permissions()...), w.newKey(account("b"), domain.Permissions()...),
	}
	for _, k := range keys {
		w.watching(k, w.newEndpoint(k), 40, "")
	}
	w.statement.Moves = []readmodel.Move{moved(90, 0, 1), moved(91, 1, 2)}
	w.followed = api.Followed{Ledger: 90, MovesSince: 30, ClosedAtMillis: closedMillis}
	through := make(chan any)
	ask := func(key string) {
		got := w.call("GET", "/v1/wallets/"+wallet+"/statement", key, "")
		through <- in(t, wantStatus(t, got, 200).body, "throughLedger")
	}
	for range 16 {
		go ask(keys[0])
	}
	testkit.Eventually(t, "they wait", func() bool { return held.waiting() == 16 })
	go ask(keys[0])
	if got := <-through; got != 90.0 || held.waiting() != 16 {
		t.Errorf("the 17th is through %v, and %d wait", got, held.waiting())
	}
	go ask(keys[1])
	testkit.Eventually(t, "another account's waits", func() bool { return held.waiting() == 17 })

	w.mu.Lock()
	w.followed.Ledger = 91
	w.mu.Unlock()
	close(held.release)
	for range 17 {
		if got := <-through; got != 91.0 {
			t.Errorf("one that waited is through %v", got)
		}
	}
	w.mu.Lock()
	w.followed.Ledger, w.counts = 90, 2
	w.mu.Unlock()
	go ask(keys[0])
	if got := <-through; got != 91.0 {
		t.Errorf("with the places free again it is through %v", got)
	}
}

// If a key is revoked while a statement waits, the statement must get 401. The same holds for a
// portal link of that key.
func TestAStatementThatWaitedIsHeldAgainstItsKey(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.watching(k, w.newEndpoint(k), 40, "")
	link := w.credential(k, `{"permissions":["read"]}`)
	w.statement.Moves = []readmodel.Move{moved(90, 0, 1), moved(91, 1, 2)}
	before := w.accounts[account("a")]
	for who, key := range map[string]string{"the key": k, "a link": link} {
		w.accounts[account("a")], w.statements = before, nil
		w.followed = api.Followed{Ledger: 90, MovesSince: 30, ClosedAtMillis: closedMillis}
		w.counts = 3
		w.counted = func() {
			revoked := before
			revoked.Keys = nil
			w.accounts[account("a")] = revoked
		}
		got := w.call("GET", "/v1/wallets/"+wallet+"/statement", key, "")
		wantProblem(t, got, 401, "UNAUTHENTICATED")
		if len(w.statements) != 1 || w.counts != 0 {
			t.Errorf("%s: it did not wait: %+v", who, w.statements)
		}
	}
}

func TestAStatementsFaultsAreNamed(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.watching(k, w.newEndpoint(k), 40, "")
	w.followed = api.Followed{Ledger: 90, MovesSince: 30}
	path := "/v1/wallets/" + wallet + "/statement?"
	for query, code := range map[string]string{
		"asset=USDC":                "INVALID_VALUE",
		"asset=USDC:" + payer + "x": "INVALID_VALUE",
		"asset=pool:ab":             "INVALID_VALUE",
		"asset=":                    "EMPTY",
		"format=xml":                "INVALID_VALUE",
		"from=0":                    "OUT_OF_RANGE",
		"from=99999999999999999999": "OUT_OF_RANGE",
		"from=yesterday":            "INVALID_TIME",
		"from=9&to=8":               "RANGE_IS_EMPTY",
		"from=2026-11-18T11:06:40Z&to=2026-11-18T11:06:40Z": "RANGE_IS_EMPTY",
		"walletAddress=x": "UNKNOWN_PARAMETER",
	} {
		got := w.call("GET", path+query, k, "")
		wantProblem(t, got, 400, "INVALID_PARAMETER")
		if !strings.Contains(string(got.body), `"code":"`+code+`"`) {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	w.historyErr = readmodel.ErrManyBalances
	got := w.call("GET", path, k, "")
	wantProblem(t, got, 400, "INVALID_PARAMETER")
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("GET", path, k, ""), 503, "HISTORY_BEHIND")
}
