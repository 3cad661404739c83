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
)

type eventFilter struct {
	EndpointID string `json:"endpointId,omitempty" jsonschema:"only events of this endpoint (ep_…)"`
	WatchID    string `json:"watchId,omitempty" jsonschema:"only events of this watch (wat_…)"`
	Wallet     string `json:"walletAddress,omitempty" jsonschema:"only payments to this wallet (G…)"`
	Type       string `json:"type,omitempty" jsonschema:"payment.received, payment.rejected or test.ping"`
	State      string `json:"state,omitempty" jsonschema:"QUEUED (the first attempt is due), WAITING (an attempt failed and another is due), DELIVERED, FAILED (no attempt is left) or CANCELLED"`
	Since      string `json:"since,omitempty" jsonschema:"those created then or later: a time such as 2026-11-21T10:15:30Z, or how long ago, such as 24h"`
	Until      string `json:"until,omitempty" jsonschema:"those created before: a time, or how long ago"`
	PaymentID  string `json:"paymentId,omitempty" jsonschema:"only those of this payment: data.payment.id"`
	TxHash     string `json:"txHash,omitempty" jsonschema:"only those of this Stellar transaction: 64 hex digits"`
	Sender     string `json:"sender,omitempty" jsonschema:"only payments from this account or contract"`
	Memo       string `json:"memo,omitempty" jsonschema:"only payments with this memo"`
	Asset      string `json:"asset,omitempty" jsonschema:"only payments in this asset: XLM or CODE:ISSUER"`
	MinAmount  string `json:"minAmount,omitempty" jsonschema:"only payments of this amount or more, such as 12.5"`
	MaxAmount  string `json:"maxAmount,omitempty" jsonschema:"only payments of this amount or less"`
	page
}

func (f eventFilter) filter() (client.EventFilter, error) {
	since, err := instant("since", f.Since)
	until, untilErr := instant("until", f.Until)
	return client.EventFilter{
		EndpointID:    f.EndpointID,
		WatchID:       f.WatchID,
		WalletAddress: f.Wallet,
		Type:          f.Type,
		State:         f.State,
		Since:         since,
		Until:         until,
		PaymentID:     f.PaymentID,
		TxHash:        f.TxHash,
		Sender:        f.Sender,
		Memo:          f.Memo,
		Asset:         f.Asset,
		MinAmount:     f.MinAmount,
		MaxAmount:     f.MaxAmount,
	}, errors.Join(err, untilErr)
}

type stuckFilter struct {
	OlderThan  string `json:"olderThan,omitempty" jsonschema:"only events that are older: a duration such as 10m, which it is if left out"`
	EndpointID string `json:"endpointId,omitempty" jsonschema:"only those of this endpoint (ep_…)"`
	Limit      int    `json:"limit,omitempty" jsonschema:"how many to list: 1 to 100, and 20 if left out"`
}

func (s *server) addEvents(to *mcp.Server) {
	add(to, "list_events", "Lists events, newest first and without their attempts, by any of the filters "+
		"together. The body of each is data, as it is posted. "+untrustedNote, s.listEvents)
	add(to, "get_event", "Shows one event (evt_…) with its body, its delivery, and every attempt with the "+
		"receiver's answer. "+untrustedNote, s.getEvent)
	add(to, "explain_event", "Says in words what became of an event (evt_…): its payment, each attempt, why it "+
		"failed, what comes next and what can be done. "+untrustedNote, s.explainEvent)
	add(to, "stuck_deliveries", "Lists deliveries that wait longer than they should, the oldest first: queued "+
		"or waiting for another attempt. One that is held waits for its endpoint to be enabled. "+
		untrustedNote, s.stuck)
}

// ofPayments are the members of a list of events that others have written.
var ofPayments = []string{"data[].data.payment.memo", "data[].data.watch.label"}

func (s *server) listEvents(ctx context.Context, in eventFilter) (*answer, error) {
	p, err := in.page.page()
	filter, filterErr := in.filter()
	if err := errors.Join(err, filterErr); err != nil {
		return nil, err
	}
	list, err := s.API.ListEvents(ctx, filter, p)
	return writtenByOthers(list, ofPayments...), err
}

func (s *server) getEvent(ctx context.Context, in byID) (*answer, error) {
	e, err := s.API.GetEvent(ctx, in.ID)
	return writtenByOthers(e, "data.payment.memo", "data.watch.label", "attempts[].errorDetail",
		"attempts[].responseBody"), err
}

const (
	// stuckPages bounds how far is read for the oldest, newest first, of each state.
	stuckPages = 4
	stuckPage  = 250
)

// stuckList is what waits.
type stuckList struct {
	Now  time.Time      `json:"now"`
	Data []client.Event `json:"data"` // oldest first
	More bool           `json:"more"` // than are in data
	// Some are older than all in data, and were not read.
	Unread bool `json:"unread,omitempty"`
}

func (s *server) stuck(ctx context.Context, in stuckFilter) (*answer, error) {
	p, err := page{Limit: in.Limit}.page()
	if err != nil {
		return nil, err
	}
	older := 10 * time.Minute
	if in.OlderThan != "" {
		if older, err = time.ParseDuration(in.OlderThan); err != nil || older < 0 {
			return nil, fmt.Errorf("olderThan %q: must be a duration such as 10m or 2h", in.OlderThan)
		}
	}
	found := stuckList{Now: time.Now().UTC()}
	filter := client.EventFilter{EndpointID: in.EndpointID, Until: found.Now.Add(-older)}
	for _, state := range []domain.DeliveryState{domain.StateQueued, domain.StateWaiting} {
		filter.State = string(state)
		if err := s.readStuck(ctx, filter, &found); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found.Data, func(a, b client.Event) int {
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	if found.More = len(found.Data) > p.Limit; found.More {
		found.Data = found.Data[:p.Limit]
	}
	return writtenByOthers(found, ofPayments...), nil
}

func (s *server) readStuck(
	ctx context.Context, filter client.EventFilter, into *stuckList,
) error {
	next := client.Page{Limit: stuckPage}
	for range stuckPages {
		list, err := s.API.ListEvents(ctx, filter, next)
		if err != nil {
			return err
		}
		into.Data = append(into.Data, list.Data...)
		if list.NextCursor == nil {
			return nil
		}
		next.Cursor = *list.NextCursor
	}
	into.Unread = true
	return nil
}
