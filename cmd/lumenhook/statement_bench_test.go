package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// BenchmarkStatement measures the first page (50 moves) of the statements of wallets with 10, 1,000
// and 100,000 moves, through the API of the real program, one at a time. It also reports the two
// queries that grow with the wallet, sent to ClickHouse over HTTP: the page itself, and the sums of
// each balance over all moves.
//
//	make bench-statement
func BenchmarkStatement(b *testing.B) {
	s := &testService{t: b, dir: b.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--balance-moves", "--api-rate-limit",
		"1000000", "--log-level", "error")
	defer s.interrupt()
	var endpoint struct{ ID string }
	s.call(http.MethodPost, "/v1/endpoints", map[string]any{"url": "https://127.0.0.1:8443/bench"},
		&endpoint)
	for _, moves := range []int{10, 1000, 100_000} {
		wallet := s.watchedWalletOf(endpoint.ID)
		s.recordMoves(wallet, moves)
		b.Run(fmt.Sprintf("%d moves", moves), func(b *testing.B) {
			s := *s
			s.t = b
			path := "/v1/wallets/" + wallet + "/statement"
			n := max(20, b.N)
			s.measure("api-ms", n, func() { s.call(http.MethodGet, path, nil, nil) })
			s.measure("page-query-ms", n, func() { s.ask(s.file.ClickHouse.Login, statementPage, wallet) })
			s.measure("sums-query-ms", n, func() { s.ask(s.file.ClickHouse.Login, statementSums, wallet) })
			b.ReportMetric(0, "ns/op")
		})
	}
}

const (
	statementPage = `SELECT move_id, balance, kind, ledger, ledger_closed_at, place, tx_hash,
    operation, before_stroops, after_stroops, payment_ids
FROM balance_moves FINAL WHERE wallet_address = {wallet:String}
ORDER BY ledger, place, move_id LIMIT 51
SETTINGS do_not_merge_across_partitions_select_final = 1`

	statementSums = `SELECT balance, count(), argMin(before_stroops, (ledger, place)),
    argMax(after_stroops, (ledger, place))
FROM balance_moves FINAL WHERE wallet_address = {wallet:String} GROUP BY balance
SETTINGS do_not_merge_across_partitions_select_final = 1`
)

func (s *testService) measure(name string, n int, act func()) {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		act()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	s.t.(*testing.B).ReportMetric(micros(took[n/2])/1000, name)
}

func (s *testService) ask(as runfile.Login, query, wallet string) {
	s.t.Helper()
	at := s.file.ClickHouse.HTTP + "/?" + url.Values{
		"database": {s.file.ClickHouse.Database}, "param_wallet": {wallet},
	}.Encode()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, at, strings.NewReader(query))
	if err != nil {
		s.t.Fatal(err)
	}
	r.SetBasicAuth(as.User, as.Password)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		s.t.Fatalf("%v: %s", err, text)
	}
}

// recordMoves appends a chain of moves of a wallet, as the follower does, and waits until the
// statement has them.
func (s *testService) recordMoves(wallet string, n int) {
	s.t.Helper()
	var statement client.Statement
	path := "/v1/wallets/" + wallet + "/statement"
	s.eventually("the watch has seen a ledger", func() bool {
		return s.call(http.MethodGet, path, nil, &statement) == http.StatusOK &&
			statement.RecordedSince != nil && *statement.ThroughLedger >= *statement.RecordedSince
	})
	producer, err := kafka.Cluster{
		Brokers:  s.file.KafkaBrokers,
		Prefix:   "lumenhook.",
		ClientID: "bench",
		SASL:     s.file.Kafka.SASL(),
		Logger:   slog.New(slog.DiscardHandler),
	}.NewProducer()
	if err != nil {
		s.t.Fatal(err)
	}
	defer producer.Close()
	now := time.Now().UnixMilli()
	for at := range slices.Chunk(slices.Collect(numbers(n)), 1000) {
		var batch []kafka.Record
		for _, i := range at {
			m := domain.BalanceMove{
				Wallet:         wallet,
				Ledger:         *statement.RecordedSince,
				ClosedAtMillis: now / 1000 * 1000,
				Place:          uint64(i), // #nosec G115 -- not negative
				TxHash:         strings.Repeat("ab", 32),
				Operation:      1,
				Kind:           domain.MoveOutgoing,
				Asset:          domain.NativeAsset(),
				BeforeStroops:  int64(i),
				AfterStroops:   int64(i) + 1,
			}
			m.ID = domain.DeriveID(domain.MovePrefix, wallet, strconv.Itoa(i))
			e := schemas.EncodeBalanceMoved(schemas.BalanceMoved{Move: m, ObservedAtMillis: now})
			batch = append(batch, kafka.NewRecord(schemas.TopicPayments, wallet, e.Value, e.EachHeader))
		}
		if err := producer.Append(s.t.Context(), batch...); err != nil {
			s.t.Fatal(err)
		}
	}
	s.eventually("the moves are in the statement", func() bool {
		status := s.call(http.MethodGet, path, nil, &statement)
		return status == http.StatusOK && len(statement.Balances) == 1 &&
			statement.Balances[0].Moves >= uint64(n) // #nosec G115 -- not negative
	})
	if text, _ := json.Marshal(statement.Balances); statement.Balances[0].Unexplained != "0.0000000" {
		s.t.Errorf("the moves do not chain: %s", text)
	}
}

func numbers(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}
