package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/directory"
)

// The parts do not know each other: what one asks for and another gives is
// fitted together here.

// submitter gives the API its command client, while there is room on the disk.
type submitter struct {
	client *commands.Client
	room   *room
}

func (s submitter) Submit(ctx context.Context, c domain.Command) (domain.Result, error) {
	if err := s.room.check(); err != nil {
		return domain.Result{}, fmt.Errorf("%w: %w", api.ErrWritesRefused, err)
	}
	result, err := s.client.Submit(ctx, c)
	var unanswered commands.ErrNotConfirmed
	switch {
	case errors.As(err, &unanswered):
		return result, fmt.Errorf("%w: %w", api.ErrCommandUnanswered, err)
	case errors.Is(err, commands.ErrBusy):
		return result, fmt.Errorf("%w: %w", api.ErrWritesRefused, err)
	}
	return result, err
}

// watches gives the follower its watches out of the directory.
type watches struct{ *directory.Directory }

func (w watches) ByWallet(wallet string) (all []domain.Watch, err error) {
	err = w.EachWatchOfWallet(wallet, func(one domain.Watch) error {
		all = append(all, one)
		return nil
	})
	return all, err
}

// check fails while there is no history, and while it is not written to.
func (h *lateHistory) check(context.Context) error {
	h.mu.Lock()
	of, projector := h.of, h.projector
	h.mu.Unlock()
	if of == nil {
		return api.ErrHistoryUnavailable
	}
	return projector.Status().Err
}

// Event finds an event for the API, unless there is no history.
func (h *lateHistory) Event(ctx context.Context, accountID, eventID string) (api.EventRecord, error) {
	h.mu.Lock()
	of, projector := h.of, h.projector
	h.mu.Unlock()
	if of == nil {
		return api.EventRecord{}, api.ErrHistoryUnavailable
	}
	found, err := of.Event(ctx, accountID, eventID)
	if stuck := projector.Status().Err; stuck != nil && errors.Is(err, projections.ErrNotFound) {
		// What is not written down may be there all the same.
		return api.EventRecord{}, fmt.Errorf("%w: %w", api.ErrHistoryBehind, stuck)
	}
	if err != nil {
		return api.EventRecord{}, historyError(err)
	}
	record := api.EventRecord{
		Body: found.Body, EndpointID: found.EndpointID, State: found.State, NextAttemptAtMillis: found.NextAttemptAtMillis,
	}
	for _, a := range found.Attempts {
		record.Attempts = append(record.Attempts, api.AttemptRecord{Number: a.Number, Run: a.Run, Result: a.Result})
	}
	return record, nil
}

func historyError(err error) error {
	for ours, theirs := range map[error]error{
		projections.ErrNotFound: api.ErrEventNotFound, projections.ErrBehind: api.ErrHistoryBehind, projections.ErrUnavailable: api.ErrHistoryUnavailable,
	} {
		if errors.Is(err, ours) {
			return fmt.Errorf("%w: %w", theirs, err)
		}
	}
	return err
}

// urlPolicy judges URLs by the rules of the client that will post to them.
type urlPolicy struct{ client *egress.Client }

func (p urlPolicy) Check(ctx context.Context, raw string) (normalised string, warnings []string, faults []api.URLFault) {
	u, err := p.client.CheckURL(raw)
	if err == nil {
		normalised = u.String()
		err = p.client.CheckHost(ctx, u.Hostname())
	}
	var fault *egress.Fault
	switch {
	case err == nil:
		return normalised, nil, nil
	case errors.As(err, &fault) && fault.Code == egress.FaultDoesNotResolve:
		return normalised, []string{string(fault.Code)}, nil
	case errors.As(err, &fault):
		return "", nil, []api.URLFault{{Code: string(fault.Code), Detail: fault.Detail}}
	}
	return "", nil, []api.URLFault{{Code: string(egress.FaultInvalid), Detail: "the URL could not be checked: try again"}}
}
