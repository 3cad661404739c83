package client

import (
	"context"
	"encoding/json"
	"time"
)

// Fact is a fact about an endpoint, a watch or an event, with the state after it.
type Fact struct {
	Version uint64          `json:"version"`
	Fact    string          `json:"fact"` // its name in the journal, such as WatchUpdated
	At      time.Time       `json:"at"`
	Changes []FieldChange   `json:"changes"`
	State   json.RawMessage `json:"state"` // an object
}

// factWords are the facts' names in the journal, in words.
var factWords = map[string]string{
	"EndpointCreated": "Made", "EndpointUpdated": "Changed", "SecretRotated": "Secret rotated",
	"SecretsResealed": "Secrets sealed anew", "EndpointDisabled": "Disabled",
	"EndpointEnabled": "Enabled", "EndpointDeleted": "Deleted",
	"WatchCreated": "Made", "WatchUpdated": "Changed", "WatchDeleted": "Deleted",
	"BackfillRequested": "Backfill asked for", "PartBegun": "Reading of ledgers begun",
	"DeliveryCreated": "Queued", "AttemptMade": "Attempted", "DeliveryRequeued": "Queued again",
	"DeliveryCancelled": "Cancelled", "DeliveryMoved": "Handed over to another endpoint",
	"DeliveryRecalled": "Recalled to be sent again",
	"RangeCovered":     "Ledgers read", "BackfillStopped": "Backfill stopped",
}

// Words says in plain words what happened: the fact's name, if this version does not know it.
func (f Fact) Words() string {
	if words, known := factWords[f.Fact]; known {
		return words
	}
	return f.Fact
}

// NoChanges stands where a fact changed no field of those that the API shows.
const NoChanges = "nothing that the API shows"

// FieldChange is a field that a fact changed. Before and After are JSON values; null: none.
type FieldChange struct {
	Field  string          `json:"field"` // a path, such as amountRule.amount
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// GetEndpointHistory lists the facts of an endpoint itself, newest first; of a deleted one too.
func (c *Client) GetEndpointHistory(
	ctx context.Context, endpointID string, p Page,
) (List[Fact], error) {
	return list[Fact](ctx, c, id(endpoints, endpointID, "history"), p, struct{}{})
}

// GetEventHistory lists the facts of an event's deliveries, newest first, with what its endpoints
// did to them.
func (c *Client) GetEventHistory(ctx context.Context, eventID string, p Page) (List[Fact], error) {
	return list[Fact](ctx, c, id(events, eventID, "history"), p, struct{}{})
}

// GetWatchHistory lists the facts of a watch, newest first; of a deleted one too.
func (c *Client) GetWatchHistory(ctx context.Context, watchID string, p Page) (List[Fact], error) {
	return list[Fact](ctx, c, id(watches, watchID, "history"), p, struct{}{})
}
