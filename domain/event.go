package domain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// APIVersion is the apiVersion of every event.
const APIVersion = "2026-11-01"

// EventType is a type of event.
type EventType string

// Event types (specification, "Events").
const (
	PaymentReceived EventType = "payment.received"
	PaymentRejected EventType = "payment.rejected"
	TestPing        EventType = "test.ping"
)

// Event is an event for a receiver. Body is serialized once, so all attempts send the same bytes.
type Event struct {
	ID              string
	Type            EventType
	CreatedAtMillis int64
	Body            []byte
}

// NewPaymentEvent returns the event of a match.
func NewPaymentEvent(m Match, nowMillis int64) Event {
	reasons := m.Verification.Reasons
	if reasons == nil {
		reasons = []Reason{}
	}
	body := encode(envelope{
		ID:         m.EventID,
		Type:       m.Type,
		APIVersion: APIVersion,
		CreatedAt:  FormatMillis(nowMillis),
		Data: paymentData{
			Payment: ViewPayment(m.Payment),
			Watch: watchSummary{
				ID:            m.Watch.ID,
				Label:         m.Watch.Label,
				WalletAddress: m.Watch.WalletAddress,
			},
			Verification: verificationView{Outcome: m.Verification.Outcome, Reasons: reasons},
		},
	})
	return Event{ID: m.EventID, Type: m.Type, CreatedAtMillis: nowMillis, Body: body}
}

// NewTestEvent returns a test.ping event, which shows the receiver which endpoint was tested.
func NewTestEvent(e Endpoint, eventID string, nowMillis int64) Event {
	body := encode(envelope{
		ID:         eventID,
		Type:       TestPing,
		APIVersion: APIVersion,
		CreatedAt:  FormatMillis(nowMillis),
		Data:       testData{Endpoint: endpointSummary{ID: e.ID, URL: e.URL, Description: e.Description}},
	})
	return Event{ID: eventID, Type: TestPing, CreatedAtMillis: nowMillis, Body: body}
}

// SampleAccount is the sender and wallet of a sample event. Its public key is all zeros, and nobody
// knows a private key for it, so the account can't be used.
const SampleAccount = "GAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWHF"

// SampleWatchID is the watch ID of a sample. Real watch IDs are hashes and never have this value.
const SampleWatchID = WatchPrefix + "00000000000000000000000000"

// NewSampleEvent returns a test event whose body looks like a payment.received. Everyone except the
// receiver treats it as a [TestPing]. The amount, the transaction hash, and the payment and watch
// IDs are all zero, so the event can't be mistaken for a real payment.
func NewSampleEvent(eventID string, nowMillis int64) Event {
	match := SampleMatch(nowMillis)
	match.EventID = eventID
	event := NewPaymentEvent(match, nowMillis)
	event.Type = TestPing
	return event
}

// SampleMatch returns the match of a sample event, without the event's ID.
func SampleMatch(nowMillis int64) Match {
	return Match{
		Type: PaymentReceived,
		Payment: Payment{
			ID:             "0",
			TxHash:         strings.Repeat("0", 64),
			Ledger:         1,
			ClosedAtMillis: nowMillis,
			From:           SampleAccount,
			To:             SampleAccount,
			Memo:           Memo{Type: MemoText, Raw: []byte("sample")},
			Asset:          NativeAsset(),
		},
		Watch: Watch{
			ID:            SampleWatchID,
			Label:         "sample: no payment",
			WalletAddress: SampleAccount,
		},
		Verification: Verification{Outcome: OutcomeVerified},
	}
}

type envelope struct {
	ID         string    `json:"id"`
	Type       EventType `json:"type"`
	APIVersion string    `json:"apiVersion"`
	CreatedAt  string    `json:"createdAt"`
	Data       any       `json:"data"`
}

type paymentData struct {
	Payment      PaymentView      `json:"payment"`
	Watch        watchSummary     `json:"watch"`
	Verification verificationView `json:"verification"`
}

type watchSummary struct {
	ID            string `json:"id"`
	Label         string `json:"label"`
	WalletAddress string `json:"walletAddress"`
}

type testData struct {
	Endpoint endpointSummary `json:"endpoint"`
}

type endpointSummary struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

type verificationView struct {
	Outcome Outcome  `json:"outcome"`
	Reasons []Reason `json:"reasons"`
}

// PaymentView is the JSON form of a payment, as specified.
type PaymentView struct {
	ID             string    `json:"id"`
	TxHash         string    `json:"txHash"`
	Ledger         uint32    `json:"ledger"`
	LedgerClosedAt string    `json:"ledgerClosedAt"`
	From           string    `json:"from"`
	To             string    `json:"to"`
	ToMuxedID      *string   `json:"toMuxedId"`
	Memo           *string   `json:"memo"`
	MemoType       *MemoType `json:"memoType"`
	Asset          AssetView `json:"asset"`
	Amount         string    `json:"amount"`
	AmountStroops  string    `json:"amountStroops"`
}

// AssetView is the JSON form of an asset. Issuer is null for the native asset.
type AssetView struct {
	Code   string  `json:"code"`
	Issuer *string `json:"issuer"`
}

// ViewAsset returns the JSON form of an asset.
func ViewAsset(a Asset) AssetView {
	return AssetView{Code: a.Code, Issuer: nullable(a.Issuer)}
}

// ViewPayment returns the JSON form of a payment.
func ViewPayment(p Payment) PaymentView {
	v := PaymentView{
		ID:             p.ID,
		TxHash:         p.TxHash,
		Ledger:         OnChain(p.Ledger),
		LedgerClosedAt: FormatSeconds(p.ClosedAtMillis / 1000),
		From:           p.From,
		To:             p.To,
		ToMuxedID:      nullable(p.ToMuxedID),
		Asset:          ViewAsset(p.Asset),
		Amount:         FormatAmount(p.AmountStroops),
		AmountStroops:  strconv.FormatInt(p.AmountStroops, 10),
	}
	if p.Memo.Type != MemoNone {
		text := p.Memo.String()
		v.Memo, v.MemoType = &text, &p.Memo.Type
	}
	return v
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encode returns v as JSON, without HTML escapes and newline. A failure to encode is a bug.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("domain: encoding %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// FormatMillis formats a time as ISO 8601 in UTC with milliseconds.
func FormatMillis(unixMillis int64) string {
	return time.UnixMilli(unixMillis).UTC().Format("2006-01-02T15:04:05.000Z")
}

// FormatSeconds formats a time as ISO 8601 in UTC with seconds, like ledger close times.
func FormatSeconds(unixSeconds int64) string {
	return time.Unix(unixSeconds, 0).UTC().Format("2006-01-02T15:04:05Z")
}
