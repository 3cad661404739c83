package schemas

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeFact writes a fact of the journal.
func EncodeFact(f domain.Fact) Message {
	meta := &kafka.FactMeta{Aggregate: f.Aggregate, Version: f.Version, AtMillis: f.AtMillis}
	return pack(f.Body.FactType(), f.Cause, factOut(meta, f.Body))
}

func factOut(meta *kafka.FactMeta, body domain.FactBody) proto.Message {
	switch b := body.(type) {
	case domain.AccountCreated:
		return &kafka.AccountCreated{Meta: meta, AccountId: b.AccountID, Email: b.Email}
	case domain.KeyCreated:
		return &kafka.KeyCreated{Meta: meta, Key: keyOut(b.Key)}
	case domain.EndpointCreated:
		return &kafka.EndpointCreated{Meta: meta, EndpointId: b.EndpointID, AccountId: b.AccountID, Url: b.URL, Description: b.Description, Secret: secretOut(b.Secret)}
	case domain.WatchCreated:
		return &kafka.WatchCreated{Meta: meta, Watch: watchOut(b.Watch)}
	case domain.DeliveryCreated:
		return &kafka.DeliveryCreated{Meta: meta, AccountId: b.AccountID, EndpointId: b.EndpointID, WatchId: b.WatchID, WalletAddress: b.WalletAddress, Event: eventOut(b.Event)}
	case domain.AttemptMade:
		r := b.Result
		return &kafka.AttemptMade{
			Meta: meta, EventId: b.EventID, EventType: string(b.EventType), Number: uint32(b.Number), Run: uint32(b.Run),
			SentAtMillis: r.SentAtMillis, DurationMillis: r.DurationMillis, StatusCode: uint32(r.StatusCode), Error: string(r.Error), ResponseBody: r.ResponseBody,
			State: string(b.State), NextAttemptAtMillis: b.NextAttemptAtMillis,
		}
	case domain.DeliveryCancelled:
		return &kafka.DeliveryCancelled{Meta: meta, EventId: b.EventID}
	case domain.CommandHandled:
		return &kafka.CommandHandled{Meta: meta, CommandId: b.CommandID, BodyHash: b.BodyHash, Answer: answerOut(b.Answer)}
	}
	panic(fmt.Sprintf("schemas: fact type %T has no Protobuf form", body))
}

// factForms gives, for each fact type, an empty message and how its body is
// read out of it.
var factForms = map[string]func() factForm{
	"AccountCreated":    func() factForm { return form(&kafka.AccountCreated{}, accountCreatedIn) },
	"KeyCreated":        func() factForm { return form(&kafka.KeyCreated{}, keyCreatedIn) },
	"EndpointCreated":   func() factForm { return form(&kafka.EndpointCreated{}, endpointCreatedIn) },
	"WatchCreated":      func() factForm { return form(&kafka.WatchCreated{}, watchCreatedIn) },
	"DeliveryCreated":   func() factForm { return form(&kafka.DeliveryCreated{}, deliveryCreatedIn) },
	"AttemptMade":       func() factForm { return form(&kafka.AttemptMade{}, attemptMadeIn) },
	"DeliveryCancelled": func() factForm { return form(&kafka.DeliveryCancelled{}, deliveryCancelledIn) },
	"CommandHandled":    func() factForm { return form(&kafka.CommandHandled{}, commandHandledIn) },
}

type factForm struct {
	message proto.Message
	meta    func() *kafka.FactMeta
	body    func() domain.FactBody
}

func form[M interface {
	proto.Message
	GetMeta() *kafka.FactMeta
}](m M, in func(M) domain.FactBody) factForm {
	return factForm{message: m, meta: m.GetMeta, body: func() domain.FactBody { return in(m) }}
}

// DecodeFact reads a fact of the journal.
func DecodeFact(m Message) (domain.Fact, error) {
	newForm, known := factForms[m.Type]
	if !known {
		return domain.Fact{}, fmt.Errorf("schemas: the journal holds a fact of type %q, which this program does not know: run a newer lumenhook", m.Type)
	}
	f := newForm()
	if err := unpack(m, f.message); err != nil {
		return domain.Fact{}, err
	}
	meta := f.meta()
	return domain.Fact{Aggregate: meta.GetAggregate(), Version: meta.GetVersion(), AtMillis: meta.GetAtMillis(), Cause: m.Cause, Body: f.body()}, nil
}

func accountCreatedIn(m *kafka.AccountCreated) domain.FactBody {
	return domain.AccountCreated{AccountID: m.GetAccountId(), Email: m.GetEmail()}
}

func keyCreatedIn(m *kafka.KeyCreated) domain.FactBody {
	return domain.KeyCreated{Key: keyIn(m.GetKey())}
}

func endpointCreatedIn(m *kafka.EndpointCreated) domain.FactBody {
	return domain.EndpointCreated{EndpointID: m.GetEndpointId(), AccountID: m.GetAccountId(), URL: m.GetUrl(), Description: m.GetDescription(), Secret: secretIn(m.GetSecret())}
}

func watchCreatedIn(m *kafka.WatchCreated) domain.FactBody {
	return domain.WatchCreated{Watch: watchIn(m.GetWatch())}
}

func deliveryCreatedIn(m *kafka.DeliveryCreated) domain.FactBody {
	return domain.DeliveryCreated{AccountID: m.GetAccountId(), EndpointID: m.GetEndpointId(), WatchID: m.GetWatchId(), WalletAddress: m.GetWalletAddress(), Event: eventIn(m.GetEvent())}
}

func attemptMadeIn(m *kafka.AttemptMade) domain.FactBody {
	return domain.AttemptMade{
		EventID: m.GetEventId(), EventType: domain.EventType(m.GetEventType()), Number: int(m.GetNumber()), Run: int(m.GetRun()),
		Result: domain.AttemptResult{
			SentAtMillis: m.GetSentAtMillis(), DurationMillis: m.GetDurationMillis(), StatusCode: int(m.GetStatusCode()),
			Error: domain.AttemptError(m.GetError()), ResponseBody: m.GetResponseBody(),
		},
		State: domain.DeliveryState(m.GetState()), NextAttemptAtMillis: m.GetNextAttemptAtMillis(),
	}
}

func deliveryCancelledIn(m *kafka.DeliveryCancelled) domain.FactBody {
	return domain.DeliveryCancelled{EventID: m.GetEventId()}
}

func commandHandledIn(m *kafka.CommandHandled) domain.FactBody {
	return domain.CommandHandled{CommandID: m.GetCommandId(), BodyHash: m.GetBodyHash(), Answer: answerIn(m.GetAnswer())}
}
