package client

import (
	"context"
	"encoding/json"
	"time"
)

const events = "/v1/events"

// Event is an event and its delivery. Only GetEvent sets Attempts.
type Event struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	APIVersion string          `json:"apiVersion"`
	CreatedAt  time.Time       `json:"createdAt"`
	Data       json.RawMessage `json:"data"`
	Delivery   Delivery        `json:"delivery"`
	Attempts   []Attempt       `json:"attempts,omitempty"`
	// HistoryBehind reports that the history is being refilled and may show an older state.
	HistoryBehind bool `json:"historyBehind,omitempty"`
}

// PaymentData is the data of an event about a payment (schemas/events).
type PaymentData struct {
	Payment struct {
		ID             string    `json:"id"`
		TxHash         string    `json:"txHash"`
		Ledger         uint32    `json:"ledger"`
		LedgerClosedAt time.Time `json:"ledgerClosedAt"`
		From           string    `json:"from"`
		To             string    `json:"to"`
		ToMuxedID      *string   `json:"toMuxedId"`
		Memo           *string   `json:"memo"`
		MemoType       *string   `json:"memoType"`
		Asset          Asset     `json:"asset"`
		Amount         string    `json:"amount"`
	} `json:"payment"`
	Watch struct {
		ID            string `json:"id"`
		Label         string `json:"label"`
		WalletAddress string `json:"walletAddress"`
	} `json:"watch"`
	Verification Verification `json:"verification"`
}

// PaymentData returns the data of an event about a payment, and an empty struct for other events.
func (e Event) PaymentData() PaymentData {
	var d PaymentData
	if json.Unmarshal(e.Data, &d) != nil {
		return PaymentData{}
	}
	return d
}

// Delivery is the state of an event's delivery.
type Delivery struct {
	State         string     `json:"state"`
	Held          bool       `json:"held"`
	EndpointID    string     `json:"endpointId"`
	Sequence      *int64     `json:"sequence"` // number among the endpoint's events; nil: unnumbered
	NextAttemptAt *time.Time `json:"nextAttemptAt"`
	// Only set in lists: the number of attempts, and the result of the last one at this endpoint.
	Attempts       int     `json:"attempts,omitzero"`
	LastStatusCode *int    `json:"lastStatusCode,omitzero"`
	LastError      *string `json:"lastError,omitzero"`
}

// Attempt is one attempt to deliver an event. StatusCode is nil if no response arrived.
type Attempt struct {
	Number       int       `json:"number"`
	Run          int       `json:"run"`
	EndpointID   string    `json:"endpointId"`
	SentAt       time.Time `json:"sentAt"`
	DurationMs   int64     `json:"durationMs"`
	StatusCode   *int      `json:"statusCode"`
	Error        *string   `json:"error"`
	ErrorDetail  *string   `json:"errorDetail"` // stage and cause of Error
	ResponseBody string    `json:"responseBody"`
}

// Resent is an event that was queued again.
type Resent struct {
	ID       string   `json:"id"`
	Delivery Delivery `json:"delivery"`
}

// EventFilter filters events. Empty fields don't filter.
type EventFilter struct {
	EndpointID    string    `json:"endpointId,omitempty" help:"only events for this endpoint (ep_…)"`
	WatchID       string    `json:"watchId,omitempty" help:"only events for this watch (wat_…)"`
	WalletAddress string    `json:"walletAddress,omitempty" flag:"wallet" help:"only payments to this wallet (G…)"`
	Type          string    `json:"type,omitempty" values:"payment.received payment.rejected test.ping endpoint.failing endpoint.disabled" help:"only events of this type: payment.received, payment.rejected, test.ping, endpoint.failing or endpoint.disabled"`
	State         string    `json:"state,omitempty" values:"QUEUED WAITING DELIVERED FAILED CANCELLED" help:"only events in this state: QUEUED (waiting for the first attempt), WAITING (waiting for another attempt), DELIVERED, FAILED (no attempts left) or CANCELLED"`
	Since         time.Time `json:"since,omitzero" help:"only events created at or after this time: a timestamp, or how long ago, such as 24h"`
	Until         time.Time `json:"until,omitzero" help:"only events created before this time: a timestamp, or how long ago"`

	// Filters on the payment. Amount ranges include both ends.
	PaymentID string `json:"paymentId,omitempty" help:"only events for the payment with this id (data.payment.id)"`
	TxHash    string `json:"txHash,omitempty" flag:"tx" help:"only events for the transaction with this hash (64 hex digits)"`
	Sender    string `json:"sender,omitempty" help:"only payments from this account or contract"`
	Memo      string `json:"memo,omitempty" help:"only payments with this memo, as shown in events"`
	Asset     string `json:"asset,omitempty" help:"only payments in this asset: XLM or CODE:ISSUER"`
	MinAmount string `json:"minAmount,omitempty" help:"only payments of at least this amount, such as 12.5"`
	MaxAmount string `json:"maxAmount,omitempty" help:"only payments of at most this amount"`
}

// ListEvents lists events, newest first, without their attempts.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p Page) (List[Event], error) {
	return list[Event](ctx, c, events, p, f)
}

// GetEvent returns an event with all attempts to deliver it.
func (c *Client) GetEvent(ctx context.Context, eventID string) (Event, error) {
	return ask[Event](ctx, c, get, id(events, eventID), nil, nil)
}

// Receipt is evidence of the attempts to deliver an event. Store it unchanged: `lumenhook
// verify-receipt` checks its JSON without calling the service.
type Receipt struct {
	Format  string       `json:"format"`
	EventID string       `json:"eventId"`
	Logs    []ReceiptLog `json:"logs"`
}

// ReceiptLog holds attempts from one transparency log, and the log's signed state.
type ReceiptLog struct {
	Checkpoint string           `json:"checkpoint"`
	Earlier    *ReceiptEarlier  `json:"earlier,omitempty"` // nil: not requested
	Attempts   []ReceiptAttempt `json:"attempts"`
}

// ReceiptEarlier proves that a log extends an earlier state. Hashes are in base64.
type ReceiptEarlier struct {
	Size  int64    `json:"size"`
	Root  string   `json:"root"`
	Proof []string `json:"proof"`
}

// ReceiptAttempt is an attempt and the proof that the log contains it. SHA-256 values are in hex,
// the proof is in base64.
type ReceiptAttempt struct {
	EndpointID      string   `json:"endpointId"`
	Number          int      `json:"number"`
	SentAtMs        int64    `json:"sentAtMs"`
	DurationMs      int64    `json:"durationMs"`
	BodySHA256      string   `json:"bodySha256"`
	SignatureSHA256 string   `json:"signatureSha256"` // of the Webhook-Signature header's value
	StatusCode      int      `json:"statusCode"`      // 0: no response arrived
	Error           string   `json:"error"`
	AnswerSHA256    string   `json:"answerSha256"` // of the first 1 KiB
	Leaf            int64    `json:"leaf"`         // index in the log
	Proof           []string `json:"proof"`
}

// ReceiptQuery selects what a receipt proves.
type ReceiptQuery struct {
	// Attempt is the number of the only attempt to prove. 0 proves the last 100.
	Attempt int `json:"attempt,omitempty" help:"number of a single attempt to prove; 0: all attempts, up to the last 100"`
	// EarlierSize is the log size of an earlier receipt. The new receipt then also proves that the
	// log extends that one. 0 omits this proof.
	EarlierSize int64 `json:"earlierSize,omitempty" help:"log size from an earlier receipt, to also prove that the log continues from there"`
}

// GetReceipt returns evidence of an event's attempts.
func (c *Client) GetReceipt(
	ctx context.Context, eventID string, q ReceiptQuery,
) (Receipt, error) {
	return read[Receipt](ctx, c, id(events, eventID, "receipt"), q)
}

// ResendEvent queues an event for delivery again.
func (c *Client) ResendEvent(ctx context.Context, eventID string, o ...Option) (Resent, error) {
	return ask[Resent](ctx, c, post, id(events, eventID, "resend"), nil, o)
}

// ResendMany selects the events to queue again. At least one filter is required.
type ResendMany struct {
	EventFilter
	Cursor string `json:"cursor,omitempty" help:"continue from where a previous resend with the same filters ended"`
	DryRun bool   `json:"dryRun,omitempty" help:"show how many events match without queueing them"`
}

// ResendManyResult counts the events that matched, and those that were queued or were pending
// already.
type ResendManyResult struct {
	Queued     int             `json:"queued"`
	Matched    int             `json:"matched"`
	Refused    []ResendRefused `json:"refused"`
	Truncated  bool            `json:"truncated"`
	NextCursor *string         `json:"nextCursor"`
	DryRun     bool            `json:"dryRun,omitzero"`
}

// ResendRefused is an event that cannot be sent again, and the reason's code.
type ResendRefused struct {
	EventID string `json:"eventId"`
	Code    string `json:"code"`
}

// ResendEvents queues up to 1,000 events that match the filters for delivery again.
func (c *Client) ResendEvents(
	ctx context.Context, s ResendMany, o ...Option,
) (ResendManyResult, error) {
	return ask[ResendManyResult](ctx, c, post, events+"/resend", s, o)
}

// Rates counts the attempts of a period: those that delivered, those that got another response, and
// those without a complete response. MedianMs and P99Ms cover all attempts, and are nil without
// attempts.
type Rates struct {
	From       time.Time     `json:"from"`
	To         time.Time     `json:"to"`
	Delivered  int64         `json:"delivered"`
	Refused    int64         `json:"refused"`
	Unanswered int64         `json:"unanswered"`
	MedianMs   *int64        `json:"medianMs"`
	P99Ms      *int64        `json:"p99Ms"`
	Minutes    []RatesMinute `json:"minutes"` // minutes with attempts, oldest first
	// Counts up to now, independent of the requested minutes.
	Hour AttemptCounts `json:"hour"`
	Day  AttemptCounts `json:"day"`
	Week AttemptCounts `json:"week"`
}

// RatesMinute counts the attempts of one minute in [Rates].
type RatesMinute struct {
	Minute     time.Time `json:"minute"`
	Delivered  int64     `json:"delivered"`
	Refused    int64     `json:"refused"`
	Unanswered int64     `json:"unanswered"`
}

// GetRates counts the attempts of the last minutes (at most 1440; 0 means 60). An empty endpointID
// counts the attempts of all endpoints.
func (c *Client) GetRates(ctx context.Context, endpointID string, minutes int) (Rates, error) {
	return read[Rates](ctx, c, "/v1/attempts/rates", struct {
		EndpointID string `json:"endpointId"`
		Minutes    int    `json:"minutes"`
	}{endpointID, minutes})
}

// Pull selects events of an endpoint by sequence number.
type Pull struct {
	// After is the last number already read: NextAfter of the previous response.
	After int64 `json:"after"`
	// Since replaces After, and starts at the first event created at or after this time.
	Since time.Time `json:"since"`
	Limit int       `json:"limit"` // 0: 50
	// Wait is how long to wait for an event, in whole seconds up to 30. 0 does not wait.
	Wait time.Duration `json:"waitSeconds"`
}

// PulledEvents are an endpoint's events in sequence order.
type PulledEvents struct {
	Data      []PulledEvent `json:"data"`
	Missing   []Numbers     `json:"missing"`   // numbers of events that are no longer stored
	NextAfter int64         `json:"nextAfter"` // the After of the next [Pull]
}

// PulledEvent is an event with its delivery headers. It is signed with the currently valid secrets,
// as of the time when the event was created. The signature covers the bytes of Body.
type PulledEvent struct {
	Sequence int64           `json:"sequence"`
	Headers  DeliveryHeaders `json:"headers"`
	Body     string          `json:"body"`
}

// DeliveryHeaders are the headers that Lumenhook adds to a delivery.
type DeliveryHeaders struct {
	ID        string `json:"Webhook-Id"`
	Timestamp string `json:"Webhook-Timestamp"`
	Signature string `json:"Webhook-Signature"`
	Sequence  string `json:"Webhook-Sequence"`
}

// Numbers is a range of sequence numbers, including both ends.
type Numbers struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// PullEvents returns an endpoint's next events. If p.Wait is set, it waits for the first one. The
// timeout of an HTTP client given to [New] must be longer than the wait.
func (c *Client) PullEvents(
	ctx context.Context, endpointID string, p Pull,
) (PulledEvents, error) {
	return read[PulledEvents](ctx, c, id(endpoints, endpointID, "events"), p)
}
