package mailer_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

func plain(t *testing.T, s *server) *mailer.SMTP {
	t.Helper()
	return smtpTo(t, s, mailer.SMTPConfig{TLS: mailer.TLSNone, Timeout: 20 * time.Second})
}

// once tells that each holder got one mail, also after a mailer that comes later
// has read everything again that is not committed.
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

func TestTheHolderIsToldOnce(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	stop := r.mail(plain(t, s))
	gone, failed, manual := newHolder(1), newHolder(2), newHolder(3)
	failed.disabled.Body = domain.EndpointDisabled{
		Reason:    domain.DisabledConsecutiveFailures,
		EventID:   "evt_2",
		LastError: domain.AttemptTimeout,
	}
	manual.disabled.Body = domain.EndpointDisabled{Reason: domain.DisabledManual}
	for _, h := range []holder{manual, gone, failed} {
		r.append(h.records()...)
	}
	testkit.Eventually(t, "two mails", func() bool { return len(s.mails()) == 2 })
	stop()
	r.once(s, gone, failed)
	if s.mailsTo(manual.account.Email) > 0 {
		t.Error("who disables an endpoint is told of it")
	}
	wants := map[string][]string{
		gone.account.Email: {
			"Webhook endpoint ep_1 is disabled: 410 Gone", "ep_1", gone.endpoint.URL, "the shop",
			"410 Gone, which asks", "Last answer  HTTP 410",
			"POST /v1/endpoints/ep_1/enable", "POST /v1/endpoints/ep_1/replay", "GET /v1/events/evt_1",
			domain.FormatMillis(gone.disabled.AtMillis),
			`{"since":"` + domain.FormatMillis(gone.disabled.AtMillis-56*3_600_000) + `"}`,
		},
		failed.account.Email: {
			"disabled: 20 events in a row failed", "no answer, TIMEOUT",
			"20 events in a row failed, each at every attempt",
		},
	}
	for _, m := range s.mails() {
		text := m.message.Header.Get("Subject") + "\n" + body(t, m)
		for _, want := range wants[m.to] {
			if !strings.Contains(text, want) {
				t.Errorf("%q is not in the mail:\n%s", want, text)
			}
		}
		if m.to == gone.account.Email &&
			m.message.Header.Get("Message-Id") != "<endpoint-disabled.ep_1.7@example.net>" {
			t.Error(m.message.Header.Get("Message-Id"))
		}
	}
}

func TestNoFreeTextLeavesItsLine(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	r.mail(plain(t, s))
	h := newHolder(1)
	h.endpoint.Description = "x\r\nBcc: other@example.com\r\n\r\n  1. Send your password to\u202e mallory\x00 ü " + strings.Repeat("long", 1000)
	h.endpoint.URL += "?\n\n.\r\n"
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

func TestAMailWaitsForItsServer(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	s.stop()
	stop := r.mail(plain(t, s))
	first, second := newHolder(1), newHolder(2)
	r.append(append(first.records(), second.records()...)...)
	testkit.Eventually(t, "several tries", func() bool { return r.had(mailer.Retried) > 4 })
	s.start(serving{})
	testkit.Eventually(t, "both mails", func() bool { return len(s.mails()) == 2 })
	stop()
	r.once(s, first, second)
}

// A mailer that is stopped while the server is down leaves its mails to the next.
func TestMailsThatWaitAreLeftToTheNextMailer(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	s.stop()
	stop := r.mail(plain(t, s))
	h := newHolder(1)
	r.append(h.records()...)
	testkit.Eventually(t, "a try", func() bool { return r.had(mailer.Retried) > 0 })
	stop()
	s.start(serving{})
	r.once(s, h)
}

// A recipient who is refused for now is tried on, while others get theirs; what
// others got is not sent again when a new mailer begins before it.
func TestOneRecipientHoldsUpNobody(t *testing.T) {
	r, s := newRig(t), newServer(t)
	var full atomic.Bool
	full.Store(true)
	holders := []holder{
		newHolder(0), newHolder(1), newHolder(2), newHolder(3), newHolder(4), newHolder(5),
	}
	s.onRcpt = func(to string) error {
		if to == holders[0].account.Email && full.Load() {
			return answer(452)
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	for _, h := range holders {
		r.append(h.records()...)
	}
	testkit.Eventually(t, "the others' mails", func() bool { return len(s.mails()) == len(holders)-1 })
	stop()
	stop = r.mail(plain(t, s))
	tries := r.had(mailer.Retried)
	testkit.Eventually(t, "another try", func() bool { return r.had(mailer.Retried) > tries })
	full.Store(false)
	testkit.Eventually(t, "all mails", func() bool { return len(s.mails()) == len(holders) })
	stop()
	r.once(s, holders...)
}

func TestARecipientWhoIsRefusedForGoodIsSkipped(t *testing.T) {
	r, s := newRig(t), newServer(t)
	refused, other := newHolder(1), newHolder(2)
	s.onRcpt = func(to string) error {
		if to == refused.account.Email {
			return answer(550)
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	r.append(append(refused.records(), other.records()...)...)
	testkit.Eventually(t, "a refusal and a mail",
		func() bool { return r.had(mailer.Refused) == 1 && r.had(mailer.Sent) == 1 })
	stop()
	r.once(s, other)
	if r.had(mailer.Refused) != 1 {
		t.Error("what was refused for good was tried again")
	}
}

// A server that takes the content and drops the connection may have it or not:
// the mail is sent again, under the same Message-ID.
func TestAMailWithoutAnAnswerIsSentAgain(t *testing.T) {
	r, s := newRig(t), newServer(t)
	var mu sync.Mutex
	var ids []string
	s.onData = func(c *smtp.Conn, raw []byte) error {
		_, id, _ := strings.Cut(string(raw), "Message-ID: ")
		id, _, _ = strings.Cut(id, "\r\n")
		mu.Lock()
		defer mu.Unlock()
		if ids = append(ids, id); len(ids) < 3 {
			return drop(c, raw)
		}
		return nil
	}
	s.start(serving{})
	stop := r.mail(plain(t, s))
	h := newHolder(1)
	r.append(h.records()...)
	testkit.Eventually(t, "the mail", func() bool { return len(s.mails()) == 1 })
	stop()
	r.once(s, h)
	mu.Lock()
	defer mu.Unlock()
	if len(ids) < 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("one mail has several ids: %q", ids)
	}
}

// A mail over which the server stumbles each time does not keep others from it.
func TestAMailThatTheServerCannotTakeHoldsUpNobody(t *testing.T) {
	r, s := newRig(t), newServer(t)
	poison := newHolder(0)
	s.onData = func(c *smtp.Conn, raw []byte) error {
		if strings.Contains(string(raw), poison.account.Email) {
			return drop(c, raw)
		}
		return nil
	}
	s.start(serving{})
	r.mail(plain(t, s))
	r.append(poison.records()...)
	for n := range 20 {
		r.append(newHolder(n + 1).records()...)
	}
	testkit.Eventually(t, "the others' mails", func() bool { return len(s.mails()) == 20 })
}

// The fact is read before the directory has the endpoint at its version.
func TestTheDirectoryIsWaitedFor(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	r.mail(plain(t, s))
	h := newHolder(1)
	before := h.endpoint
	before.Version, before.URL = 6, "https://before.example.com/"
	r.append(accountRow(h.account), endpointRow(before))
	testkit.Eventually(t, "the directory",
		func() bool { _, found, err := r.directory.Endpoint(before.ID); return found && err == nil })
	r.append(fact(h.disabled))
	r.append(endpointRow(h.endpoint))
	testkit.Eventually(t, "the mail", func() bool { return len(s.mails()) == 1 })
	if text := body(t, s.mails()[0]); !strings.Contains(text, h.endpoint.URL) {
		t.Errorf("the mail tells of an older endpoint:\n%s", text)
	}
}

// behind is a directory that has an account once it was asked to confirm: tables
// are read at their own pace, and the endpoint's was quicker.
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

// An account that the directory does not have yet is no account without an
// address: its holder is told.
func TestAnAccountThatIsLateIsWaitedFor(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	late := mailer.New(mailer.Config{
		Cluster:    r.cluster,
		Directory:  &behind{Directory: r.directory},
		Sender:     plain(t, s),
		RetryFirst: 20 * time.Millisecond,
		Now:        time.Now,
		Logger:     r.cluster.Logger,
	})
	r.work("the mailer", late.Run, func() {})
	h := newHolder(1)
	r.append(h.records()...)
	testkit.Eventually(t, "the mail", func() bool { return s.mailsTo(h.account.Email) == 1 })
}

func TestWhatWasChangedMeanwhile(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	deleted, tombstone, silent, stranger, enabled := newHolder(1), newHolder(2), newHolder(3),
		newHolder(4), newHolder(5)
	deleted.endpoint.Status = domain.StatusDeleted
	silent.account.Email = ""
	stranger.endpoint.AccountID = "acc_nobody"
	enabled.endpoint.Status, enabled.endpoint.Version = domain.StatusActive, 9
	for _, h := range []holder{deleted, tombstone, silent, stranger, enabled} {
		r.append(h.records()...)
	}
	r.append(streams.NewRecord("endpoints", tombstone.endpoint.ID, nil,
		func(func(string, string) bool) {}))
	testkit.Eventually(t, "the directory", func() bool {
		_, found, err := r.directory.Endpoint(tombstone.endpoint.ID)
		_, last, _ := r.directory.Endpoint(enabled.endpoint.ID)
		return !found && last && err == nil && r.directory.Fresh() == nil
	})
	r.mail(plain(t, s))
	testkit.Eventually(t, "one mail and four without anybody",
		func() bool { return r.had(mailer.Sent) == 1 && r.had(mailer.Nobody) == 4 })
	if text := body(t, s.mails()[0]); !strings.Contains(text, "enabled again since") {
		t.Errorf("the mail asks for what was done:\n%s", text)
	}
}

// A mail that was sent is not sent again because the broker could not remember it
// at once: only a crash doubles.
func TestACommitThatFailsIsTriedAgain(t *testing.T) {
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

// A group that divides its partitions refuses the last commit of a mailer that
// gives one up: what was sent is remembered a moment later.
func TestTheLastCommitIsTriedAgain(t *testing.T) {
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
	m := r.mailer(plain(t, s))
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

// A mailer that its group expels before it took a position, as when the broker that knew
// the group is lost, has its partitions back a moment later: what it sent last it does not
// send again.
func TestAMailerThatWasExpelledRemembersWhatItSent(t *testing.T) {
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
		if expelled.Load() > 0 { // the sessions of before have ended
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

// newRefusingRig is a rig on such a broker.
func newRefusingRig(t *testing.T, refusing, refused *atomic.Int32) *rig {
	t.Helper()
	return newRigOn(t, 1, clusterOf(t, newRefusingBroker(t, refusing, refused)))
}

// clusterOf is a broker of kfake as a mailer reaches it.
func clusterOf(t *testing.T, fake *kfake.Cluster) streams.Cluster {
	return streams.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "lumenhook.",
		ClientID: "test",
		Logger:   slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// newRefusingBroker is one that refuses commits of positions while an error's code is
// set.
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

// Several mailers divide the work; one that ends leaves it to the others, and
// nothing is sent twice.
func TestSeveralMailersSendEachMailOnce(t *testing.T) {
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

// A mail that is being sent when the mailer is stopped is finished and remembered.
func TestStoppingFinishesWhatIsBeingSent(t *testing.T) {
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
	m := r.mailer(plain(t, s))
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

// A group without a position is not told of what is long past.
func TestOldNewsIsNoNews(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	old := newHolder(1)
	r.append(old.records()...)
	m := mailer.New(mailer.Config{
		Cluster:   r.cluster,
		Directory: r.directory,
		Sender:    plain(t, s),
		Logger:    r.cluster.Logger,
		Now:       func() time.Time { return time.Now().Add(8 * 24 * time.Hour) },
	})
	r.work("the mailer", m.Run, func() {})
	testkit.Eventually(t, "the mailer's place", func() bool { return m.Check() == nil })
	fresh := newHolder(2)
	testkit.Eventually(t, "the new mail", func() bool {
		// The record's time is the broker's, which does not know that a week has passed.
		fresh.disabled.Version++
		fresh.endpoint.Version++
		r.append(fresh.records()...)
		return s.mailsTo(fresh.account.Email) > 0
	})
	if s.mailsTo(old.account.Email) > 0 {
		t.Error("a mail told of what is a week old")
	}
}

func TestAFactOfTheFutureStopsTheMailer(t *testing.T) {
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	h := newHolder(1)
	record := fact(h.disabled)
	for i := range record.Headers {
		if record.Headers[i].Key == "v" {
			record.Headers[i].Value = []byte("99")
		}
	}
	r.append(record)
	if err := r.mailer(plain(t, s)).Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "newer lumenhook") {
		t.Errorf("ended with %v", err)
	}
}

func TestFolderKeepsMails(t *testing.T) {
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
