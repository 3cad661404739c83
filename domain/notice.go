package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NoticeState is the state of a notice, or "" once it is settled.
type NoticeState string

// States of a notice.
//
//	WAITING ──due──► ORDERED ──sent, refused, given up, nobody──► (settled)
//	   ▲ ◄──attempt failed──┘ │ ▲
//	                          └─┘ no answer in time: ordered again
const (
	NoticeWaiting NoticeState = "WAITING"
	NoticeOrdered NoticeState = "ORDERED" // waits for a mailer's answer
)

// Limits of notices, in milliseconds.
const (
	// mailFirstWait is the wait after the first failure. It doubles up to MailLastWait.
	mailFirstWait = 1000
	MailLastWait  = 5 * 60_000
	// MailGiveUpAfter is how long a mail is retried if a server refuses it temporarily.
	MailGiveUpAfter = 3 * 24 * 3_600_000
	// MailNewsFor is the maximum age of a disabling for a first mail to be sent.
	MailNewsFor = 7 * 24 * 3_600_000
	// MailOrderFor is how long an order is valid. The next order follows mailOrderGrace later, which
	// allows for a mail that is being sent and for clock differences.
	MailOrderFor   = 3_600_000
	mailOrderGrace = 10 * 60_000
)

// MailOutcome is the outcome of a notice or of one attempt to mail it.
type MailOutcome string

// Mail outcomes. All except MailRetried settle the notice.
const (
	MailSent    MailOutcome = "sent"
	MailRetried MailOutcome = "retried"  // this attempt failed; another one follows
	MailRefused MailOutcome = "refused"  // refused permanently by the server
	MailGivenUp MailOutcome = "given_up" // retried for three days, or the disabling is too old
	MailNobody  MailOutcome = "nobody"   // the endpoint was deleted, or the account has no address
)

// MailOutcomes returns all outcomes.
func MailOutcomes() []MailOutcome {
	return []MailOutcome{MailSent, MailRetried, MailRefused, MailGivenUp, MailNobody}
}

// MailAnswer is a mailer's answer to an order.
type MailAnswer string

// Answers of a mailer. If an account has several addresses, the answer is MailDeferred if any
// address deferred the mail, or else MailTaken if any accepted it.
const (
	MailTaken     MailAnswer = "taken"      // the server accepted the mail
	MailDeferred  MailAnswer = "deferred"   // the server refused this mail temporarily
	MailDeclined  MailAnswer = "declined"   // the server refused this mail permanently
	MailUnserved  MailAnswer = "unserved"   // no server accepts mail
	MailNoAddress MailAnswer = "no_address" // the account has no address
)

// Notice is a mail about an endpoint that the service disabled. It belongs to the endpoint's
// aggregate and is identified by the version of the EndpointDisabled fact.
type Notice struct {
	EndpointID    string
	Version       uint64
	AtMillis      int64 // time of the disabling
	Disabled      EndpointDisabled
	State         NoticeState
	Number        int   // the latest order's number; 0 if there is none
	Tries         int   // answered orders
	FirstAtMillis int64 // time of the first order; 0 if there is none
	NextAtMillis  int64 // time of the next order if no answer arrives
	Done          MailDone
}

// MailDone lists the [MailTag]s of the addresses that are settled, which a retry skips.
type MailDone struct {
	Taken   []string
	Refused []string
}

// Has reports whether the notice is settled at an address.
func (d MailDone) Has(tag string) bool {
	return slices.Contains(d.Taken, tag) || slices.Contains(d.Refused, tag)
}

// Of returns the entries of the given addresses.
func (d MailDone) Of(tags []string) MailDone {
	others := func(tag string) bool { return !slices.Contains(tags, tag) }
	return MailDone{
		Taken:   slices.DeleteFunc(slices.Clone(d.Taken), others),
		Refused: slices.DeleteFunc(slices.Clone(d.Refused), others),
	}
}

// With returns d after an address accepted or permanently refused the mail.
func (d MailDone) With(tag string, answer MailAnswer) MailDone {
	switch answer {
	case MailTaken:
		d.Taken = append(slices.Clone(d.Taken), tag)
	case MailDeclined:
		d.Refused = append(slices.Clone(d.Refused), tag)
	case MailDeferred, MailUnserved, MailNoAddress: // not settled
	}
	return d
}

func (d MailDone) wellFormed() error {
	err := errors.Join(atMost("addresses that accepted a mail", len(d.Taken), MaxEmails),
		atMost("addresses that refused a mail", len(d.Refused), MaxEmails))
	for _, tag := range slices.Concat(d.Taken, d.Refused) {
		err = errors.Join(err, within("address", len(tag), 1, maxHashBytes))
	}
	return err
}

// MailTag returns an ID of an account's address that doesn't reveal the address.
func MailTag(accountID, email string) string { return DeriveID("", "mail to", accountID, email) }

// Exists reports whether the notice is not yet settled.
func (n Notice) Exists() bool { return n.State != "" }

// ID returns the notice's ID, which is unique within its partition.
func (n Notice) ID() string { return NoticeID(n.EndpointID, n.Version) }

// NoticeID returns the ID of the notice about a disabling.
func NoticeID(endpointID string, version uint64) string {
	return endpointID + "/" + strconv.FormatUint(version, 10)
}

// EndpointOfNotice returns the endpoint ID in a notice's ID.
func EndpointOfNotice(id string) string {
	endpointID, _, _ := strings.Cut(id, "/")
	return endpointID
}

// MailOrder orders the mail about a disabled endpoint, with the endpoint's state at that time.
type MailOrder struct {
	EndpointID  string
	AccountID   string
	URL         string
	Description string
	Enabled     bool   // the endpoint has been enabled since
	Notice      uint64 // version of the EndpointDisabled fact
	AtMillis    int64  // time of the disabling
	Disabled    EndpointDisabled
	Number      int
	UntilMillis int64 // the order's expiry; another order follows
	Done        MailDone
}

// ID returns the ID of the order's notice. All orders of a notice are for the same mail.
func (o MailOrder) ID() string { return NoticeID(o.EndpointID, o.Notice) }

// WellFormed returns nil if the order can be carried out, or an error that explains why not.
func (o MailOrder) WellFormed() error {
	return errors.Join(checkID("endpoint", EndpointPrefix, o.EndpointID),
		checkID("account", AccountPrefix, o.AccountID),
		within("order", o.Number, 1, maxCount), checkMillis("disabling", o.AtMillis),
		o.Done.wellFormed())
}

// Order returns the notice's latest order.
func (n Notice) Order(e Endpoint) MailOrder {
	return MailOrder{
		EndpointID:  e.ID,
		AccountID:   e.AccountID,
		URL:         e.URL,
		Description: e.Description,
		Enabled:     e.Sends(),
		Notice:      n.Version,
		AtMillis:    n.AtMillis,
		Disabled:    n.Disabled,
		Number:      n.Number,
		UntilMillis: n.NextAtMillis - mailOrderGrace,
		Done:        n.Done,
	}
}

// Answered returns the command that records the answer to the order.
func (o MailOrder) Answered(answer MailAnswer, done MailDone) RecordMail {
	return RecordMail{
		EndpointID: o.EndpointID,
		Notice:     o.Notice,
		Number:     o.Number,
		Answer:     answer,
		Done:       done,
	}
}

// DecideMail decides a due notice. It orders the mail, unless the endpoint was deleted or the
// disabling is too old. Without an answer in time, the notice becomes due again.
func DecideMail(endpoint Endpoint, notice Notice, nowMillis int64) []FactBody {
	settled := MailAttempted{Notice: notice.Version, Number: notice.Number + 1}
	switch {
	case !notice.Exists():
		return nil
	case endpoint.Deleted():
		settled.Outcome = MailNobody
		return []FactBody{settled}
	case notice.Tries == 0 && nowMillis-notice.AtMillis > MailNewsFor:
		settled.Outcome = MailGivenUp
		return []FactBody{settled}
	}
	return []FactBody{MailOrdered{
		Notice:       notice.Version,
		Number:       notice.Number + 1,
		NextAtMillis: nowMillis + MailOrderFor + mailOrderGrace,
	}}
}

// DecideMailAnswer decides a mailer's answer to an order. Only the answer to the latest order
// counts, unless the mail was accepted: then the account holder has it, whichever order it was for.
func DecideMailAnswer(notice Notice, c RecordMail, nowMillis int64) []FactBody {
	sent := c.Answer == MailTaken && c.Number <= notice.Number
	if !notice.Exists() || !sent && (notice.State != NoticeOrdered || c.Number != notice.Number) {
		return nil
	}
	made := MailAttempted{Notice: c.Notice, Number: c.Number}
	made.Outcome = notice.outcome(c.Answer, nowMillis)
	if made.Outcome == MailRetried {
		made.NextAtMillis, made.Done = nowMillis+MailWait(notice.Tries+1), c.Done
	}
	return []FactBody{made}
}

func (n Notice) outcome(answer MailAnswer, nowMillis int64) MailOutcome {
	switch answer {
	case MailTaken:
		return MailSent
	case MailDeclined:
		return MailRefused
	case MailNoAddress:
		return MailNobody
	case MailDeferred:
		if nowMillis-n.FirstAtMillis >= MailGiveUpAfter {
			return MailGivenUp
		}
	case MailUnserved: // retried without a limit
	}
	return MailRetried
}

// MailWait returns the wait after the given number of failures.
func MailWait(tries int) int64 {
	wait := int64(mailFirstWait)
	for ; tries > 1 && wait < MailLastWait; tries-- {
		wait *= 2
	}
	return min(wait, MailLastWait)
}

// Notice returns the version of the EndpointDisabled whose notice the fact is about, or 0.
func (f Fact) Notice() uint64 {
	switch body := f.Body.(type) {
	case EndpointDisabled:
		if body.Reason != DisabledManual { // users get no mail about their own requests
			return f.Version
		}
	case MailOrdered:
		return body.Notice
	case MailAttempted:
		return body.Notice
	default:
	}
	return 0
}

// EvolveNotice applies a fact to the notice that [Fact.Notice] identifies.
func EvolveNotice(state Notice, f Fact) Notice {
	switch body := f.Body.(type) {
	case EndpointDisabled:
		body.Telling = Telling{} // not part of the mail
		return Notice{
			EndpointID:   f.Aggregate,
			Version:      f.Version,
			AtMillis:     f.AtMillis,
			Disabled:     body,
			State:        NoticeWaiting,
			NextAtMillis: f.AtMillis,
		}
	case MailOrdered:
		if state.FirstAtMillis == 0 {
			state.FirstAtMillis = f.AtMillis
		}
		state.State, state.Number = NoticeOrdered, body.Number
		state.NextAtMillis = body.NextAtMillis
	case MailAttempted:
		if body.Outcome != MailRetried {
			return Notice{}
		}
		state.State, state.NextAtMillis, state.Done = NoticeWaiting, body.NextAtMillis, body.Done
		state.Tries++
	default:
	}
	return state
}

func (c RecordMail) wellFormed() error {
	answers := []MailAnswer{MailTaken, MailDeferred, MailDeclined, MailUnserved, MailNoAddress}
	if !slices.Contains(answers, c.Answer) {
		return fmt.Errorf("unknown mailer answer %.40q", c.Answer)
	}
	return errors.Join(within("order", c.Number, 1, maxCount), c.Done.wellFormed())
}
