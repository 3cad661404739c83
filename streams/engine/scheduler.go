package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// scheduler turns due timers into attempts. Its state is in memory: after a restart of the process,
// attempts that were in flight are due again, and after a restart of just the task, they are still
// in flight ([Flights]).
type scheduler struct {
	cfg        Config
	state      *state
	secrets    *secrets
	inFlight   *inFlight
	waitlisted *queue            // groups that wait for a place among the probing ones
	delayed    *wakes            // groups that wait for their rate limit, or for their secrets
	urgent     []string          // events to attempt before others
	newEpochs  []domain.Endpoint // enabled or deleted in the turn
	relimited  []domain.Endpoint // in the turn
	effects    []Effect
	cancels    []store.Claimed // deliveries of deleted endpoints, tests of disabled ones
	crowded    []string        // groups of deleted endpoints without room in the last turn
	expired    []store.Claimed
	mails      mails
	draining   bool
	nowMillis  int64 // of the current or latest start
}

const (
	// maxUrgent bounds the urgent events that wait for a free attempt.
	maxUrgent = 1024
	// sealedAgainMillis is the wait before an endpoint's secrets are opened again after an error.
	sealedAgainMillis = 30_000
	// ownedAgainMillis is the wait before ownership is checked again.
	ownedAgainMillis = 250
)

func newScheduler(cfg Config, s *state) *scheduler {
	return &scheduler{
		cfg:        cfg,
		state:      s,
		secrets:    newSecrets(cfg.Unseal, cfg.SigningKeys),
		inFlight:   newInFlight(cfg.AttemptsPerEndpoint),
		waitlisted: newQueue(),
		delayed:    newWakes(),
	}
}

// inherit adds the attempts of the partition's previous tasks and claims their deliveries, so that
// they are not repeated. It drops attempts that are recorded, or that another process has made
// since.
func (s *scheduler) inherit(t *task.Turn, inherited []domain.Attempt) error {
	s.nowMillis, s.inFlight.uncountedMillis = t.NowMillis, t.NowMillis
	for _, attempt := range inherited {
		delivery, err := s.state.delivery(t.Batch, attempt.EventID)
		if err != nil {
			return err
		}
		if !delivery.Awaits(attempt) {
			s.forget(attempt)
			continue
		}
		var claim store.Claimed
		if delivery.State.Pending() {
			claim, _, err = t.Timers.ClaimOne(groupOf(delivery), delivery.NextAttemptAtMillis,
				delivery.EventID)
			if err != nil {
				return err
			}
		}
		s.inFlight.begin(claim, attempt, s.nowMillis, false)
	}
	return nil
}

func (s *scheduler) forget(a domain.Attempt) {
	s.effects = append(s.effects, Forget{EventID: a.EventID, Number: a.Number})
}

// end removes an attempt. If its outcome was not recorded, the delivery is still due.
func (s *scheduler) end(timers *store.TimerIndex, o Outcome, recorded bool) {
	s.forget(o.Attempt)
	claim, unblocked, was := s.inFlight.end(o, s.nowMillis)
	for _, group := range unblocked {
		timers.Unblock(group)
	}
	if was && !recorded {
		timers.Release(claim)
	}
}

func (s *scheduler) noteChange(before, after domain.Endpoint) {
	if before.Epoch != after.Epoch {
		s.newEpochs = append(s.newEpochs, after)
	}
	if before.RateLimitPerSecond != after.RateLimitPerSecond {
		s.relimited = append(s.relimited, after)
	}
	if before.Sends() && (!after.Sends() || before.URL != after.URL) {
		s.effects = append(s.effects, Disconnect{URL: before.URL})
	}
}

func (s *scheduler) popCancels() []store.Claimed {
	taken := s.cancels
	s.cancels = nil
	return taken
}

func (s *scheduler) popExpired() []store.Claimed {
	taken := s.expired
	s.expired = nil
	return taken
}

// round is the scheduler during one call of start.
type round struct {
	*scheduler
	timers    *store.TimerIndex
	committed *store.Store
	granted   map[string]bool // waitlisted groups that may claim a place
	attempts  []Effect
}

// start claims what is due and allowed, and returns the effects to perform and the time of the next
// call.
func (s *scheduler) start(a task.After) (effects []Effect, wakeMillis int64, err error) {
	effects, s.effects = s.effects, nil
	if s.draining {
		return effects, math.MaxInt64, nil
	}
	r := &round{scheduler: s, timers: a.Timers, committed: a.State}
	wakeMillis, err = r.start(a)
	return append(effects, r.attempts...), wakeMillis, err
}

func (r *round) start(a task.After) (wakeMillis int64, err error) {
	if a.NowMillis < r.nowMillis {
		r.setBack(a.NowMillis)
	}
	r.nowMillis = a.NowMillis
	r.resume()
	for group := range r.delayed.due(r.nowMillis) {
		r.timers.Unblock(group)
	}
	for _, group := range r.crowded { // the previous turn has cancelled its share
		r.timers.Unblock(group)
	}
	r.crowded = r.crowded[:0]
	r.timers.Unblock(groupMails) // an answer makes room
	r.timers.Unblock(groupOrders)
	if !a.Owned {
		return r.nowMillis + ownedAgainMillis, nil
	}
	if err := r.startUrgent(); err != nil {
		return 0, err
	}
	if err := r.claim(); err != nil {
		return 0, err
	}
	if len(r.expired) > 0 || len(r.cancels) > 0 || len(r.mails.taken) > 0 {
		return r.nowMillis, nil
	}
	if r.free() <= 0 {
		return math.MaxInt64, nil // the next outcome wakes it
	}
	return min(r.timers.NextMillis(), r.delayed.nextMillis()), nil
}

func (s *scheduler) free() int { return s.cfg.AttemptsInFlight - s.inFlight.len() }

func (s *scheduler) probingPlaces() int {
	return max(1, s.cfg.AttemptsInFlight/2) - s.inFlight.probing
}

// setBack ends waits from before the clock was set back. Otherwise they would last until the clock
// catches up. Groups that still have to wait are rescheduled.
func (r *round) setBack(nowMillis int64) {
	for group := range r.delayed.due(math.MaxInt64) {
		r.timers.Unblock(group)
	}
	for _, w := range r.inFlight.windows {
		w.sealedUntilMillis = min(w.sealedUntilMillis, nowMillis+sealedAgainMillis)
	}
	r.inFlight.uncountedMillis = min(r.inFlight.uncountedMillis, nowMillis)
	r.mails.resume = min(r.mails.resume, nowMillis+domain.MailLastWait)
}

// resume unblocks endpoints that were enabled or deleted, or whose rate limit changed. Groups of
// earlier epochs are included, because an endpoint may be disabled again before they are sent.
func (r *round) resume() {
	for _, e := range slices.Concat(r.newEpochs, r.relimited) {
		for epoch := range e.Epoch + 1 {
			r.timers.Unblock(deliveryGroup(e.ID, epoch))
		}
		if e.Deleted() {
			r.timers.Unblock(behindGroup(e.ID))
		}
	}
	r.relimited = r.relimited[:0]
	for _, e := range r.newEpochs {
		if e.Sends() && len(r.inFlight.windows) < rememberedWindows {
			r.inFlight.window(e.ID).restart()
		}
	}
	r.newEpochs = r.newEpochs[:0]
}

// claim claims until nothing more is due or allowed. It first grants free places to waitlisted
// groups, in order of arrival. A group that does not use its place loses it.
func (r *round) claim() error {
	for {
		asked := 0
		for asked < r.probingPlaces() && r.waitlisted.len() > 0 {
			group, _ := r.waitlisted.pop()
			if r.granted == nil {
				r.granted = make(map[string]bool)
			}
			r.granted[group] = true
			r.timers.Unblock(group)
			asked++
		}
		if r.free() <= 0 {
			return nil
		}
		total := r.free() + cancelAtOnce + expireAtOnce + ordersAtOnce
		if err := r.timers.Claim(r.nowMillis, total, r.allow, r.handle); err != nil {
			return err
		}
		if asked == 0 {
			return nil
		}
	}
}

func (r *round) handle(c store.Claimed) error {
	switch c.Group {
	case groupCommands:
		r.expired = append(r.expired, c)
		return nil
	case groupMails, groupOrders:
		r.mails.taken = append(r.mails.taken, c)
		return nil
	}
	endpoint, err := r.state.endpoint(r.committed, endpointOf(c.Group))
	switch {
	case err != nil:
		return err
	case endpoint.Deleted():
		r.cancels = append(r.cancels, c)
		return nil
	}
	return r.begin(c, endpoint)
}

// startUrgent attempts urgent events immediately, beyond their endpoint's window, because a user is
// waiting. Only the limit on all attempts applies.
func (r *round) startUrgent() error {
	urgent := r.urgent
	r.urgent = nil
	for _, eventID := range urgent {
		delivery, err := r.state.delivery(r.committed, eventID)
		if err != nil {
			return err
		}
		endpoint, err := r.state.endpoint(r.committed, delivery.EndpointID)
		switch {
		case err != nil:
			return err
		case !delivery.State.Pending() || delivery.Attempts > 0:
			continue // its first attempt has finished
		case endpoint.Sends() && r.free() <= 0:
			if len(r.urgent) < maxUrgent {
				r.urgent = append(r.urgent, eventID)
			}
			continue
		}
		if err := r.startUrgentOne(delivery, endpoint); err != nil {
			return err
		}
	}
	return nil
}

// startUrgentOne attempts an event unless it is in flight. It cancels a test of a disabled
// endpoint, because otherwise its command would wait until the endpoint is enabled.
func (r *round) startUrgentOne(delivery domain.Delivery, endpoint domain.Endpoint) error {
	c, free, err := r.timers.ClaimOne(groupOf(delivery), delivery.NextAttemptAtMillis,
		delivery.EventID)
	switch {
	case err != nil || !free:
		return err
	case !endpoint.Sends():
		r.cancels = append(r.cancels, c)
		return nil
	}
	return r.begin(c, endpoint)
}

// allow returns how many more entries of a group may be claimed, or a negative number if no group
// may claim any.
func (r *round) allow(group string) int {
	switch group {
	case groupCommands:
		return expireAtOnce - len(r.expired)
	case groupMails, groupOrders:
		return r.allowMails(group)
	}
	endpoint, err := r.state.endpoint(r.committed, endpointOf(group))
	switch {
	case err != nil:
		return 1 // the claim returns the same error
	case endpoint.Deleted():
		return r.allowCancels(group)
	case !endpoint.Sends():
		return 0 // until it is enabled (G3)
	case isBehindGroup(group):
		return 0 // each moves to another group when its turn comes
	}
	return r.allowAttempts(group, endpoint)
}

// allowCancels returns how many more deliveries of a deleted endpoint may be cancelled. It notes a
// group without room, because there may be no claim whose end would unblock it.
func (r *round) allowCancels(group string) int {
	room := cancelAtOnce - len(r.cancels)
	if room <= 0 {
		r.crowded = append(r.crowded, group)
		return 0
	}
	return room
}

// allowAttempts returns how many more attempts an endpoint may get: by its window, its rate limit
// and, while it is probing, the places for probing endpoints. Half of all places are reserved for
// receivers that answer, however many do not (G6).
func (r *round) allowAttempts(group string, endpoint domain.Endpoint) int {
	free := r.free()
	if free <= 0 {
		return -1
	}
	w := r.inFlight.window(endpoint.ID)
	if w.sealedUntilMillis > r.nowMillis {
		r.delayed.add(w.sealedUntilMillis, group)
		return 0
	}
	allowed, wakeMillis := w.allowance(endpoint.RateLimitPerSecond, r.nowMillis)
	if allowed == 0 {
		r.delayed.add(wakeMillis, group)
		return 0
	}
	if w.free() <= 0 {
		r.inFlight.block(w, group)
		return 0
	}
	allowed = min(allowed, w.free(), free)
	if !w.probing {
		return allowed
	}
	switch places := r.probingPlaces(); {
	case places > 0 && r.granted[group]:
		delete(r.granted, group)
		return 1
	case places > 0 && r.waitlisted.len() == 0:
		return min(allowed, places)
	}
	r.waitlisted.add(group)    // behind earlier arrivals
	r.inFlight.block(w, group) // unless an answer ends the probing
	return 0
}

func (r *round) begin(c store.Claimed, endpoint domain.Endpoint) error {
	delivery, body, err := r.state.claimed(r.committed, c)
	if err != nil {
		return err
	}
	if !delivery.State.Pending() || body == nil {
		return fmt.Errorf("engine: the timer index has delivery %s (%s), which is not pending (G3): "+
			"delete the state folder to rebuild it", c.ID, delivery.State)
	}
	var signingKeys []domain.Secret
	sign, headers, err := r.secrets.of(endpoint, r.nowMillis)
	if err == nil && endpoint.Signatures.Has(domain.StandardWebhooksEd25519) {
		signingKeys, err = r.secrets.signing(endpoint, r.nowMillis)
	}
	if err != nil {
		r.blockSealed(c, endpoint, err)
		return nil
	}
	attempt := domain.Attempt{
		EventID:    c.ID,
		EndpointID: endpoint.ID,
		Number:     delivery.Attempts + 1,
		Sequence:   delivery.Sequence,
		URL:        endpoint.URL,
		Headers:    headers,
		Secrets:    sign,
		Body:       body,

		Signatures:  endpoint.Signatures,
		SigningKeys: signingKeys,
	}
	r.inFlight.begin(c, attempt, r.nowMillis, endpoint.RateLimitPerSecond > 0)
	r.attempts = append(r.attempts, Begin{Attempt: attempt})
	return nil
}

// blockSealed blocks an endpoint whose secrets cannot be opened, for example after the master key
// was lost.
func (r *round) blockSealed(c store.Claimed, endpoint domain.Endpoint, err error) {
	r.cfg.Logger.Error("nothing can be sent to an endpoint: a secret or header cannot be opened, "+
		"or no key can sign as it requires",
		"endpoint", endpoint.ID, "again", sealedAgainMillis/1000, "error", err)
	r.inFlight.window(endpoint.ID).sealedUntilMillis = r.nowMillis + sealedAgainMillis
	r.timers.Release(c)
}
