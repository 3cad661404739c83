package mailer_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// rig is a broker on disk, a directory that is filled from its tables, and
// mailers on both.
type rig struct {
	t         *testing.T
	cluster   streams.Cluster
	producer  *streams.Producer
	directory *directory.Directory

	mu       sync.Mutex
	outcomes map[mailer.Outcome]int
}

func TestMain(m *testing.M) { brokertest.Main(m) }

func newRig(t *testing.T) *rig {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := brokertest.Start(t)
	return newRigOn(t, b.Replicas(), b.Cluster(logger))
}

func newRigOn(t *testing.T, replicas int16, cluster streams.Cluster) *rig {
	t.Helper()
	logger := cluster.Logger
	r := &rig{
		t:        t,
		outcomes: make(map[mailer.Outcome]int),
		cluster:  cluster,
	}
	brokertest.MakeTopics(t, r.cluster, 2, replicas)
	var err error
	if r.producer, err = r.cluster.NewProducer(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.producer.Close)
	r.directory, err = directory.Open(t.Context(),
		directory.Config{
			Cluster:      r.cluster,
			Dir:          t.TempDir(),
			ConfirmEvery: 50 * time.Millisecond,
			Now:          time.Now,
			Logger:       logger,
		})
	if err != nil {
		t.Fatal(err)
	}
	r.work("the directory", r.directory.Run, func() { _ = r.directory.Close() })
	return r
}

// work runs a part until the returned function, or the test's end, stops it.
func (r *rig) work(what string, run func(context.Context) error, after func()) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("%s ended with %v", what, err)
		}
		after()
	})
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) mailer(sender mailer.Sender) *mailer.Mailer {
	return mailer.New(mailer.Config{
		Cluster:      r.cluster,
		Directory:    r.directory,
		Sender:       sender,
		DisableAfter: 20,
		RunTime:      56 * time.Hour,
		RetryFirst:   20 * time.Millisecond,
		RetryLast:    200 * time.Millisecond,
		Now:          time.Now,
		Logger:       r.cluster.Logger,
		OnOutcome: func(o mailer.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.outcomes[o]++
		},
	})
}

// mail starts a mailer; the returned function stops it in order.
func (r *rig) mail(sender mailer.Sender) (stop func()) {
	return r.work("the mailer", r.mailer(sender).Run, func() {})
}

func (r *rig) had(o mailer.Outcome) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcomes[o]
}

// append appends records one after the other: whoever reads one can read those
// before it.
func (r *rig) append(records ...streams.Record) {
	r.t.Helper()
	for _, record := range records {
		if err := r.producer.Append(r.t.Context(), record); err != nil {
			r.t.Fatal(err)
		}
	}
}

func accountRow(a domain.Account) streams.Record {
	m := schemas.EncodeAccount(a)
	return streams.NewRecord(schemas.TopicAccounts, a.ID, m.Value, m.EachHeader)
}

func endpointRow(e domain.Endpoint) streams.Record {
	m := schemas.EncodeEndpoint(e)
	return streams.NewRecord(schemas.TopicEndpoints, e.ID, m.Value, m.EachHeader)
}

func fact(f domain.Fact) streams.Record {
	m := schemas.EncodeFact(f)
	return streams.NewRecord(schemas.TopicJournal, f.Aggregate, m.Value, m.EachHeader)
}

// holder is an account with an endpoint that is disabled at version 7.
type holder struct {
	account  domain.Account
	endpoint domain.Endpoint
	disabled domain.Fact
}

func newHolder(n int) holder {
	h := holder{account: domain.Account{
		ID:      fmt.Sprintf("acc_%d", n),
		Version: 1,
		Email:   fmt.Sprintf("holder%d@example.com", n),
	}}
	h.disabled = domain.Fact{
		Aggregate: fmt.Sprintf("ep_%d", n),
		Version:   7,
		AtMillis:  time.Now().UnixMilli(),
		Body: domain.EndpointDisabled{
			Reason:         domain.DisabledGone,
			EventID:        fmt.Sprintf("evt_%d", n),
			LastStatusCode: 410,
		},
	}
	h.endpoint = domain.Endpoint{
		ID:        h.disabled.Aggregate,
		AccountID: h.account.ID,
		Version:   7,
		EndpointSettings: domain.EndpointSettings{
			URL:         fmt.Sprintf("https://shop%d.example.com/hook", n),
			Description: "the shop",
		},
		Status:         domain.StatusDisabled,
		DisabledReason: domain.DisabledGone,
	}
	return h
}

func (h holder) records() []streams.Record {
	return []streams.Record{accountRow(h.account), endpointRow(h.endpoint), fact(h.disabled)}
}
