package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
)

const (
	// pageMax bounds lists, and historyMax bounds lists of facts with states. pageDefault is the
	// default length of both.
	pageMax, historyMax, pageDefault = 100, 50, 20
	// stuckPages bounds how many pages per state are searched for the oldest events.
	stuckPages, stuckPage = 4, 250
)

type byID struct {
	ID string `json:"id" help:"id of the object"`
}

func (s *server) addTools(to *mcp.Server) {
	addResource(s, to, apicli.Endpoints, "endpoint", "Lists endpoints, which receive events, "+
		"newest first unless sorted: status, reason if disabled, consecutive failures. An endpoint is "+
		"disabled after a 410 or 20 consecutive failed events. Its events then wait.",
		"Shows an endpoint (ep_…). It never shows secrets or header values.")
	addResource(s, to, apicli.Watches, "watch", "Lists watches, newest first: the wallet, the "+
		"rules on asset, amount, memo and sender, and the endpoint that receives the events.",
		"Shows a watch (wat_…) with its rules, its warnings and the progress of its backfill.")
	addResource(s, to, apicli.Events, "event", "Lists events, newest first, without their "+
		"attempts. Filters can be combined. The data member is the body that is posted.",
		"Shows an event (evt_…) with its body, its delivery, and every attempt with the receiver's "+
			"response.")
	add(to, "explain_event", "Explains what happened to an event (evt_…): its payment, each "+
		"attempt, why it failed, what happens next and what you can do. "+untrustedNote,
		callWith(s.explainEvent))
	add(to, "stuck_deliveries", "Lists late deliveries, oldest first: queued or waiting "+
		"for another attempt. A held delivery waits until its endpoint is enabled. "+untrustedNote,
		s.stuck)
	add(to, "history", "Lists what happened to an endpoint (ep_…), a watch (wat_…) or an event "+
		"(evt_…), newest first: each fact with the fields that it changed, before and after, and the "+
		"complete state after it. For an event, it includes when its endpoint held it. Also "+
		"works for deleted objects. "+untrustedNote, s.history)
	add(to, "wallet_statement", "Shows a watched wallet's balances before and after, and every move "+
		"between them, oldest first: payments with their events, or why each watch did not accept one. "+
		"If unexplained is not 0.0000000, something was missed. "+untrustedNote, s.statement)
	add(to, "coverage", "Shows which ledgers were read and verified, any gaps, and how "+
		"far the service has read. A payment in a ledger that was not read yet has no event.",
		callWith(func(ctx context.Context, _ struct{}) (*answer, error) {
			read, err := s.API.GetCoverage(ctx)
			return &answer{Result: read}, err
		}))
	add(to, "verify_webhook", "Checks a webhook's signature like a receiver, with the secret in "+
		"the file that this server was started with. Don't pass a secret. "+
		"The body is only checked, not interpreted.", callWith(s.verify))
}

// addResource adds the tools that list a resource and get one object.
func addResource[T, F any](
	s *server, to *mcp.Server, r apicli.Resource[T, F], noun, lists, gets string,
) {
	add(to, "list_"+r.Name, lists+" "+untrustedNote, func() call {
		var f F
		p := client.Page{Limit: pageDefault}
		return call{[]any{&f, &p}, pageMax, func(ctx context.Context) (*answer, error) {
			list, err := r.List(s.API, ctx, f, p)
			return listWrittenByOthers(list, r.Untrusted...), err
		}}
	})
	add(to, "get_"+noun, gets+" "+untrustedNote,
		callWith(func(ctx context.Context, in byID) (*answer, error) {
			found, err := r.Get(s.API, ctx, in.ID)
			return writtenByOthers(found, r.Untrusted...), err
		}))
}

type stuckList struct {
	Now  time.Time      `json:"now"`
	Data []client.Event `json:"data"` // oldest first
	More bool           `json:"more"` // there are more than in Data
	// Unread means that there are events older than those in Data that were not read.
	Unread bool `json:"unread,omitempty"`
}

func (s *server) stuck() call {
	in := struct {
		OlderThan  string `json:"olderThan,omitempty" help:"only events older than this: a duration such as 10m, the default"`
		EndpointID string `json:"endpointId,omitempty" help:"only events for this endpoint (ep_…)"`
		Limit      int    `json:"limit,omitempty" help:"maximum number of events to list: 1 to 100"`
	}{"10m", "", pageDefault}
	return call{[]any{&in}, pageMax, func(ctx context.Context) (*answer, error) {
		older, err := time.ParseDuration(in.OlderThan)
		if err != nil || older < 0 {
			return nil, fmt.Errorf("olderThan %q: must be a duration such as 10m or 2h", in.OlderThan)
		}
		found := stuckList{Now: time.Now().UTC()}
		filter := client.EventFilter{EndpointID: in.EndpointID, Until: found.Now.Add(-older)}
		for _, state := range []domain.DeliveryState{domain.StateQueued, domain.StateWaiting} {
			filter.State = string(state)
			events, whole, err := apicli.ReadEvents(ctx, s.API, filter, stuckPage, stuckPages)
			if err != nil {
				return nil, err
			}
			found.Data = append(found.Data, events...)
			found.Unread = found.Unread || !whole
		}
		slices.SortStableFunc(found.Data, func(a, b client.Event) int {
			return a.CreatedAt.Compare(b.CreatedAt)
		})
		if found.More = len(found.Data) > in.Limit; found.More {
			found.Data = found.Data[:in.Limit]
		}
		return listWrittenByOthers(found, apicli.Events.Untrusted...), nil
	}}
}

func (s *server) history() call {
	var in byID
	p := client.Page{Limit: pageDefault}
	return call{[]any{&in, &p}, historyMax, func(ctx context.Context) (*answer, error) {
		read := s.API.GetEventHistory
		switch {
		case domain.IsID(domain.EndpointPrefix, in.ID):
			read = s.API.GetEndpointHistory
		case domain.IsID(domain.WatchPrefix, in.ID):
			read = s.API.GetWatchHistory
		case !domain.IsID(domain.EventPrefix, in.ID):
			return nil, fmt.Errorf("id %q: must be the id of an endpoint (ep_…), a watch (wat_…) or an "+
				"event (evt_…)", in.ID)
		}
		list, err := read(ctx, in.ID, p)
		return listWrittenByOthers(list, "changes", "state"), err
	}}
}

func (s *server) statement() call {
	var wallet struct {
		Address string `json:"walletAddress" help:"address of the watched wallet (G…)"`
	}
	var f client.StatementFilter
	p := client.Page{Limit: pageDefault}
	return call{[]any{&wallet, &f, &p}, pageMax, func(ctx context.Context) (*answer, error) {
		read, err := s.API.GetStatement(ctx, wallet.Address, f, p)
		return &answer{Result: read}, err
	}}
}

type webhook struct {
	Body      string `json:"body" help:"raw body, exactly as received"`
	Timestamp string `json:"timestamp" help:"value of the Webhook-Timestamp header"`
	Signature string `json:"signature" help:"complete value of the Webhook-Signature header"`
}

type checked struct {
	Valid bool   `json:"valid"`
	Why   string `json:"why"`
}

func (s *server) verify(_ context.Context, in webhook) (*answer, error) {
	if s.Secrets == nil {
		return nil, errors.New("this server has no signing secret; start it with `lumenhook mcp " +
			"--secret-file FILE`, where FILE contains the endpoint's secret")
	}
	secrets, err := s.Secrets()
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	result := checked{Valid: true, Why: "the signature is valid and its timestamp is recent"}
	err = domain.Verify(in.Signature, in.Timestamp, []byte(in.Body), secrets, time.Now().Unix())
	switch {
	case errors.Is(err, domain.ErrTimestampTooFar):
		result = checked{Why: err.Error() + ": a receiver rejects it; it may be an old webhook"}
	case err != nil:
		result = checked{Why: err.Error() + ": the secret, the timestamp or the body differs from " +
			"what was signed"}
	}
	return &answer{Result: result}, nil
}
