package horizon_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/horizon"
)

const recorded = 51000294

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// server answers with ledgers whose payments are given.
type server struct {
	*httptest.Server
	mu         sync.Mutex
	passphrase string
	oldest     uint32
	latest     uint32
	payments   []map[string]any
	accounts   map[string]string
	refuse     []func(http.ResponseWriter)
	asked      int
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{passphrase: network.PublicNetworkPassphrase, accounts: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func hashOf(sequence uint32) string { return fmt.Sprintf("%064x", sequence) }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if len(s.refuse) > 0 {
		refuse := s.refuse[0]
		s.refuse = s.refuse[1:]
		refuse(w)
		return
	}
	cursor, _ := strconv.ParseUint(r.URL.Query().Get("cursor"), 10, 64)
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	records := []any{}
	switch path := strings.TrimPrefix(r.URL.Path, "/base"); {
	case path == "/":
		answer(w,
			map[string]any{
				"network_passphrase":    s.passphrase,
				"history_elder_ledger":  s.oldest,
				"history_latest_ledger": s.latest,
			})
		return
	case path == "/ledgers":
		for sequence := max(uint32(cursor>>32)+1, s.oldest); sequence <= s.latest &&
			len(records) < limit; sequence++ {
			records = append(records, map[string]any{
				"sequence":                     sequence,
				"hash":                         hashOf(sequence),
				"prev_hash":                    hashOf(sequence - 1),
				"closed_at":                    "2024-03-29T09:31:27Z",
				"protocol_version":             20,
				"successful_transaction_count": 3,
				"failed_transaction_count":     2,
			})
		}
	case path == "/payments" && r.URL.Query().Get("join") == "transactions":
		for _, p := range s.payments {
			if id, _ := strconv.ParseUint(p["id"].(string), 10, 64); id > cursor && len(records) < limit {
				records = append(records, p)
			}
		}
	case strings.HasPrefix(path, "/accounts/") && s.accounts[path[len("/accounts/"):]] != "":
		io.WriteString(w, s.accounts[path[len("/accounts/"):]])
		return
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"detail":"not here"}`)
		return
	}
	answer(w, map[string]any{"_embedded": map[string]any{"records": records}})
}

func answer(w http.ResponseWriter, value any) {
	if err := json.NewEncoder(w).Encode(value); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func newSource(t *testing.T, s *server) (*horizon.Source, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	source, err := horizon.New(horizon.Config{
		URL:          s.URL + "/base?key=hidden",
		Passphrase:   network.PublicNetworkPassphrase,
		PollInterval: time.Millisecond,
		BackoffMax:   4 * time.Millisecond,
		Logger:       slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return source, &log
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A page of a real Horizon gives the payments that the XDR of its ledger gives.
func TestRecordedPageAgreesWithTheLedger(t *testing.T) {
	s := serve(t)
	var page struct {
		Embedded struct{ Records []map[string]any } `json:"_embedded"`
	}
	body := unzip(t, "testdata/horizon-payments-51000294.json.gz")
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatal(err)
	}
	s.payments, s.oldest, s.latest = page.Embedded.Records, recorded-10, recorded
	source, _ := newSource(t, s)
	if err := source.Check(within(t)); err != nil {
		t.Fatal(err)
	}
	got, err := source.Next(within(t), recorded)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ledger.NewExtractor(network.PublicNetworkPassphrase)
	if err != nil {
		t.Fatal(err)
	}
	want, err := e.Extract(unzip(t,
		filepath.Join("..", "..", "ledger", "testdata", "pubnet-51000294.xdr.gz")))
	if err != nil {
		t.Fatal(err)
	}
	l := got[0].Ledger
	if len(l.Quarantined) > 0 || len(l.Payments) < 30 || l.Transactions != 5 ||
		l.ClosedAtMillis != want.ClosedAtMillis {
		t.Fatalf("got %d payments, quarantined %v, closed at %d", len(l.Payments),
			l.Quarantined, l.ClosedAtMillis)
	}
	for i, p := range l.Payments {
		if !reflect.DeepEqual(p, want.Payments[i]) {
			t.Errorf("payment %d:\n got %+v\nwant %+v", i, p, want.Payments[i])
		}
	}
}

func TestBelowTheHistory(t *testing.T) {
	s := serve(t)
	s.oldest, s.latest = 100, 120
	source, _ := newSource(t, s)
	if _, err := source.Next(within(t), 99); !errors.Is(err, domain.ErrBehindRetention) ||
		!strings.Contains(err.Error(), "begins at 100") {
		t.Errorf("got %v", err)
	}
	s.refuse = []func(http.ResponseWriter){func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusGone)
		io.WriteString(w, `{"detail":"This horizon instance is configured to only track a portion"}`)
	}}
	if _, err := source.Next(within(t), 50); !errors.Is(err, domain.ErrBehindRetention) {
		t.Errorf("got %v", err)
	}
	if page, err := source.Next(within(t), 100); err != nil || page[0].Sequence != 100 ||
		len(page) != 20 {
		t.Errorf("got %d ledgers (%v)", len(page), err)
	}
	source.Continue(119, hashOf(7))
	if _, err := source.Next(within(t), 120); !errors.Is(err, domain.ErrForked) {
		t.Errorf("got %v", err)
	}
}

func TestPatienceAndFaults(t *testing.T) {
	s := serve(t)
	s.oldest, s.latest = 1, 3
	s.refuse = []func(http.ResponseWriter){
		func(w http.ResponseWriter) { http.Error(w, "away", http.StatusBadGateway) },
		func(w http.ResponseWriter) { io.WriteString(w, "<html>") },
		func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	}
	source, log := newSource(t, s)
	began := time.Now()
	page, err := source.Next(within(t), 1)
	if err != nil || len(page) != 3 {
		t.Fatalf("got %d ledgers (%v)", len(page), err)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("the server asked for a second, and got %v", took)
	}
	if strings.Count(log.String(), "WARN") != 1 || strings.Contains(log.String(), "hidden") {
		t.Errorf("got %s", log)
	}
	s.passphrase = network.TestNetworkPassphrase
	if err := source.Check(within(t)); !errors.Is(err, domain.ErrWrongNetwork) {
		t.Errorf("got %v", err)
	}
}

// A record that makes no sense quarantines its transaction, and no other.
func TestStrangeRecords(t *testing.T) {
	const account = "GA3SFN43SGZ652GGFRIWUFTVJWWYQUCZ2HKTEEM6FO35B6KK5QM72GHR"
	pay := func(operation int, tx, amount, memoType string) map[string]any {
		return map[string]any{
			"id":                     strconv.Itoa(7<<32 | operation),
			"type":                   "payment",
			"transaction_hash":       strings.Repeat(tx, 64),
			"transaction_successful": true,
			"asset_type":             "native",
			"from":                   account,
			"to":                     account,
			"amount":                 amount,
			"transaction":            map[string]any{"memo_type": memoType},
		}
	}
	s := serve(t)
	s.oldest, s.latest = 1, 7
	s.payments = []map[string]any{
		pay(1<<12|1, "a", "1.0", "none"), pay(2<<12|1, "b", "1.0", "none"),
		pay(2<<12|2, "b", "much", "none"), pay(2<<12|3, "b", "1.0", "none"),
		pay(3<<12|1, "c", "2", "none"), pay(4<<12|1, "d", "2", ""),
	}
	source, _ := newSource(t, s)
	page, err := source.Next(within(t), 7)
	if err != nil {
		t.Fatal(err)
	}
	l := page[0].Ledger
	if len(l.Payments) != 2 || l.Payments[1].TxHash[0] != 'c' || len(l.Quarantined) != 2 ||
		l.Quarantined[0].Order != 2 || l.Quarantined[1].TxHash[0] != 'd' {
		t.Errorf("got %+v", l)
	}
}

// The muxed id 0 is an id. Horizon leaves its field out (omitempty), and with it all that
// tells it from no id but the M address.
func TestTheMuxedIDZero(t *testing.T) {
	const (
		account = "GA3SFN43SGZ652GGFRIWUFTVJWWYQUCZ2HKTEEM6FO35B6KK5QM72GHR"
		other   = "GARDNV3Q7YGT4AKSDF25LT32YSCCW4EV22Y2TV3I2PU2MMXJTEDL5T55"
	)
	muxed := func(of string, id uint64) string {
		address, err := xdr.MuxedAccountFromAccountId(of, id)
		if err != nil {
			t.Fatal(err)
		}
		return address.Address()
	}
	s := serve(t)
	s.oldest, s.latest = 1, 7
	list := func(kind string, fields map[string]any) {
		order := len(s.payments) + 1
		record := map[string]any{
			"id":                     strconv.Itoa(7<<32 | order<<12 | 1),
			"type":                   kind,
			"transaction_successful": true,
			"transaction_hash":       strings.Repeat(strconv.Itoa(order), 64),
			"asset_type":             "native",
			"transaction":            map[string]any{"memo_type": "none", "result_xdr": mergeResult(t)},
		}
		maps.Copy(record, fields)
		s.payments = append(s.payments, record)
	}
	pay := func(fields map[string]any) {
		maps.Copy(fields, map[string]any{"from": account, "to": account, "amount": "1.0"})
		list("payment", fields)
	}
	pay(map[string]any{})
	pay(map[string]any{"to_muxed": muxed(account, 0)})
	pay(map[string]any{"to_muxed": muxed(account, 1<<63), "to_muxed_id": "9223372036854775808"})
	list("account_merge",
		map[string]any{"account": other, "into": account, "into_muxed": muxed(account, 0)})
	pay(map[string]any{"to_muxed": muxed(other, 0)})
	pay(map[string]any{"to_muxed": "M0"})
	pay(map[string]any{"to_muxed": muxed(account, 0), "to_muxed_id": "1"})
	source, _ := newSource(t, s)
	page, err := source.Next(within(t), 7)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range page[0].Ledger.Payments {
		got = append(got, p.ToMuxedID)
	}
	if want := []string{"", "0", "9223372036854775808", "0"}; !slices.Equal(got, want) {
		t.Errorf("got the muxed ids %q, want %q", got, want)
	}
	if q := page[0].Ledger.Quarantined; len(q) != 3 {
		t.Errorf("of three addresses that make no sense these are quarantined: %v", q)
	}
}

// mergeResult is the result of a transaction that merged an account.
func mergeResult(t *testing.T) string {
	t.Helper()
	merge := xdr.OperationResultTr{Type: xdr.OperationTypeAccountMerge,
		AccountMergeResult: &xdr.AccountMergeResult{SourceAccountBalance: new(xdr.Int64)}}
	result, err := xdr.MarshalBase64(xdr.TransactionResult{
		Result: xdr.TransactionResultResult{Results: &[]xdr.OperationResult{{Tr: &merge}}}})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestLookup(t *testing.T) {
	const (
		wallet = "GA3SFN43SGZ652GGFRIWUFTVJWWYQUCZ2HKTEEM6FO35B6KK5QM72GHR"
		issuer = "GARDNV3Q7YGT4AKSDF25LT32YSCCW4EV22Y2TV3I2PU2MMXJTEDL5T55"
	)
	s := serve(t)
	s.accounts[wallet] = fmt.Sprintf(`{"balances":[
	{"asset_type":"native"},
	{"asset_type":"credit_alphanum4","asset_code":"USD","asset_issuer":%[1]q,"is_authorized":true},
	{"asset_type":"credit_alphanum4","asset_code":"EUR","asset_issuer":%[1]q,"is_authorized":false}
]}`, issuer)
	l, err := horizon.NewLookup(horizon.Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	assets := []domain.Asset{
		domain.NativeAsset(), {Code: "USD", Issuer: issuer}, {Code: "EUR", Issuer: issuer},
		{Code: "GBP", Issuer: issuer}, {Code: "OWN", Issuer: wallet},
	}
	for range 3 {
		if got := l.Warnings(within(t), wallet, assets); !slices.Equal(got,
			[]string{"NO_TRUSTLINE:EUR", "NO_TRUSTLINE:GBP"}) {
			t.Errorf("got %v", got)
		}
	}
	if s.asked != 1 {
		t.Errorf("asked %d times, want once: answers are kept for seconds", s.asked)
	}
	if got := l.Warnings(within(t), issuer, assets[:1]); !slices.Equal(got,
		[]string{"ACCOUNT_NOT_FOUND"}) {
		t.Errorf("got %v", got)
	}
	s.Close()
	if got := l.Warnings(within(t), "GBPXJQQOQKXPCGKVAL3VO4VVHK3K5T7FHBXJ6OVFY744R7TTDQI4ULI2",
		assets[:1]); !slices.Equal(got, []string{"LOOKUP_FAILED"}) {
		t.Errorf("got %v", got)
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, config := range map[string]horizon.Config{
		"no URL":    {},
		"no scheme": {URL: "localhost:8000"},
		"page":      {URL: "http://localhost", PageSize: 201},
		"interval":  {URL: "http://localhost", PollInterval: -1},
	} {
		if _, err := horizon.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
