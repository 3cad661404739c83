package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// MarshalDelivery encodes a delivery for a task's store.
func MarshalDelivery(d domain.Delivery) []byte { return pack("Delivery", "", deliveryOut(d)).Value }

// UnmarshalDelivery decodes a delivery from a task's store.
func UnmarshalDelivery(value []byte) (domain.Delivery, error) {
	return unmarshalAs(value, deliveryIn)
}

func deliveryOut(d domain.Delivery) *kafka.Delivery {
	return &kafka.Delivery{
		EventId:             d.EventID,
		EventType:           string(d.EventType),
		AccountId:           d.AccountID,
		EndpointId:          d.EndpointID,
		EndpointEpoch:       d.EndpointEpoch,
		WatchId:             d.WatchID,
		Version:             d.Version,
		State:               string(d.State),
		CreatedAtMillis:     d.CreatedAtMillis,
		Attempts:            uint32(d.Attempts),
		Run:                 uint32(d.Run),
		RunAttempts:         uint32(d.RunAttempts),
		NextAttemptAtMillis: d.NextAttemptAtMillis,
		TestCommandId:       d.TestCommandID,
		TestBodyHash:        d.TestBodyHash,
		Moves:               uint32(d.Moves),
		FormerEndpointIds:   d.FormerEndpointIDs,
		MovedTo:             d.MovedTo,
		MovedBy:             d.MovedBy,
		Sequence:            d.Sequence,
		Line:                d.Line,
		Behind:              d.Behind,
	}
}

func deliveryIn(d *kafka.Delivery) domain.Delivery {
	return domain.Delivery{
		EventID:             d.GetEventId(),
		EventType:           domain.EventType(d.GetEventType()),
		AccountID:           d.GetAccountId(),
		EndpointID:          d.GetEndpointId(),
		EndpointEpoch:       d.GetEndpointEpoch(),
		WatchID:             d.GetWatchId(),
		Version:             d.GetVersion(),
		State:               domain.DeliveryState(d.GetState()),
		CreatedAtMillis:     d.GetCreatedAtMillis(),
		Attempts:            int(d.GetAttempts()),
		Run:                 int(d.GetRun()),
		RunAttempts:         int(d.GetRunAttempts()),
		NextAttemptAtMillis: d.GetNextAttemptAtMillis(),
		TestCommandID:       d.GetTestCommandId(),
		TestBodyHash:        d.GetTestBodyHash(),
		Moves:               int(d.GetMoves()),
		FormerEndpointIDs:   d.GetFormerEndpointIds(),
		MovedTo:             d.GetMovedTo(),
		MovedBy:             d.GetMovedBy(),
		Sequence:            d.GetSequence(),
		Line:                d.GetLine(),
		Behind:              d.GetBehind(),
	}
}

func rememberedOut(r *domain.Remembered) *kafka.Remembered {
	if r == nil {
		return nil
	}
	out := &kafka.Remembered{Body: r.Body, AsOf: r.AsOf}
	if r.Delivery.Exists() {
		out.Delivery = deliveryOut(r.Delivery)
	}
	return out
}

func rememberedIn(r *kafka.Remembered) *domain.Remembered {
	if r == nil {
		return nil
	}
	return &domain.Remembered{
		Body:     r.GetBody(),
		Delivery: deliveryIn(r.GetDelivery()),
		AsOf:     r.GetAsOf(),
	}
}

func eventOut(e domain.Event) *kafka.Event {
	return &kafka.Event{
		Id:              e.ID,
		Type:            string(e.Type),
		CreatedAtMillis: e.CreatedAtMillis,
		Body:            e.Body,
	}
}

func eventIn(e *kafka.Event) domain.Event {
	return domain.Event{
		ID:              e.GetId(),
		Type:            domain.EventType(e.GetType()),
		CreatedAtMillis: e.GetCreatedAtMillis(),
		Body:            e.GetBody(),
	}
}

func attemptResultOut(r domain.AttemptResult) *kafka.AttemptResult {
	return &kafka.AttemptResult{
		SentAtMillis:   r.SentAtMillis,
		DurationMillis: r.DurationMillis,
		StatusCode:     uint32(r.StatusCode),
		Error:          string(r.Error),
		ResponseBody:   r.ResponseBody,
		ErrorDetail:    r.ErrorDetail,
	}
}

func attemptResultIn(r interface {
	GetSentAtMillis() int64
	GetDurationMillis() int64
	GetStatusCode() uint32
	GetError() string
	GetResponseBody() []byte
	GetErrorDetail() string
}) domain.AttemptResult {
	return domain.AttemptResult{
		SentAtMillis:   r.GetSentAtMillis(),
		DurationMillis: r.GetDurationMillis(),
		StatusCode:     int(r.GetStatusCode()),
		Error:          domain.AttemptError(r.GetError()),
		ResponseBody:   r.GetResponseBody(),
		ErrorDetail:    r.GetErrorDetail(),
	}
}

func movedIn(m interface {
	GetMoves() uint32
	GetAttempts() uint32
	GetRuns() uint32
	GetFormerEndpointIds() []string
	GetFromPartition() int32
	GetNumber() uint64
}) domain.Moved {
	return domain.Moved{
		Moves:             int(m.GetMoves()),
		Attempts:          int(m.GetAttempts()),
		Runs:              int(m.GetRuns()),
		FormerEndpointIDs: m.GetFormerEndpointIds(),
		FromPartition:     m.GetFromPartition(),
		Number:            m.GetNumber(),
	}
}

func attemptMadeOut(meta *kafka.FactMeta, b domain.AttemptMade) *kafka.AttemptMade {
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
		ErrorDetail:         r.ErrorDetail,
		ResponseBody:        r.ResponseBody,
		State:               string(b.State),
		NextAttemptAtMillis: b.NextAttemptAtMillis,
		Entry:               entryOut(b.Entry),
		Trouble:             troubleOut(b.Trouble),
		Telling:             tellingOut(b.Telling),
	}
}

func deliveryFactOut(meta *kafka.FactMeta, body domain.DeliveryFact) proto.Message {
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
			FromPartition:     b.Moved.FromPartition,
			Number:            b.Moved.Number,
			Sequence:          b.Sequence,
			Ordered:           b.Ordered,
		}
	case domain.AttemptMade:
		return attemptMadeOut(meta, b)
	case domain.DeliveryRecalled:
		return &kafka.DeliveryRecalled{Meta: meta, Delivery: deliveryOut(b.Delivery)}
	case domain.DeliveryRequeued:
		return &kafka.DeliveryRequeued{
			Meta:                meta,
			EventId:             b.EventID,
			Run:                 uint32(b.Run),
			NextAttemptAtMillis: b.NextAttemptAtMillis,
			Reason:              string(b.Reason),
			Body:                b.Body,
		}
	case domain.DeliveryCancelled:
		return &kafka.DeliveryCancelled{Meta: meta, EventId: b.EventID, Reason: string(b.Reason)}
	case domain.DeliveryMoved:
		return &kafka.DeliveryMoved{
			Meta:         meta,
			EventId:      b.EventID,
			ToEndpointId: b.ToEndpointID,
			Moves:        uint32(b.Moves),
			Body:         b.Body,
			Number:       b.Number,
		}
	}
	panic(noForm(body))
}

var deliveryFactForms = map[string]factForm{
	"DeliveryCreated":   fact(deliveryCreatedIn),
	"AttemptMade":       fact(attemptMadeIn),
	"DeliveryRecalled":  fact(deliveryRecalledIn),
	"DeliveryRequeued":  fact(deliveryRequeuedIn),
	"DeliveryCancelled": fact(deliveryCancelledIn),
	"DeliveryMoved":     fact(deliveryMovedIn),
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
		Sequence:      m.GetSequence(),
		Ordered:       m.GetOrdered(),
	}
}

func attemptMadeIn(m *kafka.AttemptMade) domain.FactBody {
	return domain.AttemptMade{
		EventID:             m.GetEventId(),
		EventType:           domain.EventType(m.GetEventType()),
		Number:              int(m.GetNumber()),
		Run:                 int(m.GetRun()),
		Result:              attemptResultIn(m),
		State:               domain.DeliveryState(m.GetState()),
		NextAttemptAtMillis: m.GetNextAttemptAtMillis(),
		Entry:               entryIn(m.GetEntry()),
		Trouble:             troubleIn(m.GetTrouble()),
		Telling:             tellingIn(m.GetTelling()),
	}
}

func deliveryRecalledIn(m *kafka.DeliveryRecalled) domain.FactBody {
	return domain.DeliveryRecalled{Delivery: deliveryIn(m.GetDelivery())}
}

func deliveryRequeuedIn(m *kafka.DeliveryRequeued) domain.FactBody {
	return domain.DeliveryRequeued{
		EventID:             m.GetEventId(),
		Run:                 int(m.GetRun()),
		NextAttemptAtMillis: m.GetNextAttemptAtMillis(),
		Reason:              domain.RequeueReason(m.GetReason()),
		Body:                m.GetBody(),
	}
}

func deliveryCancelledIn(m *kafka.DeliveryCancelled) domain.FactBody {
	return domain.DeliveryCancelled{
		EventID: m.GetEventId(),
		Reason:  domain.CancelReason(m.GetReason()),
	}
}

func deliveryMovedIn(m *kafka.DeliveryMoved) domain.FactBody {
	return domain.DeliveryMoved{
		EventID:      m.GetEventId(),
		ToEndpointID: m.GetToEndpointId(),
		Moves:        int(m.GetMoves()),
		Body:         m.GetBody(),
		Number:       m.GetNumber(),
	}
}

// entryOut returns nil for a zero entry, so that the encoding of facts without one doesn't change.
func entryOut(e domain.LogEntry) *kafka.LogEntry {
	if e.Number == 0 {
		return nil
	}
	return &kafka.LogEntry{
		From:            e.From,
		Number:          e.Number,
		BodySha256:      e.BodySHA256,
		SignatureSha256: e.SignatureSHA256,
		Hashes:          e.Hashes,
	}
}

func entryIn(e *kafka.LogEntry) domain.LogEntry {
	return domain.LogEntry{
		From:            e.GetFrom(),
		Number:          e.GetNumber(),
		BodySHA256:      e.GetBodySha256(),
		SignatureSHA256: e.GetSignatureSha256(),
		Hashes:          e.GetHashes(),
	}
}

func logOut(l domain.AttemptLog) *kafka.AttemptLog {
	if l.From == 0 {
		return nil
	}
	return &kafka.AttemptLog{From: l.From, Size: l.Size, Peaks: l.Peaks}
}

func logIn(l *kafka.AttemptLog) domain.AttemptLog {
	return domain.AttemptLog{From: l.GetFrom(), Size: l.GetSize(), Peaks: l.GetPeaks()}
}
