package mailer_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

// rig is a broker on disk, a directory that is filled from its tables, and mailers that use both.
// The test writes the orders, except in retries_test.go, which uses an engine.
type rig struct {
	t         *testing.T
	cluster   kafka.Cluster
	producer  *kafka.Producer
	log       *brokertest.Log
	directory *directory.Directory
	now       func() time.Time
}

func TestMain(m *testing.M) { brokertest.Main(m) }

func newRig(t *testing.T) *rig {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := brokertest.Start(t)
	return newRigOn(t, b.Replicas(), b.Cluster(logger))
}

func newRigOn(t *testing.T, replicas int16, cluster kafka.Cluster) *rig {
	t.Helper()
	r := &rig{t: t, cluster: cluster, log: brokertest.NewLog(t, cluster), now: time.Now}
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
			Logger:       cluster.Logger,
		})
	if err != nil {
		t.Fatal(err)
	}
	r.work("the directory", r.directory.Run, func() { _ = r.directory.Close() })
	return r
}

// work runs a part until the returned function or the end of the test stops it.
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

func (r *rig) mailer(sender mailer.Sender, d mailer.Directory) *mailer.Mailer {
	return mailer.New(mailer.Config{
		Cluster:      r.cluster,
		Directory:    d,
		Sender:       sender,
		DisableAfter: 20,
		RunTime:      56 * time.Hour,
		Now:          r.now,
		Logger:       r.cluster.Logger,
	})
}

// mail starts a mailer and returns a function that stops it gracefully.
func (r *rig) mail(sender mailer.Sender) (stop func()) {
	return r.work("the mailer", r.mailer(sender, r.directory).Run, func() {})
}

// append appends records one at a time, so that a reader of one record can read all records before
// it.
func (r *rig) append(records ...kafka.Record) {
	r.t.Helper()
	for _, record := range records {
		if err := r.producer.Append(r.t.Context(), record); err != nil {
			r.t.Fatal(err)
		}
	}
}

// answers returns the answers in the log, keyed by the order's endpoint and number.
func (r *rig) answers() map[string][]domain.MailAnswer {
	r.t.Helper()
	all := make(map[string][]domain.MailAnswer)
	for key, said := range r.everythingSaid() {
		for _, b := range said {
			all[key] = append(all[key], b.Answer)
		}
	}
	return all
}

// said returns the answers to an order, with the recipients that are done.
func (r *rig) said(key string) []domain.RecordMail {
	r.t.Helper()
	return r.everythingSaid()[key]
}

func (r *rig) everythingSaid() map[string][]domain.RecordMail {
	r.t.Helper()
	all := make(map[string][]domain.RecordMail)
	for _, record := range r.log.Read(schemas.TopicCommands) {
		c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		if b, is := c.Body.(domain.RecordMail); is {
			key := fmt.Sprintf("%s/%d", b.EndpointID, b.Number)
			all[key] = append(all[key], b)
		}
	}
	return all
}

// eventuallyAnswered waits for an answer to a holder's first order.
func (r *rig) eventuallyAnswered(h holder, want domain.MailAnswer) {
	r.t.Helper()
	key := h.order.EndpointID + "/1"
	testkit.Eventually(r.t, "an answer to "+key, func() bool { return len(r.answers()[key]) > 0 })
	if got := r.answers()[key]; got[0] != want {
		r.t.Errorf("the order of %s was answered %v, not %s", h.order.EndpointID, got, want)
	}
}

// once checks that each holder got one mail, even after another mailer has read everything that was
// not committed.
func (r *rig) once(s *server, holders ...holder) {
	r.t.Helper()
	last := newHolder(1000)
	stop := r.mail(plain(r.t, s))
	r.append(last.records()...)
	testkit.Eventually(r.t, "the last mail", func() bool { return s.mailsTo(last.account.Email) > 0 })
	stop()
	for _, h := range append(holders, last) {
		if n := s.mailsTo(h.account.Email); n != 1 {
			r.t.Errorf("%s got %d mails", h.account.Email, n)
		}
	}
}

func plain(t *testing.T, s *server) *mailer.SMTP {
	t.Helper()
	return smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSNone, Timeout: 20 * time.Second})
}

func accountRow(a domain.Account) kafka.Record {
	m := schemas.EncodeAccount(a)
	return kafka.NewRecord(schemas.TopicAccounts, a.ID, m.Value, m.EachHeader)
}

func orderRecord(o domain.MailOrder) kafka.Record {
	m := schemas.EncodeMailOrder(o)
	return kafka.NewRecord(schemas.TopicMails, o.EndpointID, m.Value, m.EachHeader)
}

// holder is an account with an endpoint that was disabled at version 7, and the order for the mail
// about it.
type holder struct {
	account domain.Account
	order   domain.MailOrder
}

func newHolder(n int) holder {
	now := time.Now().UnixMilli()
	h := holder{account: domain.Account{
		ID:      fmt.Sprintf("acc_%d", n),
		Version: 1,
		Email:   fmt.Sprintf("holder%d@example.com", n),
	}}
	h.order = domain.MailOrder{
		EndpointID:  fmt.Sprintf("ep_%d", n),
		AccountID:   h.account.ID,
		URL:         fmt.Sprintf("https://shop%d.example.com/hook", n),
		Description: "the shop",
		Notice:      7,
		AtMillis:    now,
		Disabled: domain.EndpointDisabled{
			Reason:         domain.DisabledGone,
			EventID:        fmt.Sprintf("evt_%d", n),
			LastStatusCode: 410,
		},
		Number:      1,
		UntilMillis: now + domain.MailOrderFor,
	}
	return h
}

func (h holder) records() []kafka.Record {
	return []kafka.Record{accountRow(h.account), orderRecord(h.order)}
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the mail:\n%s", want, text)
		}
	}
}
