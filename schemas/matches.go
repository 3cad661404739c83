package schemas

import (
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas/kafka"
)

// EncodePaymentMatched encodes a record of the topic "matches".
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

// DecodePaymentMatched decodes the part of a record of the topic "matches" that endpoints need.
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

// EncodeHandOver encodes a record of the topic "matches" that hands over an event to an endpoint.
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
		FromPartition:     m.Moved.FromPartition,
		Number:            m.Moved.Number,
	})
}

// MatchMade is an existing match as the follower reads it.
type MatchMade struct {
	EventID   string
	WatchID   string
	PaymentID string
	Ledger    uint32 // the payment's ledger; 0 if the event was handed over
}

// DecodeMatchMade decodes the part of a record of the topic "matches" that followers need.
func DecodeMatchMade(m Message) (MatchMade, error) {
	var b kafka.PaymentMatched
	err := unpackAs(m, "PaymentMatched", &b)
	return MatchMade{
		EventID:   b.GetEvent().GetId(),
		WatchID:   b.GetWatchId(),
		PaymentID: b.GetPaymentId(),
		Ledger:    b.GetLedger(),
	}, err
}
