package mailer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

const (
	prepareMax    = 30 * time.Second
	commitMax     = 10 * time.Second
	commitEvery   = 5 * time.Second // while nothing is mailed
	commitAgain   = 200 * time.Millisecond
	notOursPause  = 100 * time.Millisecond // until the group is asked about again
	directoryMax  = 5 * time.Second        // for the directory to know what the journal says
	newsFor       = 7 * 24 * time.Hour     // what a group without a position still mails
	giveUpAfter   = 3 * 24 * time.Hour     // of 4xx
	giveUpTries   = 10                     // of a notice that holds up a full window
	pollMax       = 1000
	readBytes     = 1 << 20
	disabledFacts = "EndpointDisabled"
)

// session works on one partition from its committed position on. One goroutine
// owns it.
type session struct {
	*Mailer
	partition int32
	reader    *streams.Reader
	window    *window
	committed streams.Position
	looked    time.Time      // when it was last asked whether there is something to commit
	outage    *retry.Backoff // while tries fail for a reason that concerns every mail, or nil
	resume    time.Time      // while there is an outage: when to try again
	moved     bool           // something was read or settled
	dirty     bool           // something was settled and is not committed
}

// run returns when reading ends, after it has committed; what is being sent
// goes on until working ends. Any error means that the position is uncertain.
func (s *session) run(reading, working context.Context) error {
	from, err := s.prepare(reading)
	if reading.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	s.reader, err = s.cfg.Cluster.NewReader(streams.ReaderConfig{
		From:        streams.Offsets{schemas.TopicJournal: {s.partition: from}},
		SkipExpired: true,
		MaxBytes:    readBytes,
	})
	if err != nil {
		return err
	}
	defer s.reader.Close()
	for reading.Err() == nil {
		if err := s.step(reading, working); err != nil {
			return err
		}
	}
	return s.commitLast(working)
}

// commitLast commits while the partition is being given up. The group may be
// dividing its partitions just then, and refuse for that moment; without the
// commit, a mail that was sent would be sent again.
func (s *session) commitLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	for {
		err := s.commit(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, streams.ErrNotMember) {
			return err
		}
		_ = retry.Sleep(ctx, commitAgain)
	}
}

// prepare finds where to begin: at the group's position, if the topic still
// reaches so far.
func (s *session) prepare(ctx context.Context) (from int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareMax)
	defer cancel()
	positions, err := s.membership.Positions(ctx)
	if err != nil {
		return 0, err
	}
	ends, err := s.cfg.Cluster.NewEnds()
	if err != nil {
		return 0, err
	}
	defer ends.Close()
	end, err := ends.Of(ctx, schemas.TopicJournal)
	if err != nil {
		return 0, err
	}
	at, known := positions[s.partition]
	if known && at.Next > end[s.partition] {
		s.cfg.Logger.Error("the journal ends before the mailer's position: it was made anew or lost "+
			"its end; beginning with its last week", "partition", s.partition, "position", at.Next, "end",
			end[s.partition])
		known = false
	}
	s.committed = at
	if !known {
		s.committed = streams.Position{Next: -1}
		since, err := ends.Since(ctx, schemas.TopicJournal, s.cfg.Now().Add(-newsFor))
		if err != nil {
			return 0, err
		}
		at = streams.Position{Next: since[s.partition]}
	}
	if s.window, err = restoreWindow(at); err != nil {
		s.cfg.Logger.Error("mails beyond the position may be sent again", "partition", s.partition,
			"error", err)
	}
	// Committed at once, so that a first start has a beginning that stays.
	return at.Next, s.commit(ctx)
}

// step tries what is due, or else reads.
func (s *session) step(reading, working context.Context) error {
	now := s.cfg.Now()
	if s.dirty || s.looked.Add(commitEvery).Before(now) {
		if err := s.commit(working); err != nil {
			// Until it is remembered that a mail was sent, nothing else is done: to
			// begin again at the committed position would double it.
			s.cfg.Logger.Warn("the mailer cannot commit its position and tries again", "partition",
				s.partition, "error", err)
			s.dirty = true
			_ = retry.Sleep(reading, commitAgain)
			return nil
		}
	}
	next := s.window.first()
	due := s.looked.Add(commitEvery)
	if next != nil {
		when := later(next.due, s.resume)
		if !when.After(now) {
			s.try(reading, working, next)
			return nil
		}
		due = earlier(due, when)
	}
	if s.window.room() <= 0 {
		_ = retry.Sleep(reading, due.Sub(now))
		return nil
	}
	return s.read(reading, max(due.Sub(now), time.Millisecond))
}

// read takes what the journal has, waiting for it for a while.
func (s *session) read(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := s.reader.Poll(ctx, min(pollMax, s.window.room()), s.take)
	if at := s.reader.Position(schemas.TopicJournal, s.partition); at > s.window.next {
		s.window.next, s.moved = at, true
		s.window.forget()
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (s *session) take(r streams.Record) error {
	if r.Header(schemas.HeaderType) != disabledFacts {
		return nil
	}
	f, err := schemas.DecodeFact(schemas.Read(r.Value, r))
	if err != nil {
		return retry.Permanent(fmt.Errorf("record %d of partition %d of the journal: %w", r.Offset,
			r.Partition, err))
	}
	disabled, ok := f.Body.(domain.EndpointDisabled)
	if ok && disabled.Reason != domain.DisabledManual {
		s.window.add(&notice{offset: r.Offset, fact: f, disabled: disabled})
	}
	return nil
}

// try sends a notice's mail and judges what became of it; the next step commits.
func (s *session) try(reading, working context.Context, n *notice) {
	if !s.membership.Fresh() {
		_ = retry.Sleep(reading, notOursPause)
		return
	}
	if s.hasTakenOver(s.partition, mailID(n.fact)) {
		s.settle(n)
		return
	}
	n.tries++
	if n.tries == 1 {
		n.since = s.cfg.Now()
	}
	mail, outcome, err := s.prepareMail(reading, n)
	if outcome == "" && err == nil {
		err = s.cfg.Sender.Send(working, mail)
	}
	if reading.Err() != nil && err != nil {
		return // the partition is given up: its next owner tries
	}
	if outcome == "" {
		outcome = s.judge(n, err)
	}
	s.report(n, outcome, err)
	if outcome == Sent {
		s.tookOver(s.partition, mailID(n.fact))
	}
	if outcome != Retried {
		s.settle(n)
	}
}

// settle has the next step commit that nothing more is to be done for a notice.
func (s *session) settle(n *notice) {
	s.window.settle(n)
	s.moved, s.dirty = true, true
}

// prepareMail gathers what a mail needs. An outcome means that there is none to
// send; an error, that it is not known yet.
func (s *session) prepareMail(
	ctx context.Context, n *notice,
) (mail Mail, outcome Outcome, err error) {
	waiting, cancel := context.WithTimeout(ctx, directoryMax)
	// what there is now is judged below
	_ = s.cfg.Directory.AwaitEndpoint(waiting, n.fact.Aggregate, n.fact.Version)
	cancel()
	e, a, err := s.parties(n)
	if errors.As(err, new(nobody)) {
		// A row that is not there was deleted, or has not arrived: tables, and even
		// partitions of one, are read at their own pace.
		confirming, cancel := context.WithTimeout(ctx, directoryMax)
		defer cancel()
		if late := s.cfg.Directory.Confirm(confirming); late != nil {
			return mail, "", unknown(late)
		}
		e, a, err = s.parties(n)
	}
	if errors.As(err, new(nobody)) {
		return mail, Nobody, err
	}
	if err != nil {
		return mail, "", unknown(err)
	}
	return s.compose(n, e, a.Email), "", nil
}

// nobody says why there is nobody to tell, as far as the directory has come.
type nobody string

func (n nobody) Error() string { return string(n) }

// parties are a notice's endpoint and its account, as the directory has them.
func (s *session) parties(n *notice) (e domain.Endpoint, a domain.Account, err error) {
	e, found, err := s.cfg.Directory.Endpoint(n.fact.Aggregate)
	if err != nil {
		return e, a, err
	}
	if !found || e.Deleted() {
		return e, a, nobody("the endpoint was deleted meanwhile")
	}
	a, found, err = s.cfg.Directory.Account(e.AccountID)
	if err != nil {
		return e, a, err
	}
	if !found || a.Email == "" {
		return e, a, nobody(fmt.Sprintf("account %s has no email address", e.AccountID))
	}
	return e, a, nil
}

// unknown is a temporary no to one mail: others may be known better.
func unknown(err error) error {
	return &Refusal{Temporary: true, Err: fmt.Errorf("asking the directory: %w", err)}
}

// judge says what a try led to, and when the next one is due.
func (s *session) judge(n *notice, err error) Outcome {
	now := s.cfg.Now()
	refusal, own := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		s.outage, s.resume = nil, time.Time{}
		return Sent
	case own && !refusal.Temporary:
		s.outage, s.resume = nil, time.Time{}
		return Refused
	case own && now.Sub(n.since) >= giveUpAfter:
		return GivenUp
	case n.tries >= giveUpTries && s.window.stuck() == n:
		return GivenUp
	}
	n.due = now.Add(s.next(&n.waits))
	if !own {
		// The next to be tried is another, if there is one: this mail may be what
		// the server stumbles over.
		s.resume = now.Add(s.next(&s.outage))
	}
	return Retried
}

// next is how long to wait after one more failure.
func (s *session) next(waits **retry.Backoff) time.Duration {
	if *waits == nil {
		*waits = retry.Policy{First: s.cfg.RetryFirst, Last: s.cfg.RetryLast}.Backoff()
	}
	return (*waits).Next()
}

// report tells of an outcome. Addresses stay out of the log.
func (s *session) report(n *notice, outcome Outcome, err error) {
	log := s.cfg.Logger.With("endpoint", n.fact.Aggregate, "mail", mailID(n.fact), "tries", n.tries)
	switch outcome {
	case Sent:
		log.Info("the account holder was told that an endpoint is disabled")
	case Retried:
		log.Warn("a mail could not be sent; it is tried again", "at", n.due, "error", err)
	case Refused, GivenUp:
		log.Error("nobody was told that an endpoint is disabled: the mail was not taken", "outcome",
			outcome, "error", err)
	case Nobody:
		log.Warn("there is nobody to tell that an endpoint is disabled", "error", err)
	}
	s.cfg.OnOutcome(outcome)
}

// commit remembers what is settled.
func (s *session) commit(ctx context.Context) error {
	s.looked = s.cfg.Now()
	at := s.window.position()
	if at == s.committed {
		s.dirty = false
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	if err := s.membership.Commit(ctx, s.partition, at); err != nil {
		return err
	}
	s.committed, s.dirty = at, false
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
