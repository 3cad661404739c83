package readmodel

import (
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// Errors of reading the history. They are returned wrapped or bare.
var (
	// ErrNotFound means that the history is up to date and the account has no such object.
	ErrNotFound = errors.New("no such event")
	// ErrExpired is an ErrNotFound: the history has the deliveries of the event, but no longer
	// its body.
	ErrExpired = fmt.Errorf("%w: its body is no longer kept", ErrNotFound)
	// ErrBehind means that the history did not catch up in time, or that its target position is
	// unknown: the event may or may not exist.
	ErrBehind = errors.New("the history is behind")
	// ErrUnavailable means that the history cannot be read.
	ErrUnavailable = errors.New("the history is unavailable")
	// ErrManyBalances means that more than 2,000 balances of a wallet moved: name one.
	ErrManyBalances = errors.New("too many balances moved")
	// ErrFactsMissing means that the first facts of an object are no longer stored, so that it
	// cannot be folded.
	ErrFactsMissing = errors.New("the first facts are not kept")
	// ErrManyFacts means that an object has more facts before the page than are folded, by their
	// number, their size, or the time to read them.
	ErrManyFacts = errors.New("too many facts")
)

// Missing is an ErrUnavailable of a node without a history, with the reason for its clients.
type Missing struct{ Why string }

func (e Missing) Error() string { return ErrUnavailable.Error() + ": " + e.Why }

func (e Missing) Unwrap() error { return ErrUnavailable }

// StepFilter selects facts of an account's endpoint, watch or event, including deleted ones.
type StepFilter struct {
	AccountID string
	ID        string
	Before    uint64 // only facts of lower versions; 0: all
	BeforeAt  string // endpoint whose version Before is; only for an event's facts
	Limit     int    // 1 to 250 steps
}

// StepPage holds facts with their states, newest first.
type StepPage[S any] struct {
	Steps []domain.Step[S]
	More  bool // there are earlier ones
}

// RatesFilter selects attempts of an account, sent from one time to before another.
type RatesFilter struct {
	AccountID            string
	EndpointID           string // empty: all of the account
	FromMillis, ToMillis int64
}

// Rates counts attempts by the minute in which they were sent.
type Rates struct {
	Minutes                   []RatesMinute // in order, those with attempts
	MedianMillis, P99Millis   float64       // of all attempts; 0 without any
	Delivered, Refused, Unmet uint64        // in total
}

// RatesMinute is one minute: attempts that delivered, that got another answer, and that got no
// complete answer.
type RatesMinute struct {
	AtMillis                  int64
	Delivered, Refused, Unmet uint64
}

// HealthFilter selects endpoints of an account.
type HealthFilter struct {
	AccountID   string
	EndpointIDs []string // empty: all that the account has or had
	NowMillis   int64
	CountsOnly  bool // without the last attempts and the oldest pending event
}
