package schemas

import _ "embed"

// OpenAPI describes the API, as OpenAPI 3.1 in YAML. The API serves it, and its
// tests hold every request and response against it.
//
//go:embed openapi.yaml
var OpenAPI []byte
