package sim

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
)

// causes checks that somebody requested a fact that only commands lead to.
func (c *checks) causes(f domain.Fact) error {
	switch b := f.Body.(type) {
	case domain.EndpointDisabled:
		if b.Reason == domain.DisabledManual {
			return c.causedBy(f, "DisableEndpoint")
		}
	case domain.EndpointEnabled:
		return c.causedBy(f, "EnableEndpoint")
	case domain.EndpointDeleted:
		return c.causedBy(f, "DeleteEndpoint")
	case domain.DeliveryRequeued:
		return c.causedBy(f, "ReplayEndpoint", "ResendEvent")
	case domain.DeliveryMoved, domain.DeliveryRecalled:
		return c.causedBy(f, "ResendEvent")
	default: // others follow from matches and attempts, or the reference model checks them
	}
	return nil
}

// causedBy checks that somebody requested a fact.
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
