package mailer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wneessen/go-mail"
)

// message makes the mail's bytes: UTF-8, quoted-printable where needed. An
// address that is none is an error.
func message(m Mail, from string) (*mail.Msg, error) {
	msg := mail.NewMsg(mail.WithCharset(mail.CharsetUTF8), mail.WithEncoding(mail.EncodingQP))
	if err := msg.From(from); err != nil {
		return nil, fmt.Errorf("the sender's address is none: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return nil, &Refusal{Err: errors.New("the account's email is no address")}
	}
	msg.Subject(m.Subject)
	msg.SetDateWithValue(m.At.UTC())
	msg.SetMessageIDWithValue(m.ID + "@" + domainOf(from))
	// RFC 3834: no holiday notes, please.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Text)
	return msg, nil
}

// domainOf is the domain of an address that may have a name before it.
func domainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	return strings.TrimRight(address[at+1:], "> ")
}
