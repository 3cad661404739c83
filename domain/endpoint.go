package domain

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EndpointStatus says whether the service sends to an endpoint.
type EndpointStatus string

// States of an endpoint (specification, "States and transitions").
// Deleted is final.
//
//	active ──410, 20 runs failed in a row, disable──► disabled
//	   ▲ ◄────────────────enable────────────────────────┘ │
//	   └───────────────────delete────────► deleted ◄──────┘
const (
	StatusActive   EndpointStatus = "active"
	StatusDisabled EndpointStatus = "disabled"
	StatusDeleted  EndpointStatus = "deleted"
)

// DisabledReason says why an endpoint is disabled; empty while it is not.
type DisabledReason string

// Reasons for disabling.
const (
	DisabledGone DisabledReason = "gone" // the receiver answered 410
	// so many runs in a row ended FAILED
	DisabledConsecutiveFailures DisabledReason = "consecutive_failures"
	DisabledManual              DisabledReason = "manual" // the account asked for it
)

// Header is one field that an account adds to the deliveries of an endpoint. Its value is sealed
// like secrets, because it is often the credential that the receiver checks. In an
// [UpdateEndpoint], one without a value keeps the value that the endpoint has.
type Header struct {
	Name   string
	Sealed []byte
}

// SealedFor returns the binding of the header's value, so that it cannot be opened as another
// header, for another endpoint, or as a secret.
func (h Header) SealedFor(endpointID string) string { return endpointID + " " + h.Name }

func (h Header) equal(other Header) bool {
	return h.Name == other.Name && bytes.Equal(h.Sealed, other.Sealed)
}

// EndpointSettings are an endpoint's settings by the client: requested by a [CreateEndpoint],
// recorded by [EndpointCreated], changed by an [EndpointChange].
type EndpointSettings struct {
	URL                string
	Description        string
	Headers            []Header
	RateLimitPerSecond int // 0: none
	// Signatures are those that its deliveries carry in addition to the specification's.
	Signatures Signatures
	Ordering   Ordering // of events that arrive from now on
	// NoticesTo is the endpoint of the same account that is notified when this one fails or is
	// disabled; empty: none.
	NoticesTo string
}

// Ordering says which events wait until others have ended. An event keeps the ordering that the
// endpoint had when it arrived.
type Ordering string

// Orderings.
const (
	OrderingNone Ordering = "" // an event is due at once
	// Each event waits until those of its wallet that came to the endpoint before it have
	// ended: DELIVERED, FAILED or CANCELLED.
	OrderingWallet Ordering = "wallet"
)

func (o Ordering) wellFormed() error {
	if o != OrderingNone && o != OrderingWallet {
		return fmt.Errorf("unknown ordering %q", o)
	}
	return nil
}

// Endpoint is a receiver of an account's events. Its deliveries belong to the same aggregate: their
// facts increment its version.
type Endpoint struct {
	ID        string
	AccountID string
	Version   uint64
	// version of the last fact that changed what a client configures: the ETag. Deliveries do not
	// move it
	Revision uint64
	EndpointSettings
	Secrets []SealedSecret // newest first
	// SigningKey counts the rotations of its Ed25519 key.
	SigningKey                uint32
	SigningKeyRotatedAtMillis int64 // 0: never
	Status                    EndpointStatus
	DisabledReason            DisabledReason
	DisabledAtMillis          int64 // 0: not disabled
	// runs that ended FAILED in a row while active, since the last success or enabling
	ConsecutiveFailures int
	Trouble             Trouble
	EnabledVersion      uint64 // version of the last EndpointEnabled; 0: none
	// of the delivery that was created last: [DeliveryCreated.Sequence]. It outlives the
	// endpoint, and the deliveries, which are forgotten
	Sequence uint64
	Log      AttemptLog // of its attempts. It outlives the endpoint, too
	// counts enablings and the deletion. Deliveries of an earlier epoch are due at once
	Epoch           uint32
	CreatedAtMillis int64
	UpdatedAtMillis int64 // when the revision moved
	DeletedAtMillis int64 // 0: not deleted
}

// Exists reports whether the endpoint was created. A deleted one was.
func (e Endpoint) Exists() bool { return e.ID != "" }

// Deleted reports whether the endpoint was deleted.
func (e Endpoint) Deleted() bool { return e.Status == StatusDeleted }

// Sends reports whether attempts may start (G3).
func (e Endpoint) Sends() bool { return e.Status == StatusActive }

// visibleTo reports whether an account may know of the endpoint.
func (e Endpoint) visibleTo(accountID string) bool {
	return e.Exists() && !e.Deleted() && e.AccountID == accountID
}

// DecideEndpoint decides a command on an endpoint without its deliveries. A command that would
// change nothing yields no fact.
func DecideEndpoint(state Endpoint, c Command, nowMillis int64) ([]FactBody, *Rejection) {
	if body, ok := c.Body.(CreateEndpoint); ok {
		return DecideCreateEndpoint(state, body, nowMillis)
	}
	if !state.visibleTo(c.AccountID) {
		return nil, noEndpoint()
	}
	asked, _ := c.Body.(EndpointCommand)
	switch body := asked.(type) {
	case UpdateEndpoint:
		return decideUpdateEndpoint(state, body, nowMillis)
	case DisableEndpoint:
		return decideDisable(state, body)
	case EnableEndpoint:
		return decideEnable(state, body)
	case DeleteEndpoint:
		return unlessRevised(state.Revision, body.IfRevision, EndpointDeleted{})
	case RotateSecret:
		return decideRotateSecret(state, body, nowMillis)
	case ResealSecrets:
		return decideReseal(state, body), nil
	case CreateEndpoint, TestEndpoint, ReplayEndpoint, ReplayEvents, ResendEvent, RecordMail:
		// above, or with deliveries and notices
	}
	panic("domain: an endpoint alone cannot answer " + c.Body.CommandType())
}

// DecideCreateEndpoint decides the creation of an endpoint.
func DecideCreateEndpoint(
	state Endpoint, c CreateEndpoint, nowMillis int64,
) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{
			Code:   CodeAlreadyExists,
			Detail: "the endpoint exists; its creation was answered before and that answer is forgotten",
		}
	}
	return []FactBody{EndpointCreated{
		EndpointSettings: c.EndpointSettings,
		EndpointID:       c.EndpointID,
		AccountID:        c.AccountID,
		Secret:           SealedSecret{Sealed: c.SealedSecret, CreatedAtMillis: nowMillis},
	}}, nil
}

// EndpointChange holds the fields of an endpoint that change; nil: no change.
type EndpointChange struct {
	URL                *string
	Description        *string
	Headers            *[]Header
	RateLimitPerSecond *int
	Signatures         *Signatures
	Ordering           *Ordering
	NoticesTo          *string
	SigningKey         *uint32 // above the endpoint's: rotates its Ed25519 key once
}

// wellFormed bounds the settings: [Command.WellFormed].
func (s EndpointSettings) wellFormed() error {
	return EndpointChange{
		URL:                &s.URL,
		Description:        &s.Description,
		Headers:            &s.Headers,
		RateLimitPerSecond: &s.RateLimitPerSecond,
		Signatures:         &s.Signatures,
		Ordering:           &s.Ordering,
		NoticesTo:          &s.NoticesTo,
	}.wellFormed()
}

func (c EndpointChange) wellFormed() error {
	var err error
	if c.URL != nil {
		err = within("url", len(*c.URL), 1, maxTextBytes)
	}
	if c.Description != nil {
		err = errors.Join(err, atMost("description", len(*c.Description), maxTextBytes))
	}
	if c.Headers != nil {
		err = errors.Join(err, headersFormed(*c.Headers))
	}
	if c.RateLimitPerSecond != nil {
		err = errors.Join(err, within("rate limit", *c.RateLimitPerSecond, 0, maxRate))
	}
	if c.Signatures != nil {
		err = errors.Join(err, within("signatures", int(*c.Signatures), 0, int(everySignature)))
	}
	if c.Ordering != nil {
		err = errors.Join(err, c.Ordering.wellFormed())
	}
	if c.NoticesTo != nil && *c.NoticesTo != "" {
		err = errors.Join(err, checkID("endpoint for notices", EndpointPrefix, *c.NoticesTo))
	}
	return err
}

// SameOrigin reports whether two canonical https URLs have the same host and port.
func SameOrigin(a, b string) bool { return origin(a) == origin(b) }

func origin(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest
}

// completed returns the change with the values of the headers that stay. The client does not send
// them back, and they may have been resealed. If the URL moves to another origin, no value stays:
// a user who may change the URL could otherwise have it sent to their own server.
func (c EndpointChange) completed(e Endpoint) EndpointChange {
	moves := c.URL != nil && !SameOrigin(*c.URL, e.URL)
	switch {
	case c.Headers == nil && moves:
		c.Headers = new([]Header)
	case c.Headers == nil:
		return c
	}
	headers := make([]Header, 0, len(*c.Headers))
	for _, h := range *c.Headers {
		if h.Sealed == nil {
			have := slices.IndexFunc(e.Headers, func(other Header) bool { return other.Name == h.Name })
			if have < 0 || moves {
				continue
			}
			h = e.Headers[have]
		}
		headers = append(headers, h)
	}
	c.Headers = &headers
	return c
}

// since returns the change without the values that the endpoint has already.
func (c EndpointChange) since(e Endpoint) EndpointChange {
	return EndpointChange{
		URL:                differing(c.URL, e.URL),
		Description:        differing(c.Description, e.Description),
		Headers:            differingList(c.Headers, e.Headers, Header.equal),
		RateLimitPerSecond: differing(c.RateLimitPerSecond, e.RateLimitPerSecond),
		Signatures:         differing(c.Signatures, e.Signatures),
		Ordering:           differing(c.Ordering, e.Ordering),
		NoticesTo:          differing(c.NoticesTo, e.NoticesTo),
		SigningKey:         e.nextSigningKey(c.SigningKey),
	}
}

// With returns the endpoint as a change leaves it.
func (e Endpoint) With(c EndpointChange) Endpoint { return c.completed(e).to(e) }

func (c EndpointChange) to(e Endpoint) Endpoint {
	replace(&e.URL, c.URL)
	replace(&e.Description, c.Description)
	replace(&e.Headers, c.Headers)
	replace(&e.RateLimitPerSecond, c.RateLimitPerSecond)
	replace(&e.Signatures, c.Signatures)
	replace(&e.Ordering, c.Ordering)
	replace(&e.NoticesTo, c.NoticesTo)
	replace(&e.SigningKey, c.SigningKey)
	return e
}

func decideUpdateEndpoint(
	state Endpoint, c UpdateEndpoint, nowMillis int64,
) ([]FactBody, *Rejection) {
	change := c.Change.completed(state).since(state)
	if change.SigningKey != nil && len(state.SigningKeyNames(nowMillis)) > 1 {
		return nil, &Rejection{
			Code: CodeTooManySecrets,
			Detail: "the endpoint's former Ed25519 key still signs; it ends 24 hours after its rotation, " +
				"so try again later",
		}
	}
	if change == (EndpointChange{}) {
		return unlessRevised(state.Revision, c.IfRevision)
	}
	return unlessRevised(state.Revision, c.IfRevision, EndpointUpdated{Change: change})
}

func decideDisable(state Endpoint, c DisableEndpoint) ([]FactBody, *Rejection) {
	if state.Status == StatusDisabled {
		return unlessRevised(state.Revision, c.IfRevision)
	}
	return unlessRevised(state.Revision, c.IfRevision, EndpointDisabled{Reason: DisabledManual})
}

func decideEnable(state Endpoint, c EnableEndpoint) ([]FactBody, *Rejection) {
	if state.Status == StatusActive {
		return unlessRevised(state.Revision, c.IfRevision)
	}
	return unlessRevised(state.Revision, c.IfRevision, EndpointEnabled{})
}

// unlessRevised returns the facts unless the caller expected another revision.
func unlessRevised(revision, ifRevision uint64, facts ...FactBody) ([]FactBody, *Rejection) {
	if ifRevision != 0 && ifRevision != revision {
		return nil, &Rejection{
			Code: CodePreconditionFailed,
			Detail: "the object was changed since it was read; read it again and repeat the change with " +
				"its new ETag",
		}
	}
	return facts, nil
}

func noEndpoint() *Rejection {
	return &Rejection{Code: CodeNotFound, Detail: "there is no such endpoint"}
}

func evolveEndpoint(state Endpoint, f Fact) Endpoint {
	state.Version = f.Version
	if created, ok := f.Body.(DeliveryCreated); ok {
		state.Sequence = max(state.Sequence, created.Sequence)
	}
	made, attempted := f.Body.(AttemptMade)
	if attempted {
		state.Log = state.Log.with(made.Entry)
	}
	if state.Deleted() {
		return state
	}
	if attempted {
		state.Trouble = state.Trouble.folded(made)
		state.ConsecutiveFailures = streak(state, made)
	}
	changed, ok := f.Body.(EndpointFact)
	if !ok {
		return state
	}
	switch body := changed.(type) {
	case EndpointCreated:
		state.ID, state.AccountID = body.EndpointID, body.AccountID
		state.EndpointSettings = body.EndpointSettings
		state.Secrets = []SealedSecret{body.Secret}
		state.Status = StatusActive
		state.CreatedAtMillis = f.AtMillis
	case EndpointUpdated:
		state = body.Change.to(state)
		if body.Change.SigningKey != nil {
			state.SigningKeyRotatedAtMillis = f.AtMillis
		}
	case SecretRotated:
		state.Secrets = rotated(state.Secrets, body.Secret, f.AtMillis)
	case SecretsResealed:
		state.Secrets, state.Headers = body.Secrets, body.Headers
		return state // nothing that a client configures has changed
	case EndpointDisabled:
		state.Status, state.DisabledReason, state.DisabledAtMillis = StatusDisabled, body.Reason,
			f.AtMillis
	case EndpointEnabled:
		state.Status, state.DisabledReason, state.DisabledAtMillis = StatusActive, "", 0
		state.ConsecutiveFailures = 0
		state.Trouble = Trouble{}
		state.EnabledVersion = f.Version
		state.Epoch++
	case EndpointDeleted:
		state.Status, state.DeletedAtMillis = StatusDeleted, f.AtMillis
		state.DisabledReason, state.DisabledAtMillis = "", 0
		state.Secrets, state.Headers = nil, nil // nothing is sent any more
		state.Epoch++
	}
	state.Revision, state.UpdatedAtMillis = f.Version, f.AtMillis
	return state
}

// streak counts the runs that ended FAILED in a row. Runs that end while the endpoint is disabled
// do not count, because enabling it resets the count.
func streak(e Endpoint, a AttemptMade) int {
	switch {
	case a.EventType == TestPing:
	case a.State == StateDelivered:
		return 0
	case a.State == StateFailed && e.Sends():
		return e.ConsecutiveFailures + 1
	}
	return e.ConsecutiveFailures
}

// differing returns the wanted value, or nil if the current one is equal.
func differing[T comparable](want *T, have T) *T {
	if want == nil || *want == have {
		return nil
	}
	return want
}

func differingList[T any](want *[]T, have []T, equal func(T, T) bool) *[]T {
	if want == nil || slices.EqualFunc(*want, have, equal) {
		return nil
	}
	return want
}

func same[T comparable](a, b T) bool { return a == b }

func replace[T any](field *T, with *T) {
	if with != nil {
		*field = *with
	}
}
