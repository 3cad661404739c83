package schemas

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodeCommand writes a command.
func EncodeCommand(c domain.Command) Message {
	meta := &kafka.CommandMeta{CommandId: c.ID, AccountId: c.AccountID, BodyHash: c.BodyHash, IssuedAtMillis: c.IssuedAtMillis}
	switch b := c.Body.(type) {
	case domain.CreateAccount:
		return pack(b.CommandType(), c.ID, &kafka.CreateAccount{Meta: meta, AccountId: b.AccountID, Email: b.Email, Key: keyOut(b.Key)})
	case domain.CreateEndpoint:
		return pack(b.CommandType(), c.ID, &kafka.CreateEndpoint{Meta: meta, EndpointId: b.EndpointID, AccountId: b.AccountID, Url: b.URL, Description: b.Description, SealedSecret: b.SealedSecret})
	case domain.CreateWatch:
		return pack(b.CommandType(), c.ID, &kafka.CreateWatch{Meta: meta, Watch: watchOut(b.Watch)})
	}
	panic(fmt.Sprintf("schemas: command type %T has no Protobuf form", c.Body))
}

// DecodeCommand reads a command.
func DecodeCommand(m Message) (domain.Command, error) {
	switch m.Type {
	case "CreateAccount":
		var b kafka.CreateAccount
		err := unpack(m, &b)
		return commandIn(b.GetMeta(), domain.CreateAccount{AccountID: b.GetAccountId(), Email: b.GetEmail(), Key: keyIn(b.GetKey())}), err
	case "CreateEndpoint":
		var b kafka.CreateEndpoint
		err := unpack(m, &b)
		return commandIn(b.GetMeta(), domain.CreateEndpoint{EndpointID: b.GetEndpointId(), AccountID: b.GetAccountId(), URL: b.GetUrl(), Description: b.GetDescription(), SealedSecret: b.GetSealedSecret()}), err
	case "CreateWatch":
		var b kafka.CreateWatch
		err := unpack(m, &b)
		return commandIn(b.GetMeta(), domain.CreateWatch{Watch: watchIn(b.GetWatch())}), err
	}
	return domain.Command{}, fmt.Errorf("schemas: found a command of type %q, which this program does not know: run a newer lumenhook", m.Type)
}

func commandIn(meta *kafka.CommandMeta, body domain.CommandBody) domain.Command {
	return domain.Command{ID: meta.GetCommandId(), AccountID: meta.GetAccountId(), BodyHash: meta.GetBodyHash(), IssuedAtMillis: meta.GetIssuedAtMillis(), Body: body}
}

// EncodeResult writes the answer to a command.
func EncodeResult(r domain.Result) Message {
	return pack("CommandResult", r.CommandID, &kafka.CommandResult{CommandId: r.CommandID, BodyHash: r.BodyHash, Answer: answerOut(r.Answer), Replayed: r.Replayed})
}

// DecodeResult reads the answer to a command.
func DecodeResult(m Message) (domain.Result, error) {
	var b kafka.CommandResult
	err := unpackAs(m, "CommandResult", &b)
	return domain.Result{CommandID: b.GetCommandId(), BodyHash: b.GetBodyHash(), Answer: answerIn(b.GetAnswer()), Replayed: b.GetReplayed()}, err
}

// PaymentObserved is a payment to a watched wallet, as the follower tells it.
type PaymentObserved struct {
	Payment          domain.Payment
	ObservedAtMillis int64
}

// EncodePaymentObserved writes a record of the topic "payments".
func EncodePaymentObserved(p PaymentObserved) Message {
	return pack("PaymentObserved", "", &kafka.PaymentObserved{Payment: paymentOut(p.Payment), ObservedAtMillis: p.ObservedAtMillis})
}

// DecodePaymentObserved reads a record of the topic "payments".
func DecodePaymentObserved(m Message) (PaymentObserved, error) {
	var b kafka.PaymentObserved
	err := unpackAs(m, "PaymentObserved", &b)
	return PaymentObserved{Payment: paymentIn(b.GetPayment()), ObservedAtMillis: b.GetObservedAtMillis()}, err
}

// EncodePaymentMatched writes a record of the topic "matches".
func EncodePaymentMatched(m domain.Match, e domain.Event) Message {
	return pack("PaymentMatched", "", &kafka.PaymentMatched{
		AccountId: m.Watch.AccountID, EndpointId: m.Watch.EndpointID, WatchId: m.Watch.ID, WalletAddress: m.Watch.WalletAddress, PaymentId: m.Payment.ID,
		Verification: &kafka.Verification{Outcome: string(m.Verification.Outcome), Reasons: strings[string](m.Verification.Reasons)},
		Event:        eventOut(e),
	})
}

// DecodePaymentMatched reads a record of the topic "matches" as far as the
// endpoint needs it.
func DecodePaymentMatched(m Message) (domain.MatchInput, error) {
	var b kafka.PaymentMatched
	err := unpackAs(m, "PaymentMatched", &b)
	return domain.MatchInput{AccountID: b.GetAccountId(), EndpointID: b.GetEndpointId(), WatchID: b.GetWatchId(), WalletAddress: b.GetWalletAddress(), Event: eventIn(b.GetEvent())}, err
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
	WatchesOffsets    map[int32]int64 // next offset by partition of "watches" when the ledger was matched
	ReadAtMillis      int64
}

// EncodeLedgerRead writes a record of the topic "ledgers".
func EncodeLedgerRead(l LedgerRead) Message {
	return pack("LedgerRead", "", &kafka.LedgerRead{
		NetworkPassphrase: l.NetworkPassphrase, Sequence: l.Sequence, Hash: l.Hash, ClosedAtMillis: l.ClosedAtMillis,
		Transactions: uint32(l.Transactions), Payments: uint32(l.Payments), Observed: uint32(l.Observed), Matches: uint32(l.Matches),
		WatchesOffsets: l.WatchesOffsets, ReadAtMillis: l.ReadAtMillis,
	})
}

// DecodeLedgerRead reads a record of the topic "ledgers".
func DecodeLedgerRead(m Message) (LedgerRead, error) {
	var b kafka.LedgerRead
	err := unpackAs(m, "LedgerRead", &b)
	return LedgerRead{
		NetworkPassphrase: b.GetNetworkPassphrase(), Sequence: b.GetSequence(), Hash: b.GetHash(), ClosedAtMillis: b.GetClosedAtMillis(),
		Transactions: int(b.GetTransactions()), Payments: int(b.GetPayments()), Observed: int(b.GetObserved()), Matches: int(b.GetMatches()),
		WatchesOffsets: b.GetWatchesOffsets(), ReadAtMillis: b.GetReadAtMillis(),
	}, err
}
