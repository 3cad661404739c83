package apicli

import (
	"context"

	"github.com/lumenhook/lumenhook/api/client"
)

// Twin returns the id of another watch of a watch's wallet and endpoint; empty: there is none, or
// it could not be asked. Nothing is wrong with two, and mostly the second was a mistake.
func Twin(ctx context.Context, c *client.Client, made client.Watch) string {
	found, err := c.ListWatches(ctx, client.WatchFilter{
		WalletAddress: made.WalletAddress,
		EndpointID:    made.EndpointID,
	}, client.Page{Limit: 2})
	if err != nil {
		return ""
	}
	for _, other := range found.Data {
		if other.ID != made.ID {
			return other.ID
		}
	}
	return ""
}
