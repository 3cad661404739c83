// Package decode takes a request apart: its body as strict JSON, the parameters of its
// query, and the headers of a write. It hides JSON's syntax and HTTP's, and it knows
// nothing of resources: what fields a body has, its caller says in a list.
//
// Invariants:
//
//   - All that is wrong with a body or a query is found in one reading, and each fault
//     says where it is. What cannot be read at all is refused as a whole.
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
//	etag.go    ETag and If-Match
//	header.go  Idempotency-Key
package decode
