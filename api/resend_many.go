package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Limits of resending many events.
const (
	maxResend       = 1000
	resendAtOnce    = 2               // within one turn
	resendBeginning = 8 * time.Second // the rest is left for the next request
	maxCursor       = 512
)

func (a *API) decodeResend(r *request) (s selection, after *readmodel.Position, err error) {
	var cursor string
	s, faults := decodeSelection(r, eventFilters(),
		decode.Into("cursor", &cursor, func(v decode.Value) string {
			text, _ := v.Text(maxCursor)
			return text
		}))
	if !faults.Any() && !s.filtered() {
		faults.Add("", problem.FaultRequired,
			"name one filter at least, such as since: what it takes is sent again")
	}
	if err := faults.Err(); err != nil {
		return s, nil, err
	}
	s.filter.NoTests = s.filter.Type != domain.TestPing
	if cursor == "" {
		return s, nil, nil
	}
	after, ok := a.position(r, s.values, cursor)
	if !ok {
		return s, nil, invalidCursor(problem.Fault{Pointer: "/cursor"})
	}
	return s, after, nil
}

// resendEvents resends the events in the history that match the filters, newest first and
// regardless of their state. Each event gets its own command, whose id is derived from the ids of
// the request and the event. A retry of the request therefore sends no event twice, and continues
// with the remaining ones.
func (a *API) resendEvents(ctx context.Context, r *request) (reply, error) {
	asked, after, err := a.decodeResend(r)
	if err != nil {
		return reply{}, err
	}
	most := maxResend
	if asked.dryRun {
		most = readmodel.ChooseMax
	}
	chosen, more, err := a.choose(ctx, r, asked.filter, after, most)
	if err != nil {
		return reply{}, err
	}
	if asked.dryRun {
		view := client.ResendManyResult{
			Matched:   len(chosen),
			Refused:   []client.ResendRefused{},
			Truncated: more != nil || len(chosen) > maxResend,
			DryRun:    true,
		}
		return reply{view: view}, nil
	}
	view, replayed, err := a.resendChosen(ctx, r, chosen)
	if err != nil {
		return reply{}, err
	}
	if view.Matched < len(chosen) {
		more = &chosen[view.Matched-1]
	}
	if more != nil {
		view.Truncated = true
		view.NextCursor = pointer(a.cursorText(r, asked.values, *more))
	}
	return reply{view: view, replayed: replayed}, nil
}

// resendChosen resends as many of the events as start in time, but at least the first. If an event
// is refused, that is part of the result; an error stops all of them.
func (a *API) resendChosen(
	ctx context.Context, r *request, chosen []readmodel.Position,
) (view client.ResendManyResult, replayed bool, err error) {
	beginning, end := context.WithTimeout(ctx, resendBeginning)
	defer end()
	view.Refused = []client.ResendRefused{}
	replayed = len(chosen) > 0
	var mu sync.Mutex
	sending, within := errgroup.WithContext(ctx)
	sending.SetLimit(resendAtOnce)
	for _, at := range chosen {
		if view.Matched > 0 && (beginning.Err() != nil || within.Err() != nil) {
			break
		}
		view.Matched++
		sending.Go(func() error {
			again, code, err := a.resendOne(within, r, at.ID)
			mu.Lock()
			defer mu.Unlock()
			replayed = replayed && again
			switch {
			case err != nil:
				return err
			case code != "":
				view.Refused = append(view.Refused, client.ResendRefused{EventID: at.ID, Code: code})
			default:
				view.Queued++
			}
			return nil
		})
	}
	err = sending.Wait()
	slices.SortFunc(view.Refused, func(a, b client.ResendRefused) int {
		return strings.Compare(a.EventID, b.EventID)
	})
	return view, replayed, err
}

// resendOne resends one of many events. code is the reason if it cannot be resent.
func (a *API) resendOne(
	ctx context.Context, r *request, eventID string,
) (replayed bool, code string, err error) {
	one := *r
	one.subjectID = eventID
	one.commandID = domain.DeriveID(domain.CommandPrefix, r.commandID, "resend", eventID)
	one.turn = turn{} // the request keeps its turn to the end
	answer, err := a.resendEvent(ctx, &one)
	if err == nil {
		return answer.replayed, "", nil
	}
	switch p := problem.Of(err); {
	case p.Code == problem.CodeIdempotencyReused:
		return false, "", err
	case p.Status == http.StatusNotFound, p.Status == http.StatusConflict,
		p.Status == http.StatusGone:
		return p.Replayed, p.Code, nil
	}
	return false, "", err
}
