package client

import (
	"context"
	"encoding/json"
	"time"
)

// Fact is a fact about an endpoint, a watch or an event, and the state after it.
type Fact struct {
	Version uint64          `json:"version"`
	Fact    string          `json:"fact"` // name in the journal, such as WatchUpdated
	At      time.Time       `json:"at"`
	Changes []FieldChange   `json:"changes"`
	State   json.RawMessage `json:"state"` // a JSON object
}

var factWords = map[string]string{ // #nosec G101 -- words, not credentials
	"EndpointCreated": "Created", "EndpointUpdated": "Changed", "SecretRotated": "Secret rotated",
	"SecretsResealed": "Secrets re-encrypted", "EndpointDisabled": "Disabled",
	"EndpointEnabled": "Enabled", "EndpointDeleted": "Deleted",
	"WatchCreated": "Created", "WatchUpdated": "Changed", "WatchDeleted": "Deleted",
	"BackfillRequested": "Backfill requested", "PartBegun": "Ledger reading started",
	"DeliveryCreated": "Queued", "AttemptMade": "Attempted", "DeliveryRequeued": "Queued again",
	"DeliveryCancelled": "Cancelled", "DeliveryMoved": "Handed over to another endpoint",
	"DeliveryRecalled": "Recalled for resending",
	"RangeCovered":     "Ledgers read", "BackfillStopped": "Backfill stopped",
}

// Words describes the fact. If this version doesn't know the fact, it returns the name.
func (f Fact) Words() string {
	if words, known := factWords[f.Fact]; known {
		return words
	}
	return f.Fact
}

// NoChanges describes a fact that changed no field visible in the API.
const NoChanges = "nothing that the API shows"

// FieldChange is a field that a fact changed. Before and After are JSON values; null if there is
// none.
type FieldChange struct {
	Field  string          `json:"field"` // a path, such as amountRule.amount
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// GetEndpointHistory lists an endpoint's own facts, newest first. It also works for deleted
// endpoints.
func (c *Client) GetEndpointHistory(
	ctx context.Context, endpointID string, p Page,
) (List[Fact], error) {
	return list[Fact](ctx, c, id(endpoints, endpointID, "history"), p, struct{}{})
}

// GetEventHistory lists the facts of an event's deliveries, newest first, including the endpoint
// changes that affected them.
func (c *Client) GetEventHistory(ctx context.Context, eventID string, p Page) (List[Fact], error) {
	return list[Fact](ctx, c, id(events, eventID, "history"), p, struct{}{})
}

// GetWatchHistory lists a watch's facts, newest first. It also works for deleted watches.
func (c *Client) GetWatchHistory(ctx context.Context, watchID string, p Page) (List[Fact], error) {
	return list[Fact](ctx, c, id(watches, watchID, "history"), p, struct{}{})
}
