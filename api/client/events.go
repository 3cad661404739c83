package client

import (
	"context"
	"encoding/json"
	"time"
)

const events = "/v1/events"

// Event is an event with its delivery. Attempts are set when it was read by its id.
type Event struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	APIVersion string          `json:"apiVersion"`
	CreatedAt  time.Time       `json:"createdAt"`
	Data       json.RawMessage `json:"data"`
	Delivery   Delivery        `json:"delivery"`
	Attempts   []Attempt       `json:"attempts,omitempty"`
	// The history is being refilled, and may show an earlier state of the event.
	HistoryBehind bool `json:"historyBehind,omitempty"`
}

// Delivery is the state of an event's delivery.
type Delivery struct {
	State         string     `json:"state"`
	Held          bool       `json:"held"`
	EndpointID    string     `json:"endpointId"`
	Sequence      *int64     `json:"sequence"` // among the endpoint's events; nil: no number
	NextAttemptAt *time.Time `json:"nextAttemptAt"`
	// In lists: how many attempts were made, and what the last one at this endpoint met.
	Attempts       int     `json:"attempts,omitzero"`
	LastStatusCode *int    `json:"lastStatusCode,omitzero"`
	LastError      *string `json:"lastError,omitzero"`
}

// Attempt is one attempt of a delivery; StatusCode is nil when no status arrived.
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

// Resent is a delivery after a resend.
type Resent struct {
	ID       string   `json:"id"`
	Delivery Delivery `json:"delivery"`
}

// EventFilter selects events; empty fields do not filter.
type EventFilter struct {
	EndpointID    string    `json:"endpointId,omitempty" help:"only events for this endpoint (ep_…)"`
	WatchID       string    `json:"watchId,omitempty" help:"only events for this watch (wat_…)"`
	WalletAddress string    `json:"walletAddress,omitempty" flag:"wallet" help:"only payments to this wallet (G…)"`
	Type          string    `json:"type,omitempty" values:"payment.received payment.rejected test.ping endpoint.failing endpoint.disabled" help:"only events of this type: payment.received, payment.rejected, test.ping, endpoint.failing or endpoint.disabled"`
	State         string    `json:"state,omitempty" values:"QUEUED WAITING DELIVERED FAILED CANCELLED" help:"only events in this state: QUEUED (waiting for the first attempt), WAITING (waiting for another attempt), DELIVERED, FAILED (no attempts left) or CANCELLED"`
	Since         time.Time `json:"since,omitzero" help:"only events created at or after this time: a timestamp, or how long ago, such as 24h"`
	Until         time.Time `json:"until,omitzero" help:"only events created before this time: a timestamp, or how long ago"`

	// What was paid. Both ends of a range of amounts are included.
	PaymentID string `json:"paymentId,omitempty" help:"only events for the payment with this id (data.payment.id)"`
	TxHash    string `json:"txHash,omitempty" flag:"tx" help:"only events for the transaction with this hash (64 hex digits)"`
	Sender    string `json:"sender,omitempty" help:"only payments from this account or contract"`
	Memo      string `json:"memo,omitempty" help:"only payments with this memo, as shown in events"`
	Asset     string `json:"asset,omitempty" help:"only payments in this asset: XLM or CODE:ISSUER"`
	MinAmount string `json:"minAmount,omitempty" help:"only payments of at least this amount, such as 12.5"`
	MaxAmount string `json:"maxAmount,omitempty" help:"only payments of at most this amount"`
}

// ListEvents lists events, newest first and without their attempts.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p Page) (List[Event], error) {
	return list[Event](ctx, c, events, p, f)
}

// GetEvent reads an event and every attempt to deliver it.
func (c *Client) GetEvent(ctx context.Context, eventID string) (Event, error) {
	return ask[Event](ctx, c, get, id(events, eventID), nil, nil)
}

// Receipt is evidence of attempts to deliver an event. Keep it as it is: `lumenhook
// verify-receipt` checks it, and its JSON, without the service.
type Receipt struct {
	Format  string       `json:"format"`
	EventID string       `json:"eventId"`
	Logs    []ReceiptLog `json:"logs"`
}

// ReceiptLog are attempts that are in one transparency log, under its signed state.
type ReceiptLog struct {
	Checkpoint string           `json:"checkpoint"`
	Earlier    *ReceiptEarlier  `json:"earlier,omitempty"` // nil: not asked for
	Attempts   []ReceiptAttempt `json:"attempts"`
}

// ReceiptEarlier proves that a log continues an earlier state. Hashes are in base64.
type ReceiptEarlier struct {
	Size  int64    `json:"size"`
	Root  string   `json:"root"`
	Proof []string `json:"proof"`
}

// ReceiptAttempt is an attempt with the proof that it is in the log. SHA-256 are in hex, the
// proof in base64.
type ReceiptAttempt struct {
	EndpointID      string   `json:"endpointId"`
	Number          int      `json:"number"`
	SentAtMs        int64    `json:"sentAtMs"`
	DurationMs      int64    `json:"durationMs"`
	BodySHA256      string   `json:"bodySha256"`
	SignatureSHA256 string   `json:"signatureSha256"` // of the value of Webhook-Signature
	StatusCode      int      `json:"statusCode"`      // 0: none arrived
	Error           string   `json:"error"`
	AnswerSHA256    string   `json:"answerSha256"` // of the first 1 KiB
	Leaf            int64    `json:"leaf"`         // index in the log
	Proof           []string `json:"proof"`
}

// ReceiptQuery says what a receipt is to prove.
type ReceiptQuery struct {
	// Attempt is the number of one attempt; 0: all of them, the last 100.
	Attempt int `json:"attempt,omitempty" help:"number of a single attempt to prove; 0: all attempts, up to the last 100"`
	// EarlierSize is the size of the log in an earlier receipt: the receipt then also proves that
	// the log continues from there. 0: it does not.
	EarlierSize int64 `json:"earlierSize,omitempty" help:"log size from an earlier receipt, to also prove that the log continues from there"`
}

// GetReceipt reads evidence of an event's attempts.
func (c *Client) GetReceipt(
	ctx context.Context, eventID string, q ReceiptQuery,
) (Receipt, error) {
	return read[Receipt](ctx, c, id(events, eventID, "receipt"), q)
}

// ResendEvent queues an event again.
func (c *Client) ResendEvent(ctx context.Context, eventID string, o ...Option) (Resent, error) {
	return ask[Resent](ctx, c, post, id(events, eventID, "resend"), nil, o)
}

// ResendMany selects events to queue again, by one filter at least.
type ResendMany struct {
	EventFilter
	Cursor string `json:"cursor,omitempty" help:"continue from where a previous resend with the same filters ended"`
	DryRun bool   `json:"dryRun,omitempty" help:"show how many events match without queueing them"`
}

// ResendManyResult is how many events were queued, or are on their way already, of those that
// matched.
type ResendManyResult struct {
	Queued     int             `json:"queued"`
	Matched    int             `json:"matched"`
	Refused    []ResendRefused `json:"refused"`
	Truncated  bool            `json:"truncated"`
	NextCursor *string         `json:"nextCursor"`
	DryRun     bool            `json:"dryRun,omitzero"`
}

// ResendRefused is an event that cannot be sent again, and the code of why.
type ResendRefused struct {
	EventID string `json:"eventId"`
	Code    string `json:"code"`
}

// ResendEvents queues events again that filters select, up to 1,000.
func (c *Client) ResendEvents(
	ctx context.Context, s ResendMany, o ...Option,
) (ResendManyResult, error) {
	return ask[ResendManyResult](ctx, c, post, events+"/resend", s, o)
}

// Rates are the attempts of a time, counted: those that delivered, that were answered otherwise,
// and that got no complete answer. MedianMs and P99Ms, of all of them, are nil without any.
type Rates struct {
	From       time.Time     `json:"from"`
	To         time.Time     `json:"to"`
	Delivered  int64         `json:"delivered"`
	Refused    int64         `json:"refused"`
	Unanswered int64         `json:"unanswered"`
	MedianMs   *int64        `json:"medianMs"`
	P99Ms      *int64        `json:"p99Ms"`
	Minutes    []RatesMinute `json:"minutes"` // in order, those with attempts
	// Up to now, whatever minutes were asked for.
	Hour AttemptCounts `json:"hour"`
	Day  AttemptCounts `json:"day"`
	Week AttemptCounts `json:"week"`
}

// RatesMinute is one minute of [Rates].
type RatesMinute struct {
	Minute     time.Time `json:"minute"`
	Delivered  int64     `json:"delivered"`
	Refused    int64     `json:"refused"`
	Unanswered int64     `json:"unanswered"`
}

// GetRates counts the attempts of the last minutes (0: 60, 1440 at most), of one endpoint or, if
// it is empty, of all.
func (c *Client) GetRates(ctx context.Context, endpointID string, minutes int) (Rates, error) {
	return read[Rates](ctx, c, "/v1/attempts/rates", struct {
		EndpointID string `json:"endpointId"`
		Minutes    int    `json:"minutes"`
	}{endpointID, minutes})
}

// Pull selects events of an endpoint by their numbers.
type Pull struct {
	// After is the number before the first: NextAfter of the answer before.
	After int64 `json:"after"`
	// Since takes the place of After: from the first event that was created then or later.
	Since time.Time `json:"since"`
	Limit int       `json:"limit"` // 0: 50
	// Wait is how long to wait for an event: whole seconds, 30 at most; 0: do not wait.
	Wait time.Duration `json:"waitSeconds"`
}

// PulledEvents are events of an endpoint, in the order of their numbers.
type PulledEvents struct {
	Data      []PulledEvent `json:"data"`
	Missing   []Numbers     `json:"missing"`   // of events that are no longer kept
	NextAfter int64         `json:"nextAfter"` // of the next [Pull]
}

// PulledEvent is an event with the headers of a delivery, signed with the secrets that are valid
// now, for the time when the event was created. The bytes of the body are what is signed.
type PulledEvent struct {
	Sequence int64           `json:"sequence"`
	Headers  DeliveryHeaders `json:"headers"`
	Body     string          `json:"body"`
}

// DeliveryHeaders are the headers of a delivery.
type DeliveryHeaders struct {
	ID        string `json:"Webhook-Id"`
	Timestamp string `json:"Webhook-Timestamp"`
	Signature string `json:"Webhook-Signature"`
	Sequence  string `json:"Webhook-Sequence"`
}

// Numbers are the numbers from one to another, both included.
type Numbers struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// PullEvents reads the next events of an endpoint, and waits for the first of them if asked to.
// An HTTP client that is given to [New] must allow for the wait.
func (c *Client) PullEvents(
	ctx context.Context, endpointID string, p Pull,
) (PulledEvents, error) {
	return read[PulledEvents](ctx, c, id(endpoints, endpointID, "events"), p)
}
