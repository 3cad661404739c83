package standalone

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// The reason for a cancelled delivery must be printed as in its fact.
func TestWhyADeliveryWasCancelledIsSaid(t *testing.T) {
	for _, c := range []struct {
		body domain.FactBody
		want string
	}{
		{
			domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelDisabled},
			"cancelled  evt_1: its endpoint was disabled before the test was sent\n",
		},
		{
			domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelDeleted},
			"cancelled  evt_1: its endpoint was deleted\n",
		},
		{
			domain.DeliveryCancelled{EventID: "evt_1", Reason: domain.CancelMissing},
			"cancelled  evt_1: there is no such endpoint\n",
		},
		{
			domain.DeliveryCancelled{EventID: "evt_1"},
			"cancelled  evt_1: its endpoint takes nothing more\n",
		},
		{
			domain.AttemptMade{EventID: "evt_1", Number: 2, State: domain.StateCancelled},
			"cancelled  evt_1: attempt 2, no answer; its endpoint takes nothing more\n",
		},
	} {
		var out testkit.Buffer
		n := &narrator{out: &out}
		n.fact(domain.Fact{Body: c.body})
		if !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%+v: %q, and not %q", c.body, out.String(), c.want)
		}
	}
}
