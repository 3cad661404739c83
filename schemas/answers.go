package schemas

import (
	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeResult encodes the answer to a command.
func EncodeResult(r domain.Result) Message {
	return pack("CommandResult", r.CommandID,
		&kafka.CommandResult{
			CommandId: r.CommandID,
			BodyHash:  r.BodyHash,
			Answer:    answerOut(r.Answer),
			Replayed:  r.Replayed,
		})
}

// DecodeResult decodes the answer to a command.
func DecodeResult(m Message) (domain.Result, error) {
	var b kafka.CommandResult
	err := unpackAs(m, "CommandResult", &b)
	return domain.Result{
		CommandID: b.GetCommandId(),
		BodyHash:  b.GetBodyHash(),
		Answer:    answerIn(b.GetAnswer()),
		Replayed:  b.GetReplayed(),
	}, err
}

func answerOut(a domain.Answer) *kafka.Answer {
	out := &kafka.Answer{Version: a.Version, LeftOut: a.LeftOut}
	switch {
	case a.Rejection != nil:
		out.Outcome = &kafka.Answer_Rejection{Rejection: &kafka.Rejection{
			Code:   a.Rejection.Code,
			Detail: a.Rejection.Detail,
		}}
	case a.Account != nil:
		out.Outcome = &kafka.Answer_Account{Account: accountOut(*a.Account)}
	case a.Key != nil:
		out.Outcome = &kafka.Answer_Key{Key: keyOut(*a.Key)}
	case a.Endpoint != nil:
		out.Outcome = &kafka.Answer_Endpoint{Endpoint: endpointOut(*a.Endpoint)}
	case a.Watch != nil:
		out.Outcome = &kafka.Answer_Watch{Watch: watchOut(*a.Watch)}
	case a.Delivery != nil:
		out.Outcome = &kafka.Answer_Delivery{Delivery: deliveryOut(*a.Delivery)}
	case a.Replay != nil:
		out.Outcome = &kafka.Answer_Replay{Replay: &kafka.ReplayResult{
			Queued:    uint32(a.Replay.Queued),
			Matched:   uint32(a.Replay.Matched),
			Truncated: a.Replay.Truncated,
		}}
	case a.Test != nil:
		out.Outcome = &kafka.Answer_Test{Test: &kafka.TestResult{
			EventId: a.Test.EventID,
			Result:  attemptResultOut(a.Test.Result),
		}}
	}
	return out
}

func answerIn(a *kafka.Answer) domain.Answer {
	in := domain.Answer{Version: a.GetVersion(), LeftOut: a.GetLeftOut()}
	switch o := a.GetOutcome().(type) {
	case *kafka.Answer_Rejection:
		in.Rejection = &domain.Rejection{Code: o.Rejection.GetCode(), Detail: o.Rejection.GetDetail()}
	case *kafka.Answer_Account:
		in.Account = pointer(accountIn(o.Account))
	case *kafka.Answer_Key:
		in.Key = pointer(keyIn(o.Key))
	case *kafka.Answer_Endpoint:
		in.Endpoint = pointer(endpointIn(o.Endpoint))
	case *kafka.Answer_Watch:
		in.Watch = pointer(watchIn(o.Watch))
	case *kafka.Answer_Delivery:
		in.Delivery = pointer(deliveryIn(o.Delivery))
	case *kafka.Answer_Replay:
		in.Replay = &domain.ReplayResult{
			Queued:    int(o.Replay.GetQueued()),
			Matched:   int(o.Replay.GetMatched()),
			Truncated: o.Replay.GetTruncated(),
		}
	case *kafka.Answer_Test:
		in.Test = &domain.TestResult{
			EventID: o.Test.GetEventId(),
			Result:  attemptResultIn(o.Test.GetResult()),
		}
	}
	return in
}

func commandHandledOut(meta *kafka.FactMeta, h domain.CommandHandled) proto.Message {
	return &kafka.CommandHandled{
		Meta:      meta,
		CommandId: h.CommandID,
		BodyHash:  h.BodyHash,
		Answer:    answerOut(h.Answer),
	}
}

func commandHandledIn(m *kafka.CommandHandled) domain.FactBody {
	return domain.CommandHandled{
		CommandID: m.GetCommandId(),
		BodyHash:  m.GetBodyHash(),
		Answer:    answerIn(m.GetAnswer()),
	}
}

// MarshalHandled encodes the answer to a command for a task's store, with aggregate and time.
func MarshalHandled(aggregate string, atMillis int64, h domain.CommandHandled) []byte {
	meta := &kafka.FactMeta{Aggregate: aggregate, AtMillis: atMillis}
	return pack("CommandHandled", "", factOut(meta, h)).Value
}

// UnmarshalHandled decodes the answer to a command from a task's store.
func UnmarshalHandled(value []byte) (domain.CommandHandled, error) {
	var r kafka.CommandHandled
	err := proto.Unmarshal(value, &r)
	return commandHandledIn(&r).(domain.CommandHandled), err
}

// HandledFor decodes the aggregate and the time of a stored answer.
func HandledFor(value []byte) (aggregate string, atMillis int64, err error) {
	var r kafka.CommandHandled
	err = proto.Unmarshal(value, &r)
	return r.GetMeta().GetAggregate(), r.GetMeta().GetAtMillis(), err
}
