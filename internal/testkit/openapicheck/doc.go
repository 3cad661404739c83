// Package openapicheck compares what the API is asked and answers with openapi.yaml. It hides
// the library that reads the document, and it is stricter than that library: an answer has only
// the statuses, headers and fields that the document names.
//
// File map:
//
//	compare.go    one request with its response; every exchange of a client
package openapicheck
