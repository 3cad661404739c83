package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
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
	Sequence      *int64     `json:"sequence"` // among the endpoint's events; nil: it has none
	NextAttemptAt *time.Time `json:"nextAttemptAt"`
	// In lists: how many attempts were made, and what the last one at this endpoint met.
	Attempts       int     `json:"attempts,omitempty"`
	LastStatusCode *int    `json:"lastStatusCode,omitempty"`
	LastError      *string `json:"lastError,omitempty"`
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
	EndpointID, WatchID, WalletAddress, Type, State string
	Since, Until                                    time.Time

	// What was paid. Amounts are in units, such as "12.5", and both ends are included; an asset
	// is XLM or CODE:ISSUER; a memo is as events show it.
	PaymentID, TxHash, Sender, Memo, Asset, MinAmount, MaxAmount string
}

// ListEvents lists events, newest first and without their attempts.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p Page) (List[Event], error) {
	return list[Event](ctx, c, events, p,
		"endpointId", f.EndpointID, "watchId", f.WatchID, "walletAddress", f.WalletAddress,
		"type", f.Type, "state", f.State, "since", instant(f.Since), "until", instant(f.Until),
		"paymentId", f.PaymentID, "txHash", f.TxHash, "sender", f.Sender, "memo", f.Memo,
		"asset", f.Asset, "minAmount", f.MinAmount, "maxAmount", f.MaxAmount)
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

// ReceiptEarlier proves that a log goes on from an earlier state. Hashes are in base64.
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
	Attempt int // the number of one attempt; 0: all of them, the last 100
	// EarlierSize is the size of the log in a receipt of before: that the log goes on from there is
	// proved too. 0: it is not.
	EarlierSize int64
}

// GetReceipt reads evidence of an event's attempts.
func (c *Client) GetReceipt(
	ctx context.Context, eventID string, q ReceiptQuery,
) (answer Receipt, err error) {
	query := url.Values{}
	if q.Attempt != 0 {
		query.Set("attempt", strconv.Itoa(q.Attempt))
	}
	if q.EarlierSize != 0 {
		query.Set("earlierSize", strconv.FormatInt(q.EarlierSize, 10))
	}
	path := id(events, eventID, "receipt")
	err = c.do(ctx, call{method: get, path: path, query: query, into: &answer})
	return answer, err
}

// ResendEvent queues an event again.
func (c *Client) ResendEvent(ctx context.Context, eventID string, o ...Option) (Resent, error) {
	return ask[Resent](ctx, c, post, id(events, eventID, "resend"), nil, o)
}

// ResendMany selects events to queue again, by one filter at least. Empty fields do not filter.
type ResendMany struct {
	EndpointID    string     `json:"endpointId,omitempty"`
	WatchID       string     `json:"watchId,omitempty"`
	WalletAddress string     `json:"walletAddress,omitempty"`
	Type          string     `json:"type,omitempty"`
	State         string     `json:"state,omitempty"`
	Since         *time.Time `json:"since,omitempty"`
	Until         *time.Time `json:"until,omitempty"`
	PaymentID     string     `json:"paymentId,omitempty"`
	TxHash        string     `json:"txHash,omitempty"`
	Sender        string     `json:"sender,omitempty"`
	Memo          string     `json:"memo,omitempty"`
	Asset         string     `json:"asset,omitempty"`
	MinAmount     string     `json:"minAmount,omitempty"`
	MaxAmount     string     `json:"maxAmount,omitempty"`
	Cursor        string     `json:"cursor,omitempty"` // NextCursor of the answer before
	DryRun        bool       `json:"dryRun,omitempty"` // count them, and queue none
}

// ResendManyResult is how many events were queued, or are on their way already, of those that
// matched.
type ResendManyResult struct {
	Queued     int             `json:"queued"`
	Matched    int             `json:"matched"`
	Refused    []ResendRefused `json:"refused"`
	Truncated  bool            `json:"truncated"`
	NextCursor *string         `json:"nextCursor"`
	DryRun     bool            `json:"dryRun,omitempty"`
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
func (c *Client) GetRates(
	ctx context.Context, endpointID string, minutes int,
) (answer Rates, err error) {
	query := parameters("endpointId", endpointID, "minutes", count(uint64(max(minutes, 0))))
	err = c.do(ctx, call{method: get, path: "/v1/attempts/rates", query: query, into: &answer})
	return answer, err
}

// Pull selects events of an endpoint by their numbers.
type Pull struct {
	After int64         // numbers above this; NextAfter of the answer before
	Since time.Time     // in place of After: from the first that was created then or later
	Limit int           // 0: 50
	Wait  time.Duration // for an event, if there is none: whole seconds, 30 at most; 0: none
}

// PulledEvents are events of an endpoint, in the order of their numbers.
type PulledEvents struct {
	Data      []PulledEvent `json:"data"`
	Missing   []Numbers     `json:"missing"`   // of events that are no longer kept
	NextAfter int64         `json:"nextAfter"` // of the next [Pull]
}

// PulledEvent is an event with the headers of a delivery that is made now. The bytes of the
// body are what is signed.
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
) (answer PulledEvents, err error) {
	query := url.Values{}
	if p.After != 0 {
		query.Set("after", strconv.FormatInt(p.After, 10))
	}
	if !p.Since.IsZero() {
		query.Set("since", instant(p.Since))
	}
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Wait != 0 {
		query.Set("waitSeconds", strconv.FormatInt(int64(p.Wait/time.Second), 10))
	}
	err = c.do(ctx, call{
		method: get,
		path:   id(endpoints, endpointID, "events"),
		query:  query,
		into:   &answer,
	})
	return answer, err
}
