package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"github.com/lumenhook/lumenhook/schemas"
)

// docsPolicy allows the page's one inline style sheet, and nothing else.
var docsPolicy = "default-src 'none'; style-src 'sha256-" + styleSum() +
	"'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

func styleSum() string {
	sum := sha256.Sum256(schemas.DocsStyle())
	return base64.StdEncoding.EncodeToString(sum[:])
}

// toDocs redirects from the root to the documentation.
func toDocs(context.Context, *request) (reply, error) {
	return reply{status: http.StatusTemporaryRedirect, location: "/docs"}, nil
}

// getVectors answers with the test vectors of the signature.
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
