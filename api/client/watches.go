package client

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const watches = "/v1/watches"

// Watch selects payments to a wallet. Warnings is set only after creation and update.
type Watch struct {
	ID              string      `json:"id"`
	WalletAddress   string      `json:"walletAddress"`
	Label           string      `json:"label"`
	EndpointID      string      `json:"endpointId"`
	Status          string      `json:"status"`
	Assets          []Asset     `json:"assets"`
	AmountRule      AmountRule  `json:"amountRule"`
	MemoRule        MemoRule    `json:"memoRule"`
	SenderAllowlist []string    `json:"senderAllowlist"`
	EventTypes      []string    `json:"eventTypes"`
	Backfill        *Backfill   `json:"backfill"`
	ExpiresAt       *time.Time  `json:"expiresAt"`
	Once            bool        `json:"once"`
	Fulfilled       *Fulfilment `json:"fulfilled"`
	CreatedAt       time.Time   `json:"createdAt"`
	UpdatedAt       time.Time   `json:"updatedAt"`
	Warnings        []string    `json:"warnings,omitzero"`
	WarningDetails  []string    `json:"warningDetails,omitzero"` // explain Warnings, in the same order

	ETag string `json:"-"` // nonempty if the response had one
}

// WatchCreate holds the fields of a new watch. WalletAddress, EndpointID and Assets are required.
type WatchCreate struct {
	WalletAddress   string      `json:"walletAddress" flag:"wallet" help:"public address of the wallet"`
	Label           string      `json:"label,omitempty" help:"description of the watch"`
	EndpointID      string      `json:"endpointId" help:"id of the endpoint that receives the events"`
	Assets          []Asset     `json:"assets" flag:"asset"`
	AmountRule      *AmountRule `json:"amountRule,omitempty" flag:"amount"`
	MemoRule        *MemoRule   `json:"memoRule,omitempty" flag:"memo"`
	SenderAllowlist []string    `json:"senderAllowlist,omitempty" flag:"sender" help:"address to accept payments from; can be repeated (default any address)"`
	EventTypes      []string    `json:"eventTypes,omitempty" flag:"event-type" values:"payment.received payment.rejected" help:"payment.received, payment.rejected or both (default payment.received)"`
	ExpiresAt       *time.Time  `json:"expiresAt,omitempty"` // later ledgers don't match
	Once            bool        `json:"once,omitempty" help:"only match the first payment that meets the rules"`
}

// Fulfilment is the payment that fulfilled a watch for a single payment.
type Fulfilment struct {
	PaymentID      string    `json:"paymentId"`
	EventID        string    `json:"eventId"`
	Ledger         uint32    `json:"ledger"`
	LedgerClosedAt time.Time `json:"ledgerClosedAt"`
}

// String describes the payment, its ledger and its event.
func (f Fulfilment) String() string {
	return fmt.Sprintf("by payment %s in ledger %d: event %s", f.PaymentID, f.Ledger, f.EventID)
}

// Asset is an asset of the network. Issuer is nil for the native asset.
type Asset struct {
	Code   string  `json:"code"`
	Issuer *string `json:"issuer"`
}

// String returns XLM, or CODE:ISSUER.
func (a Asset) String() string {
	if a.Issuer == nil {
		return a.Code
	}
	return a.Code + ":" + *a.Issuer
}

// AmountRule selects the amounts to accept.
type AmountRule struct {
	Kind   string `json:"kind"`
	Amount string `json:"amount,omitempty"`
	Min    string `json:"min,omitempty"`
	Max    string `json:"max,omitempty"`
}

// String describes the rule, such as "range 1 9".
func (r AmountRule) String() string { return words(r.Kind, r.Amount, r.Min, r.Max) }

func words(list ...string) string {
	return strings.Join(strings.Fields(strings.Join(list, " ")), " ")
}

// MemoRule selects the memos to accept.
type MemoRule struct {
	Kind  string `json:"kind"`
	Value string `json:"value,omitempty"`
	Type  string `json:"type,omitempty"`
}

// String describes the rule, such as "equals text order-42".
func (r MemoRule) String() string {
	return strings.TrimSpace(r.Kind + " " + r.Type + " " + r.Value)
}

// WatchFilter filters watches. Empty fields don't filter.
type WatchFilter struct {
	EndpointID    string `json:"endpointId,omitempty" help:"only watches for this endpoint (ep_…)"`
	WalletAddress string `json:"walletAddress,omitempty" flag:"wallet" help:"only watches for this wallet (G…)"`
}

// Backfill is the progress of a watch's latest backfill. To is nil until it is known. Problem is
// nil unless the backfill stopped before it matched all of its ledgers.
type Backfill struct {
	From        uint32    `json:"from"`
	To          *uint32   `json:"to"`
	Next        uint32    `json:"next"`
	Done        bool      `json:"done"`
	Problem     *string   `json:"problem"`
	RequestedAt time.Time `json:"requestedAt"`

	LedgersRead      uint32 `json:"ledgersRead"`
	PaymentsMatched  uint32 `json:"paymentsMatched"`
	AlreadyDelivered uint32 `json:"alreadyDelivered"` // matched payments that already had an event
	EventsCreated    uint32 `json:"eventsCreated"`
}

// Counts describes the results of the backfill so far.
func (b Backfill) Counts() string {
	return fmt.Sprintf("ledgers read: %d, payments matched: %d (already had an event: %d, "+
		"created now: %d)", b.LedgersRead, b.PaymentsMatched, b.AlreadyDelivered, b.EventsCreated)
}

// BackfillCreate is the range of ledgers to search for payments. If To is nil, the range ends at
// the latest ledger read.
type BackfillCreate struct {
	From uint32  `json:"from"`
	To   *uint32 `json:"to,omitempty"`
}

// CreateWatch creates a watch.
func (c *Client) CreateWatch(ctx context.Context, w WatchCreate, o ...Option) (Watch, error) {
	return ask[Watch](ctx, c, post, watches, w, o)
}

// ListWatches lists watches, newest first.
func (c *Client) ListWatches(ctx context.Context, f WatchFilter, p Page) (List[Watch], error) {
	return list[Watch](ctx, c, watches, p, f)
}

// GetWatch returns a watch.
func (c *Client) GetWatch(ctx context.Context, watchID string) (Watch, error) {
	return ask[Watch](ctx, c, get, id(watches, watchID), nil, nil)
}

// UpdateWatch updates a watch.
func (c *Client) UpdateWatch(
	ctx context.Context, watchID string, p Patch, o ...Option,
) (Watch, error) {
	return ask[Watch](ctx, c, patch, id(watches, watchID), p, o)
}

// DeleteWatch deletes a watch.
func (c *Client) DeleteWatch(ctx context.Context, watchID string, o ...Option) error {
	return c.do(ctx, call{method: remove, path: id(watches, watchID)}, o...)
}

// ImaginedPayment is a hypothetical payment to a watch's wallet. Amount and Asset are required. A
// memo needs a type: text, id or hash.
type ImaginedPayment struct {
	Amount   string `json:"amount" help:"amount to pay, in units of the asset"`
	Asset    string `json:"asset" help:"XLM or CODE:ISSUER"`
	Memo     string `json:"memo"`
	MemoType string `json:"memoType"`
	Sender   string `json:"sender" help:"address that sends the payment"`
}

// WatchCheck is the result of checking a payment against a watch.
type WatchCheck struct {
	EventType    *string      `json:"eventType"` // type of the event it would create; nil: none
	Verification Verification `json:"verification"`
	NotReported  []string     `json:"notReported"` // why no event would be created
}

// Verification is the result of applying a watch's rules to a payment.
type Verification struct {
	Outcome string   `json:"outcome"` // VERIFIED or REJECTED
	Reasons []string `json:"reasons"`
}

// CheckWatch returns what a watch would do with a payment made now. It changes nothing.
func (c *Client) CheckWatch(
	ctx context.Context, watchID string, p ImaginedPayment,
) (WatchCheck, error) {
	return read[WatchCheck](ctx, c, id(watches, watchID, "check"), p)
}

// BackfillWatch searches past ledgers for payments to a watch. It returns when the request is
// accepted; GetWatch shows the progress.
func (c *Client) BackfillWatch(
	ctx context.Context, watchID string, b BackfillCreate, o ...Option,
) (Watch, error) {
	return ask[Watch](ctx, c, post, id(watches, watchID, "backfill"), b, o)
}
