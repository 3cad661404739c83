package sim

import (
	"slices"

	"github.com/lumenhook/lumenhook/domain"
)

// takes checks that a watch for one payment makes one event, however often ledgers are read and
// whoever reads them (G2).
func (c *checks) takes(in domain.MatchInput) {
	if settings := c.judged.settings[in.WatchID]; len(settings) == 0 || !settings[0].Once {
		return
	}
	if former := c.tookEvent(in.WatchID); former != "" && former != in.Event.ID {
		c.world.violate("G2: watch %s is for one payment, and makes the events %s and %s", in.WatchID,
			former, in.Event.ID)
	}
	c.took[in.WatchID] = in.Event.ID
	c.world.count("events of watches for one payment")
}

// tookEvent returns the event that a watch for one payment has made, as far as the log has it.
func (c *checks) tookEvent(watchID string) string {
	if event := c.took[watchID]; len(c.matched[event]) > 0 {
		return event
	}
	return ""
}

// checkFulfilled checks that a watch is fulfilled once, by a payment that it may take.
func (c *checks) checkFulfilled(before domain.Watch, by domain.Fulfilment) {
	w := c.world
	switch {
	case !by.Is():
		return
	case !before.Once || before.Fulfilled.Is():
		w.violate("G2: watch %s is fulfilled by %s, and is for one payment: %t, and has %q", before.ID,
			by.PaymentID, before.Once, before.Fulfilled.PaymentID)
	}
	payments := w.chain.ledgers[by.Ledger-1].Payments
	i := slices.IndexFunc(payments, func(p domain.Payment) bool { return p.ID == by.PaymentID })
	if i < 0 {
		w.violate("G2: watch %s is fulfilled by %+v, which is no payment", before.ID, by)
	}
	judgedBy := slices.Clone(c.judged.settings[before.ID])
	for _, part := range before.Parts {
		judgedBy = append(judgedBy, before.Pinned(part))
	}
	if !slices.ContainsFunc(judgedBy, func(s domain.Watch) bool {
		_, matches := matchPayment(s, payments[i])
		return matches
	}) {
		w.violate("G2: watch %s is fulfilled by payment %s, which it does not match", before.ID,
			by.PaymentID)
	}
	w.count("fulfilled watches")
}

// decided returns settings of a watch with the payment that it has taken, if it is for one.
func (c *checks) decided(settings domain.Watch, p domain.Payment) domain.Watch {
	if !settings.Once {
		return settings
	}
	settings.Fulfilled = c.model.watches[settings.ID].Fulfilled
	switch event := c.tookEvent(settings.ID); event {
	case "":
	case domain.EventID(settings.ID, p.ID):
		settings.Fulfilled = domain.FulfilledBy(p)
	default:
		settings.Fulfilled = domain.Fulfilment{PaymentID: event}
	}
	return settings
}

// checkTime checks that no payment is taken whose ledger closed after all that a watch may have
// had as its end. What a watch was fulfilled by before that may have changed since.
func (c *checks) checkTime(settings []domain.Watch, p domain.Payment) {
	late := func(s domain.Watch) bool {
		return s.ExpiresAtMillis != 0 && p.ClosedAtMillis > s.ExpiresAtMillis
	}
	if slices.ContainsFunc(settings, func(s domain.Watch) bool { return !late(s) }) {
		return
	}
	c.world.violate("G2: payment %s was taken by watch %s, which had expired when ledger %d closed",
		p.ID, settings[0].ID, p.Ledger)
}

// checkNotTheOne checks that a payment of which a watch made no event has not fulfilled it.
func (c *checks) checkNotTheOne(settings []domain.Watch, p domain.Payment) {
	id := settings[0].ID
	over := slices.ContainsFunc(settings, func(s domain.Watch) bool {
		return s.Deleted() || c.judged.gone[s.EndpointID]
	})
	if c.model.watches[id].Fulfilled.PaymentID == p.ID && !over {
		c.world.violate("G2: watch %s is fulfilled by payment %s, and made no event of it", id, p.ID)
	}
}

// countLate counts payments that came too late for a watch, so that a run shows that there are any.
func (c *checks) countLate(watch domain.Watch, p domain.Payment) {
	switch {
	case watch.Fulfilled.Is():
		c.world.count("payments to fulfilled watches")
	case watch.Expired(p.ClosedAtMillis):
		c.world.count("payments to expired watches")
	}
}
