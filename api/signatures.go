package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// jwksCaching is how long receivers may cache the published keys. Keys are published for longer
// than that before they sign.
const jwksCaching = "public, max-age=3600"

// jwkView is a public key in the format of RFC 7517. "OKP" is from RFC 8037.
type jwkView struct {
	Kty string `json:"kty"`
	Crv string `json:"crv"`
	X   string `json:"x"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
}

type jwksView struct {
	Keys []jwkView `json:"keys"`
}

// getJWKS returns the deployment's public keys, which verify receipts. It includes keys that will
// sign later.
func (a *API) getJWKS(context.Context, *request) (reply, error) {
	if a.SigningKeys == nil {
		return jwks(nil), nil
	}
	return jwks(a.SigningKeys.Published()), nil
}

// getEndpointJWKS returns an endpoint's public keys, including keys that will sign later and,
// during a rotation, the previous keys. It requires no API key. It also returns keys for an id
// without an endpoint, so the response reveals nothing but rotations.
func (a *API) getEndpointJWKS(_ context.Context, r *request) (reply, error) {
	if !domain.IsID(domain.EndpointPrefix, r.subjectID) {
		return reply{}, noSuch("endpoint")
	}
	if a.SigningKeys == nil {
		return jwks(nil), nil
	}
	e, _, err := a.Directory.Endpoint(r.subjectID)
	if err != nil {
		return reply{}, fmt.Errorf("looking up the keys of an endpoint: %w", err)
	}
	e.ID = r.subjectID
	var keys []PublicKey
	for _, name := range e.SigningKeyNames(a.Now().UnixMilli()) {
		published, err := a.SigningKeys.EndpointPublished(name)
		if err != nil {
			return reply{}, err
		}
		keys = append(keys, published...)
	}
	return jwks(keys), nil
}

func jwks(keys []PublicKey) reply {
	view := jwksView{Keys: []jwkView{}}
	caching := "" // don't cache an empty set: the first key signs immediately
	for _, k := range keys {
		caching = jwksCaching
		view.Keys = append(view.Keys, jwkView{
			Kty: "OKP",
			Crv: "Ed25519",
			X:   base64.RawURLEncoding.EncodeToString(k.Key),
			Kid: k.ID,
			Use: "sig",
			Alg: "EdDSA",
		})
	}
	return reply{view: view, contentType: "application/jwk-set+json", caching: caching}
}

// readSignatures reads the names of the additional signatures of an endpoint.
func readSignatures(v decode.Value) (asked domain.Signatures) {
	elements, _ := v.Elements(len(domain.SignatureNames()))
	for _, name := range words(elements,
		"must be standard-webhooks or standard-webhooks-ed25519", domain.SignatureNames()...) {
		asked |= domain.SignatureNamed(name)
	}
	return asked
}

// judgeSignatures adds a fault for a signature that this deployment cannot create. It does not
// check signatures that the endpoint already has, or retries.
func (a *API) judgeSignatures(
	asked *domain.Signatures, have domain.Signatures, repeated bool, faults *problem.Faults,
) {
	const ed25519 = domain.StandardWebhooksEd25519
	if asked == nil || !asked.Has(ed25519) || have.Has(ed25519) || repeated {
		return
	}
	if a.SigningKeys == nil || !a.SigningKeys.Signs() {
		faults.Add("/signatures", problem.FaultInvalidValue,
			"cannot have standard-webhooks-ed25519: this deployment has no signing key that signs now, "+
				"and its operator makes one with `lumenhook secrets signing create`")
	}
}
