package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Types of events. Ignore unknown types, because new ones may be added.
const (
	PaymentReceived = "payment.received"
	PaymentRejected = "payment.rejected"
	TestPing        = "test.ping"

	// About another endpoint of the account that sends its notices to this one.
	EndpointFailing  = "endpoint.failing"
	EndpointDisabled = "endpoint.disabled"
)

// Event is the body of a webhook (schemas/events). The type of Data depends on Type.
type Event struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	APIVersion string          `json:"apiVersion"`
	CreatedAt  string          `json:"createdAt"` // ISO 8601, UTC
	Data       json.RawMessage `json:"data"`
}

// PaymentData is the data of payment.received and payment.rejected.
type PaymentData struct {
	Payment      Payment      `json:"payment"`
	Watch        Watch        `json:"watch"`
	Verification Verification `json:"verification"`
}

// sampleWatch is the watch id in sample events. No watch has it.
const sampleWatch = "wat_00000000000000000000000000"

// IsSample reports whether the payment is a sample (lumenhook endpoints test --type
// payment.received). A sample is not a real payment, so don't credit it.
func (d PaymentData) IsSample() bool { return d.Watch.ID == sampleWatch }

// Payment is a payment on the Stellar network. Fields that may be null are pointers.
type Payment struct {
	ID             string  `json:"id"`
	TxHash         string  `json:"txHash"`
	Ledger         uint32  `json:"ledger"`
	LedgerClosedAt string  `json:"ledgerClosedAt"` // ISO 8601, UTC
	From           string  `json:"from"`
	To             string  `json:"to"`
	ToMuxedID      *string `json:"toMuxedId"`
	Memo           *string `json:"memo"`
	MemoType       *string `json:"memoType"` // text, id, hash, return
	Asset          Asset   `json:"asset"`
	Amount         string  `json:"amount"`        // in units, with 7 decimals
	AmountStroops  string  `json:"amountStroops"` // the same as an integer; use it for calculations
}

// Stroops returns the amount as an integer. One unit is 10,000,000 stroops.
func (p Payment) Stroops() (int64, error) {
	stroops, err := strconv.ParseInt(p.AmountStroops, 10, 64)
	if err != nil || stroops < 0 {
		return 0, fmt.Errorf("payment %s: amountStroops %q is not an amount", p.ID, p.AmountStroops)
	}
	return stroops, nil
}

// Asset is the asset of a payment. Issuer is nil for XLM, the native asset.
type Asset struct {
	Code   string  `json:"code"`
	Issuer *string `json:"issuer"`
}

// Watch is the watch that the payment matched.
type Watch struct {
	ID            string `json:"id"`
	Label         string `json:"label"`
	WalletAddress string `json:"walletAddress"`
}

// Verification is the result of checking the payment against the watch's rules.
type Verification struct {
	Outcome string   `json:"outcome"` // VERIFIED or REJECTED
	Reasons []string `json:"reasons"` // all reasons for a rejection, such as AMOUNT_TOO_LOW
}

// PingData is the data of test.ping.
type PingData struct {
	Endpoint Endpoint `json:"endpoint"`
}

// FailingData is the data of endpoint.failing: the endpoint has accepted nothing for a while.
type FailingData struct {
	Endpoint       Endpoint    `json:"endpoint"`
	FailingSince   string      `json:"failingSince"` // ISO 8601, UTC
	FailedAttempts int         `json:"failedAttempts"`
	LastAttempt    LastAttempt `json:"lastAttempt"`
}

// DisabledData is the data of endpoint.disabled: the service no longer sends to the endpoint.
type DisabledData struct {
	Endpoint    Endpoint    `json:"endpoint"`
	Reason      string      `json:"reason"`     // gone, consecutive_failures
	DisabledAt  string      `json:"disabledAt"` // ISO 8601, UTC
	LastAttempt LastAttempt `json:"lastAttempt"`
}

// Endpoint is the endpoint that an event is about, as of the event's creation.
type Endpoint struct {
	ID          string `json:"id"`
	URL         string `json:"url"`
	Description string `json:"description"`
}

// LastAttempt is the result of the last attempt at the endpoint. It has either a status or an
// error.
type LastAttempt struct {
	EventID    string  `json:"eventId"`
	StatusCode *int    `json:"statusCode"`
	Error      *string `json:"error"`
}

// ParseEvent parses a body, which must be one JSON object in UTF-8 with the fields of every event.
func ParseEvent(body []byte) (Event, error) {
	if !utf8.Valid(body) {
		return Event{}, errors.New("the body is not UTF-8")
	}
	var e Event
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&e); err != nil {
		return Event{}, fmt.Errorf("the body is not an event: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Event{}, errors.New("the body contains data after the event")
	}
	if e.ID == "" || e.Type == "" {
		return Event{}, errors.New("the body is not an event: it has no id or type")
	}
	return e, nil
}

// Payment returns the data of payment.received or payment.rejected.
func (e Event) Payment() (PaymentData, error) {
	return dataOf(e, "payment", func(d PaymentData) bool { return d.Payment.ID != "" })
}

// Ping returns the data of test.ping.
func (e Event) Ping() (PingData, error) {
	return dataOf(e, "endpoint", func(d PingData) bool { return d.Endpoint.ID != "" })
}

// Failing returns the data of endpoint.failing.
func (e Event) Failing() (FailingData, error) {
	return dataOf(e, "time since when", func(d FailingData) bool { return d.FailingSince != "" })
}

// Disabled returns the data of endpoint.disabled.
func (e Event) Disabled() (DisabledData, error) {
	return dataOf(e, "time of disabling", func(d DisabledData) bool { return d.DisabledAt != "" })
}

// dataOf decodes the data of an event. The data of other types lacks the part.
func dataOf[D any](e Event, part string, has func(D) bool) (D, error) {
	var d D
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return d, fmt.Errorf("the data of %s: %w", e.ID, err)
	}
	if !has(d) {
		return d, fmt.Errorf("the data of %s, a %s, has no %s", e.ID, e.Type, part)
	}
	return d, nil
}
