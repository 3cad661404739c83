package domain

import "slices"

// Watch is a standing order: report payments to one wallet that keep the rules.
type Watch struct {
	ID              string
	AccountID       string
	Version         uint64
	WalletAddress   string
	Label           string
	EndpointID      string
	Rules           Rules
	EventTypes      []EventType
	CreatedAtMillis int64
	UpdatedAtMillis int64
}

// Exists tells whether the watch was created.
func (w Watch) Exists() bool { return w.ID != "" }

// DecideCreateWatch answers a request to create a watch. The caller has checked
// the fields; that the endpoint exists is checked where endpoints are known.
func DecideCreateWatch(state Watch, c CreateWatch, nowMillis int64) ([]FactBody, *Rejection) {
	if state.Exists() {
		return nil, &Rejection{Code: CodeAlreadyExists, Detail: "the watch exists; its creation was answered before and that answer is forgotten"}
	}
	w := c.Watch
	w.CreatedAtMillis, w.UpdatedAtMillis = nowMillis, nowMillis
	return []FactBody{WatchCreated{Watch: w}}, nil
}

// EvolveWatch folds one fact into the state of a watch.
func EvolveWatch(state Watch, f Fact) Watch {
	if body, ok := f.Body.(WatchCreated); ok {
		state = body.Watch
	}
	state.Version = f.Version
	return state
}

// Match is what one watch makes of one payment.
type Match struct {
	EventID      string
	Type         EventType
	Watch        Watch
	Payment      Payment
	Verification Verification
}

// MatchPayment holds a payment against a watch. It reports false when there is
// nothing to tell: another wallet, a payment to oneself, or a verdict that the
// watch did not ask for.
func MatchPayment(w Watch, p Payment) (Match, bool) {
	if p.To != w.WalletAddress || p.PaysOneself() {
		return Match{}, false
	}
	m := Match{EventID: EventID(w.ID, p.ID), Type: PaymentReceived, Watch: w, Payment: p, Verification: w.Rules.Verify(p)}
	if m.Verification.Outcome == OutcomeRejected {
		m.Type = PaymentRejected
	}
	return m, slices.Contains(w.EventTypes, m.Type)
}
