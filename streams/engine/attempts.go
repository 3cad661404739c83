package engine

import (
	"fmt"
	"math"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams"
)

// attempts turns what is due into attempts and keeps count of those under way.
// All of it is memory: after a restart, what was under way is due again.
type attempts struct {
	cfg      Config
	ours     func() bool
	task     *streams.Task
	inFlight map[string]streams.Claimed // by event
	windows  map[string]*window         // by endpoint with attempts under way
	secrets  *lru.Cache[string, string] // plain by sealed
	forget   []streams.Claimed          // answers to commands whose time has passed
	draining bool
}

// outcome is what an attempt brought back.
type outcome struct {
	attempt domain.Attempt
	result  domain.AttemptResult
}

const (
	cachedSecrets = 4096
	// forgetAtOnce bounds how many answers one turn forgets.
	forgetAtOnce = 256
	// oursAgainMillis is when to look again whether the partition is ours.
	oursAgainMillis = 250
)

func newAttempts(cfg Config, ours func() bool, task *streams.Task) *attempts {
	secrets, err := lru.New[string, string](cachedSecrets)
	if err != nil {
		panic(err) // the size is a constant above zero
	}
	return &attempts{
		cfg: cfg, ours: ours, task: task, secrets: secrets,
		inFlight: make(map[string]streams.Claimed), windows: make(map[string]*window),
	}
}

// start claims what is due and may be attempted, and dispatches it. It answers
// when to look again.
func (a *attempts) start(tx *streams.Txn, s *state, nowMillis int64) (wakeMillis int64, err error) {
	if !a.ours() {
		return nowMillis + oursAgainMillis, nil
	}
	free := a.cfg.AttemptsInFlight - len(a.inFlight)
	if free <= 0 {
		return math.MaxInt64, nil // the next outcome wakes us
	}
	claimed, err := a.task.Timers().Claim(nowMillis, free, a.allow)
	if err != nil {
		return 0, err
	}
	for _, c := range claimed {
		if c.Group == groupCommands {
			a.forget = append(a.forget, c)
			continue
		}
		if err := a.dispatch(tx, s, c, nowMillis); err != nil {
			return 0, err
		}
	}
	if len(a.forget) > 0 {
		return nowMillis, nil
	}
	if len(a.inFlight) >= a.cfg.AttemptsInFlight {
		return math.MaxInt64, nil
	}
	return a.task.Timers().NextMillis(), nil
}

// allow is how many more entries of a group may be claimed now.
func (a *attempts) allow(group string) int {
	if group == groupCommands {
		return forgetAtOnce - len(a.forget)
	}
	return a.window(group).room()
}

func (a *attempts) window(endpointID string) *window {
	w := a.windows[endpointID]
	if w == nil {
		w = newWindow(a.cfg.AttemptsPerEndpoint)
		a.windows[endpointID] = w
	}
	return w
}

// dispatch hands one delivery to the dispatcher, with the endpoint's current url
// and secrets.
func (a *attempts) dispatch(tx *streams.Txn, s *state, c streams.Claimed, nowMillis int64) error {
	delivery, err := s.delivery(tx, c.ID)
	if err != nil {
		return err
	}
	endpoint, err := s.endpoint(tx, c.Group)
	if err != nil {
		return err
	}
	body, err := tx.Get(keyOf(spaceBody, c.ID))
	if err != nil {
		return err
	}
	if !delivery.State.Pending() || body == nil {
		return fmt.Errorf("engine: the timer index has delivery %s (%s), which is not pending (G3): delete the state folder to build it anew", c.ID, delivery.State)
	}
	secrets, err := a.unseal(endpoint, nowMillis)
	if err != nil {
		return err
	}
	a.inFlight[c.ID] = c
	a.window(c.Group).begin()
	attempt := domain.Attempt{
		EventID: c.ID, EndpointID: c.Group, Number: delivery.Attempts + 1,
		URL: endpoint.URL, Secrets: secrets, Body: body,
	}
	a.cfg.Dispatcher.Dispatch(attempt, func(r domain.AttemptResult) {
		a.task.Submit(outcome{attempt: attempt, result: r})
	})
	return nil
}

// unseal opens the secrets that sign now, newest first.
func (a *attempts) unseal(e domain.Endpoint, nowMillis int64) ([]string, error) {
	valid := e.ValidSecrets(nowMillis)
	plain := make([]string, len(valid))
	for i, s := range valid {
		secret, ok := a.secrets.Get(string(s.Sealed))
		if !ok {
			var err error
			if secret, err = a.cfg.Unseal(s.Sealed, e.ID); err != nil {
				return nil, fmt.Errorf("engine: opening the secret of endpoint %s (is this the master key it was sealed with?): %w", e.ID, err)
			}
			a.secrets.Add(string(s.Sealed), secret)
		}
		plain[i] = secret
	}
	return plain, nil
}

// ended takes an attempt off the list. One whose outcome was not recorded is due
// still, and is given back.
func (a *attempts) ended(o outcome, recorded bool) {
	c, ok := a.inFlight[o.attempt.EventID]
	if !ok {
		return
	}
	delete(a.inFlight, o.attempt.EventID)
	w := a.window(c.Group)
	w.end(o.result)
	if w.idle() {
		delete(a.windows, c.Group)
	}
	if !recorded {
		a.task.Timers().Release(c)
	}
}
