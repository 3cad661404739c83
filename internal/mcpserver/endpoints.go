package mcpserver

import (
	"context"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/api/client"
)

type byID struct {
	ID string `json:"id" jsonschema:"its id"`
}

type endpointFilter struct {
	Status string `json:"status,omitempty" jsonschema:"active or disabled; left out: both"`
	page
}

type watchFilter struct {
	EndpointID string `json:"endpointId,omitempty" jsonschema:"only watches of this endpoint (ep_…)"`
	Wallet     string `json:"walletAddress,omitempty" jsonschema:"only watches of this wallet (G…)"`
	page
}

func (s *server) addEndpoints(to *mcp.Server) {
	add(to, "list_endpoints", "Lists endpoints, where events are posted, newest first: status, why one is "+
		"disabled, failures in a row. An endpoint is disabled after a 410 or 20 events in a row that failed; "+
		"then its events wait. "+untrustedNote, s.listEndpoints)
	add(to, "get_endpoint", "Shows one endpoint (ep_…). The values of its own headers are left out. "+
		untrustedNote, s.getEndpoint)
	add(to, "list_watches", "Lists watches, newest first: which wallet, which rules on asset, amount, memo and "+
		"sender, and which endpoint is told. "+untrustedNote, s.listWatches)
	add(to, "get_watch", "Shows one watch (wat_…) with its rules, warnings, and how far its backfill is. "+
		untrustedNote, s.getWatch)
}

func (s *server) listEndpoints(ctx context.Context, in endpointFilter) (*answer, error) {
	p, err := in.page.page()
	if err != nil {
		return nil, err
	}
	list, err := s.API.ListEndpoints(ctx, client.EndpointFilter{Status: in.Status}, p)
	shown := client.List[endpoint]{NextCursor: list.NextCursor}
	for _, e := range list.Data {
		shown.Data = append(shown.Data, withoutValues(e))
	}
	return writtenByOthers(shown, "data[].url", "data[].description", "data[].headerNames"), err
}

func (s *server) getEndpoint(ctx context.Context, in byID) (*answer, error) {
	e, err := s.API.GetEndpoint(ctx, in.ID)
	return writtenByOthers(withoutValues(e), "url", "description", "headerNames"), err
}

// endpoint is one without the values of its headers, which may be credentials.
type endpoint struct {
	client.Endpoint
	Headers     *struct{} `json:"headers,omitempty"`
	HeaderNames []string  `json:"headerNames,omitempty"`
}

func withoutValues(e client.Endpoint) endpoint {
	names := slices.Sorted(maps.Keys(e.Headers))
	e.Headers, e.Secret = nil, ""
	return endpoint{Endpoint: e, HeaderNames: names}
}

func (s *server) listWatches(ctx context.Context, in watchFilter) (*answer, error) {
	p, err := in.page.page()
	if err != nil {
		return nil, err
	}
	list, err := s.API.ListWatches(ctx,
		client.WatchFilter{EndpointID: in.EndpointID, WalletAddress: in.Wallet}, p)
	return writtenByOthers(list, "data[].label"), err
}

func (s *server) getWatch(ctx context.Context, in byID) (*answer, error) {
	w, err := s.API.GetWatch(ctx, in.ID)
	return writtenByOthers(w, "label"), err
}
