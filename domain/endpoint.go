package domain

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// EndpointStatus is the status of an endpoint.
type EndpointStatus string

// States of an endpoint (specification, "States and transitions").
//
//	active ──410, 20 runs failed in a row, disable──► disabled
//	   ▲ ◄────────────────enable────────────────────────┘ │
//	   └───────────────────delete────────► deleted ◄──────┘
const (
	StatusActive   EndpointStatus = "active"
	StatusDisabled EndpointStatus = "disabled"
	StatusDeleted  EndpointStatus = "deleted"
)

// DisabledReason is the reason why an endpoint is disabled. It is empty for other endpoints.
type DisabledReason string

// Reasons why an endpoint is disabled.
const (
	DisabledGone DisabledReason = "gone" // the receiver responded 410
	// Too many runs in a row ended FAILED.
	DisabledConsecutiveFailures DisabledReason = "consecutive_failures"
	DisabledManual              DisabledReason = "manual" // requested by the account
)

// Header is a custom header of an endpoint's deliveries. Its value is encrypted like a secret
// because it is often the credential that the receiver checks. In an [UpdateEndpoint], a header
// without a value keeps its current value.
type Header struct {
	Name   string
	Sealed []byte
}

// SealedFor returns the context to which the header's encrypted value is bound. It prevents the
// value from being decrypted as another header, for another endpoint, or as a secret.
func (h Header) SealedFor(endpointID string) string { return endpointID + " " + h.Name }

func (h Header) equal(other Header) bool {
	return h.Name == other.Name && bytes.Equal(h.Sealed, other.Sealed)
}

// EndpointSettings are the settings that clients can change.
type EndpointSettings struct {
	URL                string
	Description        string
	Headers            []Header
	RateLimitPerSecond int // 0 means no limit
	// Signatures to add to those of the specification.
	Signatures Signatures
	Ordering   Ordering // applies to events that arrive from now on
	// NoticesTo is another endpoint to notify when this one is failing or disabled, or empty.
	NoticesTo string
}

// Ordering specifies which events wait for earlier ones. An event keeps the ordering that its
// endpoint had when the event arrived.
type Ordering string

// Orderings of an endpoint's events.
const (
	OrderingNone Ordering = "" // events don't wait
	// An event waits until its wallet's earlier events are DELIVERED, FAILED or CANCELLED.
	OrderingWallet Ordering = "wallet"
)

func (o Ordering) wellFormed() error {
	if o != OrderingNone && o != OrderingWallet {
		return fmt.Errorf("unknown ordering %q", o)
	}
	return nil
}

// Endpoint receives an account's events. Its deliveries belong to the same aggregate, so their
// facts increment its version as well.
type Endpoint struct {
	ID        string
	AccountID string
	Version   uint64
	// Version of the last fact that changed the configuration; used as the ETag.
	Revision uint64
	EndpointSettings
	Secrets []SealedSecret // newest first
	// SigningKey is the number of Ed25519 key rotations.
	SigningKey                uint32
	SigningKeyRotatedAtMillis int64 // 0 means never
	Status                    EndpointStatus
	DisabledReason            DisabledReason
	DisabledAtMillis          int64 // 0 if not disabled
	// Runs in a row that ended FAILED since the last success or enabling.
	ConsecutiveFailures int
	Trouble             Trouble
	EnabledVersion      uint64 // version of the last EndpointEnabled; 0 if there is none
	// The highest [DeliveryCreated.Sequence], even after the endpoint was deleted.
	Sequence uint64
	Log      AttemptLog // also kept after the endpoint is deleted
	// Epoch counts enablings and the deletion. Deliveries of an earlier epoch are due immediately.
	Epoch           uint32
	CreatedAtMillis int64
	UpdatedAtMillis int64 // when the revision last changed
	DeletedAtMillis int64 // 0 if not deleted
}

// Exists reports whether the endpoint was created. It is true for a deleted endpoint. #122 Deleted
// reports whether the endpoint was deleted.
func (e Endpoint) Exists() bool { return e.ID != "" }

// Deleted reports whether the endpoint was deleted.
func (e Endpoint) Deleted() bool { return e.Status == StatusDeleted }

// Sends reports whether attempts may start (G3).
func (e Endpoint) Sends() bool { return e.Status == StatusActive }

func (e Endpoint) visibleTo(accountID string) bool {
	return e.Exists() && !e.Deleted() && e.AccountID == accountID
}

// DecideEndpoint decides a command that affects an endpoint but not its deliveries. A command that
// would change nothing returns no facts.
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
		// handled above, or together with deliveries and notices
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

// EndpointChange holds the fields of an endpoint to change; nil fields stay the same.
type EndpointChange struct {
	URL                *string
	Description        *string
	Headers            *[]Header
	RateLimitPerSecond *int
	Signatures         *Signatures
	Ordering           *Ordering
	NoticesTo          *string
	SigningKey         *uint32 // if above the current value, rotates the Ed25519 key once
}

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

// completed fills in the current values of headers without a value. Clients never receive header
// values, so they can't send them back. If the URL moves to another origin, no value is kept.
// Otherwise, a user who can change the URL could have the values sent to their own server.
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

// since returns the change without values that are already set.
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

// With returns the endpoint after a change.
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
			Detail: "the endpoint's previous Ed25519 key is still valid; it expires 24 hours after its " +
				"rotation, so try again later",
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

// unlessRevised returns the facts, or a rejection if the revision is not the expected one.
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
		return state // the configuration is unchanged
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
		state.Secrets, state.Headers = nil, nil // no more attempts are made
		state.Epoch++
	}
	state.Revision, state.UpdatedAtMillis = f.Version, f.AtMillis
	return state
}

// streak returns the number of runs in a row that ended FAILED. Runs that end while the endpoint is
// disabled don't count because enabling it resets the count.
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

// differing returns want, or nil if it equals the current value.
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
