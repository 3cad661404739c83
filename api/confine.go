package api

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// A portal link may be limited to one endpoint of its account. Its holder can neither see nor
// change anything of the other endpoints; their objects are handled as if the account did not have
// them. confine enforces this for the object in the path of every request. The functions after it
// narrow lists and lookups by id.

// sees reports whether the caller may see objects of this endpoint.
func (c caller) sees(endpointID string) bool {
	return c.endpointID == "" || c.endpointID == endpointID
}

// confine refuses a link for one endpoint access to everything else, before anything is looked up
// or done. Routes without a rule for such links are closed to them.
func (a *API) confine(ctx context.Context, r *request, rt route) error {
	switch {
	case r.caller.endpointID == "", rt.accepts&narrows != 0:
		return nil
	case strings.HasPrefix(rt.path, "/v1/endpoints/{id}"):
		if !r.caller.sees(r.subjectID) {
			return noSuch("endpoint")
		}
		return nil
	case strings.HasPrefix(rt.path, "/v1/watches/{id}"):
		return a.confineToWatch(ctx, r)
	}
	return problem.New(problem.CodeMissingPermission,
		"This portal link is limited to one endpoint, and the request concerns others too. "+
			"Use an API key, or a link of the whole account.")
}

// confineToWatch refuses a watch of another endpoint, even if the request may be a retry. find
// would leave a missing object to the engine, which knows accounts but no links.
func (a *API) confineToWatch(ctx context.Context, r *request) error {
	if !domain.IsID(domain.WatchPrefix, r.subjectID) {
		return noSuch("watch")
	}
	_, found, err := lookUp(ctx, a, "watch", func() (domain.Watch, bool, error) {
		return a.ownWatch(r, r.subjectID)
	})
	if err == nil && !found {
		err = noSuch("watch")
	}
	return err
}

// watchRevision returns the revision of the watch that a change requires; 0 means any. With a link
// for one endpoint, the change requires the revision that was read, because the watch may have
// another endpoint since.
func (r *request) watchRevision() uint64 {
	asked := r.ifMatch.Revision(r.watch.Revision)
	if asked == 0 && r.caller.endpointID != "" {
		return r.watch.Revision
	}
	return asked
}

// endpointParameter reads the endpoint filter of a list. A link for one endpoint only lists that
// endpoint.
func endpointParameter(r *request, q *decode.Query) string {
	asked := idParameter(q, "endpointId", domain.EndpointPrefix)
	if r.caller.endpointID == "" {
		return asked
	}
	if asked != "" && !r.caller.sees(asked) {
		q.Fault("endpointId", problem.FaultNotAllowed,
			"must be left out, or be the endpoint of this portal link")
	}
	return r.caller.endpointID
}

func (a *API) endpointsOf(
	r *request, f readmodel.EndpointFilter, after *readmodel.Position, limit int,
) (page []domain.Endpoint, next *readmodel.Position, err error) {
	if r.caller.endpointID == "" {
		return a.Directory.Endpoints(f, after, limit)
	}
	e, found, err := a.ownEndpoint(r, r.caller.endpointID)
	if found && (f.Status == "" || f.Status == e.Status) {
		page = append(page, e)
	}
	return page, nil, err
}

// narrowed returns the part of an event that the caller may see: nothing if the event is now at
// another endpoint, and no attempts at endpoints that it has left.
func narrowed(r *request, e readmodel.Event) (readmodel.Event, error) {
	if !r.caller.sees(e.EndpointID) {
		return readmodel.Event{}, noSuch("event")
	}
	e.Attempts = slices.DeleteFunc(slices.Clone(e.Attempts),
		func(made readmodel.Attempt) bool { return !r.caller.sees(made.EndpointID) })
	return e, nil
}

// narrowedSteps returns the steps of an event that the caller may see, newest first. For a link for
// one endpoint, they start with the delivery's creation there and show no other endpoints. The
// history may contain that the event left an endpoint before it contains that it arrived at the
// next one.
func narrowedSteps(
	r *request, page readmodel.StepPage[domain.TrackedDelivery],
) readmodel.StepPage[domain.TrackedDelivery] {
	if r.caller.endpointID == "" {
		return page
	}
	for i := range page.Steps {
		step := &page.Steps[i]
		if !r.caller.sees(step.Fact.Aggregate) {
			return readmodel.StepPage[domain.TrackedDelivery]{Steps: page.Steps[:i]}
		}
		step.Before.MovedTo, step.After.MovedTo = "", ""
		if _, first := step.Fact.Body.(domain.DeliveryCreated); first {
			step.Before = domain.TrackedDelivery{}
			return readmodel.StepPage[domain.TrackedDelivery]{Steps: page.Steps[:i+1]}
		}
	}
	return page
}

// narrowedWatch hides the payment that fulfilled a watch from a link for one endpoint, because its
// event may have gone to a previous endpoint of the watch.
func narrowedWatch(r *request, w domain.Watch) domain.Watch {
	if r.caller.endpointID != "" {
		w.Fulfilled = domain.Fulfilment{}
	}
	return w
}

// narrowedWatchSteps returns the steps of a watch that the caller may see, newest first. For a link
// for one endpoint, they start when the watch got that endpoint and show nothing of its earlier
// state.
func narrowedWatchSteps(
	r *request, page readmodel.StepPage[domain.Watch],
) readmodel.StepPage[domain.Watch] {
	if r.caller.endpointID == "" {
		return page
	}
	for i := range page.Steps {
		step := &page.Steps[i]
		if !r.caller.sees(step.After.EndpointID) {
			return readmodel.StepPage[domain.Watch]{Steps: page.Steps[:i]}
		}
		step.After = narrowedWatch(r, step.After)
		if !r.caller.sees(step.Before.EndpointID) {
			step.Before = domain.Watch{}
			return readmodel.StepPage[domain.Watch]{Steps: page.Steps[:i+1]}
		}
		step.Before = narrowedWatch(r, step.Before)
	}
	return page
}

func (a *API) judgeLinkEndpoint(
	ctx context.Context, r *request, id string, faults *problem.Faults,
) error {
	if id == "" || faults.Any() {
		return nil
	}
	_, found, err := lookUp(ctx, a, "endpoint of a portal link",
		func() (domain.Endpoint, bool, error) { return a.ownEndpoint(r, id) })
	if err != nil {
		return fmt.Errorf("making a portal link: %w", err)
	}
	if !found {
		faults.Add("/endpointId", problem.FaultEndpointNotFound,
			"names no endpoint of your account: use the id of one that "+
				"`lumenhook endpoints list` or GET /v1/endpoints lists")
	}
	return nil
}
