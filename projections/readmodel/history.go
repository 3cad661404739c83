package readmodel

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// Errors of reading the history, which may be wrapped.
var (
	// ErrNotFound means that the history is up to date and the account has no such object.
	ErrNotFound = errors.New("no such event")
	// ErrExpired is an ErrNotFound: the history has the event's deliveries, but no longer its body.
	ErrExpired = fmt.Errorf("%w: its body is no longer kept", ErrNotFound)
	// ErrBehind means that the history did not catch up in time, or that the required position is
	// unknown. The event may or may not exist.
	ErrBehind = errors.New("the history is behind")
	// ErrUnavailable means that the history cannot be read.
	ErrUnavailable = errors.New("the history is unavailable")
	// ErrManyBalances means that more than 2,000 balances of a wallet moved. The caller must select
	// one.
	ErrManyBalances = errors.New("too many balances moved")
	// ErrFactsMissing means that an object's first facts are no longer stored, so it cannot be folded.
	ErrFactsMissing = errors.New("the first facts are not kept")
	// ErrManyFacts means that too many facts precede the page to fold them, by number, size or time.
	ErrManyFacts = errors.New("too many facts")
)

// Missing is the ErrUnavailable of a node without a history. Why is the reason for its clients.
type Missing struct{ Why string }

func (e Missing) Error() string { return ErrUnavailable.Error() + ": " + e.Why }

func (e Missing) Unwrap() error { return ErrUnavailable }

// StepFilter selects facts of an account's endpoint, watch or event, including deleted ones.
type StepFilter struct {
	AccountID string
	ID        string
	Before    uint64 // only facts with lower versions; 0 means all
	BeforeAt  string // the endpoint that Before refers to; only for facts of events
	Limit     int    // 1 to 250
}

// StepPage holds facts with the states after them, newest first.
type StepPage[S any] struct {
	Steps []domain.Step[S]
	More  bool // there are earlier facts
}

// RatesFilter selects an account's attempts that were sent from FromMillis to before ToMillis.
type RatesFilter struct {
	AccountID            string
	EndpointID           string // empty for the whole account
	FromMillis, ToMillis int64
}

// Rates counts attempts by the minute in which they were sent.
type Rates struct {
	Minutes                   []RatesMinute // in order, without empty minutes
	MedianMillis, P99Millis   float64       // of all attempts; 0 if there are none
	Delivered, Refused, Unmet uint64        // in total
}

// RatesMinute counts the attempts of a minute: delivered, with another response, and without a
// complete response.
type RatesMinute struct {
	AtMillis                  int64
	Delivered, Refused, Unmet uint64
}

// HealthFilter selects endpoints of an account.
type HealthFilter struct {
	AccountID   string
	EndpointIDs []string // empty for all endpoints that the account has or had
	NowMillis   int64
	CountsOnly  bool // without last attempts and oldest pending events
}
