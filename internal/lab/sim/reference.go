package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
)

// referenceModel folds the journal's endpoints and deliveries without package domain. That package
// folds the same facts for the engine and for the model, so both share its bugs. The reference
// model only uses its types and constants, not its functions (TestReferenceModelIsIndependent).
type referenceModel struct {
	world      *World
	endpoints  map[string]*referenceEndpoint
	deliveries map[deliveryID]*referenceDelivery
	requeued   map[string][]deliveryID // by the command that has not been answered yet
	latest     map[string]deliveryID   // latest delivery of each event
	replays    map[string][]deliveryID // in order, by the replay that queued them
}

type referenceEndpoint struct {
	account         string
	active, deleted bool
	url             string
	ratePerSecond   int
	signatures      domain.Signatures
	secrets         []referenceSecret // oldest first
	streak          int
	sequence        uint64   // of the delivery created last
	events          []string // oldest first
	ordering        domain.Ordering
	noticesTo       string
	trouble         domain.Trouble           // since the last success or enabling
	lines           map[string][]string      // pending events that wait for each other, by wallet
	disabling       *domain.EndpointDisabled // the required next fact, if any
}

type referenceSecret struct {
	sealed       string
	endsAtMillis int64
}

type referenceDelivery struct {
	state           domain.DeliveryState
	account         string
	createdAtMillis int64 // of the envelope
	test            bool
	notice          bool // it notifies about another endpoint
	sequence        uint64
	attempts, run   int
	inRun           int // attempts made in this run
	dueAtMillis     int64
	replay          string // the replay that started this run, if any
	first           domain.AttemptResult
	body            string
	moves           int
	former          []string // endpoints that the event has left
	movedTo         string   // endpoint that the event was handed over to
	next            string   // endpoint of the event's next delivery
	line            string   // wallet of its line; empty if it is in no line
}

func newReferenceModel(w *World) *referenceModel {
	return &referenceModel{
		world:      w,
		endpoints:  make(map[string]*referenceEndpoint),
		deliveries: make(map[deliveryID]*referenceDelivery),
		requeued:   make(map[string][]deliveryID),
		latest:     make(map[string]deliveryID),
		replays:    make(map[string][]deliveryID),
	}
}

func (d *referenceDelivery) pending() bool {
	return d.state == domain.StateQueued || d.state == domain.StateWaiting
}

// before reports whether a delivery is at least as old as another one, and is sent before it if
// that is due at dueAtMillis.
func (d *referenceDelivery) before(other *referenceDelivery, dueAtMillis int64) bool {
	return d.createdAtMillis <= other.createdAtMillis && d.dueAtMillis < dueAtMillis
}

// overtaken returns a delivery that the same replay queued before this one, and whose run has not
// started. The first attempts of a replay must start in its order.
func (m *referenceModel) overtaken(
	id deliveryID, began func(event string) bool,
) (deliveryID, bool) {
	d := m.deliveries[id]
	if d.replay == "" || d.inRun > 0 {
		return deliveryID{}, false
	}
	for _, earlier := range m.replays[d.replay] {
		e := m.deliveries[earlier]
		switch {
		case earlier == id:
			return deliveryID{}, false
		case e.replay == d.replay && e.inRun == 0 && e.pending() && !began(earlier.event):
			return earlier, true
		}
	}
	return deliveryID{}, false
}

// firstTest reports whether a client waits for the next attempt, which is therefore sent first.
func (d *referenceDelivery) firstTest() bool { return d.test && d.attempts == 0 }

// signs returns the secrets that sign at a time, newest first.
func (e *referenceEndpoint) signs(nowMillis int64) []domain.Secret {
	valid := []domain.Secret{}
	for _, s := range slices.Backward(e.secrets) {
		if nowMillis < s.endsAtMillis {
			valid = append(valid, domain.Secret(s.sealed))
		}
	}
	return valid
}

func (e *referenceEndpoint) signingKeys(id string) []domain.Secret {
	if e.signatures&domain.StandardWebhooksEd25519 != 0 {
		return signingKeys(id)
	}
	return nil
}

// apply folds a fact of an endpoint or of its deliveries. It returns an error if the specification
// doesn't allow the fact.
func (m *referenceModel) apply(f domain.Fact) error {
	if !strings.HasPrefix(f.Aggregate, domain.EndpointPrefix) {
		return nil
	}
	e := m.endpoints[f.Aggregate]
	if body, ok := f.Body.(domain.EndpointCreated); ok {
		m.endpoints[f.Aggregate] = &referenceEndpoint{
			account:       body.AccountID,
			active:        true,
			url:           body.URL,
			ratePerSecond: body.RateLimitPerSecond,
			signatures:    body.Signatures,
			ordering:      body.Ordering,
			noticesTo:     body.NoticesTo,
			secrets:       []referenceSecret{{string(body.Secret.Sealed), math.MaxInt64}},
		}
		return nil
	}
	if e == nil {
		e = &referenceEndpoint{deleted: true} // a match of an endpoint that never existed
		m.endpoints[f.Aggregate] = e
	}
	if due := e.disabling; due != nil {
		e.disabling = nil
		body, disabled := f.Body.(domain.EndpointDisabled)
		if disabled && body.Telling.EndpointID == e.noticesTo {
			due.Telling = body.Telling
		}
		if !disabled || body != *due {
			return fmt.Errorf("the endpoint %s is to be disabled as %+v, and %s follows: %+v", f.Aggregate,
				*due, f.Body.FactType(), f.Body)
		}
		e.active = false
		return nil
	}
	cmd := m.world.clients.byID[f.Cause]
	switch body := f.Body.(type) {
	case domain.CommandHandled:
		return m.answered(f.Aggregate, e, body)
	case domain.DeliveryCreated:
		return m.create(f, body, e, cmd)
	case domain.AttemptMade:
		return m.attempt(f, body, e, m.deliveries[deliveryID{f.Aggregate, body.EventID}])
	case domain.DeliveryRecalled:
		return m.recall(body.Delivery, deliveryID{f.Aggregate, body.Delivery.EventID}, cmd)
	case domain.DeliveryRequeued:
		return m.requeue(f, body, deliveryID{f.Aggregate, body.EventID}, cmd)
	case domain.DeliveryCancelled:
		return m.cancel(f, e, deliveryID{f.Aggregate, body.EventID})
	case domain.DeliveryMoved:
		return m.move(body, deliveryID{f.Aggregate, body.EventID}, cmd)
	case domain.MailOrdered, domain.MailAttempted:
		return nil // mailChecks checks these
	default:
		return m.applyEndpoint(f, e, cmd)
	}
}

// applyEndpoint folds a fact of the endpoint itself, which only commands lead to.
func (m *referenceModel) applyEndpoint(
	f domain.Fact, e *referenceEndpoint, cmd *issued,
) error {
	switch {
	case e.deleted:
		return fmt.Errorf("%s of an endpoint that was deleted", f.Body.FactType())
	case cmd == nil:
		return fmt.Errorf("nobody asked for %s", f.Body.FactType())
	case cmd.AccountID != e.account:
		return fmt.Errorf("%s was asked for by another account", f.Body.FactType())
	}
	switch body := f.Body.(type) {
	case domain.EndpointUpdated:
		if body.Change.URL != nil {
			e.url = *body.Change.URL
		}
		if body.Change.RateLimitPerSecond != nil {
			e.ratePerSecond = *body.Change.RateLimitPerSecond
		}
		if body.Change.Signatures != nil {
			e.signatures = *body.Change.Signatures
		}
		if body.Change.Ordering != nil {
			e.ordering = *body.Change.Ordering
		}
	case domain.SecretRotated:
		e.secrets[len(e.secrets)-1].endsAtMillis = f.AtMillis + 24*hourMillis
		// An expired secret is removed. It doesn't sign again if the clock is set back.
		e.secrets = slices.DeleteFunc(e.secrets,
			func(s referenceSecret) bool { return s.endsAtMillis <= f.AtMillis })
		e.secrets = append(e.secrets, referenceSecret{string(body.Secret.Sealed), math.MaxInt64})
	case domain.SecretsResealed:
		return e.resealed(cmd, body)
	case domain.EndpointDisabled:
		if !e.active || body.Reason != domain.DisabledManual {
			return fmt.Errorf("an endpoint is disabled (%s) that is active: %t", body.Reason, e.active)
		}
		e.active = false
	case domain.EndpointEnabled:
		if e.active {
			return errors.New("an endpoint is enabled that is active")
		}
		e.active, e.streak, e.trouble = true, 0, domain.Trouble{}
		for _, event := range e.events {
			if d := m.deliveries[deliveryID{f.Aggregate, event}]; d.pending() {
				d.dueAtMillis = 0
			}
		}
	case domain.EndpointDeleted:
		e.active, e.deleted = false, true
	default:
		return fmt.Errorf("%s is no fact of an endpoint", f.Body.FactType())
	}
	return nil
}

// resealed checks that a resealing replaces the requested secrets, and that no secret is added,
// removed or prolonged.
func (e *referenceEndpoint) resealed(cmd *issued, body domain.SecretsResealed) error {
	asked, is := cmd.Body.(domain.ResealSecrets)
	if !is {
		return fmt.Errorf("%s reseals secrets", cmd.Body.CommandType())
	}
	into := make(map[string]string)
	for _, v := range asked.Values {
		into[string(v.Was)] = string(v.Sealed)
	}
	var kept []string
	for i, s := range e.secrets {
		if sealed, resealed := into[s.sealed]; resealed {
			e.secrets[i].sealed = sealed
		}
	}
	for _, s := range slices.Backward(e.secrets) {
		kept = append(kept, s.sealed)
	}
	for i, s := range body.Secrets { // expired secrets may be missing
		if i >= len(kept) || string(s.Sealed) != kept[i] {
			return fmt.Errorf("resealed secret %d is %q", i, s.Sealed)
		}
	}
	return nil
}

// create checks that a test was requested and goes to an active endpoint, and that the endpoint's
// deliveries are numbered 1, 2, 3 and so on.
func (m *referenceModel) create(
	f domain.Fact, body domain.DeliveryCreated, e *referenceEndpoint, cmd *issued,
) error {
	test := body.Event.Type == domain.TestPing
	if test && (!e.active || cmd == nil || cmd.AccountID != e.account) {
		return fmt.Errorf("a test of an endpoint that is active: %t", e.active)
	}
	id := deliveryID{f.Aggregate, body.Event.ID}
	if e.sequence++; body.Sequence != e.sequence {
		return fmt.Errorf("%s is number %d of its endpoint, and is to be %d", id.event, body.Sequence,
			e.sequence)
	}
	m.deliveries[id] = &referenceDelivery{
		state:           domain.StateQueued,
		account:         body.AccountID,
		createdAtMillis: body.Event.CreatedAtMillis,
		test:            test,
		notice:          body.WatchID == "" && !test,
		sequence:        body.Sequence,
		run:             1,
		dueAtMillis:     f.AtMillis,
		body:            string(body.Event.Body),
	}
	e.events = append(e.events, id.event)
	ordered := e.ordering == domain.OrderingWallet && !e.deleted && e.account == body.AccountID &&
		body.WalletAddress != ""
	if body.Ordered != ordered {
		return fmt.Errorf("%s stands in a line: %t", id.event, body.Ordered)
	}
	if ordered {
		e.stand(m.deliveries[id], id.event, body.WalletAddress)
	}
	return m.goesOn(id, body)
}

func (e *referenceEndpoint) stand(d *referenceDelivery, event, wallet string) {
	if e.lines == nil {
		e.lines = make(map[string][]string)
	}
	d.line = wallet
	e.lines[wallet] = append(slices.Clone(e.lines[wallet]), event)
}

// ends removes an ended delivery from its line. If it was the first, the next one becomes due.
func (m *referenceModel) ends(
	f domain.Fact, event string, e *referenceEndpoint, d *referenceDelivery,
) {
	if d.line == "" || d.pending() {
		return
	}
	was := e.lines[d.line]
	is := slices.DeleteFunc(slices.Clone(was),
		func(other string) bool { return other == event })
	if len(is) > 0 && is[0] != was[0] {
		m.deliveries[deliveryID{f.Aggregate, is[0]}].dueAtMillis = f.AtMillis
	}
	e.lines[d.line], d.line = is, ""
}

// first returns the event that a delivery waits for, or its own event if it waits for none.
func (e *referenceEndpoint) first(d *referenceDelivery, event string) string {
	if d.line == "" {
		return event
	}
	return e.lines[d.line][0]
}

// cancel checks that a delivery is cancelled because its endpoint was deleted or never existed, or
// because it is an unsent test.
func (m *referenceModel) cancel(
	f domain.Fact, e *referenceEndpoint, id deliveryID,
) error {
	d := m.deliveries[id]
	unsent := d.firstTest() && !e.active // its command is answered
	if !e.deleted && e.account == d.account && !unsent {
		return fmt.Errorf("%s is cancelled, and its endpoint was not deleted", id.event)
	}
	d.state = domain.StateCancelled
	m.ends(f, id.event, e, d)
	return nil
}

// goesOn checks that an event has a single delivery that continues, and that a handover carries its
// history.
func (m *referenceModel) goesOn(id deliveryID, body domain.DeliveryCreated) error {
	d := m.deliveries[id]
	from, is := m.latest[id.event]
	m.latest[id.event] = id
	if !is {
		if body.WatchID == "" && body.Event.Type != domain.TestPing {
			body.Moved.FromPartition, body.Moved.Number = 0, 0
		}
		if !reflect.DeepEqual(body.Moved, domain.Moved{}) {
			return fmt.Errorf("%s is new and created as moved: %+v", id.event, body.Moved)
		}
		return nil
	}
	was := m.deliveries[from]
	want := domain.Moved{
		Moves:             was.moves + 1,
		Attempts:          was.attempts,
		Runs:              was.run,
		FormerEndpointIDs: append(slices.Clone(was.former), from.endpoint),
		FromPartition:     m.world.partitionOf(from.endpoint),
		Number:            body.Moved.Number,
	}
	if body.Moved.Number == 0 && m.world.checks.model.wasMoved {
		want.FromPartition = 0 // it was in flight during a move
	}
	if was.movedTo != id.endpoint || was.state != domain.StateCancelled || was.body != d.body ||
		!reflect.DeepEqual(body.Moved, want) {
		return fmt.Errorf("%s of %s, %s and handed over to %q with %+v, is created for %s with %+v and "+
			"the body %q",
			id.event, from.endpoint, was.state, was.movedTo, want, id.endpoint, body.Moved, d.body)
	}
	was.next = id.endpoint
	d.moves, d.former, d.attempts, d.run = want.Moves, want.FormerEndpointIDs, want.Attempts,
		want.Runs+1
	m.world.count("events moved")
	return nil
}

func (m *referenceModel) move(
	body domain.DeliveryMoved, id deliveryID, cmd *issued,
) error {
	d := m.deliveries[id]
	asked, resends := domain.ResendEvent{}, false
	if cmd != nil {
		asked, resends = cmd.Body.(domain.ResendEvent)
	}
	if !resends || cmd.AccountID != d.account || asked.EventID != id.event ||
		asked.ToEndpointID != body.ToEndpointID {
		return fmt.Errorf("nobody asked for %s to go on at %s", id.event, body.ToEndpointID)
	}
	under := m.world.checks.underWay(id)
	back := body.ToEndpointID == id.endpoint || slices.Contains(d.former, body.ToEndpointID)
	elsewhere := d.next != "" && d.next != body.ToEndpointID || back
	if d.state != domain.StateCancelled || d.movedTo != "" || under || body.Moves != d.moves+1 ||
		elsewhere {
		return fmt.Errorf("%s, %s after %d moves to %q, in flight: %t, next at %q, is moved: %+v",
			id.event, d.state, d.moves, d.movedTo, under, d.next, body)
	}
	d.movedTo = body.ToEndpointID
	return nil
}

// attempt checks the effect of an attempt (specification, "States and transitions"), and records
// whether the endpoint must be disabled.
func (m *referenceModel) attempt(
	f domain.Fact, made domain.AttemptMade, e *referenceEndpoint, d *referenceDelivery,
) error {
	r, policy := made.Result, m.world.setup.policy
	whole := r.StatusCode != 0 && (r.Error == "" || r.Error == domain.AttemptBodyTooLarge)
	waits := policy.Schedule.WaitsMillis
	want := domain.StateWaiting
	switch {
	case d.state == domain.StateCancelled:
		want = domain.StateCancelled
	case whole && r.StatusCode >= 200 && r.StatusCode <= 299:
		want = domain.StateDelivered
	case d.inRun == len(waits):
		want = domain.StateFailed
	case e.deleted:
		want = domain.StateCancelled
	}
	if made.State != want || made.Run != d.run {
		return fmt.Errorf("attempt %d of run %d of %s (%d %s) leaves it %s in run %d, not %s", d.inRun+1,
			d.run, made.EventID, r.StatusCode, r.Error, made.State, made.Run, want)
	}
	if want == domain.StateWaiting {
		least, most := m.wait(d.inRun, m.world.checks.askedFor(f.Aggregate, made))
		if wait := made.NextAttemptAtMillis - f.AtMillis; wait < least || wait > most {
			return fmt.Errorf("after attempt %d of its run, %s waits %d ms: it should be %d to %d",
				d.inRun+1, made.EventID, wait, least, most)
		}
	}
	if d.attempts == 0 {
		d.first = r
	}
	d.state, d.attempts, d.inRun, d.dueAtMillis = want, d.attempts+1, d.inRun+1,
		made.NextAttemptAtMillis
	m.ends(f, made.EventID, e, d)
	switch {
	case d.test:
	case want == domain.StateDelivered:
		e.streak = 0
	case want == domain.StateFailed && e.active:
		e.streak++
	}
	due := domain.EndpointDisabled{
		EventID:            made.EventID,
		LastStatusCode:     r.StatusCode,
		LastError:          r.Error,
		FailingSinceMillis: e.trouble.SinceMillis,
	}
	if !d.test {
		due.FailingSinceMillis = cmp.Or(e.trouble.SinceMillis, f.AtMillis)
	}
	switch {
	case !e.active:
	case whole && r.StatusCode == 410:
		due.Reason, e.disabling = domain.DisabledGone, &due
	case want == domain.StateFailed && !d.test && e.streak >= policy.DisableAfter:
		due.Reason, e.disabling = domain.DisabledConsecutiveFailures, &due
	}
	if d.test {
		return nil
	}
	return e.fails(f, made, whole && r.StatusCode/100 == 2, policy.DisableAfter)
}

// fails checks that an attempt reports a failing endpoint exactly when it should, to the right
// endpoint.
func (e *referenceEndpoint) fails(
	f domain.Fact, made domain.AttemptMade, succeeded bool, disableAfter int,
) error {
	due := false
	switch {
	case made.State == domain.StateDelivered:
		e.trouble = domain.Trouble{}
	case e.active && !succeeded:
		if e.trouble.Attempts++; e.trouble.Attempts == 1 {
			e.trouble.SinceMillis = f.AtMillis
		}
		hour := e.trouble.Attempts >= 5 && f.AtMillis-e.trouble.SinceMillis >= hourMillis
		half := made.State == domain.StateFailed && disableAfter > 1 && e.streak >= disableAfter/2
		due = (hour || half) && !e.trouble.Told && e.disabling == nil
		e.trouble.Told = e.trouble.Told || due
	}
	to := ""
	if due {
		to = e.noticesTo
	}
	if made.Telling.EndpointID != to {
		return fmt.Errorf("%s is said to be failing to %q, and is to be to %q", f.Aggregate,
			made.Telling.EndpointID, to)
	}
	counts := e.active && !succeeded && made.State != domain.StateDelivered
	if counts && made.Trouble != e.trouble {
		return fmt.Errorf("%s has the trouble %+v, and is to have %+v", f.Aggregate, made.Trouble,
			e.trouble)
	}
	return nil
}

// wait returns the bounds of the delay after the n-th attempt of a run: the schedule's delay ±20%
// or, if it is honoured, the receiver's Retry-After, up to the schedule's next delay.
func (m *referenceModel) wait(before int, asksMillis int64) (least, most int64) {
	policy := m.world.setup.policy
	waits := policy.Schedule.WaitsMillis
	least, most = waits[before]-waits[before]/5, waits[before]+waits[before]/5
	if policy.HonourRetryAfter && before+1 < len(waits) {
		asked := min(asksMillis, waits[before+1])
		return max(least, asked), max(most, asked)
	}
	return least, most
}

func (m *referenceModel) requeue(
	f domain.Fact, body domain.DeliveryRequeued, id deliveryID, cmd *issued,
) error {
	d := m.deliveries[id]
	if cmd == nil || cmd.AccountID != d.account {
		return fmt.Errorf("%s is queued again for another account", id.event)
	}
	switch asked := cmd.Body.(type) {
	case domain.ReplayEndpoint:
		earlier := m.requeued[f.Cause]
		switch {
		case !isFor(asked, d):
			return fmt.Errorf("a replay from %d to %d queues %s, which is %s and of %d, a test: %t",
				asked.SinceMillis, asked.UntilMillis, id.event, d.state, d.createdAtMillis, d.test)
		case len(earlier) > 0 &&
			!m.deliveries[earlier[len(earlier)-1]].before(d, body.NextAttemptAtMillis):
			return fmt.Errorf("a replay queues %s, of %d and due at %d, behind a later one", id.event,
				d.createdAtMillis, body.NextAttemptAtMillis)
		}
		m.requeued[f.Cause] = append(earlier, id)
		m.replays[f.Cause] = append(m.replays[f.Cause], id)
		d.replay = f.Cause
	case domain.ReplayEvents:
		if !slices.Contains(asked.EventIDs, id.event) || d.state != domain.StateFailed || d.test {
			return fmt.Errorf("a replay of %v queues %s, which is %s, a test: %t", asked.EventIDs, id.event,
				d.state, d.test)
		}
		m.requeued[f.Cause] = append(m.requeued[f.Cause], id)
		d.replay = ""
		m.world.count("replayed events")
	default:
		return fmt.Errorf("%s queues %s again", cmd.Body.CommandType(), id.event)
	case domain.ResendEvent:
		if under := m.world.checks.underWay(id); asked.EventID != id.event ||
			d.state == domain.StateQueued || d.state == domain.StateCancelled || under {
			return fmt.Errorf("a resend of %s queues %s, which is %s, in flight: %t",
				asked.EventID, id.event, d.state, under)
		}
		d.replay = ""
	}
	if wait := body.NextAttemptAtMillis - f.AtMillis; body.Run != d.run+1 || wait < 0 ||
		wait > domain.MaxReplay {
		return fmt.Errorf("%s is queued again as run %d after %d, in %d ms", id.event, body.Run, d.run,
			wait)
	}
	d.state, d.run, d.inRun, d.dueAtMillis = domain.StateQueued, body.Run, 0, body.NextAttemptAtMillis
	return nil
}

// recall checks that a settled delivery is restored in its final state, for a resend.
func (m *referenceModel) recall(as domain.Delivery, id deliveryID, cmd *issued) error {
	d := m.deliveries[id]
	asked, resends := domain.ResendEvent{}, false
	if cmd != nil {
		asked, resends = cmd.Body.(domain.ResendEvent)
	}
	if d == nil || !resends || asked.EventID != id.event || cmd.AccountID != d.account {
		return fmt.Errorf("nobody asked for %s to be recalled", id.event)
	}
	m.world.count("recalled deliveries")
	if d.pending() || as.State != d.state || as.Attempts != d.attempts || as.Run != d.run ||
		as.Moves != d.moves || as.MovedTo != d.movedTo || as.Sequence != d.sequence ||
		!slices.Equal(as.FormerEndpointIDs, d.former) {
		return fmt.Errorf("%s, %s after %d attempts, in run %d, moved to %q from %v, is recalled as %+v",
			id.event, d.state, d.attempts, d.run, d.movedTo, d.former, as)
	}
	return nil
}

// isFor reports whether a replay includes a delivery: it FAILED, its envelope's createdAt is in the
// range, and it isn't a test.
func isFor(c domain.ReplayEndpoint, d *referenceDelivery) bool {
	ended := c.UntilMillis != 0 && d.createdAtMillis >= c.UntilMillis
	return d.state == domain.StateFailed && !d.test && d.createdAtMillis >= c.SinceMillis && !ended
}
