package mailer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/wneessen/go-mail"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of the client's text in a mail.
const (
	maxURLRunes         = 2048
	maxDescriptionRunes = 500
)

// Mail is one plain-text mail. A Sender puts To and Subject into the header, and must refuse or
// encode invalid characters.
type Mail struct {
	ID      string // unique, and the same each time this mail is sent: the left part of the Message-ID
	To      string
	Subject string
	Text    string
	At      time.Time
}

// mailID returns the id of the mail of an order. All orders of a notice have the same.
func mailID(o domain.MailOrder) string {
	return fmt.Sprintf("endpoint-disabled.%s.%d", o.EndpointID, o.Notice)
}

// compose writes the mail to the account holder. Client text is on separate lines, never at the
// beginning of one.
func (m *Mailer) compose(o domain.MailOrder, to string) Mail {
	reason, subject := m.reason(o)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Lumenhook has disabled one of your webhook endpoints: nothing is sent to it")
	line("until it is enabled again.")
	line("")
	line("  Endpoint     %s", o.EndpointID)
	line("  URL          %s", oneLine(o.URL, maxURLRunes))
	if o.Description != "" {
		line("  Description  %s", oneLine(o.Description, maxDescriptionRunes))
	}
	line("  Disabled at  %s", domain.FormatMillis(o.AtMillis))
	line("  Why          %s", reason)
	line("  Last event   %s", o.Disabled.EventID)
	line("  Last answer  %s", lastAnswer(o.Disabled))
	if o.Enabled {
		line("")
		line("It has been enabled again since, so only step 3 below may be left to do.")
	}
	line("")
	line("What waits: events for this endpoint are recorded as before. They wait, and so")
	line("do the deliveries that have attempts left. None of them is lost.")
	m.composeSteps(line, o)
	return Mail{ID: mailID(o), To: to, Subject: subject, Text: b.String(), At: m.cfg.Now()}
}

func (m *Mailer) composeSteps(line func(string, ...any), o domain.MailOrder) {
	// An event may be a whole run older than the first failed attempt since the last success.
	began := cmp.Or(o.Disabled.FailingSinceMillis, o.AtMillis)
	since := domain.FormatMillis(began - m.cfg.RunTime.Milliseconds())
	line("")
	line("What to do:")
	line("")
	line("  1. Repair the receiver, or give the endpoint another URL:")
	line("       PATCH /v1/endpoints/%s  {\"url\":\"https://...\"}", o.EndpointID)
	line("  2. Enable the endpoint. What waits is sent then:")
	line("       POST /v1/endpoints/%s/enable", o.EndpointID)
	line("  3. Deliveries that used up all their attempts are FAILED and stay so. Replay")
	line("     those since the trouble began, at most 1,000 at a time. For example:")
	line("       POST /v1/endpoints/%s/replay  {\"since\":%q}", o.EndpointID, since)
	line("")
	line("What the receiver answered to each attempt:")
	line("  GET /v1/events/%s", o.Disabled.EventID)
	line("")
	line("If the endpoint is needed no more, delete it:")
	line("  DELETE /v1/endpoints/%s", o.EndpointID)
}

// reason returns the reason of the disabling, as a sentence and for the subject.
func (m *Mailer) reason(o domain.MailOrder) (sentence, subject string) {
	subject = "Webhook endpoint " + o.EndpointID + " is disabled: "
	if o.Disabled.Reason == domain.DisabledGone {
		return "its receiver answered 410 Gone, which asks never to be sent to again", subject +
			"410 Gone"
	}
	failed := "many events in a row failed"
	if m.cfg.DisableAfter > 0 {
		failed = fmt.Sprintf("%d events in a row failed", m.cfg.DisableAfter)
	}
	return failed + ", each at every attempt", subject + failed
}

func lastAnswer(d domain.EndpointDisabled) string {
	return domain.AttemptResult{StatusCode: d.LastStatusCode, Error: d.LastError}.Answer()
}

// oneLine makes free text printable on one line of bounded length.
func oneLine(text string, maxRunes int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
	if len(runes) > maxRunes {
		return string(runes[:maxRunes]) + "…"
	}
	return string(runes)
}

// message returns the mail's bytes: UTF-8, quoted-printable where needed. An invalid address is an
// error.
func message(m Mail, from string) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8), mail.WithEncoding(mail.EncodingQP))
	if err := msg.From(from); err != nil {
		return nil, fmt.Errorf("the sender's address is invalid: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return nil, &Refusal{Err: errors.New("the account's email is no address")}
	}
	msg.Subject(m.Subject)
	msg.SetDateWithValue(m.At.UTC())
	msg.SetMessageIDWithValue(m.ID + "@" + domainOf(from))
	// RFC 3834: prevents out-of-office replies.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	return msg, nil
}

// domainOf returns the domain of an address, which may include a display name.
func domainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	return strings.TrimRight(address[at+1:], "> ")
}
