package schemas

import (
	"bytes"
	_ "embed"
)

// OpenAPI describes the API, as OpenAPI 3.1 in YAML. The API serves it, and its
// tests hold every request and response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte

// OpenAPIJSON is OpenAPI as JSON. It is made with Docs.
//
//go:embed openapi.json
var OpenAPIJSON []byte

// SignatureVectors is what an implementation of the signature is held against:
// what signs to what, and what a receiver accepts.
//
//go:embed vectors/signature.json
var SignatureVectors []byte

// Docs is OpenAPI as a page for people: HTML that needs nothing from anywhere.
// It is made by `go test ./api -run TestDocs -write-docs`.
//
//go:embed docs.html
var Docs []byte

// DocsStyle is the one style sheet in Docs, between its tags.
func DocsStyle() []byte {
	_, rest, _ := bytes.Cut(Docs, []byte("<style>"))
	style, _, _ := bytes.Cut(rest, []byte("</style>"))
	return style
}
