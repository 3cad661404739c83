package follower_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const patience = brokertest.Patience

// rig is a broker and a development network, both on real sockets.
type rig struct {
	t          testing.TB
	broker     *brokertest.Broker
	cluster    kafka.Cluster
	network    *devnet.Network
	client     *devclient.Client
	identities devnet.Identities
	directory  *directory
	log        *brokertest.Log
}

func TestMain(m *testing.M) { brokertest.Main(m) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, broker: brokertest.Start(t), directory: &directory{}}
	r.cluster = r.broker.Cluster(nil)
	r.begin()
	var err error
	if r.identities, err = devnet.NewIdentities(); err != nil {
		t.Fatal(err)
	}
	if r.network, err = devnet.Open(devnet.Config{
		Dir:           t.TempDir(),
		Identities:    r.identities,
		Listen:        "127.0.0.1:0",
		CloseInterval: brokertest.LedgerInterval,
	}); err != nil {
		t.Fatal(err)
	}
	go r.network.Run(context.Background())
	if r.client, err = devclient.New(r.network.RPCURL(), r.network.FriendbotURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.client.Close(), r.network.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// renew switches to empty topics under another prefix.
func (r *rig) renew(name string) {
	r.t.Helper()
	r.cluster.Prefix = r.broker.Prefix() + name + "."
	r.begin()
}

func (r *rig) begin() {
	r.t.Helper()
	r.log = brokertest.NewLog(r.t, r.cluster)
	brokertest.MakeTopics(r.t, r.cluster, 2, r.broker.Replicas())
}

// source reads the network and can modify its ledgers.
func (r *rig) source(tamper ...func(*ledger.Raw)) follower.Source {
	r.t.Helper()
	return reader(r.t, faulty{r.rpc(), tamper}, r.network.Passphrase())
}

func (r *rig) rpc() source.Source {
	r.t.Helper()
	s, err := rpc.New(rpc.Config{
		URL:          r.network.RPCURL(),
		Passphrase:   r.network.Passphrase(),
		PollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func reader(t testing.TB, s source.Source, passphrase string) *source.Reader {
	t.Helper()
	r, err := source.NewReader(s, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) config() follower.Config {
	return follower.Config{
		Cluster:    r.cluster,
		Source:     r.source(),
		Watches:    r.directory,
		OpenParts:  r.directory,
		Passphrase: r.network.Passphrase(),
		Now:        time.Now,
		Logger:     slog.New(slog.DiscardHandler),
	}
}

type running struct {
	t       testing.TB
	stop    context.CancelFunc
	ended   chan error
	ledgers chan follower.LedgerSummary
	*follower.Follower
}

func (r *rig) start(config follower.Config) *running {
	r.t.Helper()
	x := &running{
		t:       r.t,
		ended:   make(chan error, 1),
		ledgers: make(chan follower.LedgerSummary, 10_000),
	}
	config.OnLedger = func(s follower.LedgerSummary) { x.ledgers <- s }
	x.Follower = follower.New(config)
	ctx, cancel := context.WithCancel(context.Background())
	x.stop = cancel
	go func() { x.ended <- x.Run(ctx) }()
	r.t.Cleanup(cancel)
	return x
}

func (r *rig) startReady(config follower.Config) *running {
	r.t.Helper()
	x := r.start(config)
	select {
	case <-x.Ready():
	case err := <-x.ended:
		r.t.Fatalf("the follower ended: %v", err)
	case <-time.After(patience):
		r.t.Fatal("the follower did not become ready")
	}
	return x
}

func (x *running) stopped() error {
	x.t.Helper()
	x.stop()
	return x.end()
}

// failsWith waits until the health check of the running follower fails with an error.
func (x *running) failsWith(text string, is error) {
	x.t.Helper()
	testkit.Eventually(x.t, "the follower says "+text, func() bool {
		select {
		case err := <-x.ended:
			x.t.Fatalf("the follower ended: %v", err)
		default:
		}
		err := x.Check()
		return err != nil && strings.Contains(err.Error(), text) && (is == nil || errors.Is(err, is))
	})
}

func (x *running) end() error {
	x.t.Helper()
	select {
	case err := <-x.ended:
		return err
	case <-time.After(patience):
		x.t.Fatal("the follower did not end")
		return nil
	}
}

// until returns the summaries up to the given ledger.
func (x *running) until(sequence uint32) (all []follower.LedgerSummary) {
	x.t.Helper()
	for deadline := time.After(patience); ; {
		select {
		case s := <-x.ledgers:
			all = append(all, s)
			if s.Ledger.Sequence >= sequence {
				return all
			}
			deadline = time.After(patience)
		case err := <-x.ended:
			x.t.Fatalf("the follower ended: %v", err)
		case <-deadline:
			x.t.Fatalf("ledger %d was not read", sequence)
		}
	}
}

func (r *rig) wallet() string {
	r.t.Helper()
	address, _, err := r.client.CreateAccount(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return address
}

func (r *rig) pay(to, amount string) devclient.Payment {
	r.t.Helper()
	p, err := r.client.Pay(r.t.Context(),
		devclient.PayRequest{From: r.identities.PayerSeed, To: to, Amount: amount})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// read returns all records of a topic, ordered by partition.
func (r *rig) read(topic string) []kafka.Record {
	r.t.Helper()
	records := slices.Clone(r.log.Read(topic))
	slices.SortStableFunc(records,
		func(a, b kafka.Record) int { return int(a.Partition - b.Partition) })
	return records
}

func (r *rig) matches() (all []domain.MatchInput) {
	r.t.Helper()
	for _, record := range r.read(schemas.TopicMatches) {
		m, err := schemas.DecodePaymentMatched(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		if string(record.Key) != m.EndpointID {
			r.t.Errorf("a match for endpoint %s has the key %q", m.EndpointID, record.Key)
		}
		all = append(all, m)
	}
	return all
}

func (r *rig) observed() (all []domain.Payment) {
	r.t.Helper()
	for _, record := range r.read(schemas.TopicPayments) {
		if schemas.IsBalanceMoved(record) {
			continue
		}
		p, err := schemas.DecodePaymentObserved(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		if string(record.Key) != p.Payment.To {
			r.t.Errorf("a payment to %s has the key %q", p.Payment.To, record.Key)
		}
		all = append(all, p.Payment)
	}
	return all
}

func (r *rig) cursors() (all []schemas.LedgerRead) {
	r.t.Helper()
	for _, record := range r.read(schemas.TopicLedgers) {
		l, err := schemas.DecodeLedgerRead(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func (r *rig) appendCursor(l schemas.LedgerRead) {
	r.t.Helper()
	p, err := r.cluster.NewProducer()
	if err != nil {
		r.t.Fatal(err)
	}
	defer p.Close()
	m := schemas.EncodeLedgerRead(l)
	if err := p.Append(r.t.Context(),
		kafka.NewRecord(schemas.TopicLedgers, l.NetworkPassphrase, m.Value, m.EachHeader)); err != nil {
		r.t.Fatal(err)
	}
}

// directory is a fake in-memory directory. As with the topic, an acknowledged watch becomes visible
// only after CatchUp.
type directory struct {
	mu           sync.Mutex
	acknowledged []domain.Watch
	known        []domain.Watch
	deleted      string // ID of an endpoint
	failures     int    // number of coming CatchUp calls that fail
}

func (b *directory) add(id, wallet string) domain.Watch {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := domain.Watch{
		ID:            id,
		AccountID:     "acc_1",
		EndpointID:    "ep_" + id,
		WalletAddress: wallet,
		EventTypes:    []domain.EventType{domain.PaymentReceived},
		Rules: domain.Rules{
			Assets: []domain.Asset{domain.NativeAsset()},
			Amount: domain.AmountRule{Kind: domain.AmountAny},
			Memo:   domain.MemoRule{Kind: domain.MemoAny},
		},
	}
	b.acknowledged = append(b.acknowledged, w)
	return w
}

func (b *directory) CatchUp(context.Context) (map[int32]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures > 0 {
		b.failures--
		return nil, errors.New("the topic cannot be read")
	}
	b.known = slices.Clone(b.acknowledged)
	return map[int32]int64{0: int64(len(b.known)), 1: 7}, nil
}

func (b *directory) ByWallet(wallet string) (found []domain.Watch, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.known {
		if w.WalletAddress == wallet {
			found = append(found, w)
		}
	}
	return found, nil
}

func (b *directory) EachUnadmitted(take func(domain.Watch) error) error {
	b.mu.Lock()
	known := slices.Clone(b.known)
	b.mu.Unlock()
	for _, w := range known {
		if w.LiveSince != 0 || w.Deleted() || w.MissedSince != 0 && w.EndpointID == b.deleted {
			continue
		}
		if err := take(w); err != nil {
			return err
		}
	}
	return nil
}

func (b *directory) EachOpenPart(take func(domain.Part) error) error {
	b.mu.Lock()
	known := slices.Clone(b.known)
	b.mu.Unlock()
	for _, w := range known {
		for _, part := range w.Parts {
			if err := take(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// admitting applies the follower's admissions of new watches to the fake directory, as the engine
// would.
func (r *rig) admitting() {
	r.t.Helper()
	ends := map[int32]int64{0: 0, 1: 0}
	reader, err := r.cluster.NewReader(
		kafka.ReaderConfig{From: kafka.Offsets{schemas.TopicCommands: ends}},
	)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			err := reader.Poll(ctx, 100, func(record kafka.Record) error {
				c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
				if err == nil {
					r.directory.ask(c.Body)
				}
				return err
			})
			if err != nil && ctx.Err() == nil {
				r.t.Errorf("reading what is admitted: %v", err)
				return
			}
		}
	}()
	r.t.Cleanup(func() { cancel(); <-ended; reader.Close() })
}

type faulty struct {
	source.Source
	tamper []func(*ledger.Raw)
}

func (f faulty) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	page, err := f.Source.Next(ctx, sequence)
	for i := range page {
		for _, tamper := range f.tamper {
			tamper(&page[i])
			page[i] = unverified(page[i])
		}
	}
	return page, err
}

// unverified returns a ledger as a source without verification would return it.
func unverified(raw ledger.Raw) ledger.Raw {
	return ledger.Raw{Sequence: raw.Sequence, Hash: raw.Hash, XDR: raw.XDR}
}

type patient struct {
	follower.Source
	refusals int
}

func (p *patient) Check(ctx context.Context) error {
	if p.refusals > 0 {
		p.refusals--
		return errors.New("nobody listens")
	}
	return p.Source.Check(ctx)
}
