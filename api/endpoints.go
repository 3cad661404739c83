package api

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of an endpoint's fields.
const (
	maxURLCharacters         = 2048
	maxDescriptionCharacters = 1024
	maxRatePerSecond         = 10_000
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
// headers whose value does not open. Of an answer of then, the master key's part
// that sealed it may be gone: a repeat shows all of it or nothing.
func (a *API) viewEndpoint(e domain.Endpoint, replayed bool) (endpointView, *Problem) {
	headers, lost, err := a.openHeaders(e)
	switch {
	case err != nil && replayed:
		return endpointView{}, sealedFor(err, replayed)
	case err != nil:
		a.Log.Warn("a header's value does not open with the master keys that there are", "endpoint", e.ID,
			"headers", lost, "error", err)
	}
	v := endpointView{
		ID:                  e.ID,
		URL:                 e.URL,
		Description:         e.Description,
		Headers:             headers,
		LostHeaders:         lost,
		Status:              e.Status,
		ConsecutiveFailures: e.ConsecutiveFailures,
		CreatedAt:           domain.FormatMillis(e.CreatedAtMillis),
		UpdatedAt:           domain.FormatMillis(e.UpdatedAtMillis),
	}
	if e.RateLimitPerSecond != 0 {
		v.RateLimitPerSecond = &e.RateLimitPerSecond
	}
	if e.DisabledReason != "" {
		v.DisabledReason = &e.DisabledReason
	}
	if e.DisabledAtMillis != 0 {
		at := domain.FormatMillis(e.DisabledAtMillis)
		v.DisabledAt = &at
	}
	return v, nil
}

// sealedFor answers when something cannot be opened. A repeat learns that the
// answer it asks for is forgotten: the key that sealed it may have been dropped.
func sealedFor(err error, replayed bool) *Problem {
	if !replayed {
		return internal(err)
	}
	p := newProblem(domain.CodeAlreadyExists,
		"The request was answered before, and that answer is forgotten: the master key was rotated "+
			"since. Read the object instead.").because(
		err,
	)
	p.replayed = true
	return p
}

// endpointFields is what a client sends to make or change an endpoint.
type endpointFields struct {
	url                string
	description        string
	headers            map[string]ownHeader
	rateLimitPerSecond int
	warnings           []string
}

func (a *API) createEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	id := domain.DeriveID(domain.EndpointPrefix, command.ID)
	fields, problem := a.readNewEndpoint(ctx, x, a.repeats(x, command.ID, func() (bool, error) {
		_, made, err := a.Directory.Endpoint(id)
		return made, err
	}))
	if problem != nil {
		return reply{}, problem
	}
	sealed, err := a.newSealedSecret(id)
	if err != nil {
		return reply{}, internal(err)
	}
	headers, err := a.sealHeaders(id, fields.headers, nil)
	if err != nil {
		return reply{}, internal(err)
	}
	command.Body = domain.CreateEndpoint{
		EndpointID:         id,
		AccountID:          x.caller.accountID,
		URL:                fields.url,
		Description:        fields.description,
		Headers:            headers,
		RateLimitPerSecond: fields.rateLimitPerSecond,
		SealedSecret:       sealed,
	}
	endpoint, replayed, problem := a.askEndpoint(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	secret, problem := a.currentSecret(*endpoint, replayed)
	if problem != nil {
		return reply{}, problem
	}
	shown, problem := a.viewEndpoint(*endpoint, replayed)
	if problem != nil {
		return reply{}, problem
	}
	view := endpointMade{shown, secret, a.answered.settle(x, command.ID, replayed, fields.warnings)}
	answer, problem := created("/v1/endpoints/"+endpoint.ID, replayed, view)
	answer.etag = etag(endpoint.Revision)
	return answer, problem
}

// repeats tells whether a creation was answered before, as far as this node
// knows: then what may have changed in the world since is no fault of it. The
// engine decides, and makes nothing anew.
func (a *API) repeats(x *exchange, commandID string, made func() (bool, error)) bool {
	if x.idempotencyKey == "" {
		return false
	}
	if a.answered.has(commandID) {
		return true
	}
	found, err := made()
	return err == nil && found
}

// maybeRepeats tells whether a change may have been answered before: this node
// remembers it, or what it names is gone and only the engine knows.
func (a *API) maybeRepeats(x *exchange, commandID string) bool {
	return x.missing != "" || x.idempotencyKey != "" && a.answered.has(commandID)
}

// askEndpoint submits a command that is answered with an endpoint, and waits
// until this node has read the change.
func (a *API) askEndpoint(
	ctx context.Context, x *exchange, c domain.Command,
) (*domain.Endpoint, bool, *Problem) {
	result, problem := a.submit(ctx, x, c)
	endpoint, problem := answerOf(result, problem, c, result.Answer.Endpoint)
	if problem == nil {
		// The revision, for attempts move the version of an endpoint and not its row.
		a.awaitAnswer(ctx, x, result, endpoint.ID, endpoint.Revision, a.Directory.AwaitEndpoint)
	}
	return endpoint, result.Replayed, problem
}

// currentSecret opens the secret of an answer, and not the one that this request
// made: a repeated request made another, which nobody keeps.
func (a *API) currentSecret(e domain.Endpoint, replayed bool) (string, *Problem) {
	if len(e.Secrets) == 0 {
		return "", internal(fmt.Errorf("the answer holds no secret of %s", e.ID))
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

var endpointFieldNames = []string{"url", "description", "headers", "rateLimitPerSecond"}

func (a *API) readNewEndpoint(
	ctx context.Context, x *exchange, repeated bool,
) (endpointFields, *Problem) {
	root, problem := parseJSON(x.body)
	if problem != nil {
		return endpointFields{}, problem
	}
	var f faults
	var fields endpointFields
	if o, ok := asObject(root, "", &f); ok {
		o.only(endpointFieldNames...)
		fields.url, fields.warnings, _ = a.readURL(ctx, o, repeated) // nothing is made twice
		fields.description = readFreeText(o, "description", maxDescriptionCharacters)
		fields.headers = readHeaders(o, nil)
		fields.rateLimitPerSecond, _ = o.integer("rateLimitPerSecond", 1, maxRatePerSecond)
	}
	return fields, f.problem()
}

// readURL reads a URL and has it judged. That of a repeat is taken for what it was
// judged to be then: unjudged tells of one that would be refused now.
func (a *API) readURL(
	ctx context.Context, o object, repeated bool,
) (url string, warnings []string, unjudged bool) {
	raw, ok := o.requiredText("url", maxURLCharacters)
	if !ok {
		return "", nil, false
	}
	if refuseSecret(o, "url", raw) {
		return "", nil, false
	}
	normalised, warnings, urlFaults := a.URLs.Check(ctx, raw)
	if repeated && len(urlFaults) > 0 {
		return raw, nil, true
	}
	for _, fault := range urlFaults {
		o.fault("url", fault.Code, fault.Detail)
	}
	return normalised, warnings, false
}

// readFreeText reads a text that people write for themselves.
func readFreeText(o object, name string, maxCharacters int) string {
	s, ok := o.text(name, maxCharacters)
	if ok {
		refuseSecret(o, name, s)
	}
	return s
}

// refuseSecret adds a fault if a secret slipped into a text, which is shown again
// and kept in the clear.
func refuseSecret(o object, name, text string) bool {
	if !holdsSecret(text) {
		return false
	}
	o.fault(name, faultSecretTextRefused,
		"holds what looks like a secret: leave it out, and treat the secret as exposed")
	return true
}

func (a *API) getEndpoint(_ context.Context, x *exchange) (reply, *Problem) {
	return a.endpointReply(x.endpoint, false)
}

// endpointReply answers with an endpoint.
func (a *API) endpointReply(e domain.Endpoint, replayed bool) (reply, *Problem) {
	view, problem := a.viewEndpoint(e, replayed)
	if problem != nil {
		return reply{}, problem
	}
	answer, problem := jsonReply(http.StatusOK, view)
	answer.etag, answer.replayed = etag(e.Revision), replayed
	return answer, problem
}

func (a *API) listEndpoints(_ context.Context, x *exchange) (reply, *Problem) {
	q := newQuery(x, "status")
	f := EndpointFilter{
		AccountID: x.caller.accountID,
		Status:    oneOf(q, "status", domain.StatusActive, domain.StatusDisabled),
	}
	after, limit, problem := a.page(x, q)
	if problem != nil {
		return reply{}, problem
	}
	page, next, err := a.Directory.Endpoints(f, after, limit)
	if err != nil {
		return reply{}, internal(fmt.Errorf("listing endpoints: %w", err))
	}
	views := make([]endpointView, len(page))
	for i, e := range page {
		if views[i], problem = a.viewEndpoint(e, false); problem != nil {
			return reply{}, problem
		}
	}
	return listReply(a, x, q, views, next)
}

func (a *API) updateEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	change, warnings, problem := a.readEndpointChange(ctx, x, a.maybeRepeats(x, command.ID))
	if problem != nil {
		return reply{}, problem
	}
	command.Body = domain.UpdateEndpoint{
		EndpointID: x.endpoint.ID,
		IfRevision: change.ifRevision,
		Change:     change.EndpointChange,
	}
	endpoint, replayed, problem := a.askEndpoint(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	shown, problem := a.viewEndpoint(*endpoint, replayed)
	if problem != nil {
		return reply{}, problem
	}
	view := endpointChanged{shown, a.answered.settle(x, command.ID, replayed, warnings)}
	answer, problem := jsonReply(http.StatusOK, view)
	answer.etag, answer.replayed = etag(endpoint.Revision), replayed
	return answer, problem
}

// endpointPatch is a change and the revision that it was made out of.
type endpointPatch struct {
	domain.EndpointChange
	ifRevision uint64
}

// readEndpointChange reads a merge patch: what it names changes, null makes it
// what it is by default.
func (a *API) readEndpointChange(
	ctx context.Context, x *exchange, repeated bool,
) (endpointPatch, []string, *Problem) {
	change := endpointPatch{ifRevision: x.ifMatch.revision(x.endpoint.Revision)}
	if x.missing != "" {
		change.ifRevision = noRevision // it must be a repeat, or come to nothing
	}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return change, nil, problem
	}
	var f faults
	var warnings []string
	o, ok := asObject(root, "", &f)
	if !ok {
		return change, nil, f.problem()
	}
	o.only(endpointFieldNames...)
	if o.names("url") {
		var url string
		var unjudged bool
		url, warnings, unjudged = a.readURL(ctx, o, repeated)
		change.URL = &url
		if unjudged {
			change.ifRevision = noRevision // it must be a repeat, or come to nothing
		}
	}
	if o.names("description") {
		description := readFreeText(o, "description", maxDescriptionCharacters)
		change.Description = &description
	}
	if o.names("headers") {
		wanted := readHeaders(o, x.endpoint.Headers)
		headers, err := a.sealHeaders(x.endpoint.ID, wanted, x.endpoint.Headers)
		if err != nil {
			return change, nil, internal(err)
		}
		change.Headers = &headers
		if _, merged := o.get("headers"); merged && change.ifRevision == 0 {
			change.ifRevision = x.endpoint.Revision // merged into what was read: it must still be that
		}
	}
	if o.names("rateLimitPerSecond") {
		limit, _ := o.integer("rateLimitPerSecond", 1, maxRatePerSecond)
		change.RateLimitPerSecond = &limit
	}
	return change, warnings, f.problem()
}

func (a *API) deleteEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	id := x.endpoint.ID
	return a.delete(ctx, x,
		domain.DeleteEndpoint{EndpointID: id, IfRevision: x.ifMatch.revision(x.endpoint.Revision)},
		func(ctx context.Context) error {
			return a.Directory.AwaitEndpointGone(ctx, id)
		})
}

// delete submits a deletion and waits until this node has read it.
func (a *API) delete(
	ctx context.Context, x *exchange, body domain.CommandBody,
	gone func(context.Context) error,
) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = body
	result, problem := a.submit(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	a.await(ctx, x, body.Aggregate(), 0,
		func(ctx context.Context, _ string, _ uint64) error { return gone(ctx) })
	return reply{status: http.StatusNoContent, replayed: result.Replayed}, nil
}

func (a *API) enableEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	return a.changeEndpoint(ctx, x,
		domain.EnableEndpoint{
			EndpointID: x.endpoint.ID,
			IfRevision: x.ifMatch.revision(x.endpoint.Revision),
		})
}

func (a *API) disableEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	return a.changeEndpoint(ctx, x,
		domain.DisableEndpoint{
			EndpointID: x.endpoint.ID,
			IfRevision: x.ifMatch.revision(x.endpoint.Revision),
		})
}

// changeEndpoint submits a command and answers with the endpoint as it left it.
func (a *API) changeEndpoint(
	ctx context.Context, x *exchange, body domain.CommandBody,
) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = body
	endpoint, replayed, problem := a.askEndpoint(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	return a.endpointReply(*endpoint, replayed)
}

func (a *API) rotateSecret(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	sealed, err := a.newSealedSecret(x.endpoint.ID)
	if err != nil {
		return reply{}, internal(err)
	}
	command.Body = domain.RotateSecret{
		EndpointID:   x.endpoint.ID,
		IfRevision:   x.ifMatch.revision(x.endpoint.Revision),
		SealedSecret: sealed,
	}
	endpoint, replayed, problem := a.askEndpoint(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	secret, problem := a.currentSecret(*endpoint, replayed)
	if problem != nil {
		return reply{}, problem
	}
	shown, problem := a.viewEndpoint(*endpoint, replayed)
	if problem != nil {
		return reply{}, problem
	}
	answer, problem := jsonReply(http.StatusOK, endpointRotated{shown, secret})
	answer.etag, answer.replayed = etag(endpoint.Revision), replayed
	return answer, problem
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

func (a *API) testEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = domain.TestEndpoint{EndpointID: x.endpoint.ID}
	result, problem := a.submit(ctx, x, command)
	made, problem := answerOf(result, problem, command, result.Answer.Test)
	if problem != nil {
		return reply{}, problem
	}
	shown := viewAttempt(AttemptRecord{Result: made.Result})
	answer, problem := jsonReply(http.StatusOK,
		testView{made.EventID, testAttemptView{shown.StatusCode, shown.DurationMs, shown.Error}})
	answer.replayed = result.Replayed
	return answer, problem
}

// replayView is what a replay did.
type replayView struct {
	Queued    int  `json:"queued"`
	Matched   int  `json:"matched"`
	Truncated bool `json:"truncated"`
}

func (a *API) replayEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	body, problem := readReplay(x)
	if problem != nil {
		return reply{}, problem
	}
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	command.Body = body
	result, problem := a.submit(ctx, x, command)
	made, problem := answerOf(result, problem, command, result.Answer.Replay)
	if problem != nil {
		return reply{}, problem
	}
	answer, problem := jsonReply(http.StatusOK, replayView{made.Queued, made.Matched, made.Truncated})
	answer.replayed = result.Replayed
	return answer, problem
}

func readReplay(x *exchange) (domain.ReplayEndpoint, *Problem) {
	body := domain.ReplayEndpoint{EndpointID: mux.Vars(x.request)["id"]}
	root, problem := parseJSON(x.body)
	if problem != nil {
		return body, problem
	}
	var f faults
	if o, ok := asObject(root, "", &f); ok {
		o.only("since", "until")
		var untilGiven bool
		if _, given := o.get("since"); !given {
			o.fault("since", faultRequired,
				"is required: failed deliveries that were created at that time or later are queued again")
		}
		body.SinceMillis, _ = o.time("since")
		body.UntilMillis, untilGiven = o.time("until")
		if untilGiven && len(f.list) == 0 && body.UntilMillis <= body.SinceMillis {
			o.fault("until", faultRangeIsEmpty, "must be later than since")
		}
	}
	return body, f.problem()
}
