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
	Sequence      *int64     `json:"sequence"` // among the endpoint's events; nil: it has none
	NextAttemptAt *time.Time `json:"nextAttemptAt"`
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
}

// ListEvents lists events, newest first and without their attempts.
func (c *Client) ListEvents(ctx context.Context, f EventFilter, p Page) (List[Event], error) {
	return list[Event](ctx, c, events, p,
		"endpointId", f.EndpointID, "watchId", f.WatchID, "walletAddress", f.WalletAddress,
		"type", f.Type, "state", f.State, "since", instant(f.Since), "until", instant(f.Until))
}

// GetEvent reads an event and every attempt to deliver it.
func (c *Client) GetEvent(ctx context.Context, eventID string) (Event, error) {
	return ask[Event](ctx, c, get, id(events, eventID), nil, nil)
}

// ResendEvent queues an event again.
func (c *Client) ResendEvent(ctx context.Context, eventID string, o ...Option) (Resent, error) {
	return ask[Resent](ctx, c, post, id(events, eventID, "resend"), nil, o)
}
