package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// endpointView is an endpoint as the API shows it. Its secrets are not part of
// it.
type endpointView struct {
	ID                  string                 `json:"id"`
	URL                 string                 `json:"url"`
	Description         string                 `json:"description"`
	Headers             map[string]string      `json:"headers"`
	LostHeaders         []string               `json:"lostHeaders,omitempty"`
	RateLimitPerSecond  *int                   `json:"rateLimitPerSecond"`
	Status              domain.EndpointStatus  `json:"status"`
	DisabledReason      *domain.DisabledReason `json:"disabledReason"`
	DisabledAt          *string                `json:"disabledAt"`
	ConsecutiveFailures int                    `json:"consecutiveFailures"`
	CreatedAt           string                 `json:"createdAt"`
	UpdatedAt           string                 `json:"updatedAt"`
}

// endpointMade is an endpoint as its creation answers with it.
type endpointMade struct {
	endpointView
	Secret   string   `json:"secret"`
	Warnings []string `json:"warnings"`
}

// endpointChanged is an endpoint as its update answers with it.
type endpointChanged struct {
	endpointView
	Warnings []string `json:"warnings"`
}

// endpointRotated is an endpoint with its new secret.
type endpointRotated struct {
	endpointView
	Secret string `json:"secret"`
}

// viewEndpoint puts an endpoint into the form of the API, with the names of the
// headers whose value does not open.
func (a *API) viewEndpoint(e domain.Endpoint) (endpointView, error) {
	return a.viewAnswer(e, false)
}

// viewAnswer is viewEndpoint for the answer to a command. Of an answer of then, the
// master key's part that sealed it may be gone: a repeat shows all of it or nothing.
func (a *API) viewAnswer(e domain.Endpoint, replayed bool) (endpointView, error) {
	headers, lost, err := a.openHeaders(e)
	switch {
	case err != nil && replayed:
		return endpointView{}, sealedFor(err, replayed)
	case err != nil:
		a.Log.Warn("a header's value does not open with the master keys that there are", "endpoint", e.ID,
			"headers", lost, "error", err)
	}
	return endpointView{
		ID:                  e.ID,
		URL:                 e.URL,
		Description:         e.Description,
		Headers:             headers,
		LostHeaders:         lost,
		RateLimitPerSecond:  unlessZero(e.RateLimitPerSecond),
		Status:              e.Status,
		DisabledReason:      unlessZero(e.DisabledReason),
		DisabledAt:          instant(e.DisabledAtMillis),
		ConsecutiveFailures: e.ConsecutiveFailures,
		CreatedAt:           domain.FormatMillis(e.CreatedAtMillis),
		UpdatedAt:           domain.FormatMillis(e.UpdatedAtMillis),
	}, nil
}

// sealedFor answers when something cannot be opened. A repeat learns that the
// answer it asks for is forgotten: the key that sealed it may have been dropped.
func sealedFor(err error, replayed bool) error {
	if !replayed {
		return err
	}
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
	warnings, _ := a.judgeURL(ctx, body.URL, repeated, faults) // nothing is made twice
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	sealed, err := a.newSealedSecret(id)
	if err != nil {
		return reply{}, err
	}
	headers, err := a.sealHeaders(id, *body.headers, nil)
	if err != nil {
		return reply{}, err
	}
	answer, endpoint, err := a.askEndpoint(ctx, r, domain.CreateEndpoint{
		EndpointID:         id,
		AccountID:          r.caller.accountID,
		URL:                *body.URL,
		Description:        *body.Description,
		Headers:            headers,
		RateLimitPerSecond: *body.RateLimitPerSecond,
		SealedSecret:       sealed,
	})
	if err != nil {
		return reply{}, err
	}
	secret, err := a.currentSecret(*endpoint, answer.replayed)
	if err != nil {
		return reply{}, err
	}
	shown, err := a.viewAnswer(*endpoint, answer.replayed)
	answer.view = endpointMade{shown, secret, a.warnings.settle(r, answer.replayed, warnings)}
	answer.status, answer.location = http.StatusCreated, "/v1/endpoints/"+endpoint.ID
	return answer, err
}

// askEndpoint submits a command that is answered with an endpoint, and waits
// until this node has read the change. The answer lacks its view.
func (a *API) askEndpoint(
	ctx context.Context, r *request, body domain.CommandBody,
) (reply, *domain.Endpoint, error) {
	result, err := a.submit(ctx, r, body)
	endpoint, err := partOf(result, err, result.Answer.Endpoint)
	if err != nil {
		return reply{}, nil, err
	}
	// The revision, for attempts move the version of an endpoint and not its row.
	a.awaitAnswer(ctx, r, result, endpoint.ID, endpoint.Revision, a.Directory.AwaitEndpoint)
	return reply{etag: decode.ETag(endpoint.Revision), replayed: result.Replayed}, endpoint, nil
}

// currentSecret opens the secret of an answer, and not the one that this request
// made: a repeated request made another, which nobody keeps.
func (a *API) currentSecret(e domain.Endpoint, replayed bool) (string, error) {
	if len(e.Secrets) == 0 {
		return "", fmt.Errorf("the answer holds no secret of %s", e.ID)
	}
	secret, err := a.Sealer.Open(e.Secrets[0].Sealed, e.ID)
	if err != nil {
		return "", sealedFor(fmt.Errorf("opening the secret of %s: %w", e.ID, err), replayed)
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

// judgeURL decides whether a URL may be sent to, and puts it into its normal form. That
// of a repeat is taken for what it was judged to be then: unjudged reports that it would
// be refused now.
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

func (a *API) getEndpoint(_ context.Context, r *request) (reply, error) {
	view, err := a.viewEndpoint(r.endpoint)
	return reply{view: view, etag: decode.ETag(r.endpoint.Revision)}, err
}

func (a *API) listEndpoints(_ context.Context, r *request) (reply, error) {
	q := newListQuery(r, "status")
	f := EndpointFilter{
		AccountID: r.caller.accountID,
		Status:    decode.OneOf(q, "status", domain.StatusActive, domain.StatusDisabled),
	}
	after, limit, err := a.page(r, q)
	if err != nil {
		return reply{}, err
	}
	page, next, err := a.Directory.Endpoints(f, after, limit)
	if err != nil {
		return reply{}, fmt.Errorf("listing endpoints: %w", err)
	}
	return list(a, r, q, page, next, a.viewEndpoint)
}

func (a *API) updateEndpoint(ctx context.Context, r *request) (reply, error) {
	body, faults := decodeEndpointPatch(r.body, r.endpoint)
	warnings, unjudged := a.judgeURL(ctx, body.URL, a.mayRepeatChange(r), faults)
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	update := domain.UpdateEndpoint{
		EndpointID: r.subjectID,
		IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
		Change:     body.EndpointChange,
	}
	if body.headers != nil {
		headers, err := a.sealHeaders(r.subjectID, *body.headers, r.endpoint.Headers)
		if err != nil {
			return reply{}, err
		}
		update.Change.Headers = &headers
		if *body.headers != nil && update.IfRevision == 0 {
			update.IfRevision = r.endpoint.Revision // merged into what was read: it must still be that
		}
	}
	if r.missing != "" || unjudged {
		update.IfRevision = decode.NoRevision // it must be a repeat, or come to nothing
	}
	answer, endpoint, err := a.askEndpoint(ctx, r, update)
	if err != nil {
		return reply{}, err
	}
	shown, err := a.viewAnswer(*endpoint, answer.replayed)
	answer.view = endpointChanged{shown, a.warnings.settle(r, answer.replayed, warnings)}
	return answer, err
}

func (a *API) deleteEndpoint(ctx context.Context, r *request) (reply, error) {
	return a.delete(ctx, r,
		domain.DeleteEndpoint{
			EndpointID: r.subjectID,
			IfRevision: r.ifMatch.Revision(r.endpoint.Revision),
		},
		a.Directory.AwaitEndpointGone)
}

// delete submits a deletion and waits until this node has read it.
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

// changeEndpoint submits a command and answers with the endpoint as it left it.
func (a *API) changeEndpoint(
	ctx context.Context, r *request, body domain.CommandBody,
) (reply, error) {
	answer, endpoint, err := a.askEndpoint(ctx, r, body)
	if err != nil {
		return reply{}, err
	}
	answer.view, err = a.viewAnswer(*endpoint, answer.replayed)
	return answer, err
}

func (a *API) rotateSecret(ctx context.Context, r *request) (reply, error) {
	sealed, err := a.newSealedSecret(r.subjectID)
	if err != nil {
		return reply{}, err
	}
	answer, endpoint, err := a.askEndpoint(ctx, r, domain.RotateSecret{
		EndpointID:   r.subjectID,
		IfRevision:   r.ifMatch.Revision(r.endpoint.Revision),
		SealedSecret: sealed,
	})
	if err != nil {
		return reply{}, err
	}
	secret, err := a.currentSecret(*endpoint, answer.replayed)
	if err != nil {
		return reply{}, err
	}
	shown, err := a.viewAnswer(*endpoint, answer.replayed)
	answer.view = endpointRotated{shown, secret}
	return answer, err
}

// testView is the first attempt of a test (specification, "Attempt result").
type testView struct {
	EventID string          `json:"eventId"`
	Attempt testAttemptView `json:"attempt"`
}

type testAttemptView struct {
	StatusCode *int                 `json:"statusCode"`
	DurationMs int64                `json:"durationMs"`
	Error      *domain.AttemptError `json:"error"`
}

func (a *API) testEndpoint(ctx context.Context, r *request) (reply, error) {
	result, err := a.submit(ctx, r, domain.TestEndpoint{EndpointID: r.subjectID})
	made, err := partOf(result, err, result.Answer.Test)
	if err != nil {
		return reply{}, err
	}
	shown := viewAttempt(AttemptRecord{Result: made.Result})
	view := testView{made.EventID, testAttemptView{shown.StatusCode, shown.DurationMs, shown.Error}}
	return reply{view: view, replayed: result.Replayed}, nil
}

// replayView is what a replay did.
type replayView struct {
	Queued    int  `json:"queued"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
}

func (a *API) replayEndpoint(ctx context.Context, r *request) (reply, error) {
	body, faults := decodeReplay(r.body)
	if err := faults.Err(); err != nil {
		return reply{}, err
	}
	body.EndpointID = r.subjectID
	result, err := a.submit(ctx, r, body)
	made, err := partOf(result, err, result.Answer.Replay)
	if err != nil {
		return reply{}, err
	}
	return reply{view: replayView(*made), replayed: result.Replayed}, nil
}
