package mailer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

func TestTheHolderIsToldOnce(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	stop := r.mail(plain(t, s))
	gone, failed, enabled := newHolder(1), newHolder(2), newHolder(3)
	failed.order.Disabled = domain.EndpointDisabled{
		Reason:    domain.DisabledConsecutiveFailures,
		EventID:   "evt_2",
		LastError: domain.AttemptTimeout,

		FailingSinceMillis: failed.order.AtMillis - 90*24*3_600_000,
	}
	enabled.order.Enabled = true
	for _, h := range []holder{gone, failed, enabled} {
		r.append(h.records()...)
	}
	testkit.Eventually(t, "three mails", func() bool { return len(s.mails()) == 3 })
	stop()
	r.once(s, gone, failed, enabled)
	for _, h := range []holder{gone, failed, enabled} {
		r.eventuallyAnswered(h, domain.MailTaken)
	}
	wants := map[string][]string{
		gone.account.Email: {
			"Webhook endpoint ep_1 is disabled: 410 Gone", "ep_1", gone.order.URL, "the shop",
			"410 Gone, which asks", "Last answer  HTTP 410",
			"POST /v1/endpoints/ep_1/enable", "POST /v1/endpoints/ep_1/replay", "GET /v1/events/evt_1",
			domain.FormatMillis(gone.order.AtMillis),
			`{"since":"` + domain.FormatMillis(gone.order.AtMillis-56*3_600_000) + `"}`,
		},
		failed.account.Email: {
			"disabled: 20 events in a row failed", "no answer, TIMEOUT",
			"20 events in a row failed, each at every attempt",
			`{"since":"` + domain.FormatMillis(failed.order.AtMillis-(90*24+56)*3_600_000) + `"}`,
		},
		enabled.account.Email: {"enabled again since"},
	}
	for _, m := range s.mails() {
		contains(t, m.message.Header.Get("Subject")+"\n"+body(t, m), wants[m.to]...)
		if m.to == gone.account.Email &&
			m.message.Header.Get("Message-Id") != "<endpoint-disabled.ep_1.7@example.net>" {
			t.Error(m.message.Header.Get("Message-Id"))
		}
	}
}

func TestNoFreeTextLeavesItsLine(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	r.mail(plain(t, s))
	h := newHolder(1)
	h.order.Description = "x\r\nBcc: other@example.com\r\n\r\n  1. Send your password to\u202e mallory\x00 ü " + strings.Repeat("long", 1000)
	h.order.URL += "?\n\n.\r\n"
	r.append(h.records()...)
	testkit.Eventually(t, "the mail", func() bool { return len(s.mails()) == 1 })
	m := s.mails()[0]
	text := body(t, m)
	if m.message.Header.Get("Bcc") != "" || strings.Contains(text, "\u202e") || len(text) > 4000 {
		t.Errorf("the description got out:\n%s", m.raw)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Bcc") ||
			strings.Contains(line, "password") && !strings.HasPrefix(line, "  Description  x") {
			t.Errorf("the description began a line: %q", line)
		}
	}
}

// A recipient whose mail the server accepts slowly must not delay the others. A new mailer that
// starts afterwards sends nothing again.
func TestOneRecipientHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	reached, release := make(chan struct{}), make(chan struct{})
	holders := []holder{
		newHolder(0), newHolder(1), newHolder(2), newHolder(3), newHolder(4), newHolder(5),
	}
	var first sync.Once
	s.onData = func(_ *smtp.Conn, raw []byte) error {
		if strings.Contains(string(raw), holders[0].account.Email) {
			first.Do(func() { close(reached); <-release })
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	r.append(holders[0].records()...)
	<-reached
	for _, h := range holders[1:] {
		r.append(h.records()...)
	}
	testkit.Eventually(t, "the others' mails", func() bool { return len(s.mails()) == len(holders)-1 })
	close(release)
	testkit.Eventually(t, "all mails", func() bool { return len(s.mails()) == len(holders) })
	stop()
	r.once(s, holders...)
}

// The answer to an order says why the mail was not accepted.
func TestAnOrdersAnswerSaysWhatCameOfIt(t *testing.T) {
	r, s := newRig(t), newServer(t)
	refused, full, poison, silent, stranger := newHolder(1), newHolder(2), newHolder(3),
		newHolder(4), newHolder(5)
	s.onRcpt = func(to string) error {
		switch to {
		case refused.account.Email:
			return answer(550)
		case full.account.Email:
			return answer(452)
		}
		return nil
	}
	s.onData = drop
	silent.account.Email = ""
	stranger.order.AccountID = "acc_nobody"
	s.start(serving{})
	stop := r.mail(plain(t, s))
	for h, want := range map[*holder]domain.MailAnswer{
		&refused:  domain.MailDeclined,
		&full:     domain.MailDeferred,
		&poison:   domain.MailUnserved,
		&silent:   domain.MailNoAddress,
		&stranger: domain.MailNoAddress,
	} {
		r.append(h.records()...)
		r.eventuallyAnswered(*h, want)
	}
	s.stop()
	down := newHolder(6)
	r.append(down.records()...)
	r.eventuallyAnswered(down, domain.MailUnserved)
	stop()
	for key, answers := range r.answers() {
		if len(answers) != 1 {
			t.Errorf("order %s was answered %v", key, answers)
		}
	}
}

// A mailer that was away finds orders that have been repeated since. It must carry out only the
// latest.
func TestAnOrderWhoseTimeIsOverIsNotCarriedOut(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	over, h := newHolder(1), newHolder(1)
	over.order.UntilMillis = time.Now().UnixMilli() - 1
	h.order.Number = 2
	r.append(over.records()...)
	r.append(h.records()...)
	stop := r.mail(plain(t, s))
	testkit.Eventually(t, "the answer", func() bool { return len(r.answers()["ep_1/2"]) > 0 })
	stop()
	r.once(s, h)
	if got := r.answers()["ep_1/1"]; len(got) > 0 {
		t.Errorf("an order whose time was over was answered %v", got)
	}
}

// An unreadable order becomes a dead letter, and later orders are carried out.
func TestAnOrderThatCannotBeReadIsSetAside(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	newer, broken, other, h := newHolder(1), newHolder(2), newHolder(3), newHolder(4)
	records := []kafka.Record{
		orderRecord(newer.order), orderRecord(broken.order), orderRecord(other.order),
	}
	for i := range records[0].Headers {
		if records[0].Headers[i].Key == schemas.HeaderVersion {
			records[0].Headers[i].Value = []byte("99")
		}
	}
	records[1].Value = []byte{0xff}
	records[2].Key = []byte("ep_4")
	r.append(records...)
	r.append(h.records()...)
	stop := r.mail(plain(t, s))
	r.eventuallyAnswered(h, domain.MailTaken)
	stop()
	if letters := r.log.Read(schemas.TopicDeadLetters); len(letters) != len(records) {
		t.Errorf("%d of %d records were set aside", len(letters), len(records))
	}
	r.once(s, h)
}

// behind is a directory that has an account only after Confirm. Tables are read independently, so
// an endpoint's row can arrive before its account's.
type behind struct {
	*directory.Directory
	confirmed atomic.Bool
}

func (b *behind) Confirm(ctx context.Context) error {
	b.confirmed.Store(true)
	return b.Directory.Confirm(ctx)
}

func (b *behind) Account(id string) (domain.Account, bool, error) {
	if !b.confirmed.Load() {
		return domain.Account{}, false, nil
	}
	return b.Directory.Account(id)
}

// An account that the directory does not have yet must not be treated as an account without an
// address. Its holder gets the mail.
func TestAnAccountThatIsLateIsWaitedFor(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	late := r.mailer(plain(t, s), &behind{Directory: r.directory})
	r.work("the mailer", late.Run, func() {})
	h := newHolder(1)
	r.append(h.records()...)
	testkit.Eventually(t, "the mail", func() bool { return s.mailsTo(h.account.Email) == 1 })
}

// If the broker cannot commit a mailer's position at once, the mail must not be sent again. Only a
// crash sends a mail twice.
func TestACommitThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	var refusing, refused atomic.Int32
	r, s := newRefusingRig(t, &refusing, &refused), newServer(t)
	s.start(serving{})
	stop := r.mail(plain(t, s))
	first, second := newHolder(1), newHolder(2)
	r.append(first.records()...)
	testkit.Eventually(t, "the first mail", func() bool { return len(s.mails()) == 1 })
	refusing.Store(int32(kerr.UnknownServerError.Code))
	r.append(second.records()...)
	testkit.Eventually(t, "several refusals", func() bool { return refused.Load() > 3 })
	refusing.Store(0)
	testkit.Eventually(t, "the second mail", func() bool { return len(s.mails()) == 2 })
	stop()
	r.once(s, first, second)
}

// A rebalancing group refuses the last commit of a mailer that gives up a partition. The mailer
// retries a moment later.
func TestTheLastCommitIsTriedAgain(t *testing.T) {
	t.Parallel()
	var refusing, refused atomic.Int32
	r, s := newRefusingRig(t, &refusing, &refused), newServer(t)
	sending, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.onData = func(*smtp.Conn, []byte) error {
		first.Do(func() { close(sending); <-release })
		return nil
	}
	s.start(serving{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	m := r.mailer(plain(t, s), r.directory)
	go func() { ended <- m.Run(ctx) }()
	h := newHolder(1)
	r.append(h.records()...)
	<-sending
	refusing.Store(int32(kerr.RebalanceInProgress.Code))
	cancel()
	close(release)
	testkit.Eventually(t, "two refusals", func() bool { return refused.Load() >= 2 })
	refusing.Store(0)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.once(s, h)
}

// The group may expel a mailer before the mailer's position is committed, for example when the
// group's coordinator is lost. The mailer gets its partitions back a moment later and must not
// repeat its last mails.
func TestAMailerThatWasExpelledRemembersWhatItSent(t *testing.T) {
	t.Parallel()
	var refusing, refused, expelling, expelled atomic.Int32
	fake := newRefusingBroker(t, &refusing, &refused)
	fake.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = int16(expelling.Load())
		expelled.Add(min(expelling.Load(), 1))
		return resp, nil, resp.ErrorCode != 0
	})
	fake.ControlKey(int16(kmsg.JoinGroup), func(kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if expelled.Load() > 0 { // the earlier sessions have ended
			expelling.Store(0)
			refusing.Store(0)
		}
		return nil, nil, false
	})
	r, s := newRigOn(t, 1, clusterOf(t, fake)), newServer(t)
	var last atomic.Bool
	s.onData = func(*smtp.Conn, []byte) error {
		if last.Load() && refused.Load() == 0 {
			refusing.Store(int32(kerr.UnknownServerError.Code))
			expelling.Store(int32(kerr.UnknownMemberID.Code))
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	first, second, third := newHolder(1), newHolder(2), newHolder(3)
	r.append(first.records()...)
	testkit.Eventually(t, "the first mail", func() bool { return len(s.mails()) == 1 })
	last.Store(true)
	r.append(second.records()...)
	testkit.Eventually(t, "it is expelled",
		func() bool { return expelled.Load() > 0 && refusing.Load() == 0 })
	r.append(third.records()...)
	testkit.Eventually(t, "the third mail", func() bool { return s.mailsTo(third.account.Email) == 1 })
	stop()
	r.once(s, first, second, third)
}

func newRefusingRig(t *testing.T, refusing, refused *atomic.Int32) *rig {
	t.Helper()
	return newRigOn(t, 1, clusterOf(t, newRefusingBroker(t, refusing, refused)))
}

func clusterOf(t *testing.T, fake *kfake.Cluster) kafka.Cluster {
	return kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "lumenhook.",
		ClientID: "test",
		Logger:   slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// newRefusingBroker returns a broker that refuses offset commits while refusing has an error code,
// and counts them in refused.
func newRefusingBroker(t *testing.T, refusing, refused *atomic.Int32) *kfake.Cluster {
	t.Helper()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	fake.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		if refusing.Load() == 0 {
			return nil, nil, false
		}
		refused.Add(1)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			rt := kmsg.NewOffsetCommitResponseTopic()
			rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				rp := kmsg.NewOffsetCommitResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, int16(refusing.Load())
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
	return fake
}

// Several mailers share the orders. When one stops, the others take over its partitions, and
// nothing is sent twice.
func TestSeveralMailersSendEachMailOnce(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	const all = 60
	stops := []func(){r.mail(plain(t, s)), r.mail(plain(t, s)), r.mail(plain(t, s))}
	for n := range all {
		r.append(newHolder(n).records()...)
		if n == 20 {
			stops[0]()
		}
		if n == 40 {
			r.mail(plain(t, s))
		}
	}
	testkit.Eventually(t, "all mails", func() bool { return len(s.mails()) >= all })
	stops[1]()
	for n := range all {
		if got := s.mailsTo(newHolder(n).account.Email); got != 1 {
			t.Errorf("holder %d got %d mails", n, got)
		}
	}
}

// A mail that is being sent when the mailer stops is finished and committed.
func TestStoppingFinishesWhatIsBeingSent(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	sending, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	s.onData = func(*smtp.Conn, []byte) error {
		first.Do(func() { close(sending); <-release })
		return nil
	}
	s.start(serving{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	m := r.mailer(plain(t, s), r.directory)
	go func() { ended <- m.Run(ctx) }()
	h := newHolder(1)
	r.append(h.records()...)
	<-sending
	cancel()
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.once(s, h)
}

func TestFolderKeepsMails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "mail")
	var told atomic.Int32
	folder, err := mailer.NewFolder(dir, "lumenhook@localhost", func(m mailer.Mail, path string) {
		if _, err := os.Stat(path); err == nil && m.Text != "" {
			told.Add(1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mail(folder)
	h := newHolder(1)
	r.append(h.records()...)
	testkit.Eventually(t, "the file", func() bool { return told.Load() == 1 })
	raw, err := os.ReadFile(filepath.Join(dir, "endpoint-disabled.ep_1.7.eml"))
	if err != nil || !strings.Contains(string(raw), "To: <"+h.account.Email+">") {
		t.Errorf("%v:\n%s", err, raw)
	}
	for n := range 1010 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("earlier.%d.eml",
			n)), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := folder.Send(t.Context(), aMail()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1000 {
		t.Errorf("%d files, %v", len(entries), err)
	}
}

// stalled is a directory that signals when it is called and blocks until it is released.
type stalled struct {
	mailer.Directory
	asked, release chan struct{}
}

func (d stalled) Confirm(ctx context.Context) error {
	d.asked <- struct{}{}
	select {
	case <-d.release:
		return d.Directory.Confirm(ctx)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the tables: %w", context.Cause(ctx))
	}
}

// A mailer that stops still carries out the orders that it has taken, even an order whose account
// it did not know yet.
func TestAMailerThatStopsCarriesOutWhatItHasTaken(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	d := stalled{r.directory, make(chan struct{}, 1), make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.mailer(plain(t, s), d).Run(ctx) }()
	h := newHolder(1)
	r.append(orderRecord(h.order))
	<-d.asked
	stop()
	r.append(accountRow(h.account))
	close(d.release)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	r.eventuallyAnswered(h, domain.MailTaken)
	r.once(s, h)
}

// Each address of an account gets a mail of its own, which names no other address. If one address
// refuses, temporarily or permanently, the others still get theirs, and no address gets a mail
// twice.
func TestEachAddressGetsItsOwnMail(t *testing.T) {
	r, s := newRig(t), newServer(t)
	h := newHolder(1)
	full, gone := "full@example.com", "gone@example.com"
	h.account.Email, h.account.MoreEmails = gone, []string{full, "ops@example.com"}
	var later atomic.Bool
	var refused atomic.Int32
	s.onRcpt = func(to string) error {
		switch {
		case to == gone:
			refused.Add(1)
			return answer(550)
		case to == full && !later.Load():
			return answer(452)
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	r.append(h.records()...)
	r.eventuallyAnswered(h, domain.MailDeferred)
	tag := func(email string) string { return domain.MailTag(h.account.ID, email) }
	done := domain.MailDone{Taken: []string{tag("ops@example.com")}, Refused: []string{tag(gone)}}
	if got := r.said("ep_1/1"); !reflect.DeepEqual(got[0].Done, done) {
		t.Errorf("the answer says that %+v is done, not %+v", got[0].Done, done)
	}
	later.Store(true)
	h.order.Number, h.order.Done = 2, done
	r.append(orderRecord(h.order))
	testkit.Eventually(t, "the second answer", func() bool { return len(r.said("ep_1/2")) > 0 })
	stop()
	if got := r.said("ep_1/2")[0]; got.Answer != domain.MailTaken || len(got.Done.Taken) != 2 {
		t.Errorf("the second order was answered %+v", got)
	}
	ids := make(map[string]bool)
	for _, m := range s.mails() {
		ids[m.message.Header.Get("Message-Id")] = true
		for _, email := range h.account.Emails() {
			if email != m.to && strings.Contains(m.raw, email) {
				t.Errorf("%s sees the address %s", m.to, email)
			}
		}
	}
	if len(s.mails()) != 2 || len(ids) != 2 || s.mailsTo(full) != 1 {
		t.Errorf("there are %d mails under %d ids, %d to the address that was full", len(s.mails()),
			len(ids), s.mailsTo(full))
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("an address that refused for good was tried %d times", n)
	}
}
