package domain

import "slices"

// Watch is an account's request to report payments to a wallet that meet the rules.
type Watch struct {
	ID              string
	AccountID       string
	Version         uint64
	Revision        uint64 // version of the last fact that changed the configuration; used as the ETag
	WalletAddress   string
	Label           string
	EndpointID      string
	Rules           Rules
	EventTypes      []EventType
	CreatedAtMillis int64
	UpdatedAtMillis int64
	DeletedAtMillis int64 // 0 if not deleted

	// Covered are the ledgers that backfills have matched against the watch. LiveSince is the first
	// ledger that the follower matches live, or 0 if not known yet.
	Covered   Ranges
	LiveSince uint32
	Backfill  Backfill
	Parts     []Part // open parts of backfills, which don't overlap
	// MissedSince is the first ledger that the watch missed because its endpoint was deleted, or 0 if
	// everything since then is covered. LiveSince is 0 until the watch has another endpoint.
	MissedSince uint32

	// Payments in ledgers that close after ExpiresAtMillis are ignored; 0 means never.
	ExpiresAtMillis int64
	// Once marks a watch for a single payment. Fulfilled is that payment.
	Once      bool
	Fulfilled Fulfilment
}

// Fulfilment is the only payment that a watch for one payment accepts.
type Fulfilment struct {
	PaymentID      string // empty if there is none yet
	Ledger         uint32
	ClosedAtMillis int64 // close time of the ledger
}

// FulfilledBy returns a Fulfilment by the payment.
func FulfilledBy(p Payment) Fulfilment { return Fulfilment{p.ID, p.Ledger, p.ClosedAtMillis} }

// Is reports whether the watch is fulfilled.
func (f Fulfilment) Is() bool { return f.PaymentID != "" }

// Expired reports whether the watch ignores ledgers that close at the given time.
func (w Watch) Expired(closedAtMillis int64) bool {
	return w.ExpiresAtMillis != 0 && closedAtMillis > w.ExpiresAtMillis
}

// MustClaim reports whether a payment must first be claimed with [RecordCoverage].
func (w Watch) MustClaim() bool { return w.Once && !w.Fulfilled.Is() }

// AwaitsFollower reports whether the follower that runs backfills has work for the watch.
func (w Watch) AwaitsFollower() bool {
	return (w.Backfill.UnderWay() || len(w.Parts) > 0) && !w.Deleted()
}

// Exists reports whether the watch was created. It is true for a deleted watch.
func (w Watch) Exists() bool { return w.ID != "" }

// Deleted reports whether the watch was deleted. A deleted watch matches nothing.
func (w Watch) Deleted() bool { return w.DeletedAtMillis != 0 }

// WatchChange holds the fields to change; nil fields stay. The wallet and Once can't change.
type WatchChange struct {
	Label           *string
	EndpointID      *string
	Assets          *[]Asset
	Amount          *AmountRule
	Memo            *MemoRule
	SenderAllowlist *[]string
	EventTypes      *[]EventType
	ExpiresAtMillis *int64 // 0 means never
}

// since returns the change without values that are already set.
func (c WatchChange) since(w Watch) WatchChange {
	if c.Memo != nil && c.Memo.Equal(w.Rules.Memo) {
		c.Memo = nil
	}
	return WatchChange{
		Label:           differing(c.Label, w.Label),
		EndpointID:      differing(c.EndpointID, w.EndpointID),
		Assets:          differingList(c.Assets, w.Rules.Assets, same),
		Amount:          differing(c.Amount, w.Rules.Amount),
		Memo:            c.Memo,
		SenderAllowlist: differingList(c.SenderAllowlist, w.Rules.SenderAllowlist, same),
		EventTypes:      differingList(c.EventTypes, w.EventTypes, same),
		ExpiresAtMillis: differing(c.ExpiresAtMillis, w.ExpiresAtMillis),
	}
}

// With returns the watch after a change.
func (w Watch) With(c WatchChange) Watch { return c.to(w) }

func (c WatchChange) to(w Watch) Watch {
	replace(&w.Label, c.Label)
	replace(&w.EndpointID, c.EndpointID)
	replace(&w.Rules.Assets, c.Assets)
	replace(&w.Rules.Amount, c.Amount)
	replace(&w.Rules.Memo, c.Memo)
	replace(&w.Rules.SenderAllowlist, c.SenderAllowlist)
	replace(&w.EventTypes, c.EventTypes)
	replace(&w.ExpiresAtMillis, c.ExpiresAtMillis)
	return w
}

// DecideWatch decides a command on a watch. A command that would change nothing returns no facts.
// The caller validates the fields and checks that the endpoint exists.
func DecideWatch(state Watch, c Command, nowMillis int64) ([]FactBody, *Rejection) {
	if body, ok := c.Body.(CreateWatch); ok {
		return DecideCreateWatch(state, body, nowMillis)
	}
	if !state.Exists() || state.Deleted() || state.AccountID != c.AccountID {
		return nil, noSuchWatch()
	}
	asked, _ := c.Body.(WatchCommand)
	switch body := asked.(type) {
	case UpdateWatch:
		change := body.Change.since(state)
		if change == (WatchChange{}) {
			return unlessRevised(state.Revision, body.IfRevision)
		}
		facts := []FactBody{WatchUpdated{Change: change}}
		if gap, due := state.gap(true, 0); due && change.EndpointID != nil {
			facts = append(facts, BackfillRequested(gap))
		}
		return unlessRevised(state.Revision, body.IfRevision, facts...)
	case DeleteWatch:
		return unlessRevised(state.Revision, body.IfRevision, WatchDeleted{})
	case BackfillWatch:
		return decideBackfill(state, body)
	case RecordCoverage:
		return decideCoverage(state, body, nowMillis), nil
	case CreateWatch: // handled above
	}
	panic("domain: a watch cannot answer " + c.Body.CommandType())
}

func noSuchWatch() *Rejection {
	return &Rejection{Code: CodeNotFound, Detail: "there is no such watch"}
}

// DecideCreateWatch decides the creation of a watch.
func DecideCreateWatch(state Watch, c CreateWatch, nowMillis int64) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{
			Code:   CodeAlreadyExists,
			Detail: "the watch exists; its creation was answered before and that answer is forgotten",
		}
	}
	w := c.Watch
	w.CreatedAtMillis, w.UpdatedAtMillis = nowMillis, nowMillis
	return []FactBody{WatchCreated{Watch: w}}, nil
}

// EvolveWatch applies a fact to a watch. Backfills don't change the watch's revision.
func EvolveWatch(state Watch, f Fact) Watch {
	changed, _ := f.Body.(WatchFact)
	switch body := changed.(type) {
	case WatchCreated:
		state = body.Watch
		state.Revision = f.Version
	case WatchUpdated:
		state = body.Change.to(state)
		state.UpdatedAtMillis, state.Revision = f.AtMillis, f.Version
	case WatchDeleted:
		state.UpdatedAtMillis, state.DeletedAtMillis = f.AtMillis, f.AtMillis
		state.Revision = f.Version
	case BackfillRequested:
		state.Backfill = body.backfill(f)
	case RangeCovered:
		state = state.cover(body, f.AtMillis)
	case PartBegun:
		state.Parts = append(slices.Clone(state.Parts), state.part(body, f))
	case BackfillStopped:
		state.Backfill = state.Backfill.stop(body, f.AtMillis)
	}
	state.Version = f.Version
	return state
}

// Match is a match of a payment with a watch.
type Match struct {
	EventID      string
	Type         EventType
	Watch        Watch
	Payment      Payment
	Verification Verification
}

// MatchPayment matches a payment against a watch. It returns false if the watch doesn't report the
// payment: because of its wallet, expiry, deletion or event types, because the payment is to the
// sender itself, or because the watch is only for another payment. The payment that fulfilled a
// watch always matches it, whatever its rules are now, because its ledger may be read again.
func MatchPayment(w Watch, p Payment) (Match, bool) {
	if w.Deleted() || p.To != w.WalletAddress || p.IsSelfPayment() {
		return Match{}, false
	}
	m := Match{
		EventID:      EventID(w.ID, p.ID),
		Type:         PaymentReceived,
		Watch:        w,
		Payment:      p,
		Verification: w.Rules.Verify(p),
	}
	switch {
	case w.Fulfilled.Is() && w.Fulfilled.PaymentID == p.ID:
		m.Verification = Verification{Outcome: OutcomeVerified}
		return m, true
	case m.Verification.Outcome == OutcomeRejected:
		m.Type = PaymentRejected
	}
	one := w.Once && (w.Fulfilled.Is() || m.Type == PaymentRejected)
	return m, !one && !w.Expired(p.ClosedAtMillis) && slices.Contains(w.EventTypes, m.Type)
}
