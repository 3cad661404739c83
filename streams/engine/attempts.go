package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams"
)

// attempts turns what is due into attempts and keeps count of those under way.
// All of it is memory: after a restart of the process, what was under way is due
// again. After a restart of the task alone, it is still under way ([Flights]).
type attempts struct {
	cfg        Config
	ours       func() bool
	core       *streams.Core
	state      *state
	flights    *Flights
	taken      []Outcome                         // of the turn
	inFlight   map[string]underWay               // by event
	windows    map[string]*window                // by endpoint
	probing    int                               // attempts under way to endpoints that are in doubt
	waitlisted *queue                            // groups that wait for a place among the probing
	granted    map[string]bool                   // groups whose turn has come
	throttle   *wakes                            // groups that wait by their rate limit
	secrets    *lru.Cache[string, domain.Secret] // by what they are bound to, and sealed value
	urgent     []string                          // events to be attempted out of turn
	resumed    []domain.Endpoint                 // enabled or deleted in the turn
	relimit    []domain.Endpoint                 // whose rate limit was changed in the turn
	// URLs that an endpoint no longer sends to, since the turn
	left     []string
	cancels  []streams.Claimed // deliveries of deleted endpoints, tests of disabled ones
	forgets  []streams.Claimed // answers to commands whose time has passed
	draining bool
	now      int64 // of the start that is going on, or the latest
	// uncounted is until when attempts may have begun that no window counts: when
	// the task began, or when a window was given up.
	uncounted int64
}

// underWay is an attempt that was dispatched.
type underWay struct {
	claim    streams.Claimed
	endpoint string
	probing  bool
}

const (
	cachedSecrets = 4096
	// keptWindows bounds the endpoints of which is remembered how they did while
	// nothing is under way to them.
	keptWindows = 16_384
	// keptUrgent bounds what waits out of turn for the bound on all attempts.
	keptUrgent = 1024
	// sealedAgainMillis is when to try again to open a secret.
	sealedAgainMillis = 30_000
	// oursAgainMillis is when to look again whether the partition is ours.
	oursAgainMillis = 250
)

func newAttempts(
	cfg Config, ours func() bool, core *streams.Core, s *state, flights *Flights,
) *attempts {
	return &attempts{
		flights:    flights,
		cfg:        cfg,
		ours:       ours,
		core:       core,
		state:      s,
		secrets:    newCache[domain.Secret](cachedSecrets),
		inFlight:   make(map[string]underWay),
		windows:    make(map[string]*window),
		waitlisted: newQueue(),
		granted:    make(map[string]bool),
		throttle:   newWakes(),
	}
}

// takeUp takes up what former tasks of the partition have under way.
func (a *attempts) takeUp(nowMillis int64) error {
	a.now, a.uncounted = nowMillis, nowMillis
	return a.flights.takeUp(a.core.Submit, a.takeUpOne)
}

// settled takes note that the turn is committed.
func (a *attempts) settled() {
	a.flights.settled(a.taken)
	a.taken = a.taken[:0]
}

// takeUpOne counts an attempt in and claims its delivery, so that it is not made
// again. It reports whether its outcome is still to be recorded: it is not when a
// turn that was committed has it, or when another process made it since.
func (a *attempts) takeUpOne(attempt domain.Attempt) (bool, error) {
	delivery, err := a.state.delivery(a.core.Store(), attempt.EventID)
	if err != nil || !delivery.Awaits(attempt) {
		return false, err
	}
	var claim streams.Claimed
	if delivery.State.Pending() {
		group := deliveryGroup(delivery.EndpointID, delivery.EndpointEpoch)
		if claim, _, err = a.core.Timers().Take(group, delivery.NextAttemptAtMillis,
			delivery.EventID); err != nil {
			return false, err
		}
	}
	a.begin(claim, attempt, false)
	return true, nil
}

// begin counts an attempt in.
func (a *attempts) begin(claim streams.Claimed, attempt domain.Attempt, limited bool) {
	w := a.window(attempt.EndpointID)
	w.begin(a.now, limited)
	if w.probing {
		a.probing++
	}
	a.inFlight[attempt.EventID] = underWay{
		claim:    claim,
		endpoint: attempt.EndpointID,
		probing:  w.probing,
	}
}

// changed takes note of what a fact of the turn made of an endpoint.
func (a *attempts) changed(before, after domain.Endpoint) {
	if before.Epoch != after.Epoch {
		a.resumed = append(a.resumed, after)
	}
	if before.RateLimitPerSecond != after.RateLimitPerSecond {
		a.relimit = append(a.relimit, after)
	}
	if before.Sends() && (!after.Sends() || before.URL != after.URL) {
		a.left = append(a.left, before.URL)
	}
}

// underWay tells whether an attempt for an event is under way.
func (a *attempts) underWay(eventID string) bool {
	_, is := a.inFlight[eventID]
	return is
}

func (a *attempts) takeCancels() []streams.Claimed {
	taken := a.cancels
	a.cancels = nil
	return taken
}

func (a *attempts) takeForgets() []streams.Claimed {
	taken := a.forgets
	a.forgets = nil
	return taken
}

// start claims what is due and may be attempted, and dispatches it. It answers
// when to look again.
func (a *attempts) start(nowMillis int64) (wakeMillis int64, err error) {
	if nowMillis < a.now {
		a.setBack(nowMillis)
	}
	a.now = nowMillis
	a.resume()
	for group := range a.throttle.due(nowMillis) {
		a.core.Timers().Unblock(group)
	}
	if !a.ours() {
		return nowMillis + oursAgainMillis, nil
	}
	if err := a.startUrgent(); err != nil {
		return 0, err
	}
	if err := a.claim(nowMillis); err != nil {
		return 0, err
	}
	if len(a.forgets) > 0 || len(a.cancels) > 0 {
		return nowMillis, nil
	}
	if len(a.inFlight) >= a.cfg.AttemptsInFlight {
		return math.MaxInt64, nil // the next outcome wakes us
	}
	return min(a.core.Timers().NextMillis(), a.throttle.nextMillis()), nil
}

// setBack ends what waits by a clock that was set back since: it would wait until the
// clock has come there again, and what comes anew to its groups with it. Whoever must
// wait still is told so anew, and for no longer than if it were told so now.
func (a *attempts) setBack(nowMillis int64) {
	for group := range a.throttle.due(math.MaxInt64) {
		a.core.Timers().Unblock(group)
	}
	for _, w := range a.windows {
		w.sealedUntilMillis = min(w.sealedUntilMillis, nowMillis+sealedAgainMillis)
	}
	a.uncounted = min(a.uncounted, nowMillis)
}

// claim claims until nothing more is due or allowed. Groups that wait for a
// place among the probing are called first, in the order of their waiting, to
// one place each, as long as there are places: a group that is called takes its
// place or waits no more.
func (a *attempts) claim(nowMillis int64) error {
	defer clear(a.granted)
	for {
		asked := 0
		for asked < a.probingPlaces() && a.waitlisted.len() > 0 {
			group, _ := a.waitlisted.take()
			a.granted[group] = true
			a.core.Timers().Unblock(group)
			asked++
		}
		if len(a.inFlight) >= a.cfg.AttemptsInFlight {
			return nil
		}
		total := a.cfg.AttemptsInFlight - len(a.inFlight) + cancelAtOnce + forgetAtOnce
		if err := a.core.Timers().Claim(nowMillis, total, a.allow, a.take); err != nil {
			return err
		}
		if asked == 0 {
			return nil
		}
	}
}

// probingPlaces is how many more attempts the endpoints in doubt may have.
func (a *attempts) probingPlaces() int {
	return max(1, a.cfg.AttemptsInFlight/2) - a.probing
}

// take does with a claim what its group is for.
func (a *attempts) take(c streams.Claimed) error {
	if c.Group == groupCommands {
		a.forgets = append(a.forgets, c)
		return nil
	}
	endpoint, err := a.state.endpoint(a.core.Store(), endpointOf(c.Group))
	switch {
	case err != nil:
		return err
	case endpoint.Deleted():
		a.cancels = append(a.cancels, c)
		return nil
	}
	return a.dispatch(c, endpoint)
}

// resume lets the groups of endpoints that were enabled or deleted, or got another
// rate limit, be claimed of again: those of former epochs too, for an endpoint may
// be disabled again before all of one has gone. Connections to where nothing is
// sent any more are dropped.
func (a *attempts) resume() {
	for _, e := range slices.Concat(a.resumed, a.relimit) {
		for epoch := range e.Epoch + 1 {
			a.core.Timers().Unblock(deliveryGroup(e.ID, epoch))
		}
	}
	a.relimit = a.relimit[:0]
	for _, e := range a.resumed {
		if e.Sends() && len(a.windows) < keptWindows {
			a.window(e.ID).restart()
		}
	}
	a.resumed = a.resumed[:0]
	for _, url := range a.left {
		a.cfg.Dispatcher.Forget(url)
	}
	a.left = a.left[:0]
}

// startUrgent attempts what must not wait for its turn, whatever the window
// says: a person waits for it. Only the bound on all attempts holds; what is
// beyond it is asked for again, unless its turn comes before.
func (a *attempts) startUrgent() error {
	urgent := a.urgent
	a.urgent = nil
	for _, eventID := range urgent {
		delivery, err := a.state.delivery(a.core.Store(), eventID)
		if err != nil {
			return err
		}
		endpoint, err := a.state.endpoint(a.core.Store(), delivery.EndpointID)
		switch {
		case err != nil:
			return err
		case !delivery.State.Pending() || delivery.Attempts > 0:
			continue // a first attempt that has ended by now was what was waited for
		case endpoint.Sends() && len(a.inFlight) >= a.cfg.AttemptsInFlight:
			if len(a.urgent) < keptUrgent {
				a.urgent = append(a.urgent, eventID)
			}
			continue
		}
		if err := a.startUrgentOne(delivery, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// startUrgentOne attempts one that is not under way. One that its endpoint is not
// sent is cancelled, for its command would wait until the endpoint is enabled.
func (a *attempts) startUrgentOne(delivery domain.Delivery, endpoint domain.Endpoint) error {
	group := deliveryGroup(delivery.EndpointID, delivery.EndpointEpoch)
	c, free, err := a.core.Timers().Take(group, delivery.NextAttemptAtMillis, delivery.EventID)
	switch {
	case err != nil || !free:
		return err
	case !endpoint.Sends():
		a.cancels = append(a.cancels, c)
		return nil
	}
	return a.dispatch(c, endpoint)
}

// allow is how many more entries of a group may be claimed now; below zero, no
// group may have any.
func (a *attempts) allow(group string) int {
	if group == groupCommands {
		return forgetAtOnce - len(a.forgets)
	}
	endpoint, err := a.state.endpoint(a.core.Store(), endpointOf(group))
	switch {
	case err != nil:
		return 1 // the claim meets the same error and reports it
	case endpoint.Deleted():
		return cancelAtOnce - len(a.cancels)
	case !endpoint.Sends():
		return 0 // until it is enabled (G3)
	}
	return a.allowAttempts(group, endpoint)
}

// allowAttempts is how many more attempts an endpoint may get: by its window, by
// its rate limit, and, when it is in doubt, by what all that are in doubt may
// have together. Half of all places are kept for receivers that answer, however
// many do not (G6).
func (a *attempts) allowAttempts(group string, endpoint domain.Endpoint) int {
	free := a.cfg.AttemptsInFlight - len(a.inFlight)
	if free <= 0 {
		return -1
	}
	w := a.window(endpoint.ID)
	if w.sealedUntilMillis > a.now {
		a.throttle.add(w.sealedUntilMillis, group)
		return 0
	}
	allowed, wakeMillis := w.allowance(endpoint.RateLimitPerSecond, a.now)
	if allowed == 0 {
		a.throttle.add(wakeMillis, group)
		return 0
	}
	if w.room() <= 0 {
		w.block(group)
		return 0
	}
	allowed = min(allowed, w.room(), free)
	if !w.probing {
		return allowed
	}
	switch places := a.probingPlaces(); {
	case places > 0 && a.granted[group]:
		delete(a.granted, group)
		return 1
	case places > 0 && a.waitlisted.len() == 0:
		return min(allowed, places)
	}
	a.waitlisted.add(group) // behind those that wait already
	w.block(group)          // unless the endpoint answers meanwhile, and is not in doubt any more
	return 0
}

func (a *attempts) window(endpointID string) *window {
	w := a.windows[endpointID]
	if w == nil {
		w = newWindow(a.cfg.AttemptsPerEndpoint, a.uncounted)
		a.windows[endpointID] = w
	}
	return w
}

// dispatch hands one delivery to the dispatcher, with the endpoint's current url
// and secrets.
func (a *attempts) dispatch(c streams.Claimed, endpoint domain.Endpoint) error {
	delivery, err := a.state.delivery(a.core.Store(), c.ID)
	if err != nil {
		return err
	}
	body, err := a.state.body(a.core.Store(), c.ID)
	if err != nil {
		return err
	}
	if !delivery.State.Pending() || body == nil {
		return fmt.Errorf("engine: the timer index has delivery %s (%s), which is not pending (G3): "+
			"delete the state folder to build it anew", c.ID, delivery.State)
	}
	secrets, err := a.unseal(endpoint, a.now)
	headers, headersErr := a.unsealHeaders(endpoint)
	if err := errors.Join(err, headersErr); err != nil {
		a.leaveSealed(c, endpoint, err)
		return nil
	}
	attempt := domain.Attempt{
		EventID:    c.ID,
		EndpointID: endpoint.ID,
		Number:     delivery.Attempts + 1,
		URL:        endpoint.URL,
		Headers:    headers,
		Secrets:    secrets,
		Body:       body,
	}
	a.begin(c, attempt, endpoint.RateLimitPerSecond > 0)
	a.cfg.Dispatcher.Dispatch(attempt, a.flights.begin(attempt))
	return nil
}

// leaveSealed leaves an endpoint alone for a while of which something cannot be opened,
// as after the master key was lost: what waits for it waits, and others go on.
func (a *attempts) leaveSealed(c streams.Claimed, endpoint domain.Endpoint, err error) {
	a.cfg.Logger.Error("nothing can be sent to an endpoint, because its secrets and headers cannot "+
		"all be opened", "endpoint", endpoint.ID, "again", sealedAgainMillis/1000, "error", err)
	a.window(endpoint.ID).sealedUntilMillis = a.now + sealedAgainMillis
	a.core.Timers().Release(c)
}

// unseal opens the secrets that sign now, newest first.
func (a *attempts) unseal(e domain.Endpoint, nowMillis int64) ([]domain.Secret, error) {
	valid := e.ValidSecrets(nowMillis)
	plain := make([]domain.Secret, len(valid))
	for i, s := range valid {
		var err error
		if plain[i], err = a.open(s.Sealed, e.ID); err != nil {
			return nil, fmt.Errorf("engine: opening the secret of endpoint %s (is this the master key it "+
				"was sealed with?): %w", e.ID, err)
		}
	}
	return plain, nil
}

// unsealHeaders opens the values of an endpoint's own headers.
func (a *attempts) unsealHeaders(e domain.Endpoint) ([]domain.SentHeader, error) {
	plain := make([]domain.SentHeader, len(e.Headers))
	for i, h := range e.Headers {
		value, err := a.open(h.Sealed, h.SealedFor(e.ID))
		if err != nil {
			return nil, fmt.Errorf("engine: opening the header %s of endpoint %s (is this the master key "+
				"it was sealed with?): %w", h.Name, e.ID, err)
		}
		plain[i] = domain.SentHeader{Name: h.Name, Value: value}
	}
	return plain, nil
}

// open opens what was opened lately without the master key. A seal that was moved
// does not open elsewhere because it was opened where it belongs.
func (a *attempts) open(sealed []byte, boundTo string) (domain.Secret, error) {
	value := boundTo + "\x00" + string(sealed)
	if plain, ok := a.secrets.Get(value); ok {
		return plain, nil
	}
	plain, err := a.cfg.Unseal(sealed, boundTo)
	if err == nil {
		a.secrets.Add(value, plain)
	}
	return plain, err
}

// ended takes an attempt off the list. One whose outcome was not recorded is due
// still, and is given back.
func (a *attempts) ended(o Outcome, recorded bool) {
	a.taken = append(a.taken, o)
	u, ok := a.inFlight[o.Attempt.EventID]
	if !ok {
		return
	}
	delete(a.inFlight, o.Attempt.EventID)
	if u.probing {
		a.probing--
	}
	w := a.window(u.endpoint)
	w.end(o.Result)
	for _, group := range w.blocked {
		a.core.Timers().Unblock(group)
	}
	w.blocked = w.blocked[:0]
	if w.underWay == 0 && len(a.windows) > keptWindows {
		delete(a.windows, u.endpoint)
		a.uncounted = a.now
	}
	if !recorded {
		a.core.Timers().Release(u.claim)
	}
}
