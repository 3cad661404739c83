package schemas

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeCommand writes a command.
func EncodeCommand(c domain.Command) Message {
	meta := &kafka.CommandMeta{
		CommandId:      c.ID,
		AccountId:      c.AccountID,
		BodyHash:       c.BodyHash,
		IssuedAtMillis: c.IssuedAtMillis,
	}
	return pack(c.Body.CommandType(), c.ID, commandOut(meta, c.Body))
}

func commandOut(meta *kafka.CommandMeta, body domain.CommandBody) proto.Message {
	switch b := body.(type) {
	case domain.CreateAccount:
		return &kafka.CreateAccount{
			Meta:      meta,
			AccountId: b.AccountID,
			Email:     b.Email,
			Key:       keyOut(b.Key),
		}
	case domain.CreateKey:
		return &kafka.CreateKey{Meta: meta, AccountId: b.AccountID, Key: keyOut(b.Key)}
	case domain.RollKey:
		return &kafka.RollKey{
			Meta:        meta,
			AccountId:   b.AccountID,
			KeyId:       b.KeyID,
			Key:         keyOut(b.Key),
			GraceMillis: b.GraceMillis,
		}
	case domain.RevokeKey:
		return &kafka.RevokeKey{Meta: meta, AccountId: b.AccountID, KeyId: b.KeyID}
	case domain.CreateWatch:
		return &kafka.CreateWatch{Meta: meta, Watch: watchOut(b.Watch)}
	case domain.UpdateWatch:
		return &kafka.UpdateWatch{
			Meta:       meta,
			WatchId:    b.WatchID,
			IfRevision: b.IfRevision,
			Change:     watchChangeOut(b.Change),
		}
	case domain.DeleteWatch:
		return &kafka.DeleteWatch{Meta: meta, WatchId: b.WatchID, IfRevision: b.IfRevision}
	case domain.BackfillWatch:
		return &kafka.BackfillWatch{Meta: meta, WatchId: b.WatchID, From: b.From, To: b.To}
	case domain.RecordCoverage:
		return &kafka.RecordCoverage{
			Meta:      meta,
			WatchId:   b.WatchID,
			Request:   b.Request,
			From:      b.From,
			To:        b.To,
			Until:     b.Until,
			LiveSince: b.LiveSince,
			Problem:   b.Problem,
			NextFrom:  b.Next.From,
			NextTo:    b.Next.To,
		}
	}
	return endpointCommandOut(meta, body)
}

func endpointCommandOut(meta *kafka.CommandMeta, body domain.CommandBody) proto.Message {
	switch b := body.(type) {
	case domain.CreateEndpoint:
		return &kafka.CreateEndpoint{
			Meta:               meta,
			EndpointId:         b.EndpointID,
			AccountId:          b.AccountID,
			Url:                b.URL,
			Description:        b.Description,
			SealedSecret:       b.SealedSecret,
			Headers:            mapped(b.Headers, headerOut),
			RateLimitPerSecond: uint32(b.RateLimitPerSecond),
		}
	case domain.UpdateEndpoint:
		return &kafka.UpdateEndpoint{
			Meta:       meta,
			EndpointId: b.EndpointID,
			IfRevision: b.IfRevision,
			Change:     endpointChangeOut(b.Change),
		}
	case domain.DisableEndpoint:
		return &kafka.DisableEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.EnableEndpoint:
		return &kafka.EnableEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.DeleteEndpoint:
		return &kafka.DeleteEndpoint{Meta: meta, EndpointId: b.EndpointID, IfRevision: b.IfRevision}
	case domain.RotateSecret:
		return &kafka.RotateSecret{
			Meta:         meta,
			EndpointId:   b.EndpointID,
			IfRevision:   b.IfRevision,
			SealedSecret: b.SealedSecret,
		}
	case domain.ResealSecrets:
		return &kafka.ResealSecrets{
			Meta:       meta,
			EndpointId: b.EndpointID,
			Values:     mapped(b.Values, resealedOut),
		}
	case domain.TestEndpoint:
		return &kafka.TestEndpoint{Meta: meta, EndpointId: b.EndpointID}
	case domain.ReplayEndpoint:
		return &kafka.ReplayEndpoint{
			Meta:        meta,
			EndpointId:  b.EndpointID,
			SinceMillis: b.SinceMillis,
			UntilMillis: b.UntilMillis,
		}
	case domain.ResendEvent:
		return &kafka.ResendEvent{
			Meta:         meta,
			EndpointId:   b.EndpointID,
			EventId:      b.EventID,
			ToEndpointId: b.ToEndpointID,
		}
	}
	panic(fmt.Sprintf("schemas: command type %T has no Protobuf form", body))
}

// commandForms reads each command type.
var commandForms = map[string]func(Message) (domain.Command, error){
	"CreateAccount": command(func(m *kafka.CreateAccount) domain.CommandBody {
		return domain.CreateAccount{
			AccountID: m.GetAccountId(),
			Email:     m.GetEmail(),
			Key:       keyIn(m.GetKey()),
		}
	}),
	"CreateKey": command(func(m *kafka.CreateKey) domain.CommandBody {
		return domain.CreateKey{AccountID: m.GetAccountId(), Key: keyIn(m.GetKey())}
	}),
	"RollKey": command(func(m *kafka.RollKey) domain.CommandBody {
		return domain.RollKey{
			AccountID:   m.GetAccountId(),
			KeyID:       m.GetKeyId(),
			Key:         keyIn(m.GetKey()),
			GraceMillis: m.GetGraceMillis(),
		}
	}),
	"RevokeKey": command(func(m *kafka.RevokeKey) domain.CommandBody {
		return domain.RevokeKey{AccountID: m.GetAccountId(), KeyID: m.GetKeyId()}
	}),
	"CreateEndpoint": command(func(m *kafka.CreateEndpoint) domain.CommandBody {
		return domain.CreateEndpoint{
			EndpointID:         m.GetEndpointId(),
			AccountID:          m.GetAccountId(),
			URL:                m.GetUrl(),
			Description:        m.GetDescription(),
			SealedSecret:       m.GetSealedSecret(),
			Headers:            mapped(m.GetHeaders(), headerIn),
			RateLimitPerSecond: int(m.GetRateLimitPerSecond()),
		}
	}),
	"UpdateEndpoint": command(func(m *kafka.UpdateEndpoint) domain.CommandBody {
		return domain.UpdateEndpoint{
			EndpointID: m.GetEndpointId(),
			IfRevision: m.GetIfRevision(),
			Change:     endpointChangeIn(m.GetChange()),
		}
	}),
	"DisableEndpoint": command(func(m *kafka.DisableEndpoint) domain.CommandBody {
		return domain.DisableEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"EnableEndpoint": command(func(m *kafka.EnableEndpoint) domain.CommandBody {
		return domain.EnableEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"DeleteEndpoint": command(func(m *kafka.DeleteEndpoint) domain.CommandBody {
		return domain.DeleteEndpoint{EndpointID: m.GetEndpointId(), IfRevision: m.GetIfRevision()}
	}),
	"RotateSecret": command(func(m *kafka.RotateSecret) domain.CommandBody {
		return domain.RotateSecret{
			EndpointID:   m.GetEndpointId(),
			IfRevision:   m.GetIfRevision(),
			SealedSecret: m.GetSealedSecret(),
		}
	}),
	"ResealSecrets": command(func(m *kafka.ResealSecrets) domain.CommandBody {
		return domain.ResealSecrets{
			EndpointID: m.GetEndpointId(),
			Values:     mapped(m.GetValues(), resealedIn),
		}
	}),
	"TestEndpoint": command(func(m *kafka.TestEndpoint) domain.CommandBody {
		return domain.TestEndpoint{EndpointID: m.GetEndpointId()}
	}),
	"ReplayEndpoint": command(func(m *kafka.ReplayEndpoint) domain.CommandBody {
		return domain.ReplayEndpoint{
			EndpointID:  m.GetEndpointId(),
			SinceMillis: m.GetSinceMillis(),
			UntilMillis: m.GetUntilMillis(),
		}
	}),
	"ResendEvent": command(func(m *kafka.ResendEvent) domain.CommandBody {
		return domain.ResendEvent{
			EndpointID:   m.GetEndpointId(),
			EventID:      m.GetEventId(),
			ToEndpointID: m.GetToEndpointId(),
		}
	}),
	"CreateWatch": command(func(m *kafka.CreateWatch) domain.CommandBody {
		return domain.CreateWatch{Watch: watchIn(m.GetWatch())}
	}),
	"UpdateWatch": command(func(m *kafka.UpdateWatch) domain.CommandBody {
		return domain.UpdateWatch{
			WatchID:    m.GetWatchId(),
			IfRevision: m.GetIfRevision(),
			Change:     watchChangeIn(m.GetChange()),
		}
	}),
	"DeleteWatch": command(func(m *kafka.DeleteWatch) domain.CommandBody {
		return domain.DeleteWatch{WatchID: m.GetWatchId(), IfRevision: m.GetIfRevision()}
	}),
	"BackfillWatch": command(func(m *kafka.BackfillWatch) domain.CommandBody {
		return domain.BackfillWatch{WatchID: m.GetWatchId(), From: m.GetFrom(), To: m.GetTo()}
	}),
	"RecordCoverage": command(func(m *kafka.RecordCoverage) domain.CommandBody {
		return domain.RecordCoverage{
			WatchID:   m.GetWatchId(),
			Request:   m.GetRequest(),
			From:      m.GetFrom(),
			To:        m.GetTo(),
			Until:     m.GetUntil(),
			LiveSince: m.GetLiveSince(),
			Problem:   m.GetProblem(),
			Next:      domain.Range{From: m.GetNextFrom(), To: m.GetNextTo()},
		}
	}),
}

// command makes the reader of one command type out of how its body is read.
func command[T any, M interface {
	*T
	proto.Message
	GetMeta() *kafka.CommandMeta
}](in func(M) domain.CommandBody) func(Message) (domain.Command, error) {
	return func(m Message) (domain.Command, error) {
		b := M(new(T))
		if err := unpack(m, b); err != nil {
			return domain.Command{}, err
		}
		meta := b.GetMeta()
		return domain.Command{
			ID:             meta.GetCommandId(),
			AccountID:      meta.GetAccountId(),
			BodyHash:       meta.GetBodyHash(),
			IssuedAtMillis: meta.GetIssuedAtMillis(),
			Body:           in(b),
		}, nil
	}
}

// DecodeCommand reads a command.
func DecodeCommand(m Message) (domain.Command, error) {
	read, known := commandForms[m.Type]
	if !known {
		return domain.Command{}, fmt.Errorf("schemas: found a command of type %q, which this program "+
			"does not know: run a newer lumenhook", m.Type)
	}
	return read(m)
}

// PaymentObserved is a payment to a watched wallet, as the follower tells it.
type PaymentObserved struct {
	Payment          domain.Payment
	ObservedAtMillis int64
}

// EncodePaymentObserved writes a record of the topic "payments".
func EncodePaymentObserved(p PaymentObserved) Message {
	return pack("PaymentObserved", "",
		&kafka.PaymentObserved{Payment: paymentOut(p.Payment), ObservedAtMillis: p.ObservedAtMillis})
}

// DecodePaymentObserved reads a record of the topic "payments".
func DecodePaymentObserved(m Message) (PaymentObserved, error) {
	var b kafka.PaymentObserved
	err := unpackAs(m, "PaymentObserved", &b)
	return PaymentObserved{
		Payment:          paymentIn(b.GetPayment()),
		ObservedAtMillis: b.GetObservedAtMillis(),
	}, err
}

// EncodePaymentMatched writes a record of the topic "matches".
func EncodePaymentMatched(m domain.Match, e domain.Event) Message {
	return pack("PaymentMatched", "", &kafka.PaymentMatched{
		AccountId:     m.Watch.AccountID,
		EndpointId:    m.Watch.EndpointID,
		WatchId:       m.Watch.ID,
		WalletAddress: m.Watch.WalletAddress,
		PaymentId:     m.Payment.ID,
		Verification: &kafka.Verification{
			Outcome: string(m.Verification.Outcome),
			Reasons: strings[string](m.Verification.Reasons),
		},
		Event:  eventOut(e),
		Ledger: m.Payment.Ledger,
	})
}

// MatchMade says that a payment was matched: what a follower asks of a match that
// was made before.
type MatchMade struct {
	EventID   string
	PaymentID string
	Ledger    uint32 // of the payment; 0: it does not say, or the event is handed over
}

// DecodeMatchMade reads a record of the topic "matches" as far as a follower
// needs it.
func DecodeMatchMade(m Message) (MatchMade, error) {
	var b kafka.PaymentMatched
	err := unpackAs(m, "PaymentMatched", &b)
	made := MatchMade{
		EventID:   b.GetEvent().GetId(),
		PaymentID: b.GetPaymentId(),
		Ledger:    b.GetLedger(),
	}
	if err != nil || made.Ledger != 0 || b.GetMoves() > 0 {
		return made, err
	}
	var body struct {
		Data struct{ Payment struct{ Ledger uint32 } }
	}
	if json.Unmarshal(b.GetEvent().GetBody(), &body) == nil {
		made.Ledger = body.Data.Payment.Ledger
	}
	return made, nil
}

// DecodePaymentMatched reads a record of the topic "matches" as far as the
// endpoint needs it.
func DecodePaymentMatched(m Message) (domain.MatchInput, error) {
	var b kafka.PaymentMatched
	err := unpackAs(m, "PaymentMatched", &b)
	return domain.MatchInput{
		AccountID:     b.GetAccountId(),
		EndpointID:    b.GetEndpointId(),
		WatchID:       b.GetWatchId(),
		WalletAddress: b.GetWalletAddress(),
		Event:         eventIn(b.GetEvent()),
		Moved:         movedIn(&b),
	}, err
}

// EncodeHandOver writes a record of the topic "matches" that hands an event over
// to another endpoint.
func EncodeHandOver(m domain.MatchInput) Message {
	return pack("PaymentMatched", "", &kafka.PaymentMatched{
		AccountId:         m.AccountID,
		EndpointId:        m.EndpointID,
		WatchId:           m.WatchID,
		WalletAddress:     m.WalletAddress,
		Event:             eventOut(m.Event),
		Moves:             uint32(m.Moved.Moves),
		Attempts:          uint32(m.Moved.Attempts),
		Runs:              uint32(m.Moved.Runs),
		FormerEndpointIds: m.Moved.FormerEndpointIDs,
	})
}

// TransactionQuarantined says that a transaction could not be read.
type TransactionQuarantined struct {
	NetworkPassphrase string
	Ledger            uint32
	ClosedAtMillis    int64
	TxHash            string
	Order             int // 1 is the first transaction that was applied
	Reason            string
	ReadAtMillis      int64
}

// EncodeTransactionQuarantined writes a record of the topic "quarantine".
func EncodeTransactionQuarantined(q TransactionQuarantined) Message {
	return pack("TransactionQuarantined", "", &kafka.TransactionQuarantined{
		NetworkPassphrase: q.NetworkPassphrase,
		Ledger:            q.Ledger,
		ClosedAtMillis:    q.ClosedAtMillis,
		TxHash:            q.TxHash,
		Order:             uint32(q.Order),
		Reason:            printed(q.Reason, deadReasonBytes),
		ReadAtMillis:      q.ReadAtMillis,
	})
}

// DecodeTransactionQuarantined reads a record of the topic "quarantine".
func DecodeTransactionQuarantined(m Message) (TransactionQuarantined, error) {
	var b kafka.TransactionQuarantined
	err := unpackAs(m, "TransactionQuarantined", &b)
	return TransactionQuarantined{
		NetworkPassphrase: b.GetNetworkPassphrase(),
		Ledger:            b.GetLedger(),
		ClosedAtMillis:    b.GetClosedAtMillis(),
		TxHash:            b.GetTxHash(),
		Order:             int(b.GetOrder()),
		Reason:            b.GetReason(),
		ReadAtMillis:      b.GetReadAtMillis(),
	}, err
}

// LedgerRead says that a ledger was read: the follower's cursor.
type LedgerRead struct {
	NetworkPassphrase string
	Sequence          uint32
	Hash              string
	ClosedAtMillis    int64
	Transactions      int
	Payments          int // to any wallet
	Observed          int // to watched wallets
	Matches           int
	// next offset by partition of "watches" when the ledger was matched
	WatchesOffsets  map[int32]int64
	MatchesOffsets  map[int32]int64 // by partition of "matches": those of later ledgers are behind
	PaymentsOffsets map[int32]int64 // by partition of "payments", likewise; nil in older records
	ReadAtMillis    int64
}

// EncodeLedgerRead writes a record of the topic "ledgers".
func EncodeLedgerRead(l LedgerRead) Message {
	return pack("LedgerRead", "", &kafka.LedgerRead{
		NetworkPassphrase: l.NetworkPassphrase,
		Sequence:          l.Sequence,
		Hash:              l.Hash,
		ClosedAtMillis:    l.ClosedAtMillis,
		Transactions:      uint32(l.Transactions),
		Payments:          uint32(l.Payments),
		Observed:          uint32(l.Observed),
		Matches:           uint32(l.Matches),
		WatchesOffsets:    l.WatchesOffsets,
		MatchesOffsets:    l.MatchesOffsets,
		PaymentsOffsets:   l.PaymentsOffsets,
		ReadAtMillis:      l.ReadAtMillis,
	})
}

// DecodeLedgerRead reads a record of the topic "ledgers".
func DecodeLedgerRead(m Message) (LedgerRead, error) {
	var b kafka.LedgerRead
	err := unpackAs(m, "LedgerRead", &b)
	return LedgerRead{
		NetworkPassphrase: b.GetNetworkPassphrase(),
		Sequence:          b.GetSequence(),
		Hash:              b.GetHash(),
		ClosedAtMillis:    b.GetClosedAtMillis(),
		Transactions:      int(b.GetTransactions()),
		Payments:          int(b.GetPayments()),
		Observed:          int(b.GetObserved()),
		Matches:           int(b.GetMatches()),
		WatchesOffsets:    b.GetWatchesOffsets(),
		MatchesOffsets:    b.GetMatchesOffsets(),
		PaymentsOffsets:   b.GetPaymentsOffsets(),
		ReadAtMillis:      b.GetReadAtMillis(),
	}, err
}
