package projections

import (
	"context"
	"fmt"
)

const (
	// ChooseMax bounds the events that are chosen at once.
	ChooseMax = 10_000
	// chooseSteps bounds the events that are looked at for that, to 1,000 of each.
	chooseSteps = 40
)

// Choose returns which events of an account a filter selects, newest first, at most limit (1
// to [ChooseMax]) of them, from a position on. next is where it continues; zero at the end. A
// rare state may end it before the limit: a bounded stretch is read. Its errors are those of
// [History.Events].
func (h *History) Choose(
	ctx context.Context, f EventFilter, limit int, after EventPosition,
) (chosen []EventPosition, next EventPosition, err error) {
	if f.AccountID == "" || limit < 1 || limit > ChooseMax {
		return nil, next, fmt.Errorf("projections: a choice is of one account and of 1 to %d events, "+
			"not of %q and %d", ChooseMax, f.AccountID, limit)
	}
	var page EventPage
	err = h.ask(ctx, func(of *reading) error {
		page, err = of.events(ctx, f, limit, after, true)
		return err
	})
	for _, e := range page.Events {
		chosen = append(chosen, e.position())
	}
	return chosen, page.Next, err
}
