package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeMailOrder encodes a record of the topic "mails".
func EncodeMailOrder(o domain.MailOrder) Message {
	return pack("MailOrder", "", &kafka.MailOrder{
		EndpointId:         o.EndpointID,
		AccountId:          o.AccountID,
		Url:                o.URL,
		Description:        o.Description,
		Enabled:            o.Enabled,
		Notice:             o.Notice,
		AtMillis:           o.AtMillis,
		Reason:             string(o.Disabled.Reason),
		EventId:            o.Disabled.EventID,
		LastStatusCode:     uint32(o.Disabled.LastStatusCode),
		LastError:          string(o.Disabled.LastError),
		FailingSinceMillis: o.Disabled.FailingSinceMillis,
		Number:             uint32(o.Number),
		UntilMillis:        o.UntilMillis,
		Done:               mailDoneOut(o.Done),
	})
}

// DecodeMailOrder decodes a record of the topic "mails".
func DecodeMailOrder(m Message) (domain.MailOrder, error) {
	return decodeAs(m, "MailOrder", mailOrderIn)
}

func mailOrderIn(m *kafka.MailOrder) domain.MailOrder {
	return domain.MailOrder{
		EndpointID:  m.GetEndpointId(),
		AccountID:   m.GetAccountId(),
		URL:         m.GetUrl(),
		Description: m.GetDescription(),
		Enabled:     m.GetEnabled(),
		Notice:      m.GetNotice(),
		AtMillis:    m.GetAtMillis(),
		Disabled:    disabledIn(m),
		Number:      int(m.GetNumber()),
		UntilMillis: m.GetUntilMillis(),
		Done:        mailDoneIn(m.GetDone()),
	}
}

func disabledIn(m interface {
	GetReason() string
	GetEventId() string
	GetLastStatusCode() uint32
	GetLastError() string
	GetFailingSinceMillis() int64
}) domain.EndpointDisabled {
	return domain.EndpointDisabled{
		Reason:             domain.DisabledReason(m.GetReason()),
		EventID:            m.GetEventId(),
		LastStatusCode:     int(m.GetLastStatusCode()),
		LastError:          domain.AttemptError(m.GetLastError()),
		FailingSinceMillis: m.GetFailingSinceMillis(),
	}
}

func mailDoneOut(d domain.MailDone) *kafka.MailDone {
	if len(d.Taken)+len(d.Refused) == 0 {
		return nil
	}
	return &kafka.MailDone{Taken: d.Taken, Refused: d.Refused}
}

func mailDoneIn(m *kafka.MailDone) domain.MailDone {
	return domain.MailDone{Taken: m.GetTaken(), Refused: m.GetRefused()}
}

// MarshalNotice encodes a notice for a task's store.
func MarshalNotice(n domain.Notice) []byte {
	return pack("Notice", "", &kafka.Notice{
		EndpointId:         n.EndpointID,
		Version:            n.Version,
		AtMillis:           n.AtMillis,
		Reason:             string(n.Disabled.Reason),
		EventId:            n.Disabled.EventID,
		LastStatusCode:     uint32(n.Disabled.LastStatusCode),
		LastError:          string(n.Disabled.LastError),
		FailingSinceMillis: n.Disabled.FailingSinceMillis,
		State:              string(n.State),
		Number:             uint32(n.Number),
		Tries:              uint32(n.Tries),
		FirstAtMillis:      n.FirstAtMillis,
		NextAtMillis:       n.NextAtMillis,
		Done:               mailDoneOut(n.Done),
	}).Value
}

// UnmarshalNotice decodes a notice from a task's store.
func UnmarshalNotice(value []byte) (domain.Notice, error) {
	return unmarshalAs(value, func(m *kafka.Notice) domain.Notice {
		return domain.Notice{
			EndpointID:    m.GetEndpointId(),
			Version:       m.GetVersion(),
			AtMillis:      m.GetAtMillis(),
			Disabled:      disabledIn(m),
			State:         domain.NoticeState(m.GetState()),
			Number:        int(m.GetNumber()),
			Tries:         int(m.GetTries()),
			FirstAtMillis: m.GetFirstAtMillis(),
			NextAtMillis:  m.GetNextAtMillis(),
			Done:          mailDoneIn(m.GetDone()),
		}
	})
}

func recordMailOut(meta *kafka.CommandMeta, c domain.RecordMail) proto.Message {
	return &kafka.RecordMail{
		Meta:       meta,
		EndpointId: c.EndpointID,
		Notice:     c.Notice,
		Number:     uint32(c.Number),
		Answer:     string(c.Answer),
		Done:       mailDoneOut(c.Done),
	}
}

func recordMailIn(m *kafka.RecordMail) domain.CommandBody {
	return domain.RecordMail{
		EndpointID: m.GetEndpointId(),
		Notice:     m.GetNotice(),
		Number:     int(m.GetNumber()),
		Answer:     domain.MailAnswer(m.GetAnswer()),
		Done:       mailDoneIn(m.GetDone()),
	}
}

func noticeFactOut(meta *kafka.FactMeta, body domain.NoticeFact) proto.Message {
	switch b := body.(type) {
	case domain.MailOrdered:
		return &kafka.MailOrdered{
			Meta:         meta,
			Notice:       b.Notice,
			Number:       uint32(b.Number),
			NextAtMillis: b.NextAtMillis,
		}
	case domain.MailAttempted:
		return &kafka.MailAttempted{
			Meta:         meta,
			Notice:       b.Notice,
			Number:       uint32(b.Number),
			Outcome:      string(b.Outcome),
			NextAtMillis: b.NextAtMillis,
			Done:         mailDoneOut(b.Done),
		}
	}
	panic(noForm(body))
}

var noticeFactForms = map[string]factForm{
	"MailOrdered":   fact(mailOrderedIn),
	"MailAttempted": fact(mailAttemptedIn),
}

func mailOrderedIn(m *kafka.MailOrdered) domain.FactBody {
	return domain.MailOrdered{
		Notice:       m.GetNotice(),
		Number:       int(m.GetNumber()),
		NextAtMillis: m.GetNextAtMillis(),
	}
}

func mailAttemptedIn(m *kafka.MailAttempted) domain.FactBody {
	return domain.MailAttempted{
		Notice:       m.GetNotice(),
		Number:       int(m.GetNumber()),
		Outcome:      domain.MailOutcome(m.GetOutcome()),
		NextAtMillis: m.GetNextAtMillis(),
		Done:         mailDoneIn(m.GetDone()),
	}
}
