package api

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of an endpoint's fields.
const (
	maxURLCharacters         = 2048
	maxDescriptionCharacters = 1024
)

// endpointView is an endpoint as its creation answers with it.
type endpointView struct {
	ID                  string                `json:"id"`
	URL                 string                `json:"url"`
	Description         string                `json:"description"`
	Status              domain.EndpointStatus `json:"status"`
	DisabledReason      *string               `json:"disabledReason"`
	DisabledAt          *string               `json:"disabledAt"`
	ConsecutiveFailures int                   `json:"consecutiveFailures"`
	CreatedAt           string                `json:"createdAt"`
	UpdatedAt           string                `json:"updatedAt"`
	Secret              string                `json:"secret"`
	Warnings            []string              `json:"warnings"`
}

// viewEndpoint puts an endpoint into the form of the API. No endpoint can be
// disabled yet, so there is neither reason nor time of it to show.
func viewEndpoint(e domain.Endpoint) endpointView {
	return endpointView{
		ID: e.ID, URL: e.URL, Description: e.Description, Status: e.Status, ConsecutiveFailures: e.ConsecutiveFailures,
		CreatedAt: domain.FormatMillis(e.CreatedAtMillis), UpdatedAt: domain.FormatMillis(e.UpdatedAtMillis),
	}
}

// endpointFields is what a client sends to make an endpoint.
type endpointFields struct {
	url         string
	description string
	warnings    []string
}

func (a *API) createEndpoint(ctx context.Context, x *exchange) (reply, *Problem) {
	fields, problem := a.readEndpoint(ctx, x.body)
	if problem != nil {
		return reply{}, problem
	}
	command, problem := a.newCommand(x)
	if problem != nil {
		return reply{}, problem
	}
	id := domain.DeriveID(domain.EndpointPrefix, command.ID)
	sealed, err := a.newSealedSecret(id)
	if err != nil {
		return reply{}, internal(err)
	}
	command.Body = domain.CreateEndpoint{
		EndpointID: id, AccountID: x.caller.accountID, URL: fields.url, Description: fields.description, SealedSecret: sealed,
	}
	result, problem := a.submit(ctx, x, command)
	if problem != nil {
		return reply{}, problem
	}
	endpoint := result.Answer.Endpoint
	if endpoint == nil || len(endpoint.Secrets) == 0 {
		return reply{}, internal(errors.New("the answer to CreateEndpoint holds no endpoint with a secret"))
	}
	a.await(ctx, x, endpoint.ID, endpoint.Version, a.Directory.AwaitEndpoint)
	// The secret of the answer, not the one made above: a repeated request made
	// another, which nobody keeps.
	secret, err := a.Sealer.Open(endpoint.Secrets[0].Sealed, endpoint.ID)
	if err != nil {
		return reply{}, internal(fmt.Errorf("opening the secret of %s: %w", endpoint.ID, err))
	}
	view := viewEndpoint(*endpoint)
	view.Secret, view.Warnings = string(secret), fields.warnings
	return created("/v1/endpoints/"+endpoint.ID, result.Replayed, view)
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

func (a *API) readEndpoint(ctx context.Context, body []byte) (endpointFields, *Problem) {
	root, problem := parseJSON(body)
	if problem != nil {
		return endpointFields{}, problem
	}
	var f faults
	var fields endpointFields
	if o, ok := asObject(root, "", &f); ok {
		o.only("url", "description")
		fields.url, fields.warnings = a.readURL(ctx, o)
		fields.description = readFreeText(o, "description", maxDescriptionCharacters)
	}
	return fields, f.problem()
}

func (a *API) readURL(ctx context.Context, o object) (string, []string) {
	raw, ok := o.requiredText("url", maxURLCharacters)
	if !ok {
		return "", nil
	}
	if refuseSecret(o, "url", raw) {
		return "", nil
	}
	normalised, warnings, urlFaults := a.URLs.Check(ctx, raw)
	for _, fault := range urlFaults {
		o.fault("url", fault.Code, fault.Detail)
	}
	return normalised, warnings
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
	o.fault(name, faultSecretTextRefused, "holds what looks like a secret: leave it out, and treat the secret as exposed")
	return true
}
