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

const (
	maxURLRunes         = 2048
	maxDescriptionRunes = 500
)

// Mail is a plain-text mail. A Sender must reject or encode invalid characters of To and Subject.
type Mail struct {
	ID      string // unique, and the same when the mail is repeated: the left part of the Message-ID
	To      string
	Subject string
	Text    string
	At      time.Time
}

// mailID returns the id of an order's mail, which is the same for all orders of a notice.
func mailID(o domain.MailOrder) string {
	return fmt.Sprintf("endpoint-disabled.%s.%d", o.EndpointID, o.Notice)
}

// compose writes the mail. Client text is on separate lines, never at the beginning.
func (m *Mailer) compose(o domain.MailOrder, to string) Mail {
	reason, subject := m.reason(o)
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Lumenhook has disabled one of your webhook endpoints. It sends nothing to it")
	line("until you enable it again.")
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
		line("It has been enabled again since, so only step 3 below may still apply.")
	}
	line("")
	line("Events for this endpoint are still recorded. They wait until you enable it, and so")
	line("do deliveries that have attempts left. No event is lost.")
	m.composeSteps(line, o)
	return Mail{ID: mailID(o), To: to, Subject: subject, Text: b.String(), At: m.cfg.Now()}
}

func (m *Mailer) composeSteps(line func(string, ...any), o domain.MailOrder) {
	// An event may be older than the first failed attempt, by the time of all its attempts.
	began := cmp.Or(o.Disabled.FailingSinceMillis, o.AtMillis)
	since := domain.FormatMillis(began - m.cfg.RunTime.Milliseconds())
	line("")
	line("What to do:")
	line("")
	line("  1. Fix the receiver, or set another URL for the endpoint:")
	line("       PATCH /v1/endpoints/%s  {\"url\":\"https://...\"}", o.EndpointID)
	line("  2. Enable the endpoint. Lumenhook then sends what is pending:")
	line("       POST /v1/endpoints/%s/enable", o.EndpointID)
	line("  3. Deliveries that used up all their attempts stay FAILED. Replay those since")
	line("     the problem began, at most 1,000 at a time. For example:")
	line("       POST /v1/endpoints/%s/replay  {\"since\":%q}", o.EndpointID, since)
	line("")
	line("To see the receiver's response to each attempt:")
	line("  GET /v1/events/%s", o.Disabled.EventID)
	line("")
	line("If you no longer need the endpoint, delete it:")
	line("  DELETE /v1/endpoints/%s", o.EndpointID)
}

func (m *Mailer) reason(o domain.MailOrder) (sentence, subject string) {
	subject = "Webhook endpoint " + o.EndpointID + " is disabled: "
	if o.Disabled.Reason == domain.DisabledGone {
		return "its receiver answered 410 Gone, which asks Lumenhook to stop sending", subject +
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

// message returns the mail in UTF-8, quoted-printable if needed.
func message(m Mail, from string) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8), mail.WithEncoding(mail.EncodingQP))
	if err := msg.From(from); err != nil {
		return nil, fmt.Errorf("the sender's address is invalid: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return nil, &Refusal{Err: errors.New("the account's email address is invalid")}
	}
	msg.Subject(m.Subject)
	msg.SetDateWithValue(m.At.UTC())
	msg.SetMessageIDWithValue(m.ID + "@" + domainOf(from))
	// Prevents out-of-office replies (RFC 3834).
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	return msg, nil
}

func domainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	return strings.TrimRight(address[at+1:], "> ")
}
