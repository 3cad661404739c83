package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/lumenhook/lumenhook/schemas"
)

// docsPolicy lets the page use the one style sheet that is in it, and nothing
// from anywhere.
var docsPolicy = "default-src 'none'; style-src 'sha256-" + styleSum() +
	"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

func styleSum() string {
	sum := sha256.Sum256(schemas.DocsStyle())
	return base64.StdEncoding.EncodeToString(sum[:])
}

// toDocs leads those who came to the door to the page.
func toDocs(context.Context, *request) (reply, error) {
	return reply{status: http.StatusTemporaryRedirect, location: "/docs"}, nil
}

// getVectors answers with what an implementation of the signature is held against.
func (a *API) getVectors(context.Context, *request) (reply, error) {
	return reply{body: schemas.SignatureVectors}, nil
}

// getDocs shows openapi.yaml to people.
func (a *API) getDocs(context.Context, *request) (reply, error) {
	return reply{
		contentType: "text/html; charset=utf-8",
		policy:      docsPolicy,
		body:        schemas.Docs,
	}, nil
}
