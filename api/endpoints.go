package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

func (a *API) showEndpoint(e domain.Endpoint) client.Endpoint {
	view := viewEndpoint(e, a.lostHeaders(e))
	view.SecretsUntil = previousSecretUntil(e.Secrets)
	return view
}

// forgotten returns the problem for a retry whose answer cannot be decrypted, because the key that
// sealed it may have been dropped.
func forgotten(err error) error {
	p := problem.New(domain.CodeAlreadyExists,
		"The request was answered before, and that answer is forgotten: the master key was rotated "+
			"since. Read the object instead.").Because(err)
	p.Replayed = true
	return p
}

func (a *API) createEndpoint(ctx context.Context, r *request) (reply, error) {
	id := domain.DeriveID(domain.EndpointPrefix, r.commandID)
	body, faults := decodeNewEndpoint(r.body)
	repeated := a.repeatsCreation(r, func() (bool, error) {
		_, made, err := a.Directory.Endpoint(id)
		return made, err
	})
	warnings, _ := a.judgeURL(ctx, body.URL, repeated, faults) // nothing is created twice
	a.judgeSignatures(body.Signatures, 0, repeated, faults)
	if err := a.judgeNoticesTo(ctx, r, body.NoticesTo, id, repeated, faults); err != nil {
		return reply{}, err
	}
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	create := body.create(id, r.caller.accountID)
	var err error
	if create.SealedSecret, err = a.newSealedSecret(id); err != nil {
		return reply{}, err
	}
	if create.Headers, err = a.sealHeaders(id, *body.headers, nil); err != nil {
		return reply{}, err
	}
	made := domain.Endpoint{ID: id, EndpointSettings: create.EndpointSettings}
	if err := a.withinQuota(r, repeated, endpointCounts(made), domain.Counts{}); err != nil {
		return reply{}, err
	}
	answer, shown, err := a.submitForEndpoint(ctx, r, create)
	if err != nil {
		return reply{}, err
	}
	shown.Warnings = a.warnings.settle(r, answer.replayed, warnings)
	shown.WarningDetails = client.WarningDetails(shown.Warnings)
	answer.view = shown
	answer.status, answer.location = http.StatusCreated, "/v1/endpoints/"+id
	return answer, nil
}

// submitForEndpoint submits a command that returns an endpoint, and waits until this node has read
// the change. It does not set the reply's view.
func (a *API) submitForEndpoint(
	ctx context.Context, r *request, body domain.CommandBody,
) (reply, client.Endpoint, error) {
	result, err := a.submit(ctx, r, body)
	e, err := partOf(result, err, result.Answer.Endpoint)
	if err != nil {
		return reply{}, client.Endpoint{}, err
	}
	// Wait for the revision: attempts increment an endpoint's version, but not its row's.
	a.awaitAnswer(ctx, r, result, e.ID, e.Revision, a.Directory.AwaitEndpoint)
	shown := a.showEndpoint(*e)
	switch body.(type) {
	case domain.CreateEndpoint, domain.RotateSecret:
		shown.Secret, err = a.currentSecret(*e)
	default: // other commands create no secret
	}
	if err != nil && result.Replayed {
		err = forgotten(err)
	}
	return reply{etag: decode.ETag(e.Revision), replayed: result.Replayed}, shown, err
}

// currentSecret decrypts the secret in an answer. It may not be this request's secret: a retry
// generates another one, which is discarded.
func (a *API) currentSecret(e domain.Endpoint) (string, error) {
	if len(e.Secrets) == 0 {
		return "", fmt.Errorf("the answer holds no secret of %s", e.ID)
	}
	secret, err := a.Sealer.Open(e.Secrets[0].Sealed, e.ID)
	if err != nil {
		return "", fmt.Errorf("opening the secret of %s: %w", e.ID, err)
	}
	return string(secret), nil
}

func (a *API) newSealedSecret(endpointID string) ([]byte, error) {
	var entropy [32]byte
	if _, err := io.ReadFull(a.Entropy, entropy[:]); err != nil {
		return nil, fmt.Errorf("drawing the secret of an endpoint: %w", err)
	}
	sealed, err := a.Sealer.Seal([]byte(domain.NewSecret(entropy)), endpointID)
	if err != nil {
		return nil, fmt.Errorf("sealing the secret of an endpoint: %w", err)
	}
	return sealed, nil
}

// judgeURL checks whether events may be sent to a URL, and normalizes it. For a retry, the first
// result counts: unjudged reports that the URL would be refused now.
func (a *API) judgeURL(
	ctx context.Context, url *string, repeated bool, faults *problem.Faults,
) (warnings []string, unjudged bool) {
	if url == nil {
		return nil, false
	}
	normalised, warnings, urlFaults := a.URLs.Check(ctx, *url)
	if repeated && len(urlFaults) > 0 {
		return nil, true
	}
	for _, fault := range urlFaults {
		faults.Add("/url", fault.Code, fault.Detail)
	}
	*url = normalised
	return warnings, false
}

func (a *API) getEndpoint(ctx context.Context, r *request) (reply, error) {
	one := []domain.Endpoint{r.endpoint}
	view := a.showHealth(r.endpoint, a.healthOf(ctx, r, one, healthMax))
	return reply{view: view, etag: decode.ETag(r.endpoint.Revision)}, nil
}

func (a *API) listEndpoints(ctx context.Context, r *request) (reply, error) {
	q := newListQuery(r, "status", "sort")
	f := readmodel.EndpointFilter{
		AccountID: r.caller.accountID,
		Status:    decode.OneOf(q, "status", domain.StatusActive, domain.StatusDisabled),
	}
	worst := decode.OneOf(q, "sort", "created", "health") == "health"
	after, limit, err := a.page(r, q)
	if err != nil {
		return reply{}, err
	}
	var page []domain.Endpoint
	var next *readmodel.Position
	var h health
	if worst {
		page, next, h, err = a.worstFirst(ctx, r, f, after, limit)
	} else if page, next, err = a.endpointsOf(r, f, after, limit); err == nil {
		h = a.healthOf(ctx, r, page, healthMaxListed)
	}
	if err != nil {
		return reply{}, fmt.Errorf("listing endpoints: %w", err)
	}
	place := func(e domain.Endpoint) readmodel.Position {
		if worst {
			return h.place(e)
		}
		return readmodel.Position{CreatedAtMillis: e.CreatedAtMillis, ID: e.ID}
	}
	return list(a, r, q, page, next, place, func(e domain.Endpoint) (shownEndpoint, error) {
		return a.showHealth(e, h), nil
	})
}

func (a *API) updateEndpoint(ctx context.Context, r *request) (reply, error) {
	body, faults := decodeEndpointPatch(r.body, r.endpoint, decode.Shown{
		Object: encoded(a.showEndpoint(r.endpoint)),
		Changing: []string{
			"updatedAt", "consecutiveFailures", "health", "healthUnavailable", "warnings",
			"warningDetails", "previousSecretUntil",
		},
		Repeated: a.mayRepeatChange(r),
	})
	warnings, unjudged := a.judgeURL(ctx, body.URL, a.mayRepeatChange(r), faults)
	a.judgeSignatures(body.Signatures, r.endpoint.Signatures, a.mayRepeatChange(r), faults)
	if err := a.judgeNoticesTo(ctx, r, body.NoticesTo, r.subjectID, a.mayRepeatChange(r),
		faults); err != nil {
		return reply{}, err
	}
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	update := domain.UpdateEndpoint{
		EndpointID: r.subjectID,
		IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
		Change:     body.EndpointChange,
	}
	for _, name := range body.droppedHeaders(r.endpoint) {
		warnings = append(warnings, "HEADER_DROPPED:"+name)
	}
	if body.headers != nil {
		have := r.endpoint.Headers
		if body.moves(r.endpoint) {
			have = nil // seal values again: the engine drops those that are only kept
		}
		headers, err := a.sealHeaders(r.subjectID, *body.headers, have)
		if err != nil {
			return reply{}, err
		}
		update.Change.Headers = &headers
		if *body.headers != nil && update.IfRevision == 0 {
			update.IfRevision = r.endpoint.Revision // the revision that the headers were merged into
		}
	}
	if r.missing != "" || unjudged {
		update.IfRevision = decode.NoRevision // must be a retry, or have no effect
	}
	then := endpointCounts(r.endpoint.With(update.Change))
	if err := a.withinQuota(r, a.mayRepeatChange(r), then, endpointCounts(r.endpoint)); err != nil {
		return reply{}, err
	}
	answer, shown, err := a.submitForEndpoint(ctx, r, update)
	if err != nil {
		return reply{}, err
	}
	shown.Warnings = a.warnings.settle(r, answer.replayed, warnings)
	shown.WarningDetails = client.WarningDetails(shown.Warnings)
	answer.view = shown
	return answer, nil
}

// judgeNoticesTo adds a fault if the endpoint that receives notices is the endpoint itself or does
// not belong to the account. If that endpoint is deleted later, notices stop without further
// consequences.
func (a *API) judgeNoticesTo(
	ctx context.Context, r *request, noticesTo *string, ofEndpoint string, repeated bool,
	faults *problem.Faults,
) error {
	if noticesTo == nil || *noticesTo == "" || repeated {
		return nil
	}
	if *noticesTo == ofEndpoint {
		faults.Add("/noticesTo", problem.FaultInvalidValue,
			"must be another endpoint: one that fails cannot be told that it does")
		return nil
	}
	_, found, err := lookUp(ctx, a, "endpoint that is told", func() (domain.Endpoint, bool, error) {
		return a.ownEndpoint(r, *noticesTo)
	})
	if err == nil && !found {
		faults.Add("/noticesTo", problem.FaultEndpointNotFound,
			"names no endpoint of your account: create one with POST /v1/endpoints and use its id")
	}
	return err
}

// deleteEndpoint deletes an endpoint even if watches use it. Events of those watches are delivered
// once they have another endpoint. Clients can ask to refuse the deletion instead.
func (a *API) deleteEndpoint(ctx context.Context, r *request) (reply, error) {
	const parameter = "ifWatched"
	q := decode.NewQuery(r.http.URL, parameter)
	refuse := q.Text(parameter) == "refuse"
	if given := q.Get(parameter); given != "" && given != "delete" && !refuse {
		q.Fault(parameter, problem.FaultInvalidValue, "must be delete or refuse")
	}
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	view := client.DeletedEndpoint{ID: r.subjectID}
	left := &view.LeftWatches
	var err error
	left.Total, left.IDs, err = a.Directory.LeftWatches(r.caller.accountID, r.subjectID)
	if err != nil {
		return reply{}, err
	}
	if refuse && left.Total > 0 {
		return reply{}, problem.New(problem.CodeEndpointWatched, fmt.Sprintf("%d watches use the "+
			"endpoint, such as %s. Give them another endpoint, or delete them first.", left.Total,
			left.IDs[0]))
	}
	deleted, err := a.delete(ctx, r,
		domain.DeleteEndpoint{
			EndpointID: r.subjectID,
			IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
		},
		a.Directory.AwaitEndpointGone)
	deleted.status, deleted.view = http.StatusOK, view
	return deleted, err
}

func (a *API) delete(
	ctx context.Context, r *request, body domain.CommandBody,
	gone func(context.Context, string) error,
) (reply, error) {
	result, err := a.submit(ctx, r, body)
	if err != nil {
		return reply{}, err
	}
	a.await(ctx, r, r.subjectID, func(ctx context.Context) error { return gone(ctx, r.subjectID) })
	return reply{status: http.StatusNoContent, replayed: result.Replayed}, nil
}

func (a *API) enableEndpoint(ctx context.Context, r *request) (reply, error) {
	return a.changeEndpoint(ctx, r, domain.EnableEndpoint{
		EndpointID: r.subjectID,
		IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
	})
}

func (a *API) disableEndpoint(ctx context.Context, r *request) (reply, error) {
	return a.changeEndpoint(ctx, r, domain.DisableEndpoint{
		EndpointID: r.subjectID,
		IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
	})
}

func (a *API) rotateSecret(ctx context.Context, r *request) (reply, error) {
	sealed, err := a.newSealedSecret(r.subjectID)
	if err != nil {
		return reply{}, err
	}
	return a.changeEndpoint(ctx, r, domain.RotateSecret{
		EndpointID:   r.subjectID,
		IfRevision:   r.ifMatch.Revision(r.endpoint.Revision),
		SealedSecret: sealed,
	})
}

// rotateSigningKey gives the endpoint a new Ed25519 key. Of two concurrent requests, only one
// rotates.
func (a *API) rotateSigningKey(ctx context.Context, r *request) (reply, error) {
	return a.changeEndpoint(ctx, r, domain.UpdateEndpoint{
		EndpointID: r.subjectID,
		IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
		Change:     domain.EndpointChange{SigningKey: pointer(r.endpoint.SigningKey + 1)},
	})
}

func (a *API) changeEndpoint(
	ctx context.Context, r *request, body domain.CommandBody,
) (reply, error) {
	answer, shown, err := a.submitForEndpoint(ctx, r, body)
	answer.view = shown
	return answer, err
}

func decodeTest(r *request) (body domain.TestEndpoint, err error) {
	body.EndpointID = r.subjectID
	if len(r.body) == 0 {
		return body, nil
	}
	faults := decode.Object(r.body, decode.Field{Name: "type", Read: func(v decode.Value) {
		switch asked, given := v.Text(maxFilterCharacters); {
		case !given, asked == string(domain.TestPing):
		case asked == string(domain.PaymentReceived):
			body.Sample = domain.PaymentReceived
		default:
			v.Fault(problem.FaultInvalidValue, "must be test.ping or payment.received")
		}
	}})
	return body, faults.Err()
}

func (a *API) testEndpoint(ctx context.Context, r *request) (reply, error) {
	body, err := decodeTest(r)
	if err == nil {
		err = a.tests.within(r.caller.holder(), "test an endpoint")
	}
	if err != nil {
		return reply{}, err
	}
	result, err := a.submit(ctx, r, body)
	made, err := partOf(result, err, result.Answer.Test)
	if err != nil {
		return reply{}, err
	}
	shown := viewAttempt(readmodel.Attempt{Result: made.Result})
	view := client.TestResult{EventID: made.EventID, Attempt: client.TestAttempt{
		StatusCode:  shown.StatusCode,
		DurationMs:  shown.DurationMs,
		Error:       shown.Error,
		ErrorDetail: shown.ErrorDetail,

		ResponseBody: shown.ResponseBody,
	}}
	return reply{view: view, replayed: result.Replayed}, nil
}
