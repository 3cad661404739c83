package mailer_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// receivers always answer 410.
type receivers struct{}

func (receivers) Dispatch(_ domain.Attempt, done func(domain.AttemptResult)) {
	go done(domain.AttemptResult{StatusCode: 410})
}

func (receivers) Disconnect(string) {}

// engine runs an engine whose receivers are gone, and returns a function that stops it.
func (r *rig) engine() (stop func()) {
	r.t.Helper()
	e := engine.New(engine.Config{
		Cluster:    r.cluster,
		StateDir:   r.t.TempDir(),
		Policy:     domain.DefaultPolicy(),
		Dispatcher: receivers{},
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    16,
		AttemptsPerEndpoint: 16,
		DrainTimeout:        10 * time.Second,
		Now:                 time.Now,
		Logger:              r.cluster.Logger,
	})
	return r.work("the engine", e.Run, func() {})
}

// disable has the engine disable a holder's endpoint, by a match whose delivery is answered 410.
func (r *rig) disable(h holder) {
	r.t.Helper()
	for id, body := range map[string]domain.CommandBody{
		"cmd_a_" + h.account.ID: domain.CreateAccount{
			AccountID: h.account.ID,
			Email:     h.account.Email,
			Key:       domain.Key{ID: "key_" + h.account.ID, Hash: []byte{1}},
		},
		"cmd_e_" + h.account.ID: domain.CreateEndpoint{
			EndpointID:       h.order.EndpointID,
			AccountID:        h.account.ID,
			EndpointSettings: domain.EndpointSettings{URL: h.order.URL},
			SealedSecret:     []byte("sealed"),
		},
	} {
		m := schemas.EncodeCommand(domain.Command{ID: id, AccountID: h.account.ID, Body: body})
		r.append(kafka.NewRecord(schemas.TopicCommands, body.Aggregate(), m.Value, m.EachHeader))
	}
	r.eventuallyFact("the endpoint", func(f domain.Fact) bool {
		_, is := f.Body.(domain.EndpointCreated)
		return is && f.Aggregate == h.order.EndpointID
	})
	m := schemas.EncodePaymentMatched(
		domain.Match{
			Type: domain.PaymentReceived,
			Watch: domain.Watch{
				ID:         "wat_1",
				AccountID:  h.account.ID,
				EndpointID: h.order.EndpointID,
			},
		},
		domain.Event{ID: h.order.Disabled.EventID, Type: domain.PaymentReceived, Body: []byte("{}")})
	r.append(kafka.NewRecord(schemas.TopicMatches, h.order.EndpointID, m.Value, m.EachHeader))
}

func (r *rig) facts() (facts []domain.Fact) {
	r.t.Helper()
	for _, record := range r.log.Read(schemas.TopicJournal) {
		f, err := schemas.DecodeFact(schemas.Read(record.Value, record))
		if err != nil {
			r.t.Fatal(err)
		}
		facts = append(facts, f)
	}
	return facts
}

func (r *rig) eventuallyFact(what string, is func(domain.Fact) bool) {
	r.t.Helper()
	testkit.Eventually(r.t, what, func() bool {
		for _, f := range r.facts() {
			if is(f) {
				return true
			}
		}
		return false
	})
}

// had returns how often the journal records an outcome.
func (r *rig) had(o domain.MailOutcome) (n int) {
	r.t.Helper()
	for _, f := range r.facts() {
		if made, is := f.Body.(domain.MailAttempted); is && made.Outcome == o {
			n++
		}
	}
	return n
}

// sentOnce waits until the mails are recorded as sent, and checks that each arrived once.
func (r *rig) sentOnce(s *server, holders ...holder) {
	r.t.Helper()
	testkit.Eventually(r.t, "mails that are recorded as sent",
		func() bool { return r.had(domain.MailSent) == len(holders) })
	for _, h := range holders {
		if n := s.mailsTo(h.account.Email); n != 1 {
			r.t.Errorf("%s got %d mails", h.account.Email, n)
		}
	}
}

func TestAMailWaitsForItsServer(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	s.stop()
	r.engine()
	r.mail(plain(t, s))
	first, second := newHolder(1), newHolder(2)
	r.disable(first)
	r.disable(second)
	testkit.Eventually(t, "several tries", func() bool { return r.had(domain.MailRetried) > 3 })
	s.start(serving{})
	r.sentOnce(s, first, second)
}

// A mailer that stops while the mail server is down leaves its mails to the next mailer. An engine
// leaves its notices to the next engine.
func TestMailsThatWaitAreLeftToTheNextMailer(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	s.start(serving{})
	s.stop()
	stopEngine, stopMailer := r.engine(), r.mail(plain(t, s))
	h := newHolder(1)
	r.disable(h)
	testkit.Eventually(t, "a try", func() bool { return r.had(domain.MailRetried) > 0 })
	stopMailer()
	stopEngine()
	s.start(serving{})
	r.engine()
	r.mail(plain(t, s))
	r.sentOnce(s, h)
}

// While a recipient is temporarily refused, the mail is retried and other recipients get theirs.
func TestARecipientWhoIsRefusedForNowIsTriedOn(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	var full atomic.Bool
	full.Store(true)
	holders := []holder{newHolder(0), newHolder(1), newHolder(2), newHolder(3)}
	s.onRcpt = func(to string) error {
		if to == holders[0].account.Email && full.Load() {
			return answer(452)
		}
		return nil
	}
	s.start(serving{})
	r.engine()
	r.mail(plain(t, s))
	for _, h := range holders {
		r.disable(h)
	}
	testkit.Eventually(t, "the others' mails, and tries",
		func() bool { return len(s.mails()) == len(holders)-1 && r.had(domain.MailRetried) > 1 })
	full.Store(false)
	r.sentOnce(s, holders...)
}

func TestARecipientWhoIsRefusedForGoodIsSkipped(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	refused, other := newHolder(1), newHolder(2)
	s.onRcpt = func(to string) error {
		if to == refused.account.Email {
			return answer(550)
		}
		return nil
	}
	s.start(serving{})
	r.engine()
	r.mail(plain(t, s))
	r.disable(refused)
	testkit.Eventually(t, "the refusal", func() bool { return r.had(domain.MailRefused) == 1 })
	r.disable(other)
	r.sentOnce(s, other)
	if n := len(r.answers()[refused.order.EndpointID+"/1"]); n != 1 || s.tries() != 2 {
		t.Errorf("what was refused for good was answered %d times; %d tries in all", n, s.tries())
	}
}

// A server that receives the content and drops the connection may have accepted the mail. The mail
// is sent again with the same Message-ID.
func TestAMailWithoutAnAnswerIsSentAgain(t *testing.T) {
	t.Parallel()
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
	r.engine()
	r.mail(plain(t, s))
	h := newHolder(1)
	r.disable(h)
	r.sentOnce(s, h)
	mu.Lock()
	defer mu.Unlock()
	if len(ids) != 3 || ids[0] == "" || ids[0] != ids[1] || ids[1] != ids[2] {
		t.Errorf("one mail has several ids: %q", ids)
	}
}

// A mail at which the server fails every time must not keep others from being sent.
func TestAMailThatTheServerCannotTakeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r, s := newRig(t), newServer(t)
	poison := newHolder(0)
	s.onData = func(c *smtp.Conn, raw []byte) error {
		if strings.Contains(string(raw), poison.account.Email) {
			return drop(c, raw)
		}
		return nil
	}
	s.start(serving{})
	r.engine()
	r.mail(plain(t, s))
	r.disable(poison)
	testkit.Eventually(t, "a try", func() bool { return r.had(domain.MailRetried) > 0 })
	others := []holder{newHolder(1), newHolder(2), newHolder(3), newHolder(4)}
	for _, h := range others {
		r.disable(h)
	}
	r.sentOnce(s, others...)
}
