// Package decode decodes a request: its body as strict JSON, the parameters of its query,
// and the headers of a write. It hides the syntax of JSON and HTTP, and it knows nothing of
// resources: its caller lists the fields that a body may have.
//
// Invariants:
//
//   - All faults of a body or a query are found in one pass, each with its position. A
//     body that cannot be parsed is refused as a whole.
//   - A field or parameter that is not in the caller's list is a fault.
//   - A member that is null counts as absent.
//   - The size, depth and count of what a body holds are bounded.
//   - No fault repeats a value that a client sent.
//
// File map:
//
//	body.go    whether there is a body, of which type, and its bytes
//	json.go    strict JSON (RFC 7493)
//	value.go   reading one value, and the members of an object, while collecting faults
//	fields.go  the list of fields that a body may have
//	query.go   parameters of a query; times
//	header.go  ETag, If-Match and Idempotency-Key
package decode
