package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NoticeState is where a notice stands. One that is settled exists no more: its
// state is "".
type NoticeState string

// States of a notice.
//
//	WAITING ──due──► ORDERED ──sent, refused, given up, nobody──► (settled)
//	   ▲ ◄───the try failed──┘ │ ▲
//	                           └─┘ no answer in time: ordered again
const (
	NoticeWaiting NoticeState = "WAITING"
	NoticeOrdered NoticeState = "ORDERED" // a mailer has been asked, and its answer is awaited
)

// Bounds of a notice, in milliseconds.
const (
	// mailFirstWait is the wait after the first try that failed; each further one
	// doubles it, up to MailLastWait.
	mailFirstWait = 1000
	MailLastWait  = 5 * 60_000
	// MailGiveUpAfter is for how long a mail is tried that is refused for now.
	MailGiveUpAfter = 3 * 24 * 3_600_000
	// MailNewsFor is for how long it is worth a first mail that an endpoint was disabled.
	MailNewsFor = 7 * 24 * 3_600_000
	// MailOrderFor is for how long an order may be carried out. Another follows only
	// mailOrderGrace later, in which a mail that is being sent ends, and clocks may differ.
	MailOrderFor   = 3_600_000
	mailOrderGrace = 10 * 60_000
)

// MailOutcome is the outcome of a notice, or of one attempt to mail it.
type MailOutcome string

// Outcomes. All but MailRetried settle the notice.
const (
	MailSent    MailOutcome = "sent"
	MailRetried MailOutcome = "retried"  // this try failed; another follows
	MailRefused MailOutcome = "refused"  // by the server, for good
	MailGivenUp MailOutcome = "given_up" // after three days, or because it is old news
	MailNobody  MailOutcome = "nobody"   // the endpoint was deleted, or there is no address
)

// MailOutcomes lists all of them.
func MailOutcomes() []MailOutcome {
	return []MailOutcome{MailSent, MailRetried, MailRefused, MailGivenUp, MailNobody}
}

// MailAnswer is a mailer's answer to an order.
type MailAnswer string

// Answers of a mailer. Of several addresses one that asks for later makes the answer
// MailDeferred; else one that took the mail makes it MailTaken.
const (
	MailTaken     MailAnswer = "taken"      // the server has promised to deliver it
	MailDeferred  MailAnswer = "deferred"   // this mail was refused, and may be taken later
	MailDeclined  MailAnswer = "declined"   // this mail was refused, for good
	MailUnserved  MailAnswer = "unserved"   // no mail would have been taken
	MailNoAddress MailAnswer = "no_address" // there is no address to send it to
)

// Notice is the mail about one disabling of an endpoint that was not asked for. It
// is of the endpoint's aggregate, and named by the version of EndpointDisabled.
type Notice struct {
	EndpointID    string
	Version       uint64
	AtMillis      int64 // of the disabling
	Disabled      EndpointDisabled
	State         NoticeState
	Number        int   // of the latest order; 0: none
	Tries         int   // that were answered
	FirstAtMillis int64 // of the first order; 0: none
	NextAtMillis  int64 // when the next order is due, if nothing is heard before
	Done          MailDone
}

// MailDone names the addresses of an account at which a notice is settled, each by its [MailTag]:
// a mail that one of them refuses for now is tried again, and comes nowhere twice.
type MailDone struct {
	Taken   []string // a server has promised to deliver it there
	Refused []string // for good
}

// Has reports whether a notice is settled at an address.
func (d MailDone) Has(tag string) bool {
	return slices.Contains(d.Taken, tag) || slices.Contains(d.Refused, tag)
}

// Of returns the progress at some addresses.
func (d MailDone) Of(tags []string) MailDone {
	others := func(tag string) bool { return !slices.Contains(tags, tag) }
	return MailDone{
		Taken:   slices.DeleteFunc(slices.Clone(d.Taken), others),
		Refused: slices.DeleteFunc(slices.Clone(d.Refused), others),
	}
}

// With returns the progress after a mail was accepted or refused at one more address.
func (d MailDone) With(tag string, answer MailAnswer) MailDone {
	switch answer {
	case MailTaken:
		d.Taken = append(slices.Clone(d.Taken), tag)
	case MailDeclined:
		d.Refused = append(slices.Clone(d.Refused), tag)
	case MailDeferred, MailUnserved, MailNoAddress: // nothing is
	}
	return d
}

func (d MailDone) wellFormed() error {
	err := errors.Join(atMost("addresses that have a mail", len(d.Taken), MaxEmails),
		atMost("addresses that refused a mail", len(d.Refused), MaxEmails))
	for _, tag := range slices.Concat(d.Taken, d.Refused) {
		err = errors.Join(err, within("address", len(tag), 1, maxHashBytes))
	}
	return err
}

// MailTag names an address of an account where the address itself has no place.
func MailTag(accountID, email string) string { return DeriveID("", "mail to", accountID, email) }

// Exists reports whether the notice waits for something. A settled one does not.
func (n Notice) Exists() bool { return n.State != "" }

// ID names the notice within its partition.
func (n Notice) ID() string { return NoticeID(n.EndpointID, n.Version) }

// NoticeID names the notice about a disabling.
func NoticeID(endpointID string, version uint64) string {
	return endpointID + "/" + strconv.FormatUint(version, 10)
}

// EndpointOfNotice is the endpoint of a notice, by its identifier.
func EndpointOfNotice(id string) string {
	endpointID, _, _ := strings.Cut(id, "/")
	return endpointID
}

// MailOrder asks a mailer to tell an account holder that an endpoint is disabled. It
// has what the mail says of the endpoint, as it is when it is asked.
type MailOrder struct {
	EndpointID  string
	AccountID   string
	URL         string
	Description string
	Enabled     bool   // again, since
	Notice      uint64 // version of the EndpointDisabled
	AtMillis    int64  // of the disabling
	Disabled    EndpointDisabled
	Number      int
	UntilMillis int64 // nobody is to send it later: it is ordered again
	Done        MailDone
}

// ID names the order's notice: each order of it asks for the same mail.
func (o MailOrder) ID() string { return NoticeID(o.EndpointID, o.Notice) }

// WellFormed reports what of an order no mailer may be given, or nothing.
func (o MailOrder) WellFormed() error {
	return errors.Join(checkID("endpoint", EndpointPrefix, o.EndpointID),
		checkID("account", AccountPrefix, o.AccountID),
		within("order", o.Number, 1, maxCount), checkMillis("disabling", o.AtMillis),
		o.Done.wellFormed())
}

// Order is the order that the notice waits on.
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

// Answered is the command that answers the order: what came of it, and at which addresses the
// notice is settled by now.
func (o MailOrder) Answered(answer MailAnswer, done MailDone) RecordMail {
	return RecordMail{
		EndpointID: o.EndpointID,
		Notice:     o.Notice,
		Number:     o.Number,
		Answer:     answer,
		Done:       done,
	}
}

// DecideMail decides on a notice that is due: it is ordered, unless nobody is to be
// told any more. Without an answer in time it is due again.
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

// DecideMailAnswer decides on a mailer's answer to an order. An answer to any but the latest order
// has no effect, unless the mail was accepted: the account holder then has it, whichever order it
// was for.
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
	case MailUnserved: // it waits as long as it takes
	}
	return MailRetried
}

// MailWait is the wait after so many tries that failed.
func MailWait(tries int) int64 {
	wait := int64(mailFirstWait)
	for ; tries > 1 && wait < MailLastWait; tries-- {
		wait *= 2
	}
	return min(wait, MailLastWait)
}

// Notice returns the version of the disabling whose notice the fact is about; 0: it
// is about none.
func (f Fact) Notice() uint64 {
	switch body := f.Body.(type) {
	case EndpointDisabled:
		if body.Reason != DisabledManual { // who disables an endpoint knows
			return f.Version
		}
	case MailOrdered:
		return body.Notice
	case MailAttempted:
		return body.Notice
	default: // of no notice
	}
	return 0
}

// EvolveNotice folds a fact into the notice that it is about: that of [Fact.Notice].
func EvolveNotice(state Notice, f Fact) Notice {
	switch body := f.Body.(type) {
	case EndpointDisabled:
		body.Telling = Telling{} // the mail says nothing of it
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
	default: // about no notice
	}
	return state
}

func (c RecordMail) wellFormed() error {
	answers := []MailAnswer{MailTaken, MailDeferred, MailDeclined, MailUnserved, MailNoAddress}
	if !slices.Contains(answers, c.Answer) {
		return fmt.Errorf("no mailer answers %.40q", c.Answer)
	}
	return errors.Join(within("order", c.Number, 1, maxCount), c.Done.wellFormed())
}
