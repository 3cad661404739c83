package client

import (
	"context"
	"time"
)

const endpoints = "/v1/endpoints"

// Endpoint is a URL that receives events. Secret is set only after creation and rotation, and
// Warnings only after creation and update.
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
	// SecretsUntil is when the secret before the last rotation stops signing; nil if there is none.
	SecretsUntil   *time.Time `json:"previousSecretUntil,omitempty"`
	Warnings       []string   `json:"warnings,omitzero"`
	WarningDetails []string   `json:"warningDetails,omitzero"` // explain Warnings, in the same order
	// Health is set in responses to reads. If it is missing, HealthUnavailable is the reason's
	// code.
	Health            *EndpointHealth `json:"health,omitzero"`
	HealthUnavailable string          `json:"healthUnavailable,omitzero"`

	ETag string `json:"-"` // nonempty if the response had one
}

// EndpointHealth is the health of an endpoint. From worst to best, State is down, failing,
// disabled, healthy or idle. Unknown times are nil.
type EndpointHealth struct {
	State           string          `json:"state"`
	LastSuccessAt   *time.Time      `json:"lastSuccessAt"`
	LastFailureAt   *time.Time      `json:"lastFailureAt"`
	OldestPendingAt *time.Time      `json:"oldestPendingAt"` // creation of the oldest pending event
	PendingKnown    bool            `json:"pendingKnown"`    // false: could not be read
	Hour            AttemptCounts   `json:"hour"`
	Day             AttemptCounts   `json:"day"`
	Week            AttemptCounts   `json:"week"`
	Sparkline       []AttemptCounts `json:"sparkline"`  // hours of the last day, oldest first
	SlowedDown      string          `json:"slowedDown"` // why few attempts run at once, or empty
}

// AttemptCounts counts attempts. SuccessRate is between 0 and 1, and nil if there are no attempts.
type AttemptCounts struct {
	Attempts    int64    `json:"attempts"`
	Delivered   int64    `json:"delivered"`
	SuccessRate *float64 `json:"successRate"`
}

// EndpointCreate holds the fields of a new endpoint. URL is required.
type EndpointCreate struct {
	URL                string            `json:"url" help:"URL to post events to"`
	Description        string            `json:"description,omitempty" help:"description of the endpoint"`
	Headers            map[string]string `json:"headers,omitempty" flag:"header" help:"custom header to send, as Name: value; can be repeated; to remove a header in an update, use Name: without a value"`
	RateLimitPerSecond int               `json:"rateLimitPerSecond,omitempty" flag:"rate-limit" help:"maximum deliveries per second; 0: no limit"`
	Signatures         []string          `json:"signatures,omitempty" flag:"signature" values:"standard-webhooks standard-webhooks-ed25519" help:"additional signature to send: standard-webhooks or standard-webhooks-ed25519; can be repeated; if empty, none"`
	Ordering           string            `json:"ordering,omitempty" values:"wallet" help:"wallet: deliver a wallet's events one at a time, each after the previous event has settled; if empty, events don't wait for each other"`
	NoticesTo          string            `json:"noticesTo,omitempty" help:"id of another endpoint to notify with endpoint.failing and endpoint.disabled events when this endpoint fails; if empty, none"`
}

// EndpointFilter filters and sorts endpoints. Empty fields don't filter.
type EndpointFilter struct {
	Status string `json:"status,omitempty" values:"active disabled" help:"only endpoints with this status: active or disabled; if empty, both"`
	Sort   string `json:"sort,omitempty" values:"created health" help:"sort order: created (newest first) or health (least healthy first)"` // empty: created
}

// Replay selects the failed deliveries to queue again. Since is required; EndpointID and State must
// be empty.
type Replay struct {
	EventFilter
	DryRun bool `json:"dryRun,omitempty" help:"show how many deliveries match without queueing them"`
}

// ReplayResult counts the deliveries that matched and those that were queued. After a dry run,
// Truncated means that more deliveries match than one replay queues or one dry run counts.
type ReplayResult struct {
	Queued    int  `json:"queued"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
	DryRun    bool `json:"dryRun,omitzero"`
}

// Test requests a test event: a test.ping, or a sample event if Type is payment.received.
type Test struct {
	Type string `json:"type,omitempty" values:"test.ping payment.received" help:"type of event to send: test.ping, or payment.received for a sample payment"`
}

// TestResult is the first attempt of a test.
type TestResult struct {
	EventID string      `json:"eventId"`
	Attempt TestAttempt `json:"attempt"`
}

// TestAttempt is the result of a test's first attempt. StatusCode is nil if no response arrived.
type TestAttempt struct {
	StatusCode  *int    `json:"statusCode"`
	DurationMs  int64   `json:"durationMs"`
	Error       *string `json:"error"`
	ErrorDetail *string `json:"errorDetail"` // stage and cause of Error

	ResponseBody string `json:"responseBody"` // truncated
}

// CreateEndpoint creates an endpoint. Only this response contains its secret.
func (c *Client) CreateEndpoint(
	ctx context.Context, e EndpointCreate, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, endpoints, e, o)
}

// ListEndpoints lists endpoints, newest first unless the filter sets another order.
func (c *Client) ListEndpoints(
	ctx context.Context, f EndpointFilter, p Page,
) (List[Endpoint], error) {
	return list[Endpoint](ctx, c, endpoints, p, f)
}

// GetEndpoint returns an endpoint.
func (c *Client) GetEndpoint(ctx context.Context, endpointID string) (Endpoint, error) {
	return ask[Endpoint](ctx, c, get, id(endpoints, endpointID), nil, nil)
}

// UpdateEndpoint updates an endpoint.
func (c *Client) UpdateEndpoint(
	ctx context.Context, endpointID string, p Patch, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, patch, id(endpoints, endpointID), p, o)
}

// DeletedEndpoint lists the watches that the deletion left without an endpoint: Total counts up to
// 10,000 of them, and IDs holds the newest 100.
type DeletedEndpoint struct {
	ID          string `json:"id"`
	LeftWatches struct {
		Total int      `json:"total"`
		IDs   []string `json:"ids"`
	} `json:"leftWatches"`
}

// DeleteEndpoint deletes an endpoint and cancels its pending deliveries. Events that its watches
// create later are delivered once the watches have another endpoint.
func (c *Client) DeleteEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (DeletedEndpoint, error) {
	return ask[DeletedEndpoint](ctx, c, remove, id(endpoints, endpointID), nil, o)
}

// EnableEndpoint resumes deliveries to an endpoint.
func (c *Client) EnableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "enable"), nil, o)
}

// DisableEndpoint stops deliveries to an endpoint.
func (c *Client) DisableEndpoint(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "disable"), nil, o)
}

// RotateSecret gives an endpoint a new secret. Only this response contains it.
func (c *Client) RotateSecret(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "rotate-secret"), nil, o)
}

// RotateSigningKey gives an endpoint a new Ed25519 key. The previous key also signs for 24 hours.
func (c *Client) RotateSigningKey(
	ctx context.Context, endpointID string, o ...Option,
) (Endpoint, error) {
	return ask[Endpoint](ctx, c, post, id(endpoints, endpointID, "rotate-signing-key"), nil, o)
}

// TestEndpoint sends a test event and waits for its first attempt.
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
