package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devtraffic"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

type checkRig struct {
	t        *testing.T
	brokers  string
	network  *devnet.Network
	producer *kafka.Producer
	traffic  *devtraffic.Traffic
}

func newCheckRig(t *testing.T) *checkRig {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	b, err := broker.Start(broker.Config{
		Dir:    t.TempDir(),
		Listen: "127.0.0.1:0",
		Failed: func(err error) { t.Error(err) },
		Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	cluster := kafka.Cluster{
		Brokers:  []string{b.Addr()},
		Prefix:   "lumenhook.",
		ClientID: "test",
		Logger:   logger,
	}
	if err := cluster.EnsureTopics(t.Context(),
		topology.RequiredTopics(topology.Shape{Partitions: 2, Replicas: 1})); err != nil {
		t.Fatal(err)
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	ids, err := devnet.NewIdentities()
	if err != nil {
		t.Fatal(err)
	}
	n, err := devnet.Open(devnet.Config{
		Dir:           t.TempDir(),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	t.Cleanup(func() { _ = n.Close(); <-ended })
	traffic, err := devtraffic.New(t.Context(), n, ids)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = traffic.Close() })
	return &checkRig{t: t, brokers: b.Addr(), network: n, producer: producer, traffic: traffic}
}

func (r *checkRig) payments(sequence uint32) []domain.Payment {
	r.t.Helper()
	s, err := rpc.New(rpc.Config{URL: r.network.RPCURL(), Passphrase: r.network.Passphrase()})
	if err != nil {
		r.t.Fatal(err)
	}
	page, err := s.Next(r.t.Context(), sequence)
	if err != nil {
		r.t.Fatal(err)
	}
	e, err := ledger.NewExtractor(r.network.Passphrase())
	if err != nil {
		r.t.Fatal(err)
	}
	l, err := e.Read(page[0])
	if err != nil {
		r.t.Fatal(err)
	}
	return l.Payments
}

func (r *checkRig) append(topic, key string, m schemas.Message) {
	r.t.Helper()
	if err := r.producer.Append(r.t.Context(), kafka.NewRecord(topic, key, m.Value,
		m.EachHeader)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *checkRig) observed(p domain.Payment) {
	r.append(schemas.TopicPayments, p.To,
		schemas.EncodePaymentObserved(schemas.PaymentObserved{Payment: p, ObservedAtMillis: 1}))
}

// forgetJournal makes the journal begin late, as a restore or a repartition does.
func (r *checkRig) forgetJournal() {
	r.t.Helper()
	r.append(schemas.TopicJournal, "wat_1", schemas.Message{})
	cluster := kafka.Cluster{
		Brokers: []string{r.brokers}, Prefix: "lumenhook.", ClientID: "test",
		Logger: slog.New(slog.DiscardHandler),
	}
	_, ends, err := cluster.Extent(r.t.Context(), schemas.TopicJournal)
	if err == nil {
		err = cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
			offsets := make(kadm.Offsets)
			for p, end := range ends {
				offsets.AddOffset(cluster.Prefix+schemas.TopicJournal, p, end, -1)
			}
			deleted, err := admin.DeleteRecords(ctx, offsets)
			return errors.Join(err, deleted.Error())
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *checkRig) check(extra ...string) (string, error) {
	args := append([]string{
		"ledger", "check", "--kafka-brokers", r.brokers, "--stellar-rpc-url",
		r.network.RPCURL(), "--network", r.network.Passphrase(),
	}, extra...)
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(io.Discard)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func TestLedgerCheckNamesEveryDifference(t *testing.T) {
	r := newCheckRig(t)
	sequence, err := r.traffic.Burst(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	found := r.payments(sequence)
	if len(found) != 4 {
		t.Fatalf("the ledger holds %d payments, want 4", len(found))
	}
	at := []string{"--from", "2", "--to", "4"}
	r.observed(found[0])
	r.observed(found[0]) // observed twice, as after a crash
	if out, err := r.check(at...); err != nil ||
		!strings.Contains(out, "1 payments were observed in them, 0 differences") {
		t.Errorf("nothing differs: %v\n%s", err, out)
	}
	other, gone := found[1], found[2]
	other.AmountStroops++
	other.Memo = domain.Memo{}
	gone.ID = "999"
	r.observed(other)
	r.observed(gone)
	// wat_1 was live. wat_2 lost its endpoint, wat_3 was created later, and wat_4 was deleted.
	for id, since := range map[string]uint32{"wat_1": 2, "wat_2": 0, "wat_3": 1000, "wat_4": 2} {
		r.append(schemas.TopicWatches, id, schemas.EncodeWatch(domain.Watch{
			ID: id, WalletAddress: r.traffic.Wallet(), CreatedAtMillis: 1, LiveSince: since,
		}))
	}
	r.append(schemas.TopicWatches, "wat_4", schemas.Message{})
	out, err := r.check(at...)
	if err == nil {
		t.Error("differences are no error")
	}
	for _, want := range []string{
		"payment " + other.ID + ` is seen differently: memo null is now "order 1", memoType null is now "text", amount "1.5000001" is now "1.5000000", amountStroops "15000001" is now "15000000"`,
		"payment 999 to " + gone.To + " was observed, and is no longer seen",
		"payment " + found[3].ID + " to " + found[3].To +
			" was not observed: 1.5000000 XLM; to deliver it,",
		fmt.Sprintf("lumenhook backfill --watch wat_1 --from %d --to %d", sequence, sequence),
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestLedgerCheckOfTopicsThatBeginLate checks topics that lack older payments, because a restore
// filled them or retention deleted their beginning. These payments are counted, and are not
// differences.
func TestLedgerCheckOfTopicsThatBeginLate(t *testing.T) {
	r := newCheckRig(t)
	var found []domain.Payment
	for range 2 {
		sequence, err := r.traffic.Burst(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r.payments(sequence)...)
	}
	r.append(schemas.TopicWatches, "wat_1", schemas.EncodeWatch(domain.Watch{
		ID: "wat_1", WalletAddress: r.traffic.Wallet(), CreatedAtMillis: 1, LiveSince: 2,
	}))
	at := []string{"--from", "2", "--to", strconv.Itoa(int(found[1].Ledger))}
	reported := func(topics string) {
		t.Helper()
		if out, err := r.check(at...); err == nil || !strings.Contains(out, found[0].ID+" to ") {
			t.Errorf("of %s: %v\n%s", topics, err, out)
		}
	}
	reported("whole topics")
	r.forgetJournal()
	reported("topics without a payment, which must not hide what was missed")
	r.observed(found[1])
	out, err := r.check(at...)
	if err != nil || !strings.Contains(out, "payments not compared, because") {
		t.Errorf("of topics that begin late: %v\n%s", err, out)
	}
}

// Like every reader of these topics, ledger check skips and counts records that it can't decode.
func TestLedgerCheckLeavesOutWhatDoesNotCount(t *testing.T) {
	r := newCheckRig(t)
	noise := schemas.Message{Type: "PaymentObserved", Version: "1", Value: []byte("\xff")}
	r.append(schemas.TopicPayments, "GA", noise)
	r.append(schemas.TopicWatches, "wat_1", noise)
	out, err := r.check("--from", "2", "--to", "2")
	if err != nil ||
		!strings.Contains(out, "2 records of the topics payments and watches do not count") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestLedgerCheckRefusesWhatItCannotCheck(t *testing.T) {
	r := newCheckRig(t)
	for name, args := range map[string][]string{
		"backwards":       {"--from", "4", "--to", "2"},
		"not there yet":   {"--from", "2", "--to", "1000"},
		"no such source":  {"--from", "2", "--to", "3", "--ledger-source", "tape"},
		"another network": {"--from", "2", "--to", "3", "--network", "testnet"},
	} {
		if out, err := r.check(args...); err == nil {
			t.Errorf("%s: no error\n%s", name, out)
		}
	}
}
