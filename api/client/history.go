package client

import (
	"context"
	"encoding/json"
	"time"
)

// Fact is what happened to an endpoint or a watch, with the state after it.
type Fact struct {
	Version uint64          `json:"version"`
	Fact    string          `json:"fact"` // its name in the journal, such as WatchUpdated
	At      time.Time       `json:"at"`
	Changes []FieldChange   `json:"changes"`
	State   json.RawMessage `json:"state"` // an object
}

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
	return list[Fact](ctx, c, id(endpoints, endpointID, "history"), p)
}

// GetWatchHistory lists the facts of a watch, newest first; of a deleted one too.
func (c *Client) GetWatchHistory(ctx context.Context, watchID string, p Page) (List[Fact], error) {
	return list[Fact](ctx, c, id(watches, watchID, "history"), p)
}
