package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// jwksCaching is for how long receivers may keep the published keys. A key is published for
// longer before it signs.
const jwksCaching = "public, max-age=3600"

// jwkView is a public key as RFC 7517 has it; "OKP" is of RFC 8037.
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

// getJWKS answers with the deployment's public keys, in advance of their use. They check receipts.
func (a *API) getJWKS(context.Context, *request) (reply, error) {
	if a.SigningKeys == nil {
		return jwks(nil), nil
	}
	return jwks(a.SigningKeys.Published()), nil
}

// getEndpointJWKS answers with an endpoint's public keys, in advance of their use, and during a
// rotation with the former ones. Anyone may ask. An id without an endpoint has keys too, so the
// answer reports rotations only.
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
	caching := "" // an empty set is not kept: the first key signs at once
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

// readSignatures reads the names of signatures that an endpoint asks for.
func readSignatures(v decode.Value) (asked domain.Signatures) {
	elements, _ := v.Elements(len(domain.SignatureNames()))
	for _, name := range words(elements,
		"must be standard-webhooks or standard-webhooks-ed25519", domain.SignatureNames()...) {
		asked |= domain.SignatureNamed(name)
	}
	return asked
}

// judgeSignatures refuses a signature that nothing could make. What the endpoint has already
// is not judged again, nor is a repeat.
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
