package apicli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
)

// selects looks whether the filter can take any event: one with an id that nothing has would have
// the tail wait for ever. Where no event was taken until now, it tells so.
func (t *Tail) selects(ctx context.Context) error {
	filter := t.Filter
	filter.State, filter.Since = "", time.Time{}
	if filter == (client.EventFilter{}) {
		return nil
	}
	list, err := t.Client.ListEvents(ctx, filter, client.Page{Limit: 1}) // refuses one that is invalid
	if err != nil || len(list.Data) > 0 {
		return err
	}
	if err := t.named(ctx, filter); err != nil {
		return err
	}
	fmt.Fprintln(t.Tell, "no event is of these filters yet: waiting for the first")
	return nil
}

// named looks up what the filter names, of which there is no event. A transaction, a payment or a
// memo may still be to come.
func (t *Tail) named(ctx context.Context, filter client.EventFilter) error {
	if filter.EndpointID != "" {
		if _, err := t.Client.GetEndpoint(ctx, filter.EndpointID); err != nil {
			return err
		}
	}
	if filter.WatchID != "" {
		if _, err := t.Client.GetWatch(ctx, filter.WatchID); err != nil {
			return err
		}
	}
	if filter.WalletAddress == "" {
		return nil
	}
	watches, err := t.Client.ListWatches(ctx, client.WatchFilter{WalletAddress: filter.WalletAddress},
		client.Page{Limit: 1})
	if err == nil && len(watches.Data) == 0 {
		err = errors.New("--wallet: no watch of your account is of this wallet: " +
			"`lumenhook watches create` makes one")
	}
	return err
}
