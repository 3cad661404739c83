package schemas

import (
	"bytes"
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
	case domain.KeyRolled:
		return &kafka.KeyRolled{
			Meta:            meta,
			KeyId:           b.KeyID,
			ExpiresAtMillis: b.ExpiresAtMillis,
			Key:             keyOut(b.Key),
		}
	case domain.KeyRevoked:
		return &kafka.KeyRevoked{Meta: meta, KeyId: b.KeyID}
	case domain.EndpointCreated:
		return &kafka.EndpointCreated{
			Meta:               meta,
			EndpointId:         b.EndpointID,
			AccountId:          b.AccountID,
			Url:                b.URL,
			Description:        b.Description,
			Secret:             secretOut(b.Secret),
			Headers:            mapped(b.Headers, headerOut),
			RateLimitPerSecond: uint32(b.RateLimitPerSecond),
		}
	case domain.EndpointUpdated:
		return &kafka.EndpointUpdated{Meta: meta, Change: endpointChangeOut(b.Change)}
	case domain.SecretRotated:
		return &kafka.SecretRotated{Meta: meta, Secret: secretOut(b.Secret)}
	case domain.SecretsResealed:
		return &kafka.SecretsResealed{
			Meta:    meta,
			Secrets: mapped(b.Secrets, secretOut),
			Headers: mapped(b.Headers, headerOut),
		}
	case domain.EndpointDisabled:
		return &kafka.EndpointDisabled{
			Meta:           meta,
			Reason:         string(b.Reason),
			EventId:        b.EventID,
			LastStatusCode: uint32(b.LastStatusCode),
			LastError:      string(b.LastError),
		}
	case domain.EndpointEnabled:
		return &kafka.EndpointEnabled{Meta: meta}
	case domain.EndpointDeleted:
		return &kafka.EndpointDeleted{Meta: meta}
	case domain.WatchCreated:
		return &kafka.WatchCreated{Meta: meta, Watch: watchOut(b.Watch)}
	case domain.WatchUpdated:
		return &kafka.WatchUpdated{Meta: meta, Change: watchChangeOut(b.Change)}
	case domain.WatchDeleted:
		return &kafka.WatchDeleted{Meta: meta}
	case domain.BackfillRequested:
		return &kafka.BackfillRequested{Meta: meta, From: b.From, To: b.To}
	case domain.RangeCovered:
		return &kafka.RangeCovered{
			Meta:      meta,
			Request:   b.Request,
			From:      b.From,
			To:        b.To,
			Until:     b.Until,
			LiveSince: b.LiveSince,
		}
	case domain.PartBegun:
		return &kafka.PartBegun{Meta: meta, Request: b.Request, From: b.From, To: b.To}
	case domain.BackfillStopped:
		return &kafka.BackfillStopped{Meta: meta, Request: b.Request, Problem: b.Problem}
	}
	return deliveryFactOut(meta, body)
}

func deliveryFactOut(meta *kafka.FactMeta, body domain.FactBody) proto.Message {
	switch b := body.(type) {
	case domain.DeliveryCreated:
		return &kafka.DeliveryCreated{
			Meta:              meta,
			AccountId:         b.AccountID,
			EndpointId:        b.EndpointID,
			WatchId:           b.WatchID,
			WalletAddress:     b.WalletAddress,
			Event:             eventOut(b.Event),
			TestBodyHash:      b.TestBodyHash,
			Moves:             uint32(b.Moved.Moves),
			Attempts:          uint32(b.Moved.Attempts),
			Runs:              uint32(b.Moved.Runs),
			FormerEndpointIds: b.Moved.FormerEndpointIDs,
		}
	case domain.AttemptMade:
		r := b.Result
		return &kafka.AttemptMade{
			Meta:                meta,
			EventId:             b.EventID,
			EventType:           string(b.EventType),
			Number:              uint32(b.Number),
			Run:                 uint32(b.Run),
			SentAtMillis:        r.SentAtMillis,
			DurationMillis:      r.DurationMillis,
			StatusCode:          uint32(r.StatusCode),
			Error:               string(r.Error),
			ResponseBody:        r.ResponseBody,
			State:               string(b.State),
			NextAttemptAtMillis: b.NextAttemptAtMillis,
		}
	case domain.DeliveryRequeued:
		return &kafka.DeliveryRequeued{
			Meta:                meta,
			EventId:             b.EventID,
			Run:                 uint32(b.Run),
			NextAttemptAtMillis: b.NextAttemptAtMillis,
			Reason:              string(b.Reason),
		}
	case domain.DeliveryCancelled:
		return &kafka.DeliveryCancelled{Meta: meta, EventId: b.EventID}
	case domain.DeliveryMoved:
		return &kafka.DeliveryMoved{
			Meta:         meta,
			EventId:      b.EventID,
			ToEndpointId: b.ToEndpointID,
			Moves:        uint32(b.Moves),
		}
	case domain.CommandHandled:
		return &kafka.CommandHandled{
			Meta:      meta,
			CommandId: b.CommandID,
			BodyHash:  b.BodyHash,
			Answer:    answerOut(b.Answer),
		}
	}
	panic(fmt.Sprintf("schemas: fact type %T has no Protobuf form", body))
}

// factForms gives, for each fact type, an empty message and how its body is
// read out of it.
var factForms = map[string]func() factForm{
	"AccountCreated":  func() factForm { return form(&kafka.AccountCreated{}, accountCreatedIn) },
	"KeyCreated":      func() factForm { return form(&kafka.KeyCreated{}, keyCreatedIn) },
	"KeyRolled":       func() factForm { return form(&kafka.KeyRolled{}, keyRolledIn) },
	"KeyRevoked":      func() factForm { return form(&kafka.KeyRevoked{}, keyRevokedIn) },
	"EndpointCreated": func() factForm { return form(&kafka.EndpointCreated{}, endpointCreatedIn) },
	"EndpointUpdated": func() factForm { return form(&kafka.EndpointUpdated{}, endpointUpdatedIn) },
	"SecretRotated":   func() factForm { return form(&kafka.SecretRotated{}, secretRotatedIn) },
	"SecretsResealed": func() factForm { return form(&kafka.SecretsResealed{}, secretsResealedIn) },
	"EndpointDisabled": func() factForm {
		return form(&kafka.EndpointDisabled{},
			endpointDisabledIn)
	},
	"EndpointEnabled": func() factForm { return form(&kafka.EndpointEnabled{}, endpointEnabledIn) },
	"EndpointDeleted": func() factForm { return form(&kafka.EndpointDeleted{}, endpointDeletedIn) },
	"WatchCreated":    func() factForm { return form(&kafka.WatchCreated{}, watchCreatedIn) },
	"WatchUpdated":    func() factForm { return form(&kafka.WatchUpdated{}, watchUpdatedIn) },
	"WatchDeleted":    func() factForm { return form(&kafka.WatchDeleted{}, watchDeletedIn) },
	"BackfillRequested": func() factForm {
		return form(&kafka.BackfillRequested{},
			backfillRequestedIn)
	},
	"RangeCovered":    func() factForm { return form(&kafka.RangeCovered{}, rangeCoveredIn) },
	"PartBegun":       func() factForm { return form(&kafka.PartBegun{}, partBegunIn) },
	"BackfillStopped": func() factForm { return form(&kafka.BackfillStopped{}, backfillStoppedIn) },
	"DeliveryCreated": func() factForm { return form(&kafka.DeliveryCreated{}, deliveryCreatedIn) },
	"AttemptMade":     func() factForm { return form(&kafka.AttemptMade{}, attemptMadeIn) },
	"DeliveryRequeued": func() factForm {
		return form(&kafka.DeliveryRequeued{},
			deliveryRequeuedIn)
	},
	"DeliveryCancelled": func() factForm {
		return form(&kafka.DeliveryCancelled{},
			deliveryCancelledIn)
	},
	"DeliveryMoved":  func() factForm { return form(&kafka.DeliveryMoved{}, deliveryMovedIn) },
	"CommandHandled": func() factForm { return form(&kafka.CommandHandled{}, commandHandledIn) },
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
	f, err := DecodeFactInPlace(m)
	switch body := f.Body.(type) {
	case domain.DeliveryCreated:
		body.Event.Body, body.TestBodyHash = bytes.Clone(body.Event.Body), bytes.Clone(body.TestBodyHash)
		f.Body = body
	case domain.AttemptMade:
		body.Result.ResponseBody = bytes.Clone(body.Result.ResponseBody)
		f.Body = body
	}
	return f, err
}

// DecodeFactInPlace is DecodeFact for who is done with the fact soon: its byte
// fields may be the record's own, and then they keep in memory what the record
// was fetched with.
func DecodeFactInPlace(m Message) (domain.Fact, error) {
	if f, ok := quickFact(m); ok {
		return f, nil
	}
	return decodeFact(m)
}

func decodeFact(m Message) (domain.Fact, error) {
	newForm, known := factForms[m.Type]
	if !known {
		return domain.Fact{}, fmt.Errorf("schemas: the journal holds a fact of type %q, which this "+
			"program does not know: run a newer lumenhook", m.Type)
	}
	f := newForm()
	if err := unpack(m, f.message); err != nil {
		return domain.Fact{}, err
	}
	meta := f.meta()
	return domain.Fact{
		Aggregate: meta.GetAggregate(),
		Version:   meta.GetVersion(),
		AtMillis:  meta.GetAtMillis(),
		Cause:     m.Cause,
		Body:      f.body(),
	}, nil
}

func accountCreatedIn(m *kafka.AccountCreated) domain.FactBody {
	return domain.AccountCreated{AccountID: m.GetAccountId(), Email: m.GetEmail()}
}

func keyCreatedIn(m *kafka.KeyCreated) domain.FactBody {
	return domain.KeyCreated{Key: keyIn(m.GetKey())}
}

func keyRolledIn(m *kafka.KeyRolled) domain.FactBody {
	return domain.KeyRolled{
		KeyID:           m.GetKeyId(),
		ExpiresAtMillis: m.GetExpiresAtMillis(),
		Key:             keyIn(m.GetKey()),
	}
}

func keyRevokedIn(m *kafka.KeyRevoked) domain.FactBody {
	return domain.KeyRevoked{KeyID: m.GetKeyId()}
}

func endpointCreatedIn(m *kafka.EndpointCreated) domain.FactBody {
	return domain.EndpointCreated{
		EndpointID:         m.GetEndpointId(),
		AccountID:          m.GetAccountId(),
		URL:                m.GetUrl(),
		Description:        m.GetDescription(),
		Secret:             secretIn(m.GetSecret()),
		Headers:            mapped(m.GetHeaders(), headerIn),
		RateLimitPerSecond: int(m.GetRateLimitPerSecond()),
	}
}

func endpointUpdatedIn(m *kafka.EndpointUpdated) domain.FactBody {
	return domain.EndpointUpdated{Change: endpointChangeIn(m.GetChange())}
}

func secretRotatedIn(m *kafka.SecretRotated) domain.FactBody {
	return domain.SecretRotated{Secret: secretIn(m.GetSecret())}
}

func secretsResealedIn(m *kafka.SecretsResealed) domain.FactBody {
	return domain.SecretsResealed{
		Secrets: mapped(m.GetSecrets(), secretIn),
		Headers: mapped(m.GetHeaders(), headerIn),
	}
}

func endpointDisabledIn(m *kafka.EndpointDisabled) domain.FactBody {
	return domain.EndpointDisabled{
		Reason:         domain.DisabledReason(m.GetReason()),
		EventID:        m.GetEventId(),
		LastStatusCode: int(m.GetLastStatusCode()),
		LastError:      domain.AttemptError(m.GetLastError()),
	}
}

func endpointEnabledIn(*kafka.EndpointEnabled) domain.FactBody { return domain.EndpointEnabled{} }

func endpointDeletedIn(*kafka.EndpointDeleted) domain.FactBody { return domain.EndpointDeleted{} }

func watchCreatedIn(m *kafka.WatchCreated) domain.FactBody {
	return domain.WatchCreated{Watch: watchIn(m.GetWatch())}
}

func watchUpdatedIn(m *kafka.WatchUpdated) domain.FactBody {
	return domain.WatchUpdated{Change: watchChangeIn(m.GetChange())}
}

func watchDeletedIn(*kafka.WatchDeleted) domain.FactBody { return domain.WatchDeleted{} }

func backfillRequestedIn(m *kafka.BackfillRequested) domain.FactBody {
	return domain.BackfillRequested{From: m.GetFrom(), To: m.GetTo()}
}

func rangeCoveredIn(m *kafka.RangeCovered) domain.FactBody {
	return domain.RangeCovered{
		Request:   m.GetRequest(),
		From:      m.GetFrom(),
		To:        m.GetTo(),
		Until:     m.GetUntil(),
		LiveSince: m.GetLiveSince(),
	}
}

func partBegunIn(m *kafka.PartBegun) domain.FactBody {
	return domain.PartBegun{Request: m.GetRequest(), From: m.GetFrom(), To: m.GetTo()}
}

func backfillStoppedIn(m *kafka.BackfillStopped) domain.FactBody {
	return domain.BackfillStopped{Request: m.GetRequest(), Problem: m.GetProblem()}
}

func deliveryCreatedIn(m *kafka.DeliveryCreated) domain.FactBody {
	return domain.DeliveryCreated{
		AccountID:     m.GetAccountId(),
		EndpointID:    m.GetEndpointId(),
		WatchID:       m.GetWatchId(),
		WalletAddress: m.GetWalletAddress(),
		Event:         eventIn(m.GetEvent()),
		TestBodyHash:  m.GetTestBodyHash(),
		Moved:         movedIn(m),
	}
}

func attemptMadeIn(m *kafka.AttemptMade) domain.FactBody {
	return domain.AttemptMade{
		EventID:   m.GetEventId(),
		EventType: domain.EventType(m.GetEventType()),
		Number:    int(m.GetNumber()),
		Run:       int(m.GetRun()),
		Result: domain.AttemptResult{
			SentAtMillis:   m.GetSentAtMillis(),
			DurationMillis: m.GetDurationMillis(),
			StatusCode:     int(m.GetStatusCode()),
			Error:          domain.AttemptError(m.GetError()),
			ResponseBody:   m.GetResponseBody(),
		},
		State:               domain.DeliveryState(m.GetState()),
		NextAttemptAtMillis: m.GetNextAttemptAtMillis(),
	}
}

func deliveryRequeuedIn(m *kafka.DeliveryRequeued) domain.FactBody {
	return domain.DeliveryRequeued{
		EventID:             m.GetEventId(),
		Run:                 int(m.GetRun()),
		NextAttemptAtMillis: m.GetNextAttemptAtMillis(),
		Reason:              domain.RequeueReason(m.GetReason()),
	}
}

func deliveryCancelledIn(m *kafka.DeliveryCancelled) domain.FactBody {
	return domain.DeliveryCancelled{EventID: m.GetEventId()}
}

func deliveryMovedIn(m *kafka.DeliveryMoved) domain.FactBody {
	return domain.DeliveryMoved{
		EventID:      m.GetEventId(),
		ToEndpointID: m.GetToEndpointId(),
		Moves:        int(m.GetMoves()),
	}
}

// movedIn reads what an event has behind it at other endpoints.
func movedIn(m interface {
	GetMoves() uint32
	GetAttempts() uint32
	GetRuns() uint32
	GetFormerEndpointIds() []string
}) domain.Moved {
	return domain.Moved{
		Moves:             int(m.GetMoves()),
		Attempts:          int(m.GetAttempts()),
		Runs:              int(m.GetRuns()),
		FormerEndpointIDs: m.GetFormerEndpointIds(),
	}
}

func commandHandledIn(m *kafka.CommandHandled) domain.FactBody {
	return domain.CommandHandled{
		CommandID: m.GetCommandId(),
		BodyHash:  m.GetBodyHash(),
		Answer:    answerIn(m.GetAnswer()),
	}
}
