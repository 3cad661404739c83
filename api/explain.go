package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Outcomes of explaining a transaction.
const (
	outcomeReported      = "REPORTED"
	outcomeRejected      = "REJECTED"
	outcomeNotTaken      = "NOT_TAKEN"
	outcomeNotWatched    = "NOT_WATCHED"
	outcomeNotRead       = "LEDGER_NOT_READ"
	outcomeNoPayment     = "NO_PAYMENT"
	outcomeFailed        = "TRANSACTION_FAILED"
	outcomeNotFound      = "TRANSACTION_NOT_FOUND"
	outcomeUnknown       = "UNKNOWN"
	explainedPaymentsMax = 100 // of one transaction

	// A lookup in the network holds a whole ledger in memory.
	maxLooking     = 4 // at a time
	maxLookingEach = 2 // of an account
)

var transactionForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

type explanation struct {
	api      *API
	request  *request
	followed Followed
	watches  map[string][]domain.Watch // the caller's watches, by wallet
	view     client.Explanation
}

// explainTransaction returns why the payments of a transaction have events or have none.
func (a *API) explainTransaction(ctx context.Context, r *request) (reply, error) {
	if !transactionForm.MatchString(r.subjectID) {
		return reply{}, problem.New(problem.CodeNotFound,
			"A transaction's hash is 64 lowercase hex digits.")
	}
	followed, err := a.followed(ctx)
	if err != nil {
		return reply{}, err
	}
	recorded, err := a.History.Payments(ctx, r.caller.accountID, r.subjectID)
	if err := historyError(err); err != nil {
		return reply{}, err
	}
	e := &explanation{
		api: a, request: r, followed: followed, watches: map[string][]domain.Watch{},
		view: client.Explanation{
			TxHash:      r.subjectID,
			ReadThrough: unlessZero(followed.Ledger),
			Payments:    []client.ExplainedPayment{},
		},
	}
	for _, paid := range recorded {
		if err := e.addRecorded(paid); err != nil {
			return reply{}, err
		}
	}
	if len(e.view.Payments) == 0 {
		err = e.readTransaction(ctx)
	}
	e.conclude()
	return reply{view: e.view}, err
}

// addRecorded adds a payment of the history, unless only other accounts watch its wallet.
func (e *explanation) addRecorded(paid readmodel.Paid) error {
	watches, err := e.watchesOf(paid.Payment.To)
	if err != nil || len(watches) == 0 && len(paid.Events) == 0 {
		return err
	}
	return e.add(paid, watches)
}

func (e *explanation) add(paid readmodel.Paid, watches []domain.Watch) error {
	p := paid.Payment
	e.view.Ledger, e.view.LedgerClosedAt = unlessZero(p.Ledger), instant(p.ClosedAtMillis)
	if len(e.view.Payments) == explainedPaymentsMax {
		return nil
	}
	shown := client.ExplainedPayment{
		ID:      p.ID,
		From:    p.From,
		To:      p.To,
		Asset:   p.Asset.String(),
		Amount:  domain.FormatAmount(p.AmountStroops),
		Memo:    memoText(p.Memo),
		Watches: []client.ExplainedWatch{},
	}
	if p.Memo.Type != domain.MemoNone {
		shown.MemoType = pointer(string(p.Memo.Type))
	}
	took := make(map[string]readmodel.PaidEvent, len(paid.Events)) // by watch
	for _, event := range paid.Events {
		took[event.WatchID] = event
	}
	for _, w := range watches {
		explained, err := e.explainWatch(w, p, took[w.ID])
		if err != nil {
			return err
		}
		delete(took, w.ID)
		shown.Watches = append(shown.Watches, explained)
	}
	for _, watchID := range slices.Sorted(maps.Keys(took)) { // deleted watches and older ones
		shown.Watches = append(shown.Watches, showEvent(client.ExplainedWatch{WatchID: watchID},
			took[watchID]))
	}
	e.view.Payments = append(e.view.Payments, shown)
	return nil
}

func showEvent(v client.ExplainedWatch, event readmodel.PaidEvent) client.ExplainedWatch {
	v.EventID, v.EventType = &event.ID, pointer(string(event.Type))
	v.Reasons = reasonsOf(event.Reasons, "")
	return v
}

// reasonsOf explains reasons. If amountRule is not empty, reasons about the amount include it.
func reasonsOf(codes []string, amountRule string) []client.ExplainedReason {
	reasons := []client.ExplainedReason{}
	for _, code := range codes {
		detail := client.ReasonDetail(code)
		if amountRule != "" && strings.HasPrefix(code, "AMOUNT_") {
			detail += " It requires " + amountRule + "."
		}
		reasons = append(reasons, client.ExplainedReason{Code: code, Detail: detail})
	}
	return reasons
}

// explainWatch returns the event that a watch created for a payment, or the reasons why it created
// none.
func (e *explanation) explainWatch(
	w domain.Watch, p domain.Payment, event readmodel.PaidEvent,
) (v client.ExplainedWatch, err error) {
	v = client.ExplainedWatch{
		WatchID:        w.ID,
		EndpointID:     &w.EndpointID,
		EndpointStatus: pointer(string(domain.StatusDeleted)),
	}
	endpoint, found, err := e.api.Directory.Endpoint(w.EndpointID)
	if err != nil {
		return v, fmt.Errorf("looking up the endpoint of a watch: %w", err)
	}
	if found {
		v.EndpointStatus = pointer(string(endpoint.Status))
	}
	if event.ID != "" {
		return showEvent(v, event), nil
	}
	match, _ := domain.MatchPayment(w, p)
	rejected := texts(match.Verification.Reasons)
	reasons := notTaken(w, p)
	switch {
	case p.Ledger > e.followed.Ledger:
		reasons = []string{outcomeNotRead}
	case !found || endpoint.Deleted():
		reasons = append([]string{reasonEndpointDeleted}, rejected...)
	case reasons[0] == reasonWatchedLater:
		reasons = append(reasons, rejected...) // a backfill would meet these as well
	}
	v.Reasons = reasonsOf(reasons, viewAmountRule(w.Rules.Amount).String())
	return v, nil
}

// watchesOf returns the caller's watches of a wallet, newest first, including those without an
// endpoint.
func (e *explanation) watchesOf(wallet string) ([]domain.Watch, error) {
	if watches, known := e.watches[wallet]; known {
		return watches, nil
	}
	f := readmodel.WatchFilter{AccountID: e.request.caller.accountID, WalletAddress: wallet}
	watches, _, err := e.api.Directory.Watches(f, nil, reasonsMax)
	if err != nil {
		return nil, fmt.Errorf("looking up the watches of a wallet: %w", err)
	}
	e.watches[wallet] = watches
	return watches, nil
}

// readTransaction reads the transaction from the ledger source. The history only has payments to
// wallets that were watched when their ledger was read.
func (e *explanation) readTransaction(ctx context.Context) error {
	e.view.Outcome = outcomeUnknown
	if e.api.Transactions == nil {
		return nil
	}
	by := e.request.caller.holder()
	if err := e.api.lookups.within(by, "look up a transaction in the network"); err != nil {
		return err
	}
	leave, err := e.api.looking.Await(ctx, by, maxLookingEach, 1)
	if err != nil {
		return problem.New(problem.CodeOverloaded, "This node looks up too many transactions at once. "+
			"Repeat the request after the time in Retry-After.").RetryAfter(1).Because(err)
	}
	defer leave()
	found, err := e.api.Transactions.Transaction(ctx, e.view.TxHash)
	switch {
	case errors.Is(err, domain.ErrNoTransaction):
		e.view.Outcome = outcomeNotFound
		return nil
	case err != nil:
		e.api.Log.Warn("a transaction could not be looked up", "tx", e.view.TxHash, "err", err)
		return nil
	}
	e.view.Ledger, e.view.LedgerClosedAt = unlessZero(found.Ledger), instant(found.ClosedAtMillis)
	switch {
	case found.Failed:
		e.view.Outcome = outcomeFailed
	case len(found.Payments) == 0:
		e.view.Outcome = outcomeNoPayment
	default:
		e.view.Outcome = outcomeNotWatched
	}
	for _, p := range found.Payments {
		watches, err := e.watchesOf(p.To)
		if err != nil {
			return err
		}
		if err := e.add(readmodel.Paid{Payment: p}, watches); err != nil {
			return err
		}
	}
	return nil
}

func (e *explanation) conclude() {
	v := &e.view
	for _, p := range v.Payments {
		for _, w := range p.Watches {
			switch {
			case w.EventID != nil && *w.EventType != string(domain.PaymentRejected):
				v.Outcome = outcomeReported
			case w.EventID != nil && v.Outcome != outcomeReported:
				v.Outcome = outcomeRejected
			case v.Outcome != outcomeReported && v.Outcome != outcomeRejected:
				v.Outcome = outcomeNotTaken
			}
		}
	}
	if v.Outcome == outcomeNotTaken && v.Ledger != nil && *v.Ledger > e.followed.Ledger {
		v.Outcome = outcomeNotRead
	}
	v.Detail = outcomeDetails[v.Outcome]
}

var outcomeDetails = map[string]string{
	outcomeReported: "A payment of this transaction has an event `payment.received`.",
	outcomeRejected: "A watch rejected a payment of this transaction, and reported that: `reasons` " +
		"say why. A watch reports a payment once: to accept it after all, create another watch with " +
		"other rules, and backfill that from this ledger.",
	outcomeNotTaken: "Your account watches a wallet that was paid, but no watch accepted the " +
		"payment: see `reasons`. Correct the watch, then backfill it from this ledger.",
	outcomeNotWatched: "Your account does not watch the wallets that were paid. Create a watch of " +
		"the wallet, then backfill it from this ledger.",
	outcomeNotRead: "The service has not read this ledger yet: wait until `readThrough` reaches it.",
	outcomeNoPayment: "The transaction succeeded, and nothing in it counts as a payment: see `What " +
		"counts as a payment` in the documentation.",
	outcomeFailed: "The transaction failed on the network: no money moved.",
	outcomeNotFound: "No watched wallet was paid by this transaction, and the source of ledgers " +
		"does not know it: check the hash and the network. The source may keep only recent ledgers.",
	outcomeUnknown: "No watched wallet was paid by this transaction in the ledgers that were read. " +
		"The network could not be asked: the service has no RPC server, or it does not answer.",
}

func memoText(m domain.Memo) *string {
	if m.Type == domain.MemoNone {
		return nil
	}
	return pointer(m.String())
}
