// Package problem implements the API's error responses: problem+json (RFC 9457) with a code, and
// the faults of a body or a query. It hides the encoding and the table that gives each code its
// status and title.
//
// Invariants:
//
//   - All codes and their statuses are in one table (codes.go). A rejection that this version
//     doesn't know gets status 409.
//   - The number of faults in a response, and the length of the client's names in it, are bounded.
//   - A problem's cause goes to the log, never to the client.
//
// File map:
//
//	codes.go    codes of problems and faults, and their statuses
//	problem.go  a problem, as an error and as JSON
//	faults.go   collecting the faults of a body
package problem
