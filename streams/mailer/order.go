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
	directoryMax = 5 * time.Second        // to wait for the account's row
	notOursPause = 100 * time.Millisecond // between checks of the group's confirmation
)

// carryOut answers an order in the log, or sets it aside. After an error it must be taken again.
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
	return r.record(order, said)
}

type reply struct {
	answer domain.MailAnswer
	done   domain.MailDone
}

// answer sends an order's mail and returns its outcome, with the reason. An empty answer without an
// error means that the order has expired. A round that takes no more orders completes those that it
// has taken, if it has time.
func (r *round) answer(order domain.MailOrder) (reply, error) {
	account, err := r.account(order)
	if errors.As(err, new(noRecipient)) {
		return reply{answer: domain.MailNoAddress}, err
	}
	if err != nil {
		// other addresses may have an outcome
		return reply{domain.MailDeferred, order.Done}, err
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

// mail sends an order's mail to each address that is not done yet, as separate mails: no recipient
// sees another, and a refusal affects only one. If the server accepts no mail at all, the order
// expires, or its partition is given up, the next order continues with the remaining addresses.
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
			return reply{}, err // the partition's next owner tries again
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

func settled(done domain.MailDone) domain.MailAnswer {
	if len(done.Taken) > 0 {
		return domain.MailTaken
	}
	return domain.MailDeclined
}

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

// noRecipient is why there is no recipient.
type noRecipient string

func (n noRecipient) Error() string { return string(n) }

// account returns an order's account. It may have to wait for the row, because tables, and even a
// table's partitions, are read independently.
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
		return a, fmt.Errorf("reading the directory: %w", err)
	}
	if !found || a.Email == "" {
		return a, noRecipient(fmt.Sprintf("account %s has no email address", order.AccountID))
	}
	return a, nil
}

func (r *round) record(order domain.MailOrder, said reply) error {
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
	r.cfg.Logger.Error("a mail order was set aside; the partition continues (see lumenhook topics "+
		"cat dead-letters)",
		"partition", record.Partition, "offset", record.Offset, "error", why)
	if r.cfg.OnDeadLetter != nil {
		r.cfg.OnDeadLetter(record.Topic)
	}
	return nil
}

func (r *round) append(record kafka.Record) error {
	if err := r.producer.Append(r.working, record); err != nil {
		return fmt.Errorf("mailer: a mail may be sent again, because its outcome could not be "+
			"recorded: %w", err)
	}
	return nil
}

// report logs an answer, without addresses.
func (r *round) report(order domain.MailOrder, answer domain.MailAnswer, err error) {
	log := r.cfg.Logger.With("endpoint", order.EndpointID, "mail", mailID(order),
		"try", order.Number)
	switch answer {
	case domain.MailTaken:
		log.Info("the account holder was notified that an endpoint is disabled")
	case domain.MailDeferred, domain.MailUnserved:
		log.Warn("a mail could not be sent; it will be retried", "error", err)
	case domain.MailDeclined:
		log.Error("no mail about a disabled endpoint was sent: the server refused it", "error", err)
	case domain.MailNoAddress:
		log.Warn("no mail about a disabled endpoint was sent: there is no recipient", "error", err)
	}
}
