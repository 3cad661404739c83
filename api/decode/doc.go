// Package decode decodes requests: bodies as strict JSON, query parameters, and the headers of
// writes. It hides the syntax of JSON and HTTP. It knows no resources: the caller lists the fields
// that a body may have.
//
// Invariants:
//
//   - One pass finds all faults of a body or a query, each with its position. A body that
//     cannot be parsed has a single fault.
//   - A field or parameter that the caller does not list is a fault.
//   - A member that is null counts as absent.
//   - The size of a body, its depth and its number of values are bounded.
//   - No fault repeats a value from the request.
//
// File map:
//
//	body.go    whether there is a body, its type and its bytes
//	json.go    strict JSON (RFC 7493)
//	value.go   reading values and the members of objects, and collecting faults
//	fields.go  the fields that a body may have
//	query.go   query parameters; times
//	header.go  ETag, If-Match and Idempotency-Key
package decode
