package sim

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// rules hold what the specification says of single facts, in a plain way of
// their own: which follow from which, and how long is waited. Endpoint and
// delivery are as they were before the fact.
func (c *checks) rules(f domain.Fact, e domain.Endpoint, d domain.Delivery) error {
	if due, is := c.disabling[f.Aggregate]; is {
		delete(c.disabling, f.Aggregate)
		b, disabled := f.Body.(domain.EndpointDisabled)
		if !disabled || b.Reason != due {
			return fmt.Errorf("the endpoint %s is to be disabled (%s), and %s follows", f.Aggregate, due, f.Body.FactType())
		}
		return nil
	}
	switch b := f.Body.(type) {
	case domain.AttemptMade:
		return c.attemptRules(f, b, e, d)
	case domain.EndpointDisabled:
		return c.causedBy(f, "DisableEndpoint")
	case domain.EndpointEnabled:
		return c.causedBy(f, "EnableEndpoint")
	case domain.EndpointDeleted:
		return c.causedBy(f, "DeleteEndpoint")
	case domain.DeliveryRequeued:
		if b.Reason == domain.RequeueReplay && d.State != domain.StateFailed {
			return fmt.Errorf("a replay queues %s, which is %s", b.EventID, d.State)
		}
		return c.causedBy(f, "ReplayEndpoint", "ResendEvent")
	}
	return nil
}

// causedBy holds that somebody asked for a fact.
func (c *checks) causedBy(f domain.Fact, commands ...string) error {
	if cmd := c.world.clients.byID[f.Cause]; cmd != nil {
		for _, name := range commands {
			if cmd.Body.CommandType() == name && cmd.Body.Aggregate() == f.Aggregate {
				return nil
			}
		}
	}
	return fmt.Errorf("nobody asked for %s of %s (cause %q)", f.Body.FactType(), f.Aggregate, f.Cause)
}

// attemptRules hold where an attempt leads, and notes when it must disable.
func (c *checks) attemptRules(f domain.Fact, b domain.AttemptMade, e domain.Endpoint, d domain.Delivery) error {
	policy := c.world.setup.policy
	waits := policy.Schedule.WaitsMillis
	whole := b.Result.StatusCode != 0 && (b.Result.Error == "" || b.Result.Error == domain.AttemptBodyTooLarge)
	switch last := d.RunAttempts == len(waits); {
	case d.State == domain.StateCancelled || whole && b.Result.StatusCode/100 == 2:
	case last && b.State != domain.StateFailed, !last && b.State == domain.StateFailed:
		return fmt.Errorf("attempt %d of run %d of %s leaves it %s", d.RunAttempts+1, b.Run, b.EventID, b.State)
	case b.State == domain.StateWaiting:
		base, wait := waits[d.RunAttempts], b.NextAttemptAtMillis-f.AtMillis
		most := base + base/5
		if policy.HonourRetryAfter && d.RunAttempts+1 < len(waits) {
			most = max(most, waits[d.RunAttempts+1])
		}
		if wait < base-base/5 || wait > most {
			return fmt.Errorf("after attempt %d of its run, %s waits %d ms", d.RunAttempts+1, b.EventID, wait)
		}
	}
	if e.Status != domain.StatusActive {
		return nil
	}
	switch {
	case whole && b.Result.StatusCode == 410:
		c.disabling[f.Aggregate] = domain.DisabledGone
	case b.State == domain.StateFailed && b.EventType != domain.TestPing && e.ConsecutiveFailures+1 >= policy.DisableAfter:
		c.disabling[f.Aggregate] = domain.DisabledConsecutiveFailures
	}
	return nil
}
