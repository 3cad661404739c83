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

// Types of events. There may be others one day: pass over what you do not know.
const (
	PaymentReceived = "payment.received"
	PaymentRejected = "payment.rejected"
	TestPing        = "test.ping"
)

// Event is the body of a webhook (schemas/events). What Data holds depends on Type.
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

// Payment is a payment of the Stellar network. Fields that may be null are pointers.
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
	Amount         string  `json:"amount"`        // in units, with 7 digits after the point
	AmountStroops  string  `json:"amountStroops"` // the same as an integer: compute with this
}

// Stroops is the amount as an integer, 10,000,000 to one unit.
func (p Payment) Stroops() (int64, error) {
	stroops, err := strconv.ParseInt(p.AmountStroops, 10, 64)
	if err != nil || stroops < 0 {
		return 0, fmt.Errorf("payment %s: amountStroops is %q and no amount", p.ID, p.AmountStroops)
	}
	return stroops, nil
}

// Asset is what was paid. The issuer is nil for XLM, the network's own.
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

// Verification says how the payment did by the rules of the watch.
type Verification struct {
	Outcome string   `json:"outcome"` // VERIFIED or REJECTED
	Reasons []string `json:"reasons"` // every reason against it, such as AMOUNT_TOO_LOW
}

// PingData is the data of test.ping.
type PingData struct {
	Endpoint struct {
		ID          string `json:"id"`
		URL         string `json:"url"`
		Description string `json:"description"`
	} `json:"endpoint"`
}

// ParseEvent reads a body: one JSON object in UTF-8 with the fields of every event.
func ParseEvent(body []byte) (Event, error) {
	if !utf8.Valid(body) {
		return Event{}, errors.New("the body is not UTF-8")
	}
	var e Event
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&e); err != nil {
		return Event{}, fmt.Errorf("the body is no event: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Event{}, errors.New("the body goes on after the event")
	}
	if e.ID == "" || e.Type == "" {
		return Event{}, errors.New("the body is no event: it has no id or no type")
	}
	return e, nil
}

// Payment returns the data of payment.received or payment.rejected.
func (e Event) Payment() (PaymentData, error) {
	var d PaymentData
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return d, fmt.Errorf("the data of %s: %w", e.ID, err)
	}
	if d.Payment.ID == "" {
		return d, fmt.Errorf("the data of %s, a %s, has no payment", e.ID, e.Type)
	}
	return d, nil
}

// Ping returns the data of test.ping.
func (e Event) Ping() (PingData, error) {
	var d PingData
	if err := json.Unmarshal(e.Data, &d); err != nil {
		return d, fmt.Errorf("the data of %s: %w", e.ID, err)
	}
	return d, nil
}
