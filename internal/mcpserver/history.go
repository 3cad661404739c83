package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
)

type historyFilter struct {
	byID
	Limit  int    `json:"limit,omitempty" jsonschema:"how many facts to list: 1 to 50, and 20 if left out"`
	Cursor string `json:"cursor,omitempty" jsonschema:"nextCursor of the page before"`
}

const (
	historyPage = 20
	historyMax  = 50
)

func (s *server) addHistory(to *mcp.Server) {
	add(to, "history", "Lists what happened to an endpoint (ep_…), a watch (wat_…) or an event (evt_…), newest "+
		"first: each fact with the fields that it changed, before and after, and the whole state after it. "+
		"Of an event also when its endpoint held it. What was deleted has its history. "+untrustedNote,
		s.history)
}

func (s *server) history(ctx context.Context, in historyFilter) (*answer, error) {
	limit := in.Limit
	if limit == 0 {
		limit = historyPage
	}
	if limit < 1 || limit > historyMax {
		return nil, fmt.Errorf("limit %d: must be from 1 to %d", limit, historyMax)
	}
	var read func(context.Context, string, client.Page) (client.List[client.Fact], error)
	switch {
	case domain.IsID(domain.EndpointPrefix, in.ID):
		read = s.API.GetEndpointHistory
	case domain.IsID(domain.WatchPrefix, in.ID):
		read = s.API.GetWatchHistory
	case domain.IsID(domain.EventPrefix, in.ID):
		read = s.API.GetEventHistory
	default:
		return nil, fmt.Errorf("id %q: must be of an endpoint (ep_…), a watch (wat_…) or an event (evt_…)",
			in.ID)
	}
	list, err := read(ctx, in.ID, client.Page{Limit: limit, Cursor: in.Cursor})
	return writtenByOthers(list, "data[].changes", "data[].state"), err
}
