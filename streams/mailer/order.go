package mailer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	directoryMax = 5 * time.Second        // for the directory to have the account
	notOursPause = 100 * time.Millisecond // until the group is asked about again
)

// carryOut has an order answered in the log, or set aside. An error means that it is
// not: it is to be taken again.
func (r *round) carryOut(record kafka.Record) error {
	order, err := intake.MailOrder(record)
	if err != nil {
		return r.setAside(record, err)
	}
	key := order.ID() + "/" + strconv.Itoa(order.Number)
	said, known := r.answered.Get(key)
	if !known {
		if said, err = r.answer(order); said.answer == "" {
			return err
		}
		r.report(order, said.answer, err)
		r.answered.Add(key, said)
	}
	return r.tell(order, said)
}

// reply is what is answered to an order: what came of it, and at which addresses it is done.
type reply struct {
	answer domain.MailAnswer
	done   domain.MailDone
}

// answer sends an order's mail and judges what came of it, with the reason. No answer
// and no error: it is too late for the order, and another follows. A round that takes no
// more orders carries out those that it has taken, while it may: the next owner takes again
// what is not done, and all behind it.
func (r *round) answer(order domain.MailOrder) (reply, error) {
	account, err := r.account(order)
	if errors.As(err, new(nobody)) {
		return reply{answer: domain.MailNoAddress}, err
	}
	if err != nil {
		return reply{domain.MailDeferred, order.Done}, err // of others it may be known
	}
	select {
	case r.sending <- struct{}{}:
		defer func() { <-r.sending }()
	case <-r.working.Done():
		return reply{}, r.working.Err()
	}
	for !r.membership.Load().Fresh() {
		if err := retry.Sleep(r.working, notOursPause); err != nil {
			return reply{}, err
		}
	}
	if r.over(order) {
		return reply{}, nil
	}
	return r.mail(order, account.Emails())
}

func (r *round) over(order domain.MailOrder) bool {
	return r.cfg.Now().UnixMilli() > order.UntilMillis
}

// mail sends an order's mail to each address that has not settled it, a mail each: none sees
// another, and none that refuses keeps the next from its own. A server that takes no mail at all
// is asked no more; nor is any once the order's time is over, or its partition is given up: then
// the next order goes on with what is left.
func (r *round) mail(order domain.MailOrder, emails []string) (reply, error) {
	tags := make([]string, 0, len(emails))
	for _, email := range emails {
		tags = append(tags, domain.MailTag(order.AccountID, email))
	}
	said := reply{done: order.Done.Of(tags)}
	var why error
	for i, email := range emails {
		if said.done.Has(tags[i]) {
			continue
		}
		if said.answer != "" && (r.over(order) || r.reading.Err() != nil) {
			said.answer = domain.MailDeferred
			break
		}
		mail := r.compose(order, email)
		if i > 0 {
			mail.ID += "." + tags[i]
		}
		err := r.cfg.Sender.Send(r.working, mail)
		if err != nil && said.answer == "" && r.reading.Err() != nil {
			return reply{}, err // the partition is given up: its next owner tries
		}
		why = errors.Join(why, err)
		answer := judge(err)
		said.done = said.done.With(tags[i], answer)
		if answer == domain.MailUnserved {
			return reply{answer, said.done}, why
		}
		if said.answer != domain.MailDeferred {
			said.answer = answer
		}
	}
	if said.answer != domain.MailDeferred {
		said.answer = settled(said.done)
	}
	return said, why
}

// settled is the answer when no address is left to try.
func settled(done domain.MailDone) domain.MailAnswer {
	if len(done.Taken) > 0 {
		return domain.MailTaken
	}
	return domain.MailDeclined
}

// judge is what a Sender's answer means.
func judge(err error) domain.MailAnswer {
	refusal, own := errors.AsType[*Refusal](err)
	switch {
	case err == nil:
		return domain.MailTaken
	case own && refusal.Temporary:
		return domain.MailDeferred
	case own:
		return domain.MailDeclined
	}
	return domain.MailUnserved
}

// nobody says why there is nobody to tell, as far as the directory has come.
type nobody string

func (n nobody) Error() string { return string(n) }

// account is the one that an order is about. One that is not there has not arrived
// yet: tables, and even partitions of one, are read at their own pace.
func (r *round) account(order domain.MailOrder) (domain.Account, error) {
	a, found, err := r.cfg.Directory.Account(order.AccountID)
	if err == nil && !found {
		ctx, cancel := context.WithTimeout(r.working, directoryMax)
		defer cancel()
		if err = r.cfg.Directory.Confirm(ctx); err == nil {
			a, found, err = r.cfg.Directory.Account(order.AccountID)
		}
	}
	if err != nil {
		return a, fmt.Errorf("asking the directory: %w", err)
	}
	if !found || a.Email == "" {
		return a, nobody(fmt.Sprintf("account %s has no email address", order.AccountID))
	}
	return a, nil
}

// tell has the engine record the answer. Its command's identifier is a function of
// what it says.
func (r *round) tell(order domain.MailOrder, said reply) error {
	parts := slices.Concat([]string{"mail", order.ID(), strconv.Itoa(order.Number),
		string(said.answer)}, said.done.Taken, said.done.Refused)
	command := domain.Command{
		ID:             domain.DeriveID(domain.CommandPrefix, parts...),
		AccountID:      order.AccountID,
		IssuedAtMillis: r.cfg.Now().UnixMilli(),
		Body:           order.Answered(said.answer, said.done),
	}
	m := schemas.EncodeCommand(command)
	return r.append(kafka.NewRecord(schemas.TopicCommands, order.EndpointID, m.Value, m.EachHeader))
}

func (r *round) setAside(record kafka.Record, why error) error {
	letter := intake.DeadLetter(record, why, r.cfg.Now().UnixMilli())
	if err := r.append(intake.DeadLetterRecord(letter)); err != nil {
		return err
	}
	r.cfg.Logger.Error("an order of a mail was set aside; the partition goes on (lumenhook topics "+
		"cat dead-letters shows it)",
		"partition", record.Partition, "offset", record.Offset, "error", why)
	if r.cfg.OnDeadLetter != nil {
		r.cfg.OnDeadLetter(record.Topic)
	}
	return nil
}

func (r *round) append(record kafka.Record) error {
	if err := r.producer.Append(r.working, record); err != nil {
		return fmt.Errorf("mailer: a mail may be sent again, for its outcome could not be recorded: %w",
			err)
	}
	return nil
}

// report tells of an answer. Addresses stay out of the log.
func (r *round) report(order domain.MailOrder, answer domain.MailAnswer, err error) {
	log := r.cfg.Logger.With("endpoint", order.EndpointID, "mail", mailID(order),
		"try", order.Number)
	switch answer {
	case domain.MailTaken:
		log.Info("the account holder was told that an endpoint is disabled")
	case domain.MailDeferred, domain.MailUnserved:
		log.Warn("a mail could not be sent; it is tried again", "error", err)
	case domain.MailDeclined:
		log.Error("nobody was told that an endpoint is disabled: the mail was not taken", "error", err)
	case domain.MailNoAddress:
		log.Warn("there is nobody to tell that an endpoint is disabled", "error", err)
	}
}
