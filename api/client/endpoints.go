package client

import (
	"context"
	"time"
)

const endpoints = "/v1/endpoints"

// Endpoint is where events are sent. Secret is set after creation and rotation only,
// Warnings after creation and update.
type Endpoint struct {
	ID                  string            `json:"id"`
	URL                 string            `json:"url"`
	Description         string            `json:"description"`
	Headers             map[string]string `json:"headers"`
	LostHeaders         []string          `json:"lostHeaders,omitempty"`
	RateLimitPerSecond  *int              `json:"rateLimitPerSecond"`
	Signatures          []string          `json:"signatures,omitempty"`
	Ordering            string            `json:"ordering,omitempty"`
	NoticesTo           string            `json:"noticesTo,omitempty"`
	SigningKeyRotatedAt *time.Time        `json:"signingKeyRotatedAt,omitempty"`
	Status              string            `json:"status"`
	DisabledReason      *string           `json:"disabledReason"`
	DisabledAt          *time.Time        `json:"disabledAt"`
	ConsecutiveFailures int               `json:"consecutiveFailures"`
	CreatedAt           time.Time         `json:"createdAt"`
	UpdatedAt           time.Time         `json:"updatedAt"`
	Secret              string            `json:"secret,omitzero"`
	// SecretsUntil is until when the secret before the last rotation signs too; nil: it does not.
	SecretsUntil   *time.Time `json:"previousSecretUntil,omitempty"`
	Warnings       []string   `json:"warnings,omitzero"`
	WarningDetails []string   `json:"warningDetails,omitzero"` // the warnings in words
	// Health is set when an endpoint was read, unless HealthUnavailable is the code of why not.
	Health            *EndpointHealth `json:"health,omitzero"`
	HealthUnavailable string          `json:"healthUnavailable,omitzero"`

	ETag string `json:"-"` // of the answer, if it has one
}

// EndpointHealth is the health of an endpoint. State is down, failing, disabled, healthy or idle,
// worst first. Times are nil if unknown.
type EndpointHealth struct {
	State           string          `json:"state"`
	LastSuccessAt   *time.Time      `json:"lastSuccessAt"`
	LastFailureAt   *time.Time      `json:"lastFailureAt"`
	OldestPendingAt *time.Time      `json:"oldestPendingAt"` // creation of the oldest pending event
	PendingKnown    bool            `json:"pendingKnown"`    // false: that could not be read
	Hour            AttemptCounts   `json:"hour"`
	Day             AttemptCounts   `json:"day"`
	Week            AttemptCounts   `json:"week"`
	Sparkline       []AttemptCounts `json:"sparkline"` // the hours of the day, oldest first
}

// AttemptCounts counts attempts. SuccessRate is from 0 to 1; nil without attempts.
type AttemptCounts struct {
	Attempts    int64    `json:"attempts"`
	Delivered   int64    `json:"delivered"`
	SuccessRate *float64 `json:"successRate"`
}

// EndpointCreate are the fields of a new endpoint; URL must be set.
type EndpointCreate struct {
	URL                string            `json:"url" help:"URL to post events to"`
	Description        string            `json:"description,omitempty" help:"description of the endpoint"`
	Headers            map[string]string `json:"headers,omitempty" flag:"header" help:"custom header to send, as Name: value; can be repeated; to remove a header in an update, use Name: without a value"`
	RateLimitPerSecond int               `json:"rateLimitPerSecond,omitempty" flag:"rate-limit" help:"maximum deliveries per second; 0: no limit"`
	Signatures         []string          `json:"signatures,omitempty" flag:"signature" values:"standard-webhooks standard-webhooks-ed25519" help:"additional signature to send: standard-webhooks or standard-webhooks-ed25519; can be repeated; if empty, none"`
	Ordering           string            `json:"ordering,omitempty" values:"wallet" help:"wallet: deliver a wallet's events one at a time, each after the previous event has settled; if empty, events don't wait for each other"`
	NoticesTo          string            `json:"noticesTo,omitempty" help:"id of another endpoint to notify with endpoint.failing and endpoint.disabled events when this endpoint fails; if empty, none"`
}

// EndpointFilter selects and sorts endpoints; empty fields do not filter.
type EndpointFilter struct {
	Status string `json:"status,omitempty" values:"active disabled" help:"only endpoints with this status: active or disabled; if empty, both"`
	Sort   string `json:"sort,omitempty" values:"created health" help:"sort order: created (newest first) or health (least healthy first)"` // empty: created
}

// Replay selects the failed deliveries to queue again. Since must be set, EndpointID and State
// must not.
type Replay struct {
	EventFilter
	DryRun bool `json:"dryRun,omitempty" help:"show how many deliveries match without queueing them"`
}

// ReplayResult is how many deliveries were queued, of those that matched. After a dry run
// Truncated says that one replay queues, or one dry run counts, fewer than match.
type ReplayResult struct {
	Queued    int  `json:"queued"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
	DryRun    bool `json:"dryRun,omitzero"`
}

// Test is the request of a test: a test.ping, or with the type payment.received a sample of one.
type Test struct {
	Type string `json:"type,omitempty" values:"test.ping payment.received" help:"type of event to send: test.ping, or payment.received for a sample payment"`
}

// TestResult is the first attempt of a test.
type TestResult struct {
	EventID string      `json:"eventId"`
	Attempt TestAttempt `json:"attempt"`
}

// TestAttempt is the result of a test.ping's attempt; StatusCode is nil when no status
// arrived.
type TestAttempt struct {
	StatusCode  *int    `json:"statusCode"`
	DurationMs  int64   `json:"durationMs"`
	Error       *string `json:"error"`
	ErrorDetail *string `json:"errorDetail"` // stage and cause of Error

	ResponseBody string `json:"responseBody"` // its beginning
}

// CreateEndpoint creates an endpoint. Its secret is returned here only.
func (c *Client) CreateEndpoint(
	ctx context.Context, e EndpointCreate, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, endpoints, e, o)
}

// ListEndpoints lists endpoints, newest first unless the filter sorts them.
func (c *Client) ListEndpoints(
	ctx context.Context, f EndpointFilter, p Page,
) (List[Endpoint], error) {
	return list[Endpoint](ctx, c, endpoints, p, f)
}

// GetEndpoint reads an endpoint.
func (c *Client) GetEndpoint(ctx context.Context, endpointID string) (Endpoint, error) {
	return ask[Endpoint](ctx, c, get, id(endpoints, endpointID), nil, nil)
}

// UpdateEndpoint changes an endpoint.
func (c *Client) UpdateEndpoint(
	ctx context.Context, endpointID string, p Patch, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, patch, id(endpoints, endpointID), p, o)
}

// DeletedEndpoint says which watches a deletion has left without an endpoint: the number of all,
// counted up to 10,000, and the ids of the newest 100.
type DeletedEndpoint struct {
	ID          string `json:"id"`
	LeftWatches struct {
		Total int      `json:"total"`
		IDs   []string `json:"ids"`
	} `json:"leftWatches"`
}

// DeleteEndpoint deletes an endpoint; its pending deliveries are cancelled. What its watches match
// from then on is delivered once they have another endpoint.
func (c *Client) DeleteEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (DeletedEndpoint, error) {
	return ask[DeletedEndpoint](ctx, c, remove, id(endpoints, endpointID), nil, o)
}

// EnableEndpoint resumes sending to an endpoint.
func (c *Client) EnableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "enable"), nil, o)
}

// DisableEndpoint stops sending to an endpoint.
func (c *Client) DisableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "disable"), nil, o)
}

// RotateSecret gives an endpoint a new secret, which is returned here only.
func (c *Client) RotateSecret(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "rotate-secret"), nil, o)
}

// RotateSigningKey gives an endpoint a new Ed25519 key. The former one signs too for 24 hours.
func (c *Client) RotateSigningKey(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "rotate-signing-key"), nil, o)
}

// TestEndpoint sends a test and waits for its first attempt.
func (c *Client) TestEndpoint(
	ctx context.Context, endpointID string, t Test, o ...Option,
) (TestResult, error) {
	return ask[TestResult](ctx, c, post, id(endpoints, endpointID, "test"), t, o)
}

// ReplayEndpoint queues failed deliveries again.
func (c *Client) ReplayEndpoint(
	ctx context.Context, endpointID string, r Replay, o ...Option,
) (ReplayResult, error) {
	return ask[ReplayResult](ctx, c, post, id(endpoints, endpointID, "replay"), r, o)
}
