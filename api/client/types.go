package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Endpoint is where events go. Secret is there after creation and rotation only,
// Warnings after creation and update.
type Endpoint struct {
	ID                  string            `json:"id"`
	URL                 string            `json:"url"`
	Description         string            `json:"description"`
	Headers             map[string]string `json:"headers"`
	LostHeaders         []string          `json:"lostHeaders,omitempty"`
	RateLimitPerSecond  *int              `json:"rateLimitPerSecond"`
	Status              string            `json:"status"`
	DisabledReason      *string           `json:"disabledReason"`
	DisabledAt          *time.Time        `json:"disabledAt"`
	ConsecutiveFailures int               `json:"consecutiveFailures"`
	CreatedAt           time.Time         `json:"createdAt"`
	UpdatedAt           time.Time         `json:"updatedAt"`
	Secret              string            `json:"secret,omitempty"`
	Warnings            []string          `json:"warnings,omitempty"`

	ETag string `json:"-"` // of the answer, where it has one
}

// EndpointCreate is what an endpoint is made of; URL must be set.
type EndpointCreate struct {
	URL                string            `json:"url"`
	Description        string            `json:"description,omitempty"`
	Headers            map[string]string `json:"headers,omitempty"`
	RateLimitPerSecond int               `json:"rateLimitPerSecond,omitempty"`
}

// Patch is a JSON merge patch: fields by name, nil for what a field is by
// default.
type Patch map[string]any

// TestResult is the first attempt of a test.ping.
type TestResult struct {
	EventID string      `json:"eventId"`
	Attempt TestAttempt `json:"attempt"`
}

// TestAttempt is what a receiver made of a test.ping; StatusCode is nil when no
// status arrived.
type TestAttempt struct {
	StatusCode *int    `json:"statusCode"`
	DurationMs int64   `json:"durationMs"`
	Error      *string `json:"error"`
}

// Replay says which failed deliveries to queue again: those created at Since or
// later, and before Until if that is set.
type Replay struct {
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
}

// ReplayResult says what was queued.
type ReplayResult struct {
	Queued    int  `json:"queued"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
}

// Asset is an asset of the network; Issuer is nil for the native one.
type Asset struct {
	Code   string  `json:"code"`
	Issuer *string `json:"issuer"`
}

// AmountRule says which amounts to accept.
type AmountRule struct {
	Kind   string `json:"kind"`
	Amount string `json:"amount,omitempty"`
	Min    string `json:"min,omitempty"`
	Max    string `json:"max,omitempty"`
}

// MemoRule says which memos to accept.
type MemoRule struct {
	Kind  string `json:"kind"`
	Value string `json:"value,omitempty"`
	Type  string `json:"type,omitempty"`
}

// Watch is a standing order to report payments. Warnings are there after
// creation and update only.
type Watch struct {
	ID              string     `json:"id"`
	WalletAddress   string     `json:"walletAddress"`
	Label           string     `json:"label"`
	EndpointID      string     `json:"endpointId"`
	Status          string     `json:"status"`
	Assets          []Asset    `json:"assets"`
	AmountRule      AmountRule `json:"amountRule"`
	MemoRule        MemoRule   `json:"memoRule"`
	SenderAllowlist []string   `json:"senderAllowlist"`
	EventTypes      []string   `json:"eventTypes"`
	Backfill        *Backfill  `json:"backfill"`
	CreatedAt       time.Time  `json:"createdAt"`
	UpdatedAt       time.Time  `json:"updatedAt"`
	Warnings        []string   `json:"warnings,omitempty"`

	ETag string `json:"-"` // of the answer, where it has one
}

// WatchCreate is what a watch is made of; WalletAddress, EndpointID and Assets
// must be set.
type WatchCreate struct {
	WalletAddress   string      `json:"walletAddress"`
	Label           string      `json:"label,omitempty"`
	EndpointID      string      `json:"endpointId"`
	Assets          []Asset     `json:"assets"`
	AmountRule      *AmountRule `json:"amountRule,omitempty"`
	MemoRule        *MemoRule   `json:"memoRule,omitempty"`
	SenderAllowlist []string    `json:"senderAllowlist,omitempty"`
	EventTypes      []string    `json:"eventTypes,omitempty"`
}

// Event is an event with its delivery. Attempts are there when it was read by
// its id.
type Event struct {
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	APIVersion string          `json:"apiVersion"`
	CreatedAt  time.Time       `json:"createdAt"`
	Data       json.RawMessage `json:"data"`
	Delivery   Delivery        `json:"delivery"`
	Attempts   []Attempt       `json:"attempts,omitempty"`
	// The history is built anew, and may show the event as it was earlier.
	HistoryBehind bool `json:"historyBehind,omitempty"`
}

// Delivery is where an event stands on its way to its endpoint.
type Delivery struct {
	State         string     `json:"state"`
	Held          bool       `json:"held"`
	EndpointID    string     `json:"endpointId"`
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

// Resent is a delivery that was asked to be made again.
type Resent struct {
	ID       string   `json:"id"`
	Delivery Delivery `json:"delivery"`
}

// Key is an API key. Its text is there after creation and rolling only.
type Key struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Permissions  []string   `json:"permissions"`
	AllowedCIDRs []string   `json:"allowedCidrs"`
	ExpiresAt    *time.Time `json:"expiresAt"`
	LastUsedAt   *time.Time `json:"lastUsedAt"`
	RolledTo     *string    `json:"rolledTo"`
	CreatedAt    time.Time  `json:"createdAt"`
	Key          *string    `json:"key,omitempty"`
}

// KeyCreate is what a key is made of; Permissions must be set.
type KeyCreate struct {
	Name         string     `json:"name,omitempty"`
	Permissions  []string   `json:"permissions"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
	AllowedCIDRs []string   `json:"allowedCidrs,omitempty"`
}

// KeyRoll says how a key is rolled; nil leaves what is by default.
type KeyRoll struct {
	GraceSeconds *int       `json:"graceSeconds,omitempty"`
	ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
}

// Readiness tells whether requests should be sent to a node.
type Readiness struct {
	Status string  `json:"status"`
	Checks []Check `json:"checks"`
}

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// List is a page of a list. NextCursor is nil at the end.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

// Page says which page of a list to read.
type Page struct {
	Limit  int    // 0: 50
	Cursor string // of the page before; empty: the first
}

// EndpointFilter says which endpoints a list holds; empty fields do not filter.
type EndpointFilter struct{ Status string }

// WatchFilter says which watches a list holds; empty fields do not filter.
type WatchFilter struct{ EndpointID, WalletAddress string }

// EventFilter says which events a list holds; empty fields do not filter.
type EventFilter struct {
	EndpointID, WatchID, WalletAddress, Type, State string
	Since, Until                                    time.Time
}

// Problem is a refusal (RFC 9457).
type Problem struct {
	Type      string  `json:"type"`
	Title     string  `json:"title"`
	Status    int     `json:"status"`
	Detail    string  `json:"detail"`
	Code      string  `json:"code"`
	RequestID string  `json:"requestId"`
	CommandID string  `json:"commandId,omitempty"`
	Errors    []Fault `json:"errors,omitempty"`
}

// Fault is one thing wrong with a body or a query.
type Fault struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter,omitempty"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

// Error tells of every fault.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s, request %s)", p.Detail, p.Code, p.RequestID)
	for _, f := range p.Errors {
		where := f.Pointer
		if f.Parameter != "" {
			where = f.Parameter
		}
		fmt.Fprintf(&b, "\n  %s: %s (%s)", where, f.Detail, f.Code)
	}
	return b.String()
}
